# SPDX-License-Identifier: Apache-2.0
"""Steps of a program's executions, where its calls only dispatch work: a step ends when its
execution ends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace.model import median
from outpace.model.arrays import Indices
from outpace.model.units import format_count
from outpace.timeline.call_steps import build_steps_to
from outpace.timeline.executions import TOO_FEW_EXECUTIONS, ModuleExecutions, find_device_executions, find_executions
from outpace.timeline.function_calls import find_function_calls, find_program_events, find_step_calls
from outpace.timeline.function_names import parse_jitted_function
from outpace.timeline.limit_checks import LimitCheck, check_share
from outpace.timeline.steps import Steps, StepSource
from outpace.trace import Trace

_AGREE = 0.8  # minimum ratio of the step times of calls and of runs (shorter to longer) from which they agree
_MOSTLY = 0.5  # share of steps above which steps are taken from the devices' work


def build_execution_steps(
    trace: Trace, calls: Indices, function: str, runs: ModuleExecutions, hidden: Indices, why: str
) -> Steps:
    """Return steps that end where the runs of a program end.

    calls: rows of calls on the training thread, if any.
    why: reason for not using the calls, for the explanation.
    """
    line = int(trace.line[calls[0]]) if len(calls) else -1
    top = find_program_events(trace, line, hidden)
    explanation = f"{format_count(len(runs), 'run')} of {function}, each from the end of the one before: {why}"
    steps = build_steps_to(trace, runs.end, int(runs.start[0]), top, line, explanation, function)
    steps.complete[0] = False
    steps.complete[-1] &= runs.is_last_complete
    return replace(steps, async_dispatch=True)


def refine_call_steps(trace: Trace, calls: Indices, steps: Steps, hidden: Indices, checks: list[LimitCheck]) -> Steps:
    """Return the steps of the calls, or, where the calls only dispatch work and have another step
    time than the program's runs, the steps of the runs. A program that waits for a result every few
    steps has the same mean step time in both: its usual call is then shorter than a run.
    """
    name = trace.names[trace.name[calls[0]]]
    runs = find_executions(trace, name)
    if len(runs) <= TOO_FEW_EXECUTIONS:
        return steps
    why = f"its calls on thread {trace.lines.names[int(trace.line[calls[0]])]} do not wait"
    run_steps = build_execution_steps(trace, calls, parse_jitted_function(name), runs, hidden, why)
    shorter, longer = sorted(float(s.duration[s.steady_rows].mean()) for s in (steps, run_steps))
    what, outcomes = "the step time of the calls, {} off that of the program's runs,", ("kept", "replaced by that of the runs")
    checks.append(check_share(what, shorter, longer, _AGREE, outcomes))
    if not checks[-1].is_over and runs.is_sequential:
        what = "the usual call, {} shorter than a run of its program,"
        checks.append(check_share(what, median(steps.duration[steps.steady_rows]), median(runs.duration), _AGREE, outcomes))
    return run_steps if checks[-1].is_over else steps


def refine_marked_steps(trace: Trace, marks: Steps, ignored_rows: Indices) -> Steps:
    """Return the marked steps, or, where a mark lasts no longer than the dispatch of a program, the
    steps of the program's runs, with the marks' numbers. `ignored_rows`: rows of the marks.

    The last mark is assigned to the last run, unless there are more marks than runs: a program that
    runs at the begin of the capture was dispatched before it.
    """
    calls = find_function_calls(trace, ignored_rows, jitted=True)
    step = np.searchsorted(marks.start, trace.start[calls], side="right") - 1
    rows = find_step_calls(trace, calls[(step >= 0) & (trace.start[calls] < marks.end[step])])
    if len(rows) != len(marks):
        return marks
    name = trace.names[trace.name[rows[0]]]
    runs = find_executions(trace, name)
    if len(runs) <= TOO_FEW_EXECUTIONS or not runs.is_sequential:
        return marks
    what, outcomes = "the usual mark, {} shorter than a run of its program,", ("kept", "replaced by the run")
    check = check_share(what, median(marks.duration), median(runs.duration), _AGREE, outcomes)
    if not check.is_over:
        return replace(marks, limit_checks=(check,))
    why = f"the {format_count(len(marks), 'step marker')} are over before"
    steps = build_execution_steps(trace, rows, parse_jitted_function(name), runs, ignored_rows, why)
    at = np.arange(len(runs)) - max(len(runs) - len(marks), 0)
    number = np.where(at < 0, marks.number[0] + at, marks.number[np.maximum(at, 0)])
    return replace(steps, source=marks.source, number=number, limit_checks=(check,))


def refine_async_steps(trace: Trace, steps: Steps, ignored_rows: Indices) -> Steps:
    """Return the steps, or, where the program goes on to later steps before a device has completed
    the work of a step, the steps of that work, with the same numbers.

    A host that launches faster than devices compute is one step ahead, then two, then dozens: its
    own steps last as long as launching, and steps whose work begins after the capture are left out.
    `ignored_rows`: rows of the marks.
    """
    if steps.async_dispatch or steps.groups or steps.source is StepSource.DEVICE_LINE or len(steps) <= TOO_FEW_EXECUTIONS:
        return steps
    runs = find_device_executions(trace, steps.start, int(steps.end[-1]))
    if runs is None or len(runs) <= TOO_FEW_EXECUTIONS:
        return steps
    late = float(np.mean(runs.end[:-1] > steps.end[1 : len(runs)]))
    what = "work of devices that is done after the next step is over, {} of the steps,"
    check = LimitCheck(what, late, _MOSTLY, late > _MOSTLY, ("left to its steps", "taken for the steps"))
    if not check.is_over:
        return replace(steps, limit_checks=(*steps.limit_checks, check))
    line = int(steps.line[0])
    explanation = f"{steps.explanation}; the program runs ahead, so each is taken from end to end of what devices did for it"
    top = find_program_events(trace, line, ignored_rows)
    work = build_steps_to(trace, runs.end, int(runs.start[0]), top, line, explanation)
    complete = steps.complete[: len(runs)].copy()
    complete[-1] &= runs.is_last_complete
    return replace(
        work,
        source=steps.source,
        confidence=steps.confidence,
        number=steps.number[: len(runs)],
        kind=steps.kind,
        complete=complete,
        async_dispatch=True,
        limit_checks=(*steps.limit_checks, check),
    )
