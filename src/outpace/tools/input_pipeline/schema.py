# SPDX-License-Identifier: Apache-2.0
"""Schemas of the input pipeline tables."""

from outpace.model import TableType

STATISTICS = TableType("step_statistics", "Step time statistics").columns("""
    * category     | text     | step time as a whole, or one category of it
      mean_ps      | ps       | mean over the complete steps | Mean
      deviation_ps | ps       | standard deviation over those steps | Std. dev.
      min_ps       | ps       | shortest | Min
      max_ps       | ps       | longest | Max
      fraction     | fraction | share of the mean step time | Of step time
""")

WAIT_RANGES = TableType("wait_ranges", "Input wait across hosts").columns("""
    * step    | count | number of the step, which several hosts of the program executed
      hosts   | count | hosts that executed it
      min_ps  | ps    | wait for input of the host that waited least | Min
      mean_ps | ps    | mean over the hosts | Mean
      max_ps  | ps    | wait of the host that waited most | Max
      host    | text  | host that waited most | Waited most
""")

CATEGORIES = TableType("host_categories", "Input processing on the host").columns("""
    * category    | text     | kind of input processing on the host
    + self_ps     | ps       | self time of the input ops of this kind in the capture; threads that work at once add up | Self
    + per_step_ps | ps       | the same per step: what all threads together spend on one | Per step, all threads
    + fraction    | fraction | share of all input-processing self time | Share
      advice      | text     | what usually helps
""")

INPUT_OPS = TableType("input_ops", "Input op statistics").columns("""
    * op             | text     | name of the input op, without the numbers of its instances | Input op
    + instances      | count    | how many of it there are: interleave and flat_map make one for every element, repeat for every round
    + count          | count    | executions in the capture
      total_ps       | ps       | sum of the executions | Total time
      total_fraction | fraction | total time as a share of all input-processing self time | Total time, share
    + self_ps        | ps       | of it, not in the ops that it called | Self time
    + self_fraction  | fraction | self time as a share of all input-processing self time | Self time, share
      category       | text     | kind of input processing
""")

INPUT_INSTANCES = TableType("input_instances", "Instances of input ops", shared=INPUT_OPS).columns("""
    * op | text | name of the instance, with the numbers that tell it from others of the op | Instance
    count
    total_ps
    total_fraction
    self_ps
    self_fraction
    category
""")
