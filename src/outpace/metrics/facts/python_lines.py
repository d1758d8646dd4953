# SPDX-License-Identifier: Apache-2.0
"""The Python lines on which the steps' time is spent, from the stacks that Outpace's own capture
sampled.

Each sample is matched to the profile by the clock (both count Unix time) and belongs to the step in
whose time it lies. It counts for the innermost line of the user's own code on its stack: what a
library does below that line is the line's time. What the profile shows on the training thread at
that moment determines the kind of time: nothing (Python, or a library that records no events), a
wait, or the framework's own work. Share and interval come from the samples alone; times are the
share of the mean step of the steady state.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.python_callers import StackSamples, find_step_period, heaviest_name
from outpace.metrics.facts.python_records import python_records
from outpace.metrics.facts.python_samples import FRAMEWORKS, YOURS, attribute_stacks, find_pauses, pause_key
from outpace.metrics.facts.step_function import function_call_rows, step_function_rows
from outpace.metrics.facts.thread_states import isin_events, thread_states
from outpace.metrics.source_line import format_source_line
from outpace.model import Row, Table, TableType
from outpace.model.arrays import Codes, Indices, Numbers, Picoseconds
from outpace.model.interval import NORMAL_95
from outpace.timeline import Run, Timeline
from outpace.timeline.steady_state import find_period

# Minimum share of a line's samples, waits left out, in the step's function: single samples may be
# off by the clock.
_CALLS = 0.2
_MIN_SAMPLE_SHARE = 0.05  # minimum share of all samples of a line, for the same reason
# Share of a line's time in slow steps from which it is an evaluation or a checkpoint, not a part of
# the step.
_MIN_SLOW_SHARE = 0.7
# Functions in which Python waits for a result.
_WAITING_CALLS = (
    "_value",
    "__array__",
    "block_until_ready",
    "convert_to_numpy",
    "_numpy",
    "numpy",
    "sync_devices",
)

PYTHON_LINES = TableType("python_lines", "Python lines of the training thread").columns("""
    * host           | text     | name of the host
    * file           | text     | source file of the line
    * line           | count    | number of the line: the innermost one of your own code | Line
    * function       | text     | function that holds the line
      text           | text     | source of the line, as it was when the profile was captured; empty where it was not at hand \
                                  | Code
    * who            | text     | yours: your own line; library: time that no line of yours led to; outpace: what the capture \
                                  itself cost; interpreter: garbage collection and ends of iterators, which fall on any line | Owner
      library        | text     | package in which most of the time below the line was spent; empty where the line itself ran
      below          | text     | the function of a library most often seen innermost below the line | Innermost call
      below_share    | fraction | of the line's time, what was spent in that function | In innermost call
    + samples        | count    | samples of the line within steps of the steady state
    + self_ps        | ps       | time of the line per training step, with what libraries did below it | Time
    + own_ps         | ps       | part of it in which the line itself ran, and no library below it | Self
    + untraced_ps    | ps       | part of it in which the training thread recorded no event: Python, and libraries without events
    + elsewhere_ps   | ps       | part of untraced_ps in which the framework computed on other threads or on a device: maybe a \
                                  wait for it | Computing elsewhere
    + waiting_ps     | ps       | part of it in which the training thread waited, for input or for a result
    + building_ps    | ps       | part of it in which a function was traced or compiled: the compilation's time | Compiling
    + share          | fraction | the line's share of the step time | Of step
      low            | fraction | lower end of the share's 95% CI | From (95% CI)
      high           | fraction | upper end of the share's 95% CI | To (95% CI)
    + untraced_share | fraction | share of the step time that lies in this line and shows no event on the training thread \
                                  | Untraced, of step
    + python_share   | fraction | of untraced_share, what lies outside elsewhere_ps and waiting_ps: only Python ran, or a \
                                  library that records no events | Python, of step
    + beside_share   | fraction | share of the step time that the training thread spends in this line beside the step's own \
                                  functions, waits left out | Outside the step function
    + called_share   | fraction | share of the step time in functions of the framework that the line calls, other than the \
                                  step's own | Other functions, of step
      seldom         | fraction | share of the line's time that lies in steps which take much longer than the others: it comes \
                                  round | In long steps
      calls_step     | bool     | whether the step's own function runs below the line | Calls the step function
      wraps_step     | bool     | whether the library below the line is the one that calls the step's own function there: what it \
                                  does besides is paid per call | Library calls the step function
      caller         | text     | line of yours, of the training loop if it leads there, that calls the line's function \
                                  | Called at
      every          | count    | it runs once in so many steps; 0 where no such period shows | Once in steps
      maker          | text     | line of yours in which a data set makes elements, where most of this line's time is spent for \
                                  that | Makes elements at
      differentiates | bool     | whether JAX differentiates a function below the line for much of its time: in Python, anew each \
                                  time
      reads_variable | bool     | whether a variable of the model was met being copied to NumPy there | Reads weights
