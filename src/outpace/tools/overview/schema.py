"""Columns of the overview's tables. (`steps` is the step breakdown's own table.)"""

from outpace.model import Field, Unit

AVERAGE = (
    Field("category", Unit.TEXT, "category of the step time"),
    Field("key", Unit.TEXT, "the category's name in other tables"),
    Field("mean_ps", Unit.PS, "mean over the complete steps of all hosts", "Mean"),
    Field("deviation_ps", Unit.PS, "standard deviation over those steps", "Std. dev."),
    Field("fraction", Unit.FRACTION, "share of the mean step time", "Of step time"),
)

TOP_OPS = (
    Field("rank", Unit.COUNT, "place by self time"),
    Field("operation", Unit.TEXT, "name of the op"),
    Field("category", Unit.TEXT, "type of the op"),
    Field(
        "self_fraction",
        Unit.FRACTION,
        "self time as a share of the self time of all ops on that side, idle time left out",
        "Self time, share",
    ),
    Field("cumulative_fraction", Unit.FRACTION, "self time of this op and those above it, as the same share", "Cumulative"),
    Field("self_ps", Unit.PS, "self time in the capture", "Self"),
    Field("occurrences", Unit.COUNT, "executions in the capture"),
)

HOSTS = (
    Field("host", Unit.TEXT, "name of the host's profile file"),
    Field("steps", Unit.COUNT, "steps found"),
    Field("source", Unit.TEXT, "how the steps were found"),
    Field("confidence", Unit.TEXT, "how sure the steps' boundaries are"),
    Field("mean_ps", Unit.PS, "mean time of a complete step", "Step time"),
    Field("events", Unit.COUNT, "events in the profile"),
    Field("window_ps", Unit.PS, "from the first event to the last", "Window"),
    Field("devices", Unit.TEXT, "accelerators that recorded events"),
    Field("device_cores", Unit.COUNT, "number of those accelerators"),
    Field("cpu_cores", Unit.TEXT, "cores that the process could use, where the profile says"),
    Field("framework", Unit.TEXT, "framework and versions, where the profile says"),
)
