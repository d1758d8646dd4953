# SPDX-License-Identifier: Apache-2.0
"""Inference of steps in profiles without marks: the call that the training thread repeats.

The following are tried in this order: runs of a program on a device that lists its programs; calls
of a `tf.function` or jitted function; the input call of an eager loop; the repeated sequence of
eager ops; ops that a GPU repeats; executor runs of old profiles.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace.model.arrays import Indices
from outpace.timeline.call_steps import build_call_steps, find_call_launches
from outpace.timeline.cycles import find_outermost_repetition
from outpace.timeline.device_op_steps import infer_device_op_steps
from outpace.timeline.eager_steps import infer_eager_steps
from outpace.timeline.event_names import INPUT_THREADS, EventFlag, event_names
from outpace.timeline.execution_steps import build_execution_steps, refine_call_steps
from outpace.timeline.executions import find_uncalled_executions
from outpace.timeline.function_calls import exclude_rows, find_function_calls, find_most_repeated, find_step_calls
from outpace.timeline.function_names import JITTED_CALL_PREFIX
from outpace.timeline.limit_checks import LimitCheck
from outpace.timeline.steps import Steps, empty_steps
from outpace.timeline.training_check import verify_training
from outpace.trace import Trace, dialect

_SMALL_SHARE = 0.05  # minimum share of the thread's op time from which a function can be what an eager loop repeats


def infer_steps(trace: Trace, ignored_rows: Indices) -> Steps:
    """Return the steps of the repeated call; `ignored_rows` are rows of marks, which are hidden
    from the search.
    """
    checks: list[LimitCheck] = []
    steps = _infer(trace, ignored_rows, checks)
    return replace(steps, limit_checks=(*checks, *steps.limit_checks))


def _infer(trace: Trace, hidden: Indices, checks: list[LimitCheck]) -> Steps:
    if len(rows := _find_device_programs(trace)):
        return _verify(trace, rows, build_call_steps(trace, rows, rows[:0]))
    calls = find_function_calls(trace, hidden)
    rows = find_step_calls(trace, calls, 2)
    if (execution := find_uncalled_executions(trace, calls)) is not None:
        function, runs = execution
        steps = build_execution_steps(trace, rows, function, runs, hidden, "the profile lacks most of its calls")
        return verify_training(trace, rows[:0], steps, f"{JITTED_CALL_PREFIX}{function})")
    ops = _find_outermost(trace, EventFlag.EAGER_EXECUTE, hidden)
    if len(rows) and _is_large(trace, rows, ops, checks):
        heads, rows = find_outermost_repetition(trace, calls, rows, checks)
        steps = build_call_steps(trace, rows, hidden, heads)
        return _verify(trace, rows, refine_call_steps(trace, rows, steps, hidden, checks) if heads is rows else steps)
    if (op_steps := infer_eager_steps(trace, ops, hidden, checks) or infer_device_op_steps(trace)) is not None:
        return op_steps
    for flag in (EventFlag.SESSION_RUN, EventFlag.FUNCTION_RUN):
        rows = find_most_repeated(trace, _exclude_input_threads(trace, _find_outermost(trace, flag, hidden)))
        if len(rows) > 1:
            return _verify(trace, rows, build_call_steps(trace, rows, hidden))
    return empty_steps("nothing in the profile repeats like a training step")


def infer_launch_steps(trace: Trace, ignored_rows: Indices) -> Steps | None:
    """Return steps of the calls that launch the devices' work; None where these calls are unknown.

    They are more exact than a device's step line, whose first step begins with a kernel and whose
    last step ends with the last event of the capture.
    """
    calls = find_function_calls(trace, ignored_rows)
    rows = find_step_calls(trace, calls, 2)
    if not len(rows) or not len(find_call_launches(trace, rows, rows)[0]):
        return None
    checks: list[LimitCheck] = []
    heads, rows = find_outermost_repetition(trace, calls, rows, checks)
    steps = build_call_steps(trace, rows, ignored_rows, heads)
    return replace(steps, limit_checks=(*checks, *steps.limit_checks))


def _verify(trace: Trace, calls: Indices, steps: Steps) -> Steps:
    return verify_training(trace, calls, steps, trace.names[trace.name[calls[0]]])


def _find_outermost(trace: Trace, flag: EventFlag, hidden: Indices) -> Indices:
    return trace.find_outermost(exclude_rows(event_names(trace).rows(flag), hidden))


def _is_large(trace: Trace, calls: Indices, ops: Indices, checks: list[LimitCheck]) -> bool:
    """Whether the calls take so much of their thread's op time that they can be the step."""
    calls_ps, thread_ps = (int(trace.duration[rows].sum()) for rows in (calls, ops[trace.line[ops] == trace.line[calls[0]]]))
    what, outcomes = "the call that repeats, {} of the time of its thread's ops,", ("passed over", "taken for the step")
    is_large = calls_ps >= _SMALL_SHARE * thread_ps
    checks.append(LimitCheck(what, calls_ps, _SMALL_SHARE * thread_ps, is_large, outcomes, reference=thread_ps))
    return is_large


def _exclude_input_threads(trace: Trace, rows: Indices) -> Indices:
    is_input = np.fromiter((n.startswith(INPUT_THREADS) for n in trace.lines.names), bool, len(trace.lines))
    return np.asarray(rows[~is_input[trace.line[rows]]])


def _find_device_programs(trace: Trace) -> Indices:
    """Return the runs of the program that took most time on the first device that lists its
    programs, more than one (on a line XLA Modules); none where no device does.
    """
    for plane in trace.find_planes(dialect.DEVICE_PREFIX):
        for line in plane.lines:
            if (
                trace.lines.names[line] == "XLA Modules"
                and len(rows := find_most_repeated(trace, trace.lines.row_numbers(line))) > 1
            ):
                return rows
    return np.zeros(0, np.int64)
