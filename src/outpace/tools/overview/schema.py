# SPDX-License-Identifier: Apache-2.0
"""Columns of the overview's tables. (`steps` is the step breakdown's own table.)"""

from outpace.metrics.views.host_time import HOST_TIME
from outpace.model import TableType

__all__ = ["AVERAGE", "HOSTS", "HOST_TIME", "STEADY_STEP", "TOP_OPS"]

AVERAGE = TableType("average_step", "Average step").columns("""
    * category     | text     | category of the step time
      key          | text     | the category's name in other tables
    + mean_ps      | ps       | mean over the complete steps of all hosts | Mean
      deviation_ps | ps       | standard deviation over those steps | Std. dev.
    + fraction     | fraction | share of the mean step time | Of step time
""")

STEADY_STEP = TableType("steady_step", "Steady step").columns("""
    * category | text | category of the step time, that of the host divided
    + mean_ps  | ps   | mean over the complete steps of all hosts | Mean
""")

TOP_OPS = TableType("top_ops", "Top operations").columns("""
    * rank                | count    | place by self time
      operation           | text     | name of the op
      category            | text     | type of the op
    + self_fraction       | fraction | self time as a share of the self time of all ops on that side, idle time left out \
                                       | Self time, share
      cumulative_fraction | fraction | self time of this op and those above it, as the same share | Cumulative
    + self_ps             | ps       | self time in the capture | Self
    + occurrences         | count    | executions in the capture
""")

HOSTS = TableType("hosts", "Run environment").columns("""
    * host         | text  | name of the host's profile file
      steps        | count | steps found
      source       | text  | how the steps were found
      confidence   | text  | how sure the steps' boundaries are
      mean_ps      | ps    | mean time of a complete step | Step time
    + events       | count | events in the profile
      window_ps    | ps    | from the first event to the last | Window
      devices      | text  | accelerators that recorded events
    + device_cores | count | number of those accelerators
      cpu_cores    | text  | cores that the process could use, where the profile says
      framework    | text  | framework and versions, where the profile says
""")
