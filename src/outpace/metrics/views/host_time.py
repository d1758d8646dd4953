# SPDX-License-Identifier: Apache-2.0
"""Split "host compute", a category of the step, into what the host did: ops, the executor between
them, waiting, calls, Python.

"Host compute" is any event of a step that belongs to no other category. Each event's part follows
from its name; where events overlap, ops have the moment, then what leads to ops. The parts sum to
the category.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.model_ops import BLOCK_UNTIL_READY, OVERHEAD, WAIT, WORK, name_roles
from outpace.metrics.facts.step_breakdown import category_of, event_kinds, step_breakdown, time_matched_work
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.model import Category, Row, Table, TableType, median
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace.algorithms import compute_time_by_priority, distinct, find_positions, find_slice, take_codes

OPS, EXECUTOR, WAITING, FIRST_RUN, DISPATCH, PYTHON = (
    *("ops that run", "the executor between ops", "waiting for results or other workers"),
    *("the first run of a new graph", "calls into the framework", "Python around calls"),
)
# Parts in rising priority. Waiting occurs twice: a thread that waits for ops counts only where the
# executor does not run, while an op may itself wait.
_RISING = (
    PYTHON,
    DISPATCH,
    WAITING,
    EXECUTOR,
    WAITING,
    OPS,
)
_PYTHON, _CALLS, _AWAITS, _EXECUTES, _STALLS, _RUNS, _OTHER = range(1, len(_RISING) + 2)  # _OTHER: events of other categories
_CALL = (
    EventFlag.TENSORFLOW
    | EventFlag.WRAPPER
    | EventFlag.PYTHON_DISPATCH
    | EventFlag.EAGER_EXECUTE
    | EventFlag.SESSION_RUN
    | EventFlag.JAX_CALL
    | EventFlag.JAX
    | EventFlag.RUNTIME
    | EventFlag.INPUT_WORK
)
_COMPUTE = next(code for code in range(1, 255) if category_of(code) is Category.HOST_COMPUTE)
_USUAL = 2  # multiple of the median: what a step spends beyond it is not usual
_COMPILES = 0.05  # minimum share of a step in compilation from which its calls count as first runs

HOST_TIME = TableType("host_time", "Where the host's time goes").columns("""
    * host    | text     | host of the steps
    * part    | text     | what the host did | What it did
    + time_ps | ps       | time per step of the steady state | Per step
    + share   | fraction | share of the steady step | Of step
    + usual   | fraction | the same, of each step no more than twice what the median step spends: what comes once in many steps is left out \
                           | Usual, of step
