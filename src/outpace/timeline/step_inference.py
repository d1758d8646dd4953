"""Inference of steps in profiles without marks: the call that the training thread repeats.

A step lasts from the end of the previous call to the end of its own call, so that it includes the
wait for its input. Where dispatch is asynchronous it ends when the result is complete. The
following are tried in this order: runs of a program on a device that lists its programs; calls of
a `tf.function` or jitted function; the input call of an eager loop; the repeated sequence of eager
ops; ops that a GPU repeats; executor runs of old profiles.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np

from outpace.model import median
from outpace.model.arrays import Indices, Picoseconds
from outpace.model.units import format_count
from outpace.timeline.causality import find_launches
from outpace.timeline.cycles import find_outermost_repetition, find_recurrence_lag
from outpace.timeline.device_op_steps import infer_device_op_steps
from outpace.timeline.event_names import INPUT_THREADS, JITTED_CALL_PREFIX, EventFlag, event_names, parse_jitted_function
from outpace.timeline.executions import (
    TOO_FEW_EXECUTIONS,
    ModuleExecutions,
    find_device_executions,
    find_executions,
    find_uncalled_executions,
)
from outpace.timeline.gradients import training_mask
from outpace.timeline.limit_checks import LimitCheck, check_share
from outpace.timeline.steady_state import outlier_limit
from outpace.timeline.steps import Confidence, Steps, StepSource, empty_steps
from outpace.timeline.training_check import verify_training
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import distinct, find_positions, union_rows

_SMALL_SHARE = 0.05  # minimum share of the thread's op time from which a function can be what an eager loop repeats
_PERIODIC = 0.9  # minimum share of ops that recur one period later
_LONGEST_PERIOD = 20_000  # maximum number of eager ops per step
_AGREE = 0.8  # minimum ratio of the step times of calls and of runs (shorter to longer) from which they agree
_MOSTLY = 0.5  # share of steps above which steps are taken from the devices' work
_HALF = 0.5  # share of the usual duration below which the first step is cut off by the capture's begin
_NEVER = int(np.iinfo(np.int64).max)
_LATER = 2  # factor: a launch belongs to the last call up to this many times the usual delay of a call's last launch
_WHOLE = 0.9  # minimum share of the other steps' content from which a step counts as whole, not cut off by the capture
_INFERENCE = frozenset(("predict", "prediction", "predictions", "serving", "serve", "infer", "inference"))
_TRAINING = frozenset(("train", "training", "fit", "grad", "grads", "gradient", "update"))
_EXPORTED = "__inference_"  # prefix that TensorFlow adds to the name of every traced function
_KERAS_INFERENCE = "one_step_on_data"  # part of the name of the function in Keras' predict


def is_prediction(function: str) -> bool:
    """Whether a function's name says that it predicts or serves. Whole words are compared, so that
    the name `observe_batch` does not match `serve`.
    """
    words = set(re.split(r"[^a-z]+", function.removeprefix(_EXPORTED).lower()))
    return bool(words & _INFERENCE and not words & _TRAINING) or _KERAS_INFERENCE in function


def infer_steps(trace: Trace, ignored_rows: Indices) -> Steps:
    """Return the steps of the repeated call; `ignored_rows` are rows of marks, which are hidden
    from the search.
    """
    decisions: list[LimitCheck] = []
    steps = _inferred(trace, ignored_rows, decisions)
    return replace(steps, limit_checks=(*decisions, *steps.limit_checks))


def _inferred(trace: Trace, hidden: Indices, decisions: list[LimitCheck]) -> Steps:
    if (steps := _device_programs(trace)) is not None:
        return steps
    calls, rows = _step_calls(trace, hidden)
    if (ran := find_uncalled_executions(trace, calls)) is not None:
        steps = _between_runs(trace, rows, *ran, hidden, "the profile lacks most of its calls")
        return verify_training(trace, rows[:0], steps, f"{JITTED_CALL_PREFIX}{ran[0]})")
    ops = _outermost(trace, _visible(hidden, event_names(trace).rows(EventFlag.EAGER_EXECUTE)))
    if len(rows):
        line = int(trace.line[rows[0]])
        eager = ops[trace.line[ops] == line]
        took, all_ops = int(trace.duration[rows].sum()), int(trace.duration[eager].sum())
        much = took >= _SMALL_SHARE * all_ops
        what, means = "the call that repeats, {} of the time of its thread's ops,", ("passed over", "taken for the step")
        decisions.append(LimitCheck(what, took, _SMALL_SHARE * all_ops, much, means, reference=all_ops))
        if much:
            heads, rows = find_outermost_repetition(trace, calls, rows, decisions)
            steps = _between_ends(trace, rows, hidden, heads)
            steps = _work_of(trace, rows, steps, hidden, decisions) if heads is rows else steps
            return verify_training(trace, rows, steps, trace.names[trace.name[rows[0]]])
    steps = _eager_loop(trace, ops, hidden, decisions)
    if steps is not None:
        return steps
    if (steps := infer_device_op_steps(trace)) is not None:
        return steps
    for kind in (EventFlag.SESSION_RUN, EventFlag.FUNCTION_RUN):
        rows = _most_repeated(
            trace, _off_input_threads(trace, _outermost(trace, _visible(hidden, event_names(trace).rows(kind))))
        )
        if len(rows) > 1:
            return verify_training(trace, rows, _between_ends(trace, rows, hidden), trace.names[trace.name[rows[0]]])
    return empty_steps("nothing in the profile repeats like a training step")


def infer_launch_steps(trace: Trace, ignored_rows: Indices) -> Steps | None:
    """Return steps of the calls that launch the devices' work; None where these calls are unknown.

    They are more exact than a device's step line, whose first step begins with a kernel and whose
    last step ends with the last event of the capture.
    """
    calls, rows = _step_calls(trace, ignored_rows)
    if not len(rows) or not len(_launched(trace, rows, rows, _NEVER)[0]):
        return None
    decisions: list[LimitCheck] = []
    heads, rows = find_outermost_repetition(trace, calls, rows, decisions)
    steps = _between_ends(trace, rows, ignored_rows, heads)
    return replace(steps, limit_checks=(*decisions, *steps.limit_checks))


def _visible(hidden: Indices, rows: Indices) -> Indices:
    """Return the rows that are not hidden."""
    return rows[find_positions(distinct(hidden), rows) < 0]


def _step_calls(trace: Trace, hidden: Indices) -> tuple[Indices, Indices]:
    """Return (all calls of functions, those of the step's function). A function that computes
    gradients is preferred where its calls repeat.
    """
    calls = _function_calls(trace, hidden)
    rows = _most_repeated(trace, calls[training_mask(trace, calls)])
    return calls, rows if len(rows) > 1 else _most_repeated(trace, calls)


def _outermost(trace: Trace, rows: Indices) -> Indices:
    """Return the events (sorted rows) that are nested in no other of them on their line."""
    parent, _ = trace.compute_nesting(rows)
    outer: Indices = rows[parent < 0]
    return outer


def _function_calls(trace: Trace, hidden: Indices, *, jitted: bool = False) -> Indices:
    """Return the rows of the outermost calls of functions; `jitted`: only functions that JAX
    jitted. Calls of primitives count only where there are no other calls.
    """
    rows = event_names(trace).rows(EventFlag.JIT_CALL)
    if not jitted:
        rows = union_rows(rows, trace.stat(dialect.TF_FUNCTION_CALL).rows)
    calls = _outermost(trace, _visible(hidden, rows))
    steps: Indices = calls[~event_names(trace).mask(EventFlag.JAX_PRIMITIVE)[trace.name[calls]]]
    return steps if len(steps) else calls


def _off_input_threads(trace: Trace, rows: Indices) -> Indices:
    is_input = np.fromiter((n.startswith(INPUT_THREADS) for n in trace.lines.names), bool, len(trace.lines))
    kept: Indices = rows[~is_input[trace.line[rows]]]
    return kept


def _most_repeated(trace: Trace, rows: Indices) -> Indices:
    """Return the calls of the function and thread with the most total time; a function with several
    calls is preferred to one with a single call.

    JAX compiles a function once per shape, under one name: a loop over shapes has one function.
    """
    if len(rows) == 0:
        return rows
    key = trace.line[rows].astype(np.int64) * (len(trace.names) + 1) + trace.name[rows]
    groups, inverse, count = np.unique(key, return_inverse=True, return_counts=True)
    total = np.bincount(inverse, weights=trace.duration[rows].astype(np.float64), minlength=len(groups))
    best = int(np.lexsort((total, count > 1))[-1])
    chosen: Indices = rows[inverse == best]
    return chosen


def _between_ends(trace: Trace, rows: Indices, hidden: Indices, heads: Indices | None = None) -> Steps:
    """Return steps that end where the work of a call is complete, and start where the previous step
    ends.

    rows: the last call of every step.
    heads: the first call of every step, where a step has several.
    """
    heads = rows if heads is None else heads
    line = int(trace.line[rows[0]])
    thread = trace.lines.row_numbers(line)
    end = _awaited(trace, heads, rows, thread)
    top = _program_events(trace, _visible(hidden, thread))
    first = _first_start(trace, top, heads, end)
    name = trace.names[trace.name[rows[0]]]
    decisions: list[LimitCheck] = []
    whole = _looks_whole(trace, top, np.concatenate(([first], end[:-1])), end, decisions)
    how = (
        f"{_what(len(rows), name, heads is not rows)} on thread {trace.lines.names[line]}, each from the end of the one before"
    )
    cut = first <= int(trace.start[top].min(initial=first)) and _begins_late(np.diff(end, prepend=first))
    steps = _up_to(trace, end, first, whole and not cut, top, line, name, how)
    if end[-1] > trace.end[rows[-1]] and _is_stretched(steps.duration):
        steps.complete[-1] = False
    return replace(steps, limit_checks=tuple(decisions))


def refine_marked_steps(trace: Trace, marks: Steps, ignored_rows: Indices) -> Steps:
    """Return the marked steps, or, where a mark lasts no longer than the dispatch of a program, the
    steps of the program's runs, with the marks' numbers. `ignored_rows`: rows of the marks.

    The last mark is assigned to the last run, unless there are more marks than runs: a program that
    runs at the begin of the capture was dispatched before it.
    """
    calls = _function_calls(trace, ignored_rows, jitted=True)
    step = np.searchsorted(marks.start, trace.start[calls], side="right") - 1
    calls = calls[(step >= 0) & (trace.start[calls] < marks.end[step])]
    rows = _most_repeated(trace, calls[training_mask(trace, calls)])
    rows = rows if len(rows) else _most_repeated(trace, calls)
    if len(rows) != len(marks):
        return marks
    ran = find_executions(trace, trace.names[trace.name[rows[0]]])
    if len(ran) <= TOO_FEW_EXECUTIONS or not ran.is_sequential:
        return marks
    what, means = "the usual mark, {} shorter than a run of its program,", ("kept", "replaced by the run")
    decision = check_share(what, median(marks.duration), median(ran.duration), _AGREE, means)
    if not decision.is_over:
        return replace(marks, limit_checks=(decision,))
    name = parse_jitted_function(trace.names[trace.name[rows[0]]])
    steps = _between_runs(
        trace, rows, name, ran, ignored_rows, f"the {format_count(len(marks), 'step marker')} are over before"
    )
    at = np.arange(len(ran)) - max(len(ran) - len(marks), 0)
    number = np.where(at < 0, marks.number[0] + at, marks.number[np.maximum(at, 0)])
    return replace(steps, source=marks.source, number=number, limit_checks=(decision,))


def refine_async_steps(trace: Trace, steps: Steps, ignored_rows: Indices) -> Steps:
    """Return the steps, or, where the program goes on to later steps before a device has completed
    the work of a step, the steps of that work, with the same numbers.

    A host that launches faster than devices compute is one step ahead, then two, then dozens: its
    own steps last as long as launching, and steps whose work begins after the capture are left out.
    `ignored_rows`: rows of the marks.
    """
    if steps.async_dispatch or steps.groups or steps.source is StepSource.DEVICE_LINE or len(steps) <= TOO_FEW_EXECUTIONS:
        return steps
    ran = find_device_executions(trace, steps.start, int(steps.end[-1]))
    if ran is None or len(ran) <= TOO_FEW_EXECUTIONS:
        return steps
    held = slice(len(ran))
    over = float(np.mean(ran.end[:-1] > steps.end[held][1:]))
    what, means = (
        "work of devices that is done after the next step is over, {} of the steps,",
        ("left to its steps", "taken for the steps"),
    )
    decision = LimitCheck(what, over, _MOSTLY, over > _MOSTLY, means)
    if not decision.is_over:
        return replace(steps, limit_checks=(*steps.limit_checks, decision))
    line = int(steps.line[0])
    thread = trace.lines.row_numbers(line) if line >= 0 else np.zeros(0, np.int64)
    top = _program_events(trace, _visible(ignored_rows, thread))
    how = f"{steps.explanation}; the program runs ahead, so each is taken from end to end of what devices did for it"
    found = _up_to(trace, ran.end, int(ran.start[0]), True, top, line, "", how)
    whole = steps.complete[held].copy()
    whole[-1] &= ran.is_last_complete
    return replace(
        found,
        source=steps.source,
        confidence=steps.confidence,
        number=steps.number[held],
        kind=steps.kind,
        complete=whole,
        async_dispatch=True,
        limit_checks=(*steps.limit_checks, decision),
    )


def _work_of(trace: Trace, calls: Indices, steps: Steps, hidden: Indices, decisions: list[LimitCheck]) -> Steps:
    """Return the steps of the calls, or, where the calls only dispatch work and have another step
    time than the program's runs, the steps of the runs.
    """
    name = trace.names[trace.name[calls[0]]]
    ran = find_executions(trace, name)
    if len(ran) <= TOO_FEW_EXECUTIONS:
        return steps
    line = trace.lines.names[int(trace.line[calls[0]])]
    runs = _between_runs(trace, calls, parse_jitted_function(name), ran, hidden, f"its calls on thread {line} do not wait")
    shorter, longer = sorted(float(s.duration[s.steady_rows].mean()) for s in (steps, runs))
    what, means = "the step time of the calls, {} off that of the program's runs,", ("kept", "replaced by that of the runs")
    decisions.append(check_share(what, shorter, longer, _AGREE, means))
    return runs if decisions[-1].is_over else steps


def _between_runs(trace: Trace, calls: Indices, function: str, ran: ModuleExecutions, hidden: Indices, why: str) -> Steps:
    """Return steps that end where the runs of a program end.

    calls: rows of calls on the training thread, if any.
    why: reason for not using the calls, for the explanation.
    """
    line = int(trace.line[calls[0]]) if len(calls) else -1
    thread = trace.lines.row_numbers(line) if len(calls) else np.zeros(0, np.int64)
    top = _program_events(trace, _visible(hidden, thread))
    how = f"{format_count(len(ran), 'run')} of {function}, each from the end of the one before: {why}"
    steps = _up_to(trace, ran.end, int(ran.start[0]), False, top, line, function, how)
    if not ran.is_last_complete:
        steps.complete[-1] = False
    return replace(steps, async_dispatch=True)


def _up_to(trace: Trace, end: Picoseconds, first: int, whole: bool, top: Indices, line: int, name: str, how: str) -> Steps:
    """Return steps that end at `end`, each from the end of the one before.

    first: start of the first step, ps.
    whole: whether the capture has all of the first step.
    top: rows of the program's events on the thread `line`.
    name: name of the repeated call.
    how: the explanation.
    """
    complete = np.ones(len(end), bool)
    complete[0] = whole
    step = np.searchsorted(end, trace.start[top], side="right")
    inside = (step < len(end)) & (trace.start[top] >= first)
    return Steps(
        source=StepSource.INFERRED,
        confidence=Confidence.HIGH if len(end) > 2 else Confidence.LOW,
        explanation=how,
        number=np.arange(len(end), dtype=np.int64),
        start=np.concatenate(([first], end[:-1])),
        end=end,
        line=np.full(len(end), line, np.int32),
        complete=complete,
        root_row=top[inside].astype(np.int32),
        root_step=step[inside].astype(np.int32),
        kind="prediction" if is_prediction(name) else "training",
    )


def _what(number: int, name: str, several: bool) -> str:
    what = f"of a sequence of calls with several of {name}" if several else f"of {name}"
    return f"{format_count(number, 'repetition' if several else 'call')} {what}"


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
    outer = _outermost_of(trace, top)
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


def _outermost_of(trace: Trace, rows: Indices) -> Indices:
    """Return those of one thread's sorted rows that are nested in no other of them."""
    if len(rows) == 0:
        return rows
    reach = np.maximum.accumulate(trace.end[rows])
    kept = np.concatenate(([True], trace.end[rows[1:]] > reach[:-1]))
    return np.asarray(rows[kept])


def _program_events(trace: Trace, rows: Indices) -> Indices:
    """Return the rows without Python frames, which enclose the whole program and belong to no
    step.
    """
    return rows[~event_names(trace).mask(EventFlag.PYTHON_FRAME)[trace.name[rows]]]


def _awaited(trace: Trace, heads: Indices, rows: Indices, thread: Indices) -> Picoseconds:
    """Return the end of each step, ps: the end of its last call, or of the last wait for its result
    before the next step's first call. The last step ends with the devices' work for its last call,
    less the time by which the host runs ahead.
    """
    end = trace.end[rows].copy()
    over = _goodbye(trace, rows, thread)
    waiting = thread[event_names(trace).mask(EventFlag.RESULT_WAIT)[trace.name[thread]] & (trace.start[thread] < over)]
    if len(waiting):
        call = np.searchsorted(trace.start[rows], trace.start[waiting], side="right") - 1
        owned = (call >= 0) & (np.searchsorted(trace.start[heads], trace.start[waiting], side="right") - 1 == call)
        np.maximum.at(end, call[owned], trace.end[waiting][owned])
        end[:-1] = np.minimum(end[:-1], trace.start[heads][1:])
    call, ran = _launched(trace, heads, rows, over)
    if (last := trace.end[ran[call == len(rows) - 1]]).size:
        before = trace.end[ran[call == len(rows) - 2]]
        behind = max(int(before.max()) - int(end[-2]), 0) if before.size else 0  # time by which the host runs ahead, ps
        end[-1] = max(int(end[-1]), int(last.max()) - behind)
    return end


def _launched(trace: Trace, heads: Indices, calls: Indices, over: int) -> tuple[Indices, Indices]:
    """Return (index of the call, row of its execution on a device) of the launches. A launch
    belongs to the latest call that began before it; launches from `over` on belong to none.

    heads: the first call of each step. A call that the end of the capture cut off left no event,
    but its first launches are in the profile. So a launch after the last call belongs to it only
    with a delay that launches of other calls have too, and before the next call is due.
    """
    host, device = find_launches(trace)
    at = np.searchsorted(trace.start[calls], trace.start[host], side="right") - 1
    own = (at >= 0) & (trace.start[host] < over)
    at, host, device = at[own], host[own], device[own]
    behind = trace.start[host] - trace.end[calls[at]]
    if len(calls) > 1:
        latest = np.full(len(calls) - 1, np.iinfo(np.int64).min)
        earlier = at < len(calls) - 1
        np.maximum.at(latest, at[earlier], behind[earlier])
        seen = latest > np.iinfo(np.int64).min
        due = median(trace.start[heads[1:]] - trace.end[calls[:-1]])
        limit = min(due, max(_LATER * median(latest[seen]), 0)) if seen.any() else due
    else:
        others = _function_calls(trace, calls)
        later = trace.start[others[trace.start[others] >= trace.end[calls[0]]]]
        limit = int(later.min()) - int(trace.end[calls[0]]) if len(later) else _NEVER
    own = (at < len(calls) - 1) | (behind <= limit)
    return at[own], device[own]


def _goodbye(trace: Trace, calls: Indices, thread: Indices) -> int:
    """Return the start of the thread's first op after the last call, if logs are written there,
    else the maximum of int64. A callback that ends its capture is no part of a step, and nothing
    shows which of its work the program would do without it.
    """
    later = thread[trace.start[thread] >= trace.end[calls[-1]]]
    known = event_names(trace)
    if not known.mask(EventFlag.SUMMARY_WRITE)[trace.name[later]].any():
        return _NEVER
    ops = later[known.mask(EventFlag.PYTHON_DISPATCH | EventFlag.EAGER_EXECUTE | EventFlag.SUMMARY_WRITE)[trace.name[later]]]
    return int(trace.start[ops[0]])


def _begins_late(durations: Picoseconds) -> bool:
    """Whether the first step, which begins with the first event of its thread, is so short that the
    capture must have begun within it.
    """
    return len(durations) > TOO_FEW_EXECUTIONS and int(durations[0]) < _HALF * median(durations[1:])


def _is_stretched(durations: Picoseconds) -> bool:
    """Whether the last step, which no call ends, takes much longer than the others, so that it
    includes the end of the capture.
    """
    return len(durations) > TOO_FEW_EXECUTIONS and int(durations[-1]) > outlier_limit(durations[:-1].astype(np.float64))


def _looks_whole(trace: Trace, top: Indices, start: Picoseconds, end: Picoseconds, decisions: list[LimitCheck]) -> bool:
    """Whether the first step is complete: it has nearly as many kinds of events as the others."""
    if len(start) < 3:
        return len(start) == 1
    begun = trace.start[top]
    kinds = [len(set(trace.name[top[(begun >= s) & (begun < e)]].tolist())) for s, e in zip(start[:6], end[:6], strict=True)]
    what = "the first step, which lacks {} of the kinds of events of the others,"
    return _holds(kinds[0], median(kinds[1:]), what, decisions)


def _holds(size: int, usual: float, what: str, decisions: list[LimitCheck]) -> bool:
    """Whether a step at the capture's edge has nearly as much content as the other steps."""
    decisions.append(check_share(what, size, usual, _WHOLE, ("counted as whole", "counted as cut off")))
    return not decisions[-1].is_over


def _eager_loop(trace: Trace, ops: Indices, hidden: Indices, decisions: list[LimitCheck]) -> Steps | None:
    """Return steps that start at the input call, or at each repetition of the op sequence; None
    where neither repeats.
    """
    if len(ops) == 0:
        return None
    line = Counter(trace.line[ops].tolist()).most_common(1)[0][0]
    ops = ops[trace.line[ops] == line]
    thread = trace.lines.row_numbers(line)
    ops_by_name = _eager_names(trace, ops)
    inputs = ops[[name.startswith("IteratorGetNext") for name in ops_by_name]]
    if len(inputs) > 1:
        return _from_starts(trace, inputs, thread, hidden, f"{format_count(len(inputs), 'input call')} of an eager loop")
    period = _period(ops_by_name, decisions)
    if period is None:
        return None
    heads = ops[::period]
    return _from_starts(
        trace, heads, thread, hidden, f"a sequence of {period} eager ops that repeats {format_count(len(heads), 'time')}"
    )


def _eager_names(trace: Trace, ops: Indices) -> list[str]:
    """Return the op of each EagerExecute event: its `eager_op` stat, or its name in old
    profiles.
    """
    stat = trace.stat(dialect.EAGER_OP)
    known = dict(zip(stat.rows.tolist(), stat.texts(), strict=True))
    return [known.get(row, trace.names[trace.name[row]]) for row in ops.tolist()]


def _period(names: list[str], decisions: list[LimitCheck]) -> int | None:
    """Return the smallest p with names[i] == names[i + p] nearly everywhere, for at least three
    repetitions; None where there is none.
    """
    codes = np.unique(names, return_inverse=True)[1]
    return find_recurrence_lag(codes, range(1, min(len(codes) // 3, _LONGEST_PERIOD) + 1), _PERIODIC, decisions)


def _from_starts(trace: Trace, heads: Indices, thread: Indices, hidden: Indices, how: str) -> Steps:
    thread = _program_events(trace, _visible(hidden, thread))
    start = _enclosing_starts(trace, thread, heads)
    last = int(trace.end[thread].max())
    end = np.concatenate((start[1:], [last]))
    step = np.searchsorted(start, trace.start[thread], side="right") - 1
    inside = step >= 0
    complete = np.ones(len(heads), bool)
    sizes = np.bincount(step[inside], minlength=len(heads))
    decisions: list[LimitCheck] = []
    what = "the last step, which lacks {} of the events of the others,"
    complete[-1] = len(heads) < 3 or _holds(int(sizes[-1]), median(sizes[:-1]), what, decisions)
    complete[-1] &= not _is_stretched(end - start)
    return Steps(
        source=StepSource.INFERRED,
        confidence=Confidence.HIGH if len(heads) > 2 else Confidence.LOW,
        explanation=how,
        number=np.arange(len(heads), dtype=np.int64),
        start=start,
        end=end,
        line=np.full(len(heads), int(trace.line[heads[0]]), np.int32),
        complete=complete,
        root_row=thread[inside].astype(np.int32),
        root_step=step[inside].astype(np.int32),
        limit_checks=tuple(decisions),
    )


def _enclosing_starts(trace: Trace, thread: Indices, heads: Indices) -> Picoseconds:
    """Return the start of the outermost of the eight events of `thread` before each head that
    contain it (the Python call that dispatched the op).
    """
    at = np.searchsorted(thread, heads)
    start, end = trace.start[heads], trace.end[heads]
    for before in range(1, 9):
        candidate = thread[np.maximum(at - before, 0)]
        begun = trace.start[candidate]
        start = np.where((at >= before) & (begun <= start) & (trace.end[candidate] >= end), begun, start)
    return start


def _device_programs(trace: Trace) -> Steps | None:
    """Return steps of the program that took most time on the first device that lists its programs
    (on a line XLA Modules); None where no device does.
    """
    for plane in trace.find_planes(dialect.DEVICE_PREFIX):
        for line in plane.lines:
            if trace.lines.names[line] != "XLA Modules":
                continue
            rows = _most_repeated(trace, trace.lines.row_numbers(line))
            if len(rows) < 2:
                continue
            return verify_training(
                trace, rows, _between_ends(trace, rows, np.zeros(0, np.int64)), trace.names[trace.name[rows[0]]]
            )
    return None
