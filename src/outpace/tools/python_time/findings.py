# SPDX-License-Identifier: Apache-2.0
"""Advice on Python in the training thread: which of the user's lines take time in which nothing
else of the step runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.frameworks.tensorflow import READ_NEXT
from outpace.metrics.facts.python_lines import (
    PythonLine,
    find_framework_line,
    line_cost,
    lines_outside_step,
    python_lines,
    user_python_share,
    wilson_interval,
)
from outpace.metrics.facts.python_loops import OtherLoop, other_loops
from outpace.metrics.facts.python_records import TRACER_METHOD, python_records
from outpace.metrics.facts.python_samples import FRAMEWORKS, LIBRARY, calls_at_line
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.bounds import call_overhead_bound
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.source_line import format_source_line, shorten_source_path
from outpace.metrics.views.jit_calls import is_op_by_op
from outpace.metrics.views.thread_lines import ThreadWork, thread_work
from outpace.model import Category, Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit, humanize
from outpace.model.text import format_largest_part, is_majority, join_names
from outpace.model.units import format_count
from outpace.timeline import Run

_SOME = Threshold(
    "a function's Python, of the step", 0.03, Unit.FRACTION, "XProf's overview page: moderate share of 'All others'"
)
_MUCH = Threshold(
    "a function's Python, much of the step", 0.15, Unit.FRACTION, "XProf's overview page: high share of 'All others'"
)
_PER_CALL = Threshold("a framework's own Python, of the step", 0.10, Unit.FRACTION, "our choice: less in a well-fed loop")
_MOST = 4  # maximum number of functions with a finding, per host
# Calls that fetch from tf.data, which the input pipeline's rules cover.
_FETCHES = ("iterator_get_next", "__next__", READ_NEXT.name)
_MOSTLY = 0.5  # minimum share of a function's time, for the function to count as waiting, or as traced by events
# Functions that wait for other threads, by class and name; by name alone before Python 3.11.
_WAITS = frozenset(
    [
        "Condition.wait",
        "Event.wait",
        "Barrier.wait",
        "Queue.get",
        "Future.result",
        "Thread.join",
        "Thread._wait_for_tstate_lock",
        "wait",
        "_wait_for_tstate_lock",
    ]
)
_WORKS = 0.1  # minimum cores of a thread: one that computes with less delays nobody
_HALF = 0.5  # share of the step from which a function cannot be hidden behind the rest of the step
_FEW_SAMPLES = 20  # minimum number of samples of a function: with fewer, chance may have picked the line
_SELDOM = 0.7  # minimum share of a line's time in the slow steps, for it to recur in few steps


@dataclass(frozen=True)
class _Function:
    """The sampled lines of one function, or of all that one line of a data set calls to make its
    elements.

    lines: its lines, the one with the highest cost first.
    step: mean time of a training step, ps.
    """

    lines: tuple[PythonLine, ...]
    step: float

    @property
    def share(self) -> float:
        return sum(line_cost(line) for line in self.lines)

    @property
    def time(self) -> float:
        return self.share * self.step

    @property
    def traced(self) -> bool:
        """Whether at least half of the function's time has events: ops, copies, calls of other
        functions.
        """
        return sum(line.python_share for line in self.lines) < _MOSTLY * self.share

    @property
    def reads_weights(self) -> bool:
        """Whether the function copies variables of the model to NumPy, so that its result differs
        in every step.
        """
        return any(line.reads_variable for line in self.lines)

    @property
    def top(self) -> PythonLine:
        return self.lines[0]

    @property
    def below(self) -> float:
        """Share of the function's time in the innermost call of its longest line."""
        whole = sum(line.share for line in self.lines)
        return (
            sum(line.share * line.below_share for line in self.lines if line.below == self.top.below) / whole if whole else 0.0
        )

    @property
    def waits(self) -> bool:
        """Whether the function waits for another thread, through a function of Python's standard
        library.
        """
        return self.top.library == "python" and self.top.below.rpartition(": ")[-1] in _WAITS and self.below >= _MOSTLY

    @property
    def names(self) -> list[str]:
        """The functions' names, the one with the longest line first."""
        return list(dict.fromkeys(line.function.partition(".<locals>")[0] for line in self.lines))

    @property
    def is_several(self) -> bool:
        """Whether these are several functions that one line of a data set calls."""
        return len(self.names) > 1

    @property
    def place(self) -> str:
        return self.top.maker if self.is_several else format_source_line(self.top.file, self.top.line)

    @property
    def places(self) -> str:
        """The function's longest lines, three at most, in order of their numbers: `train.py:68 and
        72`, with the number of further lines. Only the file where a tracer recorded no line.
        """
        if not self.top.line or self.is_several:
            return self.place
        much = sorted({line.line for line in self.lines[:3]})
        numbers = " and ".join(part for part in (", ".join(map(str, much[:-1])), str(much[-1])) if part)
        further_count = len({line.line for line in self.lines} - set(much))
        return shorten_source_path(f"{self.top.file}:{numbers}") + (
            f" and {format_count(further_count, 'more line')}" if further_count else ""
        )