""")


@dataclass(frozen=True)
class HostTime:
    """Parts of host compute as shares of the steady step, of one host or several.

    shares: share by part
    usual_shares: share by part without what only few steps spend
    """

    shares: dict[str, float]
    usual_shares: dict[str, float]

    @property
    def compute_share(self) -> float:
        """Share of the step that is host compute: the sum of all parts."""
        return sum(self.shares.values())

    @property
    def op_share(self) -> float:
        """Share of the step in which ops ran."""
        return self.shares.get(OPS, 0.0)

    @property
    def call_share(self) -> float:
        """Share of the step that is paid per call, whatever the call does: Python around calls, and
        the calls, as far as every step pays it.

        The executor is not included, since its time is paid per op.
        """
        return sum(self.usual_shares.get(part, 0.0) for part in (PYTHON, DISPATCH))

    @property
    def largest_other_part(self) -> tuple[str, float]:
        """(the largest part other than ops, its share of the step); ("", 0) without any."""
        left = {part: share for part, share in self.shares.items() if part != OPS}
        return max(left.items(), key=lambda item: item[1]) if left else ("", 0.0)


@memoize
def host_time(run: Run) -> Table:
    """Return a table with one row per host and part, the largest share first (columns:
    `HOST_TIME`).
    """
    return HOST_TIME.build([r for t in run.hosts for r in _rows(run, t)]).sort_by("share")


def mean_host_time(run: Run, *hosts: str) -> HostTime:
    """Return the parts of the mean step of these hosts, each weighted by its time in steps."""
    breakdown = step_breakdown(run)
    length = {host: float(breakdown.select_hosts(host).steady_steps["duration_ps"].sum()) for host in hosts}
    sums: dict[str, dict[str, float]] = {"share": {}, "usual": {}}
    for row in host_time(run).filter_by("host", *hosts).records():
        weight = length[row["host"]] / max(sum(length.values()), 1.0)
        for column, parts in sums.items():
            parts[row["part"]] = parts.get(row["part"], 0.0) + weight * row[column]
    return HostTime(sums["share"], sums["usual"])


def time_without_ops(run: Run, host: str) -> dict[str, Values]:
    """Return host compute in which neither an op nor the executor ran, by part, float64 ps per
    steady step.
    """
    times = _step_times(run, run.by_host[host])
    return {part: times[:, [part == name for name in _RISING]].sum(axis=1) for part in (PYTHON, DISPATCH, WAITING)}


def _step_times(run: Run, timeline: Timeline) -> Values:
    """Return the time of each part in each steady step, float64 ps, shape (steps, parts of
    `_RISING`).
    """
    breakdown = step_breakdown(run).select_hosts(timeline.host)
    compute = breakdown.category_ps(Category.HOST_COMPUTE)
    if not compute.sum():
        return np.zeros((len(compute), len(_RISING)))
    times = _times(timeline, breakdown.steady_mask)[breakdown.steady_mask].astype(np.float64)
    # Scaled to the category, which is a mean over devices where there are several.
    return np.asarray(times * (compute / np.maximum(times.sum(axis=1), 1))[:, None])


def _rows(run: Run, timeline: Timeline) -> Iterator[Row]:
    breakdown = step_breakdown(run).select_hosts(timeline.host)
    whole, times = breakdown.steady_steps, _step_times(run, timeline)
    new = breakdown.category_ps(Category.COMPILATION, whole) > _COMPILES * whole["duration_ps"]
    spent = {part: times[:, [part == name for name in _RISING]].sum(axis=1) for part in dict.fromkeys(_RISING)}
    spent[FIRST_RUN], spent[DISPATCH] = spent[DISPATCH] * new, spent[DISPATCH] * ~new
    length = float(whole["duration_ps"].sum())
    for part, time in spent.items():
        if total := float(time.sum()):
            usual = float(np.minimum(time, _USUAL * median(time)).sum())
            yield HOST_TIME.row(
                host=timeline.host, part=part, time_ps=round(total / len(whole)), share=total / length, usual=usual / length
            )


def _times(timeline: Timeline, counted: Mask) -> np.ndarray:
    """Return the time of each part in each step, ps, shape (steps, parts).

    counted: whether a step's times are wanted; the rows of other steps are incomplete
    """
    trace, steps = timeline.trace, timeline.steps
    kind, of_name = event_kinds(timeline), _name_parts(timeline)
    ran = find_hlo_events(trace)
    op = distinct(ran[host_mask(trace, ran)])
    spans = [_spans(timeline, block, kind[block], op, of_name, counted) for block in trace.lines.iter_blocks()]
    row, kinds, begin, stop = time_matched_work(timeline, kind)
    more = np.where(kinds <= _COMPUTE, np.where(find_positions(op, row) >= 0, _RUNS, of_name[trace.name[row]]), _OTHER)
    for code in np.flatnonzero(np.bincount(more, minlength=1)).tolist():
        window, low, high = intersect_spans(steps.start, steps.end, merge_spans(begin[more == code], stop[more == code]))
        spans.append((window.astype(np.int32), np.full(len(window), code, np.uint8), low, high))
    of, code_of, began, ended = (np.concatenate(column) for column in zip(*spans, strict=True))
    del spans
    times = compute_time_by_priority(of, code_of, began, ended, steps.start, steps.end, _OTHER + 1)
    return np.asarray(times[:, 1:_OTHER])


def _spans(
    timeline: Timeline, block: slice, kind: Codes, op: Indices, of_name: Codes, counted: Mask
) -> tuple[Codes, Codes, Picoseconds, Picoseconds]:
    """Return (step, part, start, end) of the events of a block of lines in steps that count.

    counted: whether each step is wanted

    An event inside another one of the same part and step is left out.
    """
    trace, step = timeline.trace, timeline.step_index[block]
    part = take_codes(of_name, trace.name[block])
    # The event around an op that runs by itself has no category, but counts as that op.
    mask = ((kind > 0) | (part == _RUNS)) & np.append(counted, False)[step]
    part[op[find_slice(op, block)] - block.start] = _RUNS
    part[kind > _COMPUTE] = _OTHER
    part[~mask] = 0
    at = np.flatnonzero(mask)
    parent = trace.parent[at + block.start] - block.start  # a parent is on the same line, and so in this block
    inner = parent >= 0
    inner[inner] = (part[parent[inner]] == part[at[inner]]) & (step[parent[inner]] == step[at[inner]])
    at = at[~inner]
    rows = at + block.start
    return step[at], part[at], trace.start[rows], trace.end[rows]


def _name_parts(timeline: Timeline) -> Codes:
    """Return the part of host compute of each event name, as a code (`_PYTHON` to `_RUNS`)."""
    names = timeline.event_names
    what = name_roles(timeline)
    program = np.fromiter((text == BLOCK_UNTIL_READY for text in timeline.trace.names), bool, len(timeline.trace.names))
    stalls = names.mask(EventFlag.WAITING_OP)
    rules = (
        (stalls, _STALLS),
        ((what == WORK) | program, _RUNS),  # the tasks of a compiled program record no event while a thread awaits it
        ((what == OVERHEAD) | (what == WAIT) | names.mask(EventFlag.THUNK_EXECUTOR), _EXECUTES),
        (names.mask(EventFlag.DEVICE_WAIT | EventFlag.BLOCKING_WAIT), _AWAITS),
        (names.mask(_CALL), _CALLS),
    )
    return np.select([mask for mask, _ in rules], [np.uint8(code) for _, code in rules], np.uint8(_PYTHON))
