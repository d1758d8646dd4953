# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tables about the memory of programs."""

from outpace.model import TableType, parse_schema

_SHARED = parse_schema("""
    host    | text | host whose profile holds the program
    program | text | name of the program, and its number in the profile
    op      | text | instruction that computes the array; for an argument, its name in the caller | Array
""")

PROGRAMS = TableType("programs", "Programs by memory", shared=_SHARED).columns("""
    * host
    * program
      peak_bytes      | bytes | most bytes that are live at once; what is reserved, where the schedule of the heap is unknown | Peak
      total_bytes     | bytes | bytes that a run reserves: with gaps between temporaries, so that they may be more than the peak | Reserved
      argument_bytes  | bytes | arguments, those that are donated included | Arguments
      donated_bytes   | bytes | arguments whose memory results take over | Donated
      result_bytes    | bytes | results that have memory of their own | Results
      constant_bytes  | bytes | constants | Constants
      temporary_bytes | bytes | memory for temporaries | Temporaries
      batch           | count | first dimension of most arrays that are live at the peak; missing where no size is that common
      largest_batch   | count | batch with which the peak is 95% of the device's memory, all else the same; missing where either is unknown \
                                | Batch that fits
      peak_op         | text  | instruction at the peak; empty where the schedule is unknown | At the peak
      peak_source     | text  | its source line | Source
""")

BUFFERS = TableType("buffers", "Live at the peak", shared=_SHARED).columns("""
    * host
    * program
    * rank          | count    | place by size, from 1
      op
      kind          | text     | argument, donated argument, result, constant or temporary
      shape         | text     | type and sizes of the array; empty where the program does not say
    + size_bytes    | bytes    | its memory | Size
    + padding_bytes | bytes    | of it, more than the array's elements take | Padding
      share         | fraction | of the peak | Of peak
      framework_op  | text     | op of the framework that it comes from | Framework op
      source        | text     | source line of that; for an argument, of the first op that reads it
      from_event    | count    | event of the schedule in which it becomes live | From
      to_event      | count    | event in which it ends | To
""")

CURVE = TableType("curve", "Live memory over the schedule", shared=_SHARED).columns("""
    * host
    * program
    * event           | count | place in the schedule: temporaries begin and end there
      op
      held_bytes      | bytes | arguments, results and constants, which are live all the time | Held
      temporary_bytes | bytes | live temporaries | Temporaries
      live_bytes      | bytes | both together | Live
""")

CHANGES = TableType("changes", "What would lower the peak", shared=_SHARED).columns("""
    * host
    * program
    * change      | text     | what is changed
    * source      | text     | source line of what is recomputed; empty for the other changes
      arrays      | count    | number of arrays that it is about
      saved_bytes | bytes    | peak without it less peak with it, by the same schedule: what it saves at most | Saves at most
      peak_bytes  | bytes    | peak with it | Peak then
      flops       | ratio    | floating-point operations that it adds to a run | FLOPs
""")

NEEDS = TableType("needs", "What was needed").columns("""
    * what       | text  | what the memory is for, or the memory that there is
      size_bytes | bytes | its size | Size
""")

LINES = TableType("lines", "Largest arrays by line").columns("""
    * source     | text  | source line that computes them
    + size_bytes | bytes | all of its arrays among the largest | Size
    + arrays     | count | number of them
""")

LIVE = TableType("live", "What stood there").columns("""
    * rank          | count | place by size, from 1
      kind          | text  | argument or temporary; empty where the log does not say
      shape         | text  | type and sizes of the array; empty for chunks of an allocator
      count         | count | number of arrays or chunks of this size
    + size_bytes    | bytes | memory of all of them | Size
    + padding_bytes | bytes | of it, more than the elements take | Padding
      op            | text  | op of the framework that computes it | Framework op
      label         | text  | instruction of the program
      source        | text  | source line
""")