""")
_TIMES = ("own", "untraced", "elsewhere", "waiting", "building")  # parts of a line's time that have columns


@dataclass(frozen=True)
class PythonLine:
    """A line of the user's code with time of which the profile shows nothing; fields as in
    `PYTHON_LINES`.

    Shares are of the step time.
    """

    file: str
    line: int
    function: str
    library: str
    below: str
    below_share: float
    share: float
    python_share: float
    beside_share: float
    seldom: float
    calls_step: bool
    wraps_step: bool
    caller: str
    every: int
    maker: str
    reads_variable: bool
    text: str = ""

    @property
    def is_per_call(self) -> bool:
        """Whether its time is spent per call, by a framework or a library that calls the step's own
        function.
        """
        return self.library in FRAMEWORKS or self.wraps_step


@memoize
def python_lines(run: Run) -> Table:
    """Return a table with one row per host and line, longest first (columns: `PYTHON_LINES`).

    A host without samples, steps or a clock has no rows.
    """
    rows = [row for timeline in run.hosts for row in _rows(timeline, python_records(run)[timeline.host])]
    return PYTHON_LINES.build(rows).sort_by("self_ps")


def lines_outside_step(run: Run, host: str) -> list[PythonLine]:
    """Return the user's lines on one host with time outside of the step's own functions, longest
    first.

    The result is empty without samples.
    """
    names = [field.name for field in dataclasses.fields(PythonLine)]
    rows = [r for r in python_lines(run).records() if r["host"] == host and r["who"] == YOURS and r["beside_share"] > 0]
    return sorted((PythonLine(**{key: r[key] for key in names}) for r in rows), key=lambda line: -line.beside_share)


def line_cost(line: PythonLine) -> float:
    """Return the share of the step that a line costs.

    Of a line that calls the step's own function, only the Python around the call counts.
    """
    return line.python_share if line.calls_step else line.beside_share


def user_python_share(run: Run, host: str) -> float:
    """Return the share of a step, outside of the step's function, in lines of the program's own
    Python; 0 without samples.

    Lines of a framework, and of a library that calls the step's function, are left out: they cost
    time per call, and fewer calls shorten it (`PythonLine.is_per_call`).
    """
    return sum(line_cost(line) for line in lines_outside_step(run, host) if not line.is_per_call)


def framework_python_share(run: Run, host: str) -> float | None:
    """Return the share of the step in a framework's own Python; None without samples."""
    rows = [r for r in python_lines(run).records() if r["host"] == host]
    return sum(r["python_share"] for r in rows if r["library"] in FRAMEWORKS) if rows else None


def sampled_python_share(run: Run, hosts: Collection[str]) -> float | None:
    """Return the largest share of the step in the program's own Python over hosts
    (`user_python_share`); None where a host has no samples.
    """
    has_samples = [len(python_lines(run).filter_by("host", host)) > 0 for host in hosts]
    return max(user_python_share(run, host) for host in hosts) if has_samples and all(has_samples) else None


def find_framework_line(run: Run, host: str) -> str:
    """Return the user's line (`train.py:41`) below which a framework's own code was sampled
    longest.

    Return "" without samples.
    """
    return find_framework_share(run, host).source


@dataclass(frozen=True)
class FrameworkShare:
    """The user's line with most of a framework's time below it.

    source: `train.py:41`; "" without samples.
    share: its share of the framework's time below all of the user's lines.
    is_in_data_set: whether the line makes elements of a data set.
    """

    source: str = ""
    share: float = 0.0
    is_in_data_set: bool = False