def _is_the_programs(line: PythonLine, has_function: bool) -> bool:
    """Whether a line's time is for the program to save. It is not where the line fetches from
    tf.data. Nor is what a framework, or a library that calls the step's function, does for each
    call, where the line leads to the step's function or there is no such function, so that ops run
    one by one.
    """
    if line.below.endswith(_FETCHES):
        return False
    return not line.is_per_call or (has_function and not line.calls_step)


def iter_findings(run: Run, program: Workload) -> Iterator[Finding]:
    """Yield the findings of every host: on the functions that take most time, on the framework's
    own Python, and on another loop that calls the step's function.
    """
    for timeline in run.hosts:
        functions: dict[tuple[str, str], list[PythonLine]] = {}
        lines = lines_outside_step(run, timeline.host)
        has_function = any(row["calls_step"] for row in python_lines(run).filter_by("host", timeline.host).records())
        has_function = has_function and not is_op_by_op(run, timeline.host)
        for line in lines:
            if _is_the_programs(line, has_function) and line_cost(line) > 0:
                of_one = (line.maker, "") if line.maker else (line.file, line.function.partition(".<locals>")[0])
                functions.setdefault(of_one, []).append(line)
        samples = sum(row["samples"] for row in python_lines(run).filter_by("host", timeline.host).records())
        step = _step(run, timeline.host)
        ordered = (sorted(function_lines, key=line_cost, reverse=True) for function_lines in functions.values())
        longest = sorted((_Function(tuple(function_lines), step) for function_lines in ordered), key=lambda f: -f.share)
        for function in longest[:_MOST]:
            if function.share >= _SOME.value:
                yield _line(run, timeline.host, function, samples, program)
        yield from _framework(run, timeline.host, program)
        for loop in other_loops(run, timeline.host)[:1]:
            if loop.share >= _MUCH.value:
                yield _other_loop(run, timeline.host, loop)


