"""Columns of the op tables."""

from outpace.model import Field, Unit

OPS = (
    Field("rank", Unit.COUNT, "place by self time on its side, idle time included"),
    Field("side", Unit.TEXT, "Host (threads) or Device (accelerators)"),
    Field("type", Unit.TEXT, "type of the op; IDLE for time without any op"),
    Field("name", Unit.TEXT, "full name of the op"),
    Field("layer", Unit.TEXT, "name scopes around the op, where replicas and repeated layers count as one (`layer_*`)"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("self_ps", Unit.PS, "time in the op itself", "Self"),
    Field("mean_self_ps", Unit.PS, "self time per execution", "Mean self"),
    Field("total_ps", Unit.PS, "time in the op, ops nested in it included", "Total"),
    Field("mean_ps", Unit.PS, "total time per execution", "Mean"),
    Field("host_fraction", Unit.FRACTION, "self time as a share of the host's, idle time included; 0 on the device", "On host"),
    Field("host_cumulative", Unit.FRACTION, "the same share of this op and those ranked above it"),
    Field(
        "device_fraction", Unit.FRACTION, "self time as a share of the device's, idle time included; 0 on the host", "On device"
    ),
    Field("device_cumulative", Unit.FRACTION, "the same share of this op and those ranked above it"),
    Field("busy_fraction", Unit.FRACTION, "self time as a share of its side's, idle time left out", "Of busy"),
    Field("idle", Unit.BOOL, "whether the row stands for idle time"),
    Field("host", Unit.TEXT, "host that recorded the op"),
)

TYPES = (
    Field("side", Unit.TEXT, "Host (threads) or Device (accelerators)"),
    Field("type", Unit.TEXT, "type of the op"),
    Field("ops", Unit.COUNT, "distinct ops of the type"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("self_ps", Unit.PS, "time in these ops themselves", "Self"),
    Field("busy_fraction", Unit.FRACTION, "self time as a share of its side's, idle time left out", "Of busy"),
)

SHARES = (
    Field("side", Unit.TEXT, "Host (threads) or Device (accelerators)"),
    Field("by", Unit.TEXT, "what is summed up: ops of one type, ops of one kind of layer, or single ops", "Self time by"),
    Field("label", Unit.TEXT, "the type, layer or op; 'all others' sums up the rest"),
    Field("self_ps", Unit.PS, "self time, idle time left out", "Self"),
)
