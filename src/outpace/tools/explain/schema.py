# SPDX-License-Identifier: Apache-2.0
"""Columns of the tables that explain one step."""

from outpace.model import TableType

CATEGORIES = TableType("step_parts", "Categories").columns("""
    * category | text  | step-time category
    + time_ps  | ps    | time of the category in this step | This step
    + usual_ps | ps    | its mean over the host's complete steps | Mean step
    + events   | count | events that make it up
""")

GROUPS = TableType("step_events", "Events by op").columns("""
    * category    | text  | step-time category that the time counts for
    * op          | text  | last part of the name of the ops that the events belong to; where none is named, their own name
    * kernel      | text  | own name of the kernel's function, of a device whose kernels name their ops
    * event       | text  | name of the events, as it was recorded
    * thread      | text  | thread or stream that they ran on
    + count       | count | events of that name and thread in the step
    + counted_ps  | ps    | their time that counts for the category: without what counts for another event | Counted
    + duration_ps | ps    | sum of their lengths, overlaps and all
""")

EVENTS = TableType("events", "Events").columns("""
      category    | text | step-time category that the time counts for
      op          | text | op that the event belongs to; where none is named, its own name
      kernel      | text | own name of the kernel's function, of a device whose kernels name their ops
      event       | text | name of the event, as it was recorded
      plane       | text | host or device that recorded it
      thread      | text | thread or stream that it ran on
      offset_ps   | ps   | start of the event, counted from the start of the step | In step at
    + duration_ps | ps   | length of the event
    + counted_ps  | ps   | time of it that counts for the category | Counted
""")
