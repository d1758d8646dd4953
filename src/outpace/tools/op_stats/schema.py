# SPDX-License-Identifier: Apache-2.0
"""Columns of the op tables."""

from outpace.model import TableType

OPS = TableType("ops", "Ops").columns("""
      rank              | count    | place by self time on its side, idle time behind all ops
    * side              | text     | Host (threads) or Device (accelerators)
    * type              | text     | type of the op; IDLE for time without any op
    * name              | text     | full name of the op
      layer             | text     | name scopes around the op, where replicas and repeated layers count as one (`layer_*`)
    + occurrences       | count    | executions in the capture | Count
    + self_ps           | ps       | time in the op itself | Self
      mean_self_ps      | ps       | self time per execution | Mean self
      total_ps          | ps       | time in the op, ops nested in it included | Total
      mean_ps           | ps       | total time per execution | Mean
    + host_fraction     | fraction | self time as a share of the host's, idle time included; 0 on the device | On host
      host_cumulative   | fraction | the same share of this op and those ranked above it
    + device_fraction   | fraction | self time as a share of the device's, idle time included; 0 on the host | On device
      device_cumulative | fraction | the same share of this op and those ranked above it
    + busy_fraction     | fraction | self time as a share of its side's, idle time left out | Of busy time
    - idle              | bool     | whether the row stands for idle time
    * host              | text     | host that recorded the op
""")

TYPES = TableType("types", "Op types").columns("""
    * side          | text     | Host (threads) or Device (accelerators)
    * type          | text     | type of the op
    + ops           | count    | distinct ops of the type
    + occurrences   | count    | executions in the capture | Count
    + self_ps       | ps       | time in these ops themselves | Self
    + busy_fraction | fraction | self time as a share of its side's, idle time left out | Of busy time
""")

SHARES = TableType("shares", "Self time").columns("""
    * side    | text | Host (threads) or Device (accelerators)
    * by      | text | what is summed up: ops of one type, ops of one kind of layer, or single ops | Self time by
    * label   | text | the type, layer or op; 'all others' sums up the rest
      self_ps | ps   | self time, idle time left out | Self
""")