def _line(run: Run, host: str, function: _Function, samples: int, program: Workload) -> Finding:
    """Return the finding on one function of the training thread. `samples` is the number of samples
    on the host.
    """
    top, share = function.top, function.share
    low, high = wilson_interval(share, samples)
    below = f", {format_largest_part(f'in {top.below}', function.below, 1.0)}" if top.library else ""
    context = "it runs beside the step's own function" if function.traced else "nothing else of the step runs meanwhile"
    recorded = function.traced or (python_records(run)[host].get("python_samples") or {}).get("method") == TRACER_METHOD
    builds = _building_share(run, host, function)
    takes = (
        *((Category.ALL_OTHERS, Category.HOST_COMPUTE, Category.OUTPUT) if recorded else (Category.ALL_OTHERS,)),
        *(Category.COMPILATION,) * bool(builds),
    )
    worker = next((work for work in thread_work(run, host) if work.cores >= _WORKS), None) if function.waits else None
    name = "the module's own loop" if top.function == "<module>" else join_names([f"{one}()" for one in function.names])
    where = _where(function, program)
    much = share >= _MUCH.value
    context += f"; it builds graphs for {builds:.0%} of the step besides" * bool(builds)
    return Finding(
        id="python_line",
        severity=Severity.HIGH if much else Severity.MODERATE,
        sentence=f"Python in {name}{f' ({where})' if where else ''} takes {humanize(function.time, Unit.PS)} per step ({share:.0%}){below}; "
        f"{context}."
        if worker is None
        else f"{name}{f' ({where})' if where else ''} waits {humanize(function.time, Unit.PS)} per step ({share:.0%}) for another "
        f"thread of the program: the busiest compute in {worker.function}() at {worker.source} (with {worker.cores:.1f} cores).",
        action=_advise_feeding(worker) if worker is not None else _action(run, host, function, program),
        evidence=(
            Evidence("its share of the step, of the samples", share, Unit.FRACTION, "python_lines"),
            Evidence("lower end of the 95% CI", low, Unit.FRACTION, "python_lines"),
            Evidence("upper end of the 95% CI", high, Unit.FRACTION, "python_lines"),
        ),
        threshold=_MUCH if much else _SOME,
        saving=build_saving(
            high + builds,
            *takes,
            assumes="if this function took no time on the training thread",
            whole_line=True,
            sampled=share + builds,
        ),
        counter_evidence=() if samples * share >= _FEW_SAMPLES else (f"Only {samples * share:.0f} samples fell on it.",),
        location=worker.source if worker is not None else function.place,
        host=host,
        certainty=Certainty.CERTAIN if samples * share >= _FEW_SAMPLES and worker is None else Certainty.LIKELY,
        explains=(
            *("python_overhead", "even_stops", "per_call_cost", "periodic_cost"),
            *("compiling_in_steps",) * bool(builds),
            *(("background_threads", "interpreter_lock") if worker is not None else ()),
        ),
        effort=Effort.MEDIUM,
    )


def _building_share(run: Run, host: str, function: _Function) -> float:
    """Return the share of the step in which a function's lines build or compile what they call,
    where that is most of what is built in the steps; else 0.
    """
    rows = list(python_lines(run).filter_by("host", host).records())
    lines = {(line.file, line.line) for line in function.lines}
    own = sum(row["building_ps"] for row in rows if (row["file"], row["line"]) in lines)
    share = own / function.step if function.step else 0.0
    return share if share >= _SOME.value and is_majority(own, sum(row["building_ps"] for row in rows)) else 0.0


def _advise_feeding(worker: ThreadWork) -> str:
    """Return the action on threads that the training thread waits for."""
    return f"Make {worker.source} cheaper (the whole batch at once, or once and kept), or do it in other processes: threads share one lock."


def _other_loop(run: Run, host: str, loop: OtherLoop) -> Finding:
    """Return the finding on a loop, other than the training's own, that calls the step's
    function.
    """
    called = f", called at {loop.caller}" if loop.caller else ""
    devices = (Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32) if run.has_device else ()
    return Finding(
        id="other_loop",
        severity=Severity.HIGH,
        sentence=f"{loop.function}() ({loop.source}{called}) calls the step's function in a loop of its own, for {loop.share:.0%} of the "
        "time: its calls count as steps here.",
        action=f"Call {loop.function}() less often, or let it make fewer of these calls, where it searches, warms up or evaluates.",
        evidence=(Evidence("its share of the samples", loop.share, Unit.FRACTION, "python_lines"),),
        threshold=_MUCH,
        saving=build_saving(
            wilson_interval(loop.share, loop.samples / loop.share)[1],
            *(Category.HOST_COMPUTE, Category.ALL_OTHERS),
            *devices,
            assumes="if only the training's own loop called it",
            sampled=loop.share,
        ),
        location=loop.caller or loop.source,
        host=host,
        certainty=Certainty.LIKELY,  # both loops may be the training, as with two models in turns
        effort=Effort.SMALL,
    )


def _where(function: _Function, program: Workload) -> str:
    """Return where a function's longest lines are, the line of the training loop that calls the
    function, and how often it runs.
    """
    # Keras' own loop calls its callbacks, so that the line with `fit` says nothing about them.
    calls = "" if program.is_keras else function.top.caller
    called = f", called at {calls}" if calls else ""
    often = f", once in {function.top.every} steps" if function.top.every else ""
    return f"{function.places}{called}{often}"


