"""Columns of the pod viewer's tables."""

from outpace.model import Category, Field, Unit

_CATEGORIES = tuple(Field(f"{c.value}_ps", Unit.PS, c.meaning, c.label) for c in Category)

WORKERS = (
    Field("view", Unit.TEXT, "'average' over a worker's complete steps, or the number of a step", "Step"),
    Field("worker", Unit.TEXT, "host (name of its profile file); host and device where a host has several devices"),
    Field("host", Unit.TEXT, "host that the step ran on"),
    Field("step", Unit.COUNT, "step number as the program counts it; missing for the average", "Number"),
    Field("shared", Unit.BOOL, "whether every worker recorded this step"),
    Field(
        "start_ps",
        Unit.PS,
        "start of the step on the hosts' clocks, counted from the earliest event of the run; missing for the average",
    ),
    Field("duration_ps", Unit.PS, "length of the step", "Step time"),
    *_CATEGORIES,
)

SUMMARY = (
    Field("program", Unit.COUNT, "workers of one number execute the same program, and are compared with each other only"),
    Field("worker", Unit.TEXT, "host, or host and device"),
    Field("steps", Unit.COUNT, "complete steps that the averages are made of"),
    Field("duration_ps", Unit.PS, "mean step time", "Step time"),
    Field(
        "own_ps",
        Unit.PS,
        "of a host: mean step time without waiting for others in collectives; of a device: what it did besides collectives",
        "Own time",
    ),
    Field(
        "excess_ps",
        Unit.PS,
        "own time above the median of the other workers of its program (negative: below); missing where it has none",
        "Above others",
    ),
    Field("excess_fraction", Unit.FRACTION, "the same as a share of the median of the other workers", "Above others (share)"),
    Field("cause", Unit.TEXT, "category that makes up at least half of the excess, if any does"),
    Field("cause_ps", Unit.PS, "by how much that category differs", "Difference in cause"),
)

CLOCKS = (
    Field("host", Unit.TEXT, "host that the profile names"),
    Field("start_ps", Unit.PS, "first recorded event on the host's own clock, counted from the earliest host's", "First event"),
    Field("window_ps", Unit.PS, "length of the capture on this host", "Window"),
    Field("first_step", Unit.COUNT, "number of the first step"),
    Field("last_step", Unit.COUNT, "number of the last step"),
    Field("shared_steps", Unit.COUNT, "steps of this host that all hosts recorded"),
    Field(
        "offset_ps",
        Unit.PS,
        "median distance of the ends of shared steps from the first host's; missing without shared steps",
        "Step end offset",
    ),
)

COLLECTIVES = (
    Field("worker", Unit.TEXT, "host, or host and device"),
    Field("collective", Unit.TEXT, "type of the collective operation"),
    Field("occurrences", Unit.COUNT, "executions in the capture", "Count"),
    Field("total_ps", Unit.PS, "time within steps in which one of them ran; what overlaps counts once"),
    Field("per_step_ps", Unit.PS, "time of all of them per step"),
    Field(
        "imbalance_ps",
        Unit.PS,
        "per step: how much longer than on the worker that spends least in it, which the others wait for",
        "Above minimum",
    ),
)
