"""Which lines of Python the steps' time goes to, from the stacks that Outpace's own capture sampled beside the profile.

Each sample is laid onto the profile by the clock (both count Unix time) and belongs to the step in whose time it lies. It is counted for the
innermost line of the user's own code on its stack: what a library does below that line is the line's time. What the profile shows on the
training thread at that very moment says what kind of time it is: nothing (Python, or a library that records no events), a wait, or the
framework's own work. Share and interval come from the samples alone; times are the share of the mean step of the steady state.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.derived import derived
from outpace.metrics.step_breakdown import category_of, event_kinds
from outpace.model import Category, Field, Table, Unit
from outpace.timeline import Run, Timeline
from outpace.timeline.steps import Array

YOURS, LIBRARY, OUTPACE = "yours", "library", "outpace"
_Z = 1.96  # two-sided 95 %
_WRAPPERS = (
    "EagerExecute",
    "EagerLocalExecute",
    "EagerKernelExecute",
    "FunctionRun",
)  # no work of a step, but TensorFlow all the same
_WAITS = ("Await", "BlockUntilReady", "BlockHostUntilReady", "block_until_ready")
_PYTHON = "$"  # events of a profiler's own Python tracer: they are Python

FIELDS = (
    Field("host", Unit.TEXT, "name of the host"),
    Field("file", Unit.TEXT, "source file of the line"),
    Field("line", Unit.COUNT, "number of the line: the innermost one of your own code", "Line"),
    Field("function", Unit.TEXT, "function that holds the line"),
    Field(
        "who",
        Unit.TEXT,
        "yours: your own line; library: time that no line of yours led to; outpace: what the capture itself cost",
    ),
    Field("library", Unit.TEXT, "package in which most of the time below the line was spent; empty where the line itself ran"),
    Field("below", Unit.TEXT, "the function of a library most often seen innermost below the line"),
    Field("samples", Unit.COUNT, "samples of the line within steps of the steady state"),
    Field("self_ps", Unit.PS, "time of the line per training step, with what libraries did below it", "Time"),
    Field("own_ps", Unit.PS, "part of it in which the line itself ran, and no library below it"),
    Field(
        "untraced_ps",
        Unit.PS,
        "part of it in which the training thread recorded no event: Python, and libraries without events",
    ),
    Field("waiting_ps", Unit.PS, "part of it in which the training thread waited, for input or for a result"),
    Field("share", Unit.FRACTION, "the line's share of the step time"),
    Field("low", Unit.FRACTION, "lower end of the share's 95 % interval"),
    Field("high", Unit.FRACTION, "upper end of the share's 95 % interval"),
    Field(
        "untraced_share",
        Unit.FRACTION,
        "share of the step time that lies in this line and shows no event on the training thread",
    ),
)


@dataclass(frozen=True)
class PythonLine:
    """A line of the user's code that takes time of which the profile shows nothing; shares are of the step time, times per step in ps."""

    file: str
    line: int
    function: str
    library: str
    below: str
    untraced_share: float
    low: float
    high: float
    untraced_ps: int
    self_ps: int


@derived
def python_lines(run: Run) -> Table:
    """One row per host and line, longest first; no rows for a host without samples, steps or a clock."""
    rows = [row for timeline in run.hosts for row in _rows(timeline, run.record(timeline.host).get("python_samples"))]
    return Table.from_rows("python_lines", "Python lines of the training thread", FIELDS, rows).sorted_by("self_ps")


def untraced_lines(run: Run, host: str) -> list[PythonLine]:
    """The user's own lines on one host by the time of which the profile shows nothing, longest first; `low` and `high` are of that share."""
    rows = [row for row in python_lines(run).records() if row["host"] == host]
    total = sum(row["samples"] for row in rows)
    lines = []
    for row in rows:
        if row["who"] == YOURS and row["untraced_share"] > 0:
            low, high = interval(row["untraced_share"], total)
            known = {key: row[key] for key in ("file", "line", "function", "library", "below", "untraced_share", "untraced_ps")}
            lines.append(PythonLine(**known, low=low, high=high, self_ps=row["self_ps"]))
    return sorted(lines, key=lambda line: -line.untraced_share)


def interval(share: float, samples: float) -> tuple[float, float]:
    """95 % interval of a share that `samples` independent looks gave (Wilson 1927): ends within 0 and 1, also for a share of 0."""
    if samples <= 0:
        return 0.0, 1.0
    square = _Z * _Z / samples
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / samples + square / (4 * samples)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


class _Line:
    """What was counted for one line, in ns of samples."""

    def __init__(self) -> None:
        self.count = 0
        self.weight = self.own = self.untraced = self.waiting = 0
        self.packages: dict[str, int] = defaultdict(int)
        self.functions: dict[str, int] = defaultdict(int)

    @property
    def library(self) -> str:
        package = max(self.packages, key=self.packages.__getitem__, default="")
        return package if self.packages.get(package, 0) > self.own else ""

    @property
    def below(self) -> str:
        return max(self.functions, key=self.functions.__getitem__, default="")