def _framework(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on what TensorFlow, Keras or JAX itself, or a library that calls the step's
    function, does in Python for every call: a fixed cost, which small steps pay too often.
    """
    rows = [
        r
        for r in python_lines(run).filter_by("host", host).records()
        if (r["library"] in FRAMEWORKS and (r["calls_step"] or r["who"] == LIBRARY)) or r["wraps_step"]
    ]
    if not rows:
        return
    share, whole = sum(r["python_share"] for r in rows), sum(r["untraced_share"] for r in rows)
    time = sum(r["untraced_ps"] for r in rows) * share / whole if whole else 0.0
    if share < _PER_CALL.value:
        return
    op_free_share = call_overhead_bound(run, host) - user_python_share(run, host)
    longest = max(rows, key=lambda row: row["python_share"])
    whose = program.framework.value if longest["library"] in FRAMEWORKS else longest["library"]
    line = find_framework_line(run, host)
    why = "it is a fixed cost per call, too high for steps this small"
    action = program.select_text(
        keras="Use a larger batch, or run several batches per call: compile(..., steps_per_execution=16).",
        tensorflow="Use a larger batch, or run several steps inside one tf.function (for batch in dataset, or tf.while_loop).",
        jax="Use a larger batch, or run several steps per call with jax.lax.scan. Pass fewer and flatter arguments to the jitted function.",
    )
    if longest["differentiates"]:
        why = f"it differentiates anew in each step{f', at {line}' if line else ''}, outside of a compiled function"
        action = "Put the whole update under one jax.jit, its gradient included: then it is traced once."
    yield Finding(
        id="small_steps",
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"{whose}'s own Python takes {humanize(time, Unit.PS)} per step ({share:.0%}); {why}.",
        action=action,
        evidence=(
            Evidence("untraced time in the framework's own functions, of the samples", share, Unit.FRACTION, "python_lines"),
            Evidence("share of the step in which no op runs", max(0.0, op_free_share), Unit.FRACTION, "overview.average_step"),
        ),
        threshold=_PER_CALL,
        saving=build_saving(
            max(share, op_free_share),
            Category.ALL_OTHERS,
            Category.HOST_COMPUTE,
            assumes="if a call cost nothing besides the ops in it",
        ),
        location=line,
        host=host,
        effort=Effort.SMALL,
        explains=("python_overhead",),
    )


def _step(run: Run, host: str) -> float:
    """Return the mean training step of the steady state, ps; 0 without steps."""
    steps = run.by_host[host].steps
    return float(steps.duration[steps.steady_rows].mean()) / steps.steps_per_execution if len(steps) else 0.0


def _action(run: Run, host: str, function: _Function, program: Workload) -> str:
    """Return the action on a function, by what it calls and what holds for it."""
    # most reports have no such finding
    from outpace.metrics.actions.python_lines import (
        PYTHON_ACTIONS,
        CallKind,
        Precondition,
        classify_call,
        classify_calls,
        classify_text,
        is_batch_hook,
    )
    from outpace.metrics.actions.table import choose_action

    top = function.top
    called = f"the call of {top.below.rpartition(': ')[2]}" if top.below else "what the loop does"
    where = function.places if top.line else " in ".join(filter(None, (called, function.places)))  # a tracer records no line
    holds = {
        Precondition.CALLS_STEP if top.calls_step else Precondition.CALLS_NO_STEP: True,
        Precondition.SELDOM: top.seldom >= _SELDOM,
        Precondition.READS_WEIGHTS if function.reads_weights else Precondition.KEEPS_ARRAYS: True,
        Precondition.IN_DATA_SET: bool(top.maker),
        Precondition.IN_BATCH_HOOK: is_batch_hook(top.function) and program.is_keras,
        Precondition.WAITS: function.waits,
        Precondition.MOST_OF_STEP: function.share > _HALF,
    }
    steps = run.by_host[host].steps
    order = steps.steady_rows[np.argsort(steps.start[steps.steady_rows])]
    calls = calls_at_line(run, run.by_host[host], steps.start[order], steps.end[order], (top.file, top.line))
    kind = classify_calls(calls) if calls else classify_call(top.library, top.below)
    if kind is CallKind.COMPUTING and not top.library:
        kind = classify_text(top.text)
    return choose_action(PYTHON_ACTIONS, kind, {need for need, held in holds.items() if held}).render(where, program)
