# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tables about the start-up."""

from outpace.model import TableType

STARTUP_KINDS = TableType("startup_kinds", "The start by kinds of work").columns("""
    * host        | text     | host of the script
    * kind        | text     | what the main thread does
    + duration_ps | ps       | time in it | Time
      share       | fraction | share of the start-up, without Outpace's own part
""")

STARTUP_PARTS = TableType("startup_parts", "Before the first steady step").columns("""
    * host        | text     | host of the script
    * number      | count    | number of the part, in the order in which the parts began
      kind        | text     | interpreter; import of a package; code of the script; graph that TensorFlow builds; trace, lower and \
                               compile of a JAX program; first batch; transfer to a device; first steps, without what else is in them; \
                               Outpace: its own imports, which a start without it does not have
      name        | text     | package, function or program; of code, the function of a library that the line calls | What
      source      | text     | line of the script
    + duration_ps | ps       | time of the main thread in it, other parts inside left out | Time
      share       | fraction | share of the start-up, without Outpace's own part
    + count       | count    | how often | Times
    + cache_hits  | count    | compilations that came from JAX's persistent cache | From the cache
      cause       | text     | what the last compilation of several differed in
      text        | text     | text of the line
""")
