"""Columns of the tables about functions."""

from outpace.model import Field, Unit

TRACES = (
    Field("host", Unit.TEXT, "host of the call"),
    Field("function", Unit.TEXT, "name of the tf.function, or of the function that JAX compiled"),
    Field(
        "source",
        Unit.TEXT,
        "where the tf.function is defined, or the jitted one is called; needs a capture by 'outpace profile'",
    ),
    Field("step", Unit.COUNT, "step that the call belongs to; missing outside of steps"),
    Field("start_ps", Unit.PS, "start of the call, counted from the earliest event of its host", "Start"),
    Field(
        "duration_ps",
        Unit.PS,
        "length of the call, building the graph included; of JAX, tracing, lowering and compiling",
        "Call",
    ),
    Field("graphs", Unit.COUNT, "graphs that the tf.function had after the call"),
    Field("cause", Unit.TEXT, "what differs from the graph or program that was built before for this function"),
    Field(
        "kinds",
        Unit.TEXT,
        "first, same arguments or unknown; else python value, shape, dtype and structure, as far as they apply",
        "What changed",
    ),
)

COMPILATIONS = (
    Field("host", Unit.TEXT, "host that compiled"),
    Field(
        "event",
        Unit.TEXT,
        "what was done: building a graph, compiling a program, or all that a JAX function needs before it runs",
    ),
    Field("function", Unit.TEXT, "function or program that was built, where the profile names it"),
    Field("source", Unit.TEXT, "line that called it (from a capture by 'outpace profile'), else where it begins"),
    Field("count", Unit.COUNT, "times in the capture"),
    Field("total_ps", Unit.PS, "time of all of them, those inside others left out"),
    Field("in_steps_ps", Unit.PS, "of it, within steps", "In steps"),
    Field("longest_ps", Unit.PS, "the longest one", "Longest"),
    Field("steps", Unit.TEXT, "numbers of the steps that they fall in; empty outside of steps"),
)

CONTROL_FLOW = (
    Field("host", Unit.TEXT, "host that ran the op"),
    Field("type", Unit.TEXT, "If, While or Case: what autograph makes of Python's if and while on tensors"),
    Field("op", Unit.TEXT, "name of the op"),
    Field("count", Unit.COUNT, "executions in the capture"),
    Field("total_ps", Unit.PS, "time in the op, the branch or body that it ran included where it ran on the same thread"),
)
