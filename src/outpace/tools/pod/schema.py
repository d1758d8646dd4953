# SPDX-License-Identifier: Apache-2.0
"""Columns of the pod viewer's tables."""

from outpace.metrics.facts.step_breakdown import CATEGORY_FIELDS
from outpace.model import TableType

WORKERS = TableType("workers", "Steps by worker", shared=CATEGORY_FIELDS).columns("""
    * view        | text  | 'average' over a worker's complete steps, or the number of a step | Step
    * worker      | text  | host (name of its profile file); host and device where a host has several devices
      host        | text  | host that the step ran on
      step        | count | step number as the program counts it; missing for the average | Number
      shared      | bool  | whether every worker recorded this step
    * start_ps    | ps    | start of the step on the hosts' clocks, counted from the earliest event of the run; missing for the \
                            average
      duration_ps | ps    | length of the step | Step time
      ...
""")

SUMMARY = TableType("summary", "Workers compared").columns("""
      program         | count    | workers of one number execute the same program, and are compared with each other only
    * worker          | text     | host, or host and device
      steps           | count    | complete steps that the averages are made of
      duration_ps     | ps       | mean step time | Step time
      own_ps          | ps       | of a host: mean step time without waiting for others in collectives; of a device: what it did \
                                   besides collectives | Own time
      before_ps       | ps       | mean time of a step before its first collective, in which it waits for nobody; missing where a step has \
                                   none | Before collectives
      excess_ps       | ps       | time before the first collective, or own time where steps have none, above the median of the other \
                                   workers of its program (negative: below); missing where it has none | Above others
      excess_fraction | fraction | the same as a share of that median | Above others (share)
      cause           | text     | category that makes up at least half of the excess, if any does
      cause_ps        | ps       | by how much that category differs | Difference in cause
      repair_ps       | ps       | what a step of all workers loses at most if this one is as fast as the median, those slower than it \
                                   first | Repairing saves
""")

CLOCKS = TableType("clocks", "Hosts and their clocks").columns("""
    * host         | text  | host that the profile names
      start_ps     | ps    | first recorded event on the host's own clock, counted from the earliest host's | First event
      window_ps    | ps    | length of the capture on this host | Window
      first_step   | count | number of the first step
      last_step    | count | number of the last step
      shared_steps | count | steps of this host that all hosts recorded
      offset_ps    | ps    | median distance of the ends of shared steps from the first host's; missing without shared steps \
                             | Step end offset
      clock_ps     | ps    | by how much the host's clock is ahead of that of most hosts, by the ends of their collectives; missing \
                             without evidence | Clock ahead
""")

COLLECTIVES = TableType("collectives", "Collective operations").columns("""
    * worker       | text  | host, or host and device
    * collective   | text  | type of the collective operation
    + occurrences  | count | executions in the capture | Count
      total_ps     | ps    | time within steps in which one of them ran; what overlaps counts once
      per_step_ps  | ps    | time of all of them per step
      imbalance_ps | ps    | per step: how much longer than on the worker that spends least in it, which the others wait for \
                             | Above minimum
""")
