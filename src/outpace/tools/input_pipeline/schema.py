"""Columns of the input pipeline tables."""

from outpace.model import Field, Unit

STATISTICS = (
    Field("category", Unit.TEXT, "step time as a whole, or one category of it"),
    Field("mean_ps", Unit.PS, "mean over the complete steps", "Mean"),
    Field("deviation_ps", Unit.PS, "standard deviation over those steps", "Std. dev."),
    Field("min_ps", Unit.PS, "shortest", "Min"),
    Field("max_ps", Unit.PS, "longest", "Max"),
    Field("fraction", Unit.FRACTION, "share of the mean step time", "Of step time"),
)

CATEGORIES = (
    Field("category", Unit.TEXT, "kind of input processing on the host"),
    Field("self_ps", Unit.PS, "self time of the input ops of this kind in the capture", "Self"),
    Field("per_step_ps", Unit.PS, "the same per step", "Per step"),
    Field("fraction", Unit.FRACTION, "share of all input-processing self time", "Share"),
    Field("advice", Unit.TEXT, "what usually helps"),
)

INPUT_OPS = (
    Field("op", Unit.TEXT, "name of the input op", "Input op"),
    Field("count", Unit.COUNT, "executions in the capture"),
    Field("total_ps", Unit.PS, "sum of the executions", "Total time"),
    Field("total_fraction", Unit.FRACTION, "total time as a share of all input-processing self time", "Total time, share"),
    Field("self_ps", Unit.PS, "of it, not in the ops that it called", "Self time"),
    Field("self_fraction", Unit.FRACTION, "self time as a share of all input-processing self time", "Self time, share"),
    Field("category", Unit.TEXT, "kind of input processing"),
)