def find_framework_share(run: Run, host: str) -> FrameworkShare:
    """Return the line of `find_framework_line`, with its share."""
    rows = [r for r in python_lines(run).records() if r["host"] == host and r["who"] == YOURS and r["library"] in FRAMEWORKS]
    top, whole = max(rows, key=lambda row: row["self_ps"], default=None), sum(row["self_ps"] for row in rows)
    if top is None:
        return FrameworkShare()
    return FrameworkShare(format_source_line(top["file"], top["line"]), top["self_ps"] / max(whole, 1), bool(top["maker"]))


def find_step_line(run: Run, host: str) -> str:
    """Return the user's line (`train.py:41`) that calls the step's own function; "" without
    samples.
    """
    rows = [r for r in python_lines(run).records() if r["host"] == host and r["who"] == YOURS and r["calls_step"]]
    top = max(rows, key=lambda row: row["self_ps"], default=None)
    return format_source_line(top["file"], top["line"]) if top else ""


def find_line_above(run: Run, host: str, word: str) -> str:
    """Return the user's line that runs longest of those whose innermost call has a word in its
    name; "" without samples.
    """
    rows = [r for r in python_lines(run).records() if r["host"] == host and r["who"] == YOURS and word in r["below"]]
    top = max(rows, key=lambda row: row["self_ps"], default=None)
    return format_source_line(top["file"], top["line"]) if top else ""


def find_function_call_line(run: Run, host: str) -> tuple[str, str]:
    """Return (line, caller) of the user's line that calls other functions of the framework for
    longest.

    The step's own function is left out. `caller` is the line of the loop that leads to the line.
    Return ("", "") without samples.
    """
    rows = [r for r in python_lines(run).records() if r["host"] == host and r["who"] == YOURS and r["called_share"] > 0]
    top = max(rows, key=lambda row: row["called_share"], default=None)
    return (format_source_line(top["file"], top["line"]), top["caller"]) if top else ("", "")


