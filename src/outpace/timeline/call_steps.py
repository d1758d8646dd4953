# SPDX-License-Identifier: Apache-2.0
"""Steps of the calls of one function: a step lasts from the end of the previous call to the end of
its own, so that it includes the wait for its input. Where dispatch is asynchronous it ends when the
result is complete.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace.model import median
from outpace.model.arrays import Indices, Picoseconds
from outpace.model.units import format_count
from outpace.timeline.causality import find_launches
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.executions import TOO_FEW_EXECUTIONS
from outpace.timeline.function_calls import find_function_calls, find_program_events
from outpace.timeline.gradients import is_prediction
from outpace.timeline.limit_checks import LimitCheck, check_share
from outpace.timeline.steady_state import outlier_limit
from outpace.timeline.steps import Steps, build_inferred_steps
from outpace.trace import Trace
from outpace.trace.algorithms import distinct

_HALF = 0.5  # share of the usual duration below which the first or last step is cut off by the capture
_NEVER = int(np.iinfo(np.int64).max)
_LATER = 2  # factor: a launch belongs to the last call up to this many times the usual delay of a call's last launch
_WHOLE = 0.9  # minimum share of the other steps' content from which a step counts as whole, not cut off by the capture
_KINDS = 6  # number of steps whose kinds of events are compared


def build_call_steps(trace: Trace, rows: Indices, hidden: Indices, heads: Indices | None = None) -> Steps:
    """Return steps that end where the work of a call is complete, and start where the previous step
    ends.

    rows: the last call of every step.
    heads: the first call of every step, where a step has several.
    """
    several = heads is not None and heads is not rows
    heads = rows if heads is None else heads
    line, name = int(trace.line[rows[0]]), trace.names[trace.name[rows[0]]]
    end = _work_ends(trace, heads, rows)
    top = find_program_events(trace, line, hidden)
    first = _first_start(trace, top, heads, end)
    check = _check_first_step(trace, top, np.concatenate(([first], end[:-1])), end)
    is_whole = len(rows) == 1 if check is None else not check.is_over
    is_cut = first <= int(trace.start[top].min(initial=first)) and _begins_late(np.diff(end, prepend=first))
    calls = format_count(len(rows), "call")
    if several:
        calls = f"{format_count(len(rows), 'repetition')} of a sequence of calls with several"
    explanation = f"{calls} of {name} on thread {trace.lines.names[line]}, each from the end of the one before"
    steps = build_steps_to(trace, end, first, top, line, explanation, name)
    steps.complete[0] = is_whole and not is_cut
    is_waited_for = end[-1] > trace.end[rows[-1]]
    if (is_waited_for and is_stretched(steps.duration)) or _is_cut_short(steps.duration[steps.complete]):
        steps.complete[-1] = False
    return replace(steps, limit_checks=() if check is None else (check,))


def build_steps_to(
    trace: Trace, end: Picoseconds, first: int, top: Indices, line: int, explanation: str, function: str = ""
) -> Steps:
    """Return complete steps that end at `end`, each from the end of the one before.

    first: start of the first step, ps.
    top: rows of the program's events on the thread `line`.
    function: name of the repeated call.
    """
    step = np.searchsorted(end, trace.start[top], side="right")
    inside = (step < len(end)) & (trace.start[top] >= first)
    steps = build_inferred_steps(explanation, np.concatenate(([first], end[:-1])), end, line, top[inside], step[inside])
    return replace(steps, kind="prediction" if is_prediction(function) else "training")


def _first_start(trace: Trace, top: Indices, rows: Indices, end: Picoseconds) -> int:
    """Return the start of the first step, ps: the start of its call, or of events that lead to it
    as in other steps (such as the input that they fetch).

    Earlier events are no part of a step: the profiler's own start, set-up, the construction of a
    data set. Of the events before the first call, those count that other steps also have before
    their calls, up to twice the longest lead of the other steps.
    """
    call = int(trace.start[rows[0]])
    leads = trace.start[rows[1:]] - end[:-1]
    if len(leads) == 0:
        return call
    outer = trace.find_outermost(top)
    step = np.searchsorted(end, trace.start[outer], side="right")
    inside = (step > 0) & (step < len(rows))
    leading = np.zeros(len(outer), bool)
    leading[inside] = trace.start[outer[inside]] < trace.start[rows[step[inside]]]
    leaders = distinct(trace.name[outer[leading]])
    earliest = call - 2 * int(leads.max())
    before = outer[(trace.start[outer] < call) & (trace.end[outer] <= call) & (trace.start[outer] >= earliest)]
    first = call
    for row in before[::-1].tolist():
        if trace.name[row] not in leaders:
            break
        first = int(trace.start[row])
    return first


def _work_ends(trace: Trace, heads: Indices, rows: Indices) -> Picoseconds:
    """Return the end of each step, ps: the end of its last call, or of the last wait for its result
    before the next step's first call. The last step ends with the devices' work for its last call,
    less the time by which the host runs ahead.
    """
    end, thread = trace.end[rows].copy(), trace.lines.row_numbers(int(trace.line[rows[0]]))
    over = _final_logs_start(trace, rows, thread)
    waiting = thread[event_names(trace).mask(EventFlag.RESULT_WAIT)[trace.name[thread]] & (trace.start[thread] < over)]
    if len(waiting):
        call = np.searchsorted(trace.start[rows], trace.start[waiting], side="right") - 1
        owned = (call >= 0) & (np.searchsorted(trace.start[heads], trace.start[waiting], side="right") - 1 == call)
        np.maximum.at(end, call[owned], trace.end[waiting][owned])
        end[:-1] = np.minimum(end[:-1], trace.start[heads][1:])
    call, ran = find_call_launches(trace, heads, rows, over)
    if (last := trace.end[ran[call == len(rows) - 1]]).size:
        before = trace.end[ran[call == len(rows) - 2]]
        behind = max(int(before.max()) - int(end[-2]), 0) if before.size else 0  # time by which the host runs ahead, ps
        end[-1] = max(int(end[-1]), int(last.max()) - behind)
    return end


def find_call_launches(trace: Trace, heads: Indices, calls: Indices, over: int = _NEVER) -> tuple[Indices, Indices]:
    """Return (index of the call, row of its execution on a device) of the launches. A launch
    belongs to the latest call that began before it; launches from `over` on belong to none.

    heads: the first call of each step. A call that the end of the capture cut off left no event,
    but its first launches are in the profile. So a launch after the last call belongs to it only
    with a delay that launches of other calls have too, and before the next call is due.
    """
    host, device = find_launches(trace)
    at = np.searchsorted(trace.start[calls], trace.start[host], side="right") - 1
    mask = (at >= 0) & (trace.start[host] < over)
    at, host, device = at[mask], host[mask], device[mask]
    behind = trace.start[host] - trace.end[calls[at]]
    if len(calls) > 1:
        latest = np.full(len(calls) - 1, np.iinfo(np.int64).min)
        earlier = at < len(calls) - 1
        np.maximum.at(latest, at[earlier], behind[earlier])
        has_launch = latest > np.iinfo(np.int64).min
        due = median(trace.start[heads[1:]] - trace.end[calls[:-1]])
        limit = min(due, max(_LATER * median(latest[has_launch]), 0)) if has_launch.any() else due
    else:
        other_calls = find_function_calls(trace, calls)
        later = trace.start[other_calls[trace.start[other_calls] >= trace.end[calls[0]]]]
        limit = int(later.min()) - int(trace.end[calls[0]]) if len(later) else _NEVER
    mask = (at < len(calls) - 1) | (behind <= limit)
    return at[mask], device[mask]


def _final_logs_start(trace: Trace, calls: Indices, thread: Indices) -> int:
    """Return the start of the thread's first op after the last call, if logs are written there,
    else the maximum of int64. A callback that ends its capture is no part of a step, and nothing
    shows which of its work the program would do without it.
    """
    later = thread[trace.start[thread] >= trace.end[calls[-1]]]
    names = event_names(trace)
    if not names.mask(EventFlag.SUMMARY_WRITE)[trace.name[later]].any():
        return _NEVER
    ops = later[names.mask(EventFlag.PYTHON_DISPATCH | EventFlag.EAGER_EXECUTE | EventFlag.SUMMARY_WRITE)[trace.name[later]]]
    return int(trace.start[ops[0]])


def _begins_late(durations: Picoseconds) -> bool:
    """Whether the first step, which begins with the first event of its thread, is so short that the
    capture must have begun within it.
    """
    return len(durations) > TOO_FEW_EXECUTIONS and int(durations[0]) < _HALF * median(durations[1:])


def _is_cut_short(durations: Picoseconds) -> bool:
    """Whether the last of whole steps is so short, beside the shortest other one, that the capture
    must have ended within it: the wait for its result, which was not over then, left no event.
    """
    return len(durations) >= TOO_FEW_EXECUTIONS and int(durations[-1]) < _HALF * int(durations[:-1].min())


def is_stretched(durations: Picoseconds) -> bool:
    """Whether the last step, which no call ends, takes much longer than the others, so that it
    includes the end of the capture.
    """
    return len(durations) > TOO_FEW_EXECUTIONS and int(durations[-1]) > outlier_limit(durations[:-1].astype(np.float64))


def _check_first_step(trace: Trace, top: Indices, start: Picoseconds, end: Picoseconds) -> LimitCheck | None:
    """Return the check whether the first step has nearly as many kinds of events as the others;
    None with fewer than three steps.
    """
    if len(start) < 3:
        return None
    begun = trace.start[top]
    spans = zip(start[:_KINDS], end[:_KINDS], strict=True)
    kinds = [len(distinct(trace.name[top[(begun >= s) & (begun < e)]])) for s, e in spans]
    return check_whole("the first step, which lacks {} of the kinds of events of the others,", kinds[0], median(kinds[1:]))


def check_whole(quantity: str, size: int, usual: float) -> LimitCheck:
    """Return the check whether a step at the capture's edge has nearly as much content as the other
    steps.
    """
    return check_share(quantity, size, usual, _WHOLE, ("counted as whole", "counted as cut off"))
