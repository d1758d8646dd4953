"""Columns of the scope tables."""

from outpace.model import Field, Unit

SCOPES = (
    Field("id", Unit.TEXT, "side and full name of the scope; '/' separates levels", "Scope"),
    Field("parent", Unit.TEXT, "id of the scope around it; empty at the top"),
    Field("scope", Unit.TEXT, "last part of the name", "Last part"),
    Field("side", Unit.TEXT, "Host (threads) or Device (accelerators)"),
    Field("depth", Unit.COUNT, "levels above it"),
    Field("total_ps", Unit.PS, "self time of all ops in the scope and the scopes below it"),
    Field("fraction", Unit.FRACTION, "the same as a share of all op time of its side", "Of ops"),
    Field("self_ps", Unit.PS, "self time of the ops directly in it, and of scopes below the depth limit", "Self"),
    Field("occurrences", Unit.COUNT, "executions of ops in it and below", "Count"),
    Field("ops", Unit.COUNT, "distinct ops in it and below"),
    Field(
        "allocated_bytes",
        Unit.BYTES,
        "bytes that its ops allocated in the capture, freed ones included; missing when none were recorded",
        "Allocated",
    ),
)

OPS = (
    Field("scope", Unit.TEXT, "full name of the scope"),
    Field("side", Unit.TEXT, "Host or Device"),
    Field("type", Unit.TEXT, "type of op"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("self_ps", Unit.PS, "self time of these ops", "Self"),
    Field(
        "allocated_bytes",
        Unit.BYTES,
        "bytes that these ops allocated in the capture; missing when none were recorded",
        "Allocated",
    ),
)

LINES = (
    Field("source", Unit.TEXT, "source line, or Python function with the line where it begins"),
    Field("what", Unit.TEXT, "ops of a device or of the CPU that were compiled from the line, or calls of the Python function"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("total_ps", Unit.PS, "time in them, what they call included"),
    Field("self_ps", Unit.PS, "time in themselves", "Self"),
)

LAYERS = (
    Field("id", Unit.TEXT, "path of the layer in the model"),
    Field("parent", Unit.TEXT, "path of the layer around it; empty for the model"),
    Field("layer", Unit.TEXT, "name of the layer"),
    Field("type", Unit.TEXT, "class of the layer"),
    Field("depth", Unit.COUNT, "levels above it"),
    Field("output", Unit.TEXT, "shape of its output"),
    Field("parameters", Unit.COUNT, "all weights, those of inner layers included"),
    Field("trainable", Unit.COUNT, "weights that training changes"),
    Field(
        "flops",
        Unit.COUNT,
        "floating-point operations of one example's forward pass, a multiply-add as two; missing where not known",
        "FLOPs",
    ),
    Field("forward_ps", Unit.PS, "self time of its forward ops in the capture; missing without a profile", "Forward"),
    Field("backward_ps", Unit.PS, "self time of its gradient ops in the capture; missing without a profile", "Backward"),
    Field(
        "share", Unit.FRACTION, "forward and backward as a share of the layers' time; missing without a profile", "Of layers"
    ),
)