def wilson_interval(share: float, sample_count: float) -> tuple[float, float]:
    """Return the 95% confidence interval of a share (Wilson 1927).

    share: share of the samples
    sample_count: number of independent samples

    The ends are within 0 and 1, also for a share of 0. Return (0, 1) without samples.
    """
    if sample_count <= 0:
        return 0.0, 1.0
    square = NORMAL_95 * NORMAL_95 / sample_count
    middle = (share + square / 2) / (1 + square)
    half = NORMAL_95 * math.sqrt(share * (1 - share) / sample_count + square / (4 * sample_count)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


class _Line:
    """Running sums of one line, in ns of samples."""

    def __init__(self) -> None:
        self.samples = 0
        self.weight = self.own = self.untraced = self.elsewhere = self.waiting = self.python = self.beside = self.main = 0
        self.called = 0  # part of `beside` in functions of the framework other than the step's own
        self.building = 0  # part of the weight in which a program was traced or compiled
        self.runs = 0  # part of `main` outside of `building`
        self.slow = 0  # part of the weight in steps that take much longer than the others
        self.steps: set[int] = set()
        self.stacks: dict[int, int] = defaultdict(int)
        self.packages: dict[str, int] = defaultdict(int)
        self.functions: dict[str, int] = defaultdict(int)
        self.calling: dict[int, int] = defaultdict(int)  # `main` by stack

    def look(self, weight: int, free: bool, other: bool, waits: bool) -> None:
        """Add a sample.

        weight: time that the sample stands for, ns
        free: whether the thread recorded no event
        other: whether other threads or devices computed
        waits: whether the thread waited
        """
        self.samples += 1
        self.weight += weight
        self.untraced += weight * free
        self.elsewhere += weight * (free and other)
        self.waiting += weight * waits
        self.python += weight * (free and not other and not waits)

    def below_it(self, weight: int, package: str, function: str) -> None:
        """Add what a sample found below the line: a function of a package, or two empty texts for
        the line itself.
        """
        if package:
            self.packages[package] += weight
            self.functions[function] += weight
        else:
            self.own += weight

    def met(self, weight: int, stack: int, step: int) -> None:
        """Add the stack and the step in which a sample found the line."""
        self.stacks[stack] += weight
        self.steps.add(step)

    @property
    def seldom(self) -> float:
        return self.slow / self.weight if self.weight else 0.0

    def usual(self, first: bool) -> bool:
        """Whether the line runs in the usual step.

        The line with most time in the step's own functions (`first`) makes the step, however seldom
        it runs.
        """
        return (first and self.main > 0) or self.seldom < _MIN_SLOW_SHARE

    def calls_step(self, first: bool) -> bool:
        """Whether the step's own functions run below the line, apart from waits for their
        results.
        """
        least = max(_CALLS * (self.weight - self.waiting), _MIN_SAMPLE_SHARE * self.weight)
        return self.main >= least > 0 and self.usual(first)

    @property
    def library(self) -> str:
        package = max(self.packages, key=self.packages.__getitem__, default="")
        return package if self.packages.get(package, 0) > self.own else ""

    @property
    def below(self) -> str:
        return max(self.functions, key=self.functions.__getitem__, default="")

    @property
    def below_share(self) -> float:
        return self.functions.get(self.below, 0) / self.weight if self.weight else 0.0


def _rows(timeline: Timeline, noted: Mapping[str, Any]) -> Iterator[Row]:
    record = noted.get("python_samples")
    if record is None or timeline.unix_origin_ns is None or len(timeline.steps) == 0 or len(record["samples"]) == 0:
        return
    text = {(record["frames"][frame][0], number): source for frame, number, source in record.get("text", ())}
    text.update({(file, number): source for file, number, source in (noted.get("callbacks") or {}).values()})
    lines, effective, span = _lines(timeline, noted, text)
    stacks, number = (
        StackSamples(record["frames"], record["stacks"]),
        _step_numbers(timeline.steps.number[_whole_in_order(timeline)]),
    )
    first = max(lines.values(), key=lambda line: line.main, default=None)
    stepping = {key for key, line in lines.items() if line.calls_step(line is first)}
    loop = {function for key in stepping for stack in lines[key].stacks for function in stacks.user_functions(stack)}
    total = sum(line.weight for line in lines.values())
    for key, line in lines.items():
        usual = line.usual(line is first)
        # Calls of the step's function from a line of no step, as in an evaluation.
        outside = line.beside if key in stepping else line.beside + line.runs
        outside -= line.called if usual else 0  # a function that every step calls is the model's time, not Python's
        low, high = wilson_interval(line.weight / total, effective)
        file, line_number, function, who = key
        met = [int(number[step]) for step in line.steps]
        through = sum(weight for stack, weight in line.calling.items() if stacks.has_package(stack, line.library))
        yield PYTHON_LINES.row(
            line,
            host=timeline.host,
            file=file,
            line=line_number,
            function=function,
            text=text.get((file, line_number), ""),
            who=who,
            **{f"{part}_ps": round(getattr(line, part) / total * span) for part in _TIMES},
            self_ps=round(line.weight / total * span),
            share=line.weight / total,
            low=low,
            high=high,
            untraced_share=line.untraced / total,
            python_share=line.python / total,
            beside_share=outside / total,
            called_share=line.called / total,
            calls_step=key in stepping,
            wraps_step=key in stepping and 2 * through > line.main,
            caller=heaviest_name(_sum_weights(line, lambda stack: stacks.find_caller(stack, loop))) if who == YOURS else "",
            every=find_step_period(met, line.samples, int(number[0]), int(number[-1])),
            maker=heaviest_name(_sum_weights(line, stacks.find_maker)),
            differentiates=sum(w for stack, w in line.stacks.items() if stacks.differentiates(stack)) >= _CALLS * line.weight,
            reads_variable=any(stacks.reads_variable(stack) for stack in line.stacks),
        )


def _step_numbers(numbers: Numbers) -> Numbers:
    """Return step numbers for the distances between steps.

    These are the steps' own numbers, unless the numbers restart, as those of batches do in each
    epoch.
    """
    return numbers if bool((np.diff(numbers) > 0).all()) else np.arange(len(numbers))


def _lines(
    timeline: Timeline, noted: Mapping[str, Any], text: Mapping[Any, str]
) -> tuple[dict[tuple[str, int, str, str], _Line], float, float]:
    """Return (sums by line, effective number of independent samples, mean training step in ps).

    A line is (file, line, function, who); the samples are those in steady steps.
    """
    record, origin = noted["python_samples"], timeline.unix_origin_ns or 0
    samples = np.array(record["samples"], np.int64)
    moment = (samples[:, 0] + (record["base_unix_ns"] - origin)) * 1000
    step, span = _steps_at(timeline, moment)
    samples, moment, step = samples[step >= 0], moment[step >= 0], step[step >= 0]
    keys = attribute_stacks(noted, record)
    awaits = [_is_waiting(key[0], stack[-1], record["frames"], text) for key, stack in zip(keys, record["stacks"], strict=True)]
    lines: dict[tuple[str, int, str, str], _Line] = defaultdict(_Line)
    # Under asynchronous dispatch, what Python does while the step's work runs costs nothing.
    ahead = timeline.steps.async_dispatch
    slow, states = _slow_steps(timeline), thread_states(timeline, moment)
    main, called = (isin_events(timeline, rows(timeline), moment) for rows in (step_function_rows, function_call_rows))
    columns = (
        part.tolist() for part in (states.untraced, states.elsewhere, states.waiting, states.building, main, called, step)
    )
    pauses = find_pauses(record, samples[:, 0])
    for (_, weight, stack), pause, free, other, waits, builds, inside, calling, at in zip(
        samples.tolist(), pauses, *columns, strict=True
    ):
        key, package, function = (pause_key(pause), "", "") if pause else keys[stack]
        waits = waits or awaits[stack]
        outside = not inside and not waits and not builds and not ((free or ahead) and other)
        line = lines[key]
        line.slow += weight * (at in slow)
        line.beside += weight * outside
        line.called += weight * (outside and calling)
        line.main += weight * (inside and not waits)
        line.calling[stack] += weight * (inside and not waits)
        line.runs += weight * (inside and not waits and not builds)
        line.building += weight * builds
        line.look(weight, free, other, waits)
        line.below_it(weight, package, function)
        line.met(weight, stack, at)
    weights = samples[:, 1].astype(float)
    return lines, float(weights.sum()) ** 2 / float((weights**2).sum()) if len(weights) else 0.0, span


def _sum_weights(line: _Line, name: Callable[[int], str]) -> dict[str, int]:
    """Return the weight of a line's samples by a name of their stacks."""
    weights: dict[str, int] = defaultdict(int)
    for stack, weight in line.stacks.items():
        weights[name(stack)] += weight
    return weights


def _whole_in_order(timeline: Timeline) -> Indices:
    steps = timeline.steps
    return np.asarray(steps.steady_rows[np.argsort(steps.start[steps.steady_rows])])


def _slow_steps(timeline: Timeline) -> frozenset[int]:
    """Return the steady steps that take much longer than the others, by their index in
    `_steps_at`.
    """
    steps, whole = timeline.steps, _whole_in_order(timeline)
    slow, _ = find_period(steps.duration[whole], np.ones(len(whole), bool))
    return frozenset(slow.tolist())


def _steps_at(timeline: Timeline, moment: Picoseconds) -> tuple[Codes, float]:
    """Return (index of the steady step in which each moment lies, -1 for none; mean training step
    in ps).

    moment: times, ps
    """
    steps, whole = timeline.steps, _whole_in_order(timeline)
    step = np.searchsorted(steps.start[whole], moment, side="right") - 1
    inside = (step >= 0) & (moment < steps.end[whole][np.maximum(step, 0)])
    return np.where(inside, step, -1), float(steps.duration[whole].mean()) / steps.steps_per_execution


def _is_waiting(
    key: tuple[str, int, str, str], leaf: Sequence[int], frames: Sequence[Sequence[Any]], text: Mapping[Any, str]
) -> bool:
    """Whether a stack's innermost call waits for a result.

    Such a call is a function that fetches a result, or the user's own `x.block_until_ready()`.
    """
    _, function, _, owner = frames[leaf[0]]
    if owner:
        return str(function).rpartition(".")[2] in _WAITING_CALLS
    return "block_until_ready" in text.get(key[:2], "")