def _rows(timeline: Timeline, record: Mapping[str, Any] | None) -> Iterator[tuple[object, ...]]:
    origin = timeline.unix_origin_ns
    if record is None or origin is None or len(timeline.steps) == 0 or len(record["samples"]) == 0:
        return
    samples = np.array(record["samples"], np.int64)
    moment = (samples[:, 0] + (record["base_unix_ns"] - origin)) * 1000
    inside, span = _in_steps(timeline, moment)
    samples, moment = samples[inside], moment[inside]
    untraced, waiting = _nature(timeline, moment)
    keys = [_key(stack, record["frames"]) for stack in record["stacks"]]
    lines: dict[tuple[str, int, str, str], _Line] = defaultdict(_Line)
    for (_, weight, stack), free, waits in zip(samples.tolist(), untraced.tolist(), waiting.tolist(), strict=True):
        key, package, function = keys[stack]
        line = lines[key]
        line.count += 1
        line.weight += weight
        line.untraced += weight * free
        line.waiting += weight * waits
        if package:
            line.packages[package] += weight
            line.functions[function] += weight
        else:
            line.own += weight
    total = sum(line.weight for line in lines.values())
    effective = total**2 / float((samples[:, 1].astype(float) ** 2).sum()) if total else 0.0
    for (file, number, name, who), line in lines.items():
        share = line.weight / total
        times = [round(part / total * span) for part in (line.weight, line.own, line.untraced, line.waiting)]
        ends = interval(share, effective)
        counted = (who, line.library, line.below, line.count, *times, share, *ends, line.untraced / total)
        yield (timeline.host, file, number, name, *counted)


def _in_steps(timeline: Timeline, moment: Array) -> tuple[Array, float]:
    """Which moments (ps) lie in a step of the steady state, and the mean length of a training step, ps."""
    steps = timeline.steps
    whole = steps.whole[np.argsort(steps.start[steps.whole])]
    step = np.searchsorted(steps.start[whole], moment, side="right") - 1
    inside = (step >= 0) & (moment < steps.end[whole][np.maximum(step, 0)])
    return inside, float(steps.duration[whole].mean()) / steps.per_row


def _key(stack: Sequence[Sequence[int]], frames: Sequence[Sequence[Any]]) -> tuple[tuple[str, int, str, str], str, str]:
    """Who a stack is counted for (file, line, function, who), and the package and function of a library below it, or two empty texts."""
    frame, number = stack[-1]
    file, function, _, owner = frames[frame]
    if owner == OUTPACE:
        return ("", 0, "", OUTPACE), owner, function
    mine = next(((at, line) for at, line in reversed(stack) if not frames[at][3]), None)
    below = (owner, f"{owner}: {function}") if owner else ("", "")
    if mine is None:
        return (file, number, function, LIBRARY), *below
    return (frames[mine[0]][0], mine[1], frames[mine[0]][1], YOURS), *below


def _nature(timeline: Timeline, moment: Array) -> tuple[Array, Array]:
    """Of each moment: whether the training thread recorded no event then, and whether it waited."""
    trace = timeline.trace
    rows = _thread_rows(timeline)
    kind = event_kinds(timeline)
    inputs = np.array([code for code in range(int(kind.max(initial=0)) + 1) if category_of(code) is Category.INPUT], np.uint8)
    names = trace.names
    wrapper = np.fromiter((name.startswith(_WRAPPERS) for name in names), bool, len(names))
    python = np.fromiter((name.startswith(_PYTHON) for name in names), bool, len(names))
    wait = np.fromiter((any(word in name for word in _WAITS) for name in names), bool, len(names))
    name = trace.name[rows]
    event = rows[((kind[rows] > 0) | wrapper[name]) & ~python[name]]
    waits = rows[np.isin(kind[rows], inputs) | wait[name]]
    return ~_covered(trace.start[event], trace.end[event], moment), _covered(trace.start[waits], trace.end[waits], moment)


def _thread_rows(timeline: Timeline) -> Array:
    """Event rows of the training thread; of all host threads where no thread is known to train."""
    lines = timeline.steps.line[timeline.steps.line >= 0]
    trace = timeline.trace
    if len(lines):
        return np.arange(*trace.lines.rows(int(np.bincount(lines).argmax())).indices(len(trace)))
    return np.concatenate([np.arange(0), *(np.arange(*trace.rows_of(p).indices(len(trace))) for p in timeline.host_planes)])


def _covered(start: Array, end: Array, moment: Array) -> Array:
    """Whether each moment lies in one of the intervals [start, end)."""
    if len(start) == 0:
        return np.zeros(len(moment), bool)
    order = np.argsort(start, kind="stable")
    last = np.maximum.accumulate(end[order])
    at = np.searchsorted(start[order], moment, side="right") - 1
    return np.asarray((at >= 0) & (moment < last[np.maximum(at, 0)]))
