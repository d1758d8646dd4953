"""Columns of the tables about XLA programs."""

from outpace.model import Field, Unit

OPS = (
    Field("rank", Unit.COUNT, "place by self time"),
    Field("host", Unit.TEXT, "host that ran the program"),
    Field("device", Unit.TEXT, "device, or CPU"),
    Field("program", Unit.TEXT, "compiled program (HLO module)"),
    Field("op", Unit.TEXT, "HLO op as the program names it"),
    Field(
        "category", Unit.TEXT, "category of the op as the device tells it, else its opcode; the end of an asynchronous op waits"
    ),
    Field(
        "framework_op", Unit.TEXT, "op of TensorFlow or JAX that it was compiled from; of a fusion, one of them", "Framework op"
    ),
    Field("source", Unit.TEXT, "line of the program's own code that it was compiled from"),
    Field("occurrences", Unit.COUNT, "executions in the capture, however many kernels each took", "Count"),
    Field("total_ps", Unit.PS, "time in the op, ops nested in it included"),
    Field("self_ps", Unit.PS, "time in the op itself", "Self"),
    Field("fraction", Unit.FRACTION, "self time as a share of all HLO ops'", "Of ops"),
    Field("cumulative", Unit.FRACTION, "the same share of this op and those ranked above it"),
    Field(
        "flops_per_s",
        Unit.RATIO,
        "floating-point operations per second while it ran, as the profile counts them, else of its matrix products; missing for others",
        "FLOP/s",
    ),
    Field(
        "bytes_per_s",
        Unit.BYTES_PER_S,
        "memory traffic while it ran, as the profile counts it, else operands and result; missing for parts of arrays",
        "Memory",
    ),
    Field("intensity", Unit.RATIO, "arithmetic intensity: operations per byte of memory traffic", "FLOP/byte"),
)

PROGRAMS = (
    Field("host", Unit.TEXT, "host that ran the program"),
    Field("program", Unit.TEXT, "compiled program (HLO module)"),
    Field("program_id", Unit.TEXT, "its id in the capture"),
    Field(
        "runs", Unit.COUNT, "executions of the op that ran most often once per run; a lower bound with loops left out", "Runs"
    ),
    Field("ops", Unit.COUNT, "distinct HLO ops that ran"),
    Field("self_ps", Unit.PS, "time in its ops", "Op time"),
    Field("fraction", Unit.FRACTION, "the same as a share of all programs'", "Of ops"),
)

CATEGORIES = (
    Field("category", Unit.TEXT, "category of HLO op"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("self_ps", Unit.PS, "time in these ops themselves", "Self"),
)
