"""What a host did in the time that counts as computation on it: ops that ran, the executor between
them, waiting, calls, Python.

"Host compute" of the step's categories is any event of a step that is nothing else. Here it is told
apart, by what each event's name says; where events overlap, what computes has the moment, then what
makes it compute. The parts sum to the category.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.model_ops import BLOCK_UNTIL_READY, OVERHEAD, WAIT, WORK, name_roles
from outpace.metrics.facts.step_breakdown import category_of, event_kinds, step_breakdown, time_matched_work
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.model import Category, Table, median, parse_schema
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace.algorithms import compute_time_by_priority, distinct, find_positions, find_slice, take_codes

OPS, EXECUTOR, WAITING, FIRST_RUN, DISPATCH, PYTHON = (
    *("ops that run", "the executor between ops", "waiting for results or other workers"),
    *("the first run of a new graph", "calls into the framework", "Python around calls"),
)
_RISING = (
    PYTHON,
    DISPATCH,
    WAITING,
    EXECUTOR,
    WAITING,
    OPS,
)  # the thread that waits for ops waits for nothing else; an op may wait, too
_PYTHON, _CALLS, _AWAITS, _EXECUTES, _STALLS, _RUNS, _OTHER = range(1, len(_RISING) + 2)  # _OTHER: what other categories count
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
_USUAL = 2  # times the median: what a step spends beyond is not what every step does
_COMPILES = 0.05  # of a step, from where what it calls runs for the first time

FIELDS = parse_schema("""
    * host    | text     | host of the steps
    * part    | text     | what the host did | What it did
    + time_ps | ps       | time per step of the steady state | Per step
    + share   | fraction | share of the steady step | Of step
    + usual   | fraction | the same, of each step no more than twice what the median step spends: what comes once in many steps is left out \
                           | Usual, of step
""")


@dataclass(frozen=True)
class HostTime:
    """Shares of the steady step, of one host or several; `compute_share`: their sum.
    `usual_shares`: the same without what few steps spend.
    """

    shares: dict[str, float]
    usual_shares: dict[str, float]

    @property
    def compute_share(self) -> float:
        """Share of the step that counts as computation on the host."""
        return sum(self.shares.values())

    @property
    def op_share(self) -> float:
        """Share of the step in which ops ran."""
        return self.shares.get(OPS, 0.0)

    @property
    def call_share(self) -> float:
        """Share of the step that is paid per call, whatever is in it: Python around calls, and the
        calls, as far as every step pays it. The executor is paid per op.
        """
        return sum(self.usual_shares.get(part, 0.0) for part in (PYTHON, DISPATCH))

    @property
    def largest_other_part(self) -> tuple[str, float]:
        """(what else takes most of it, its share of the step)."""
        left = {part: share for part, share in self.shares.items() if part != OPS}
        return max(left.items(), key=lambda item: item[1]) if left else ("", 0.0)


@memoize
def host_time(run: Run) -> Table:
    """`FIELDS`: a row per host and part, the largest first."""
    return Table.from_rows(
        "host_time", "Host compute, told apart", FIELDS, [r for t in run.hosts for r in _rows(run, t)]
    ).sort_by("share")


def mean_host_time(run: Run, *hosts: str) -> HostTime:
    """The parts of the mean step of these hosts, each weighed by its time."""
    breakdown = step_breakdown(run)
    length = {host: float(breakdown.select_hosts(host).steady_steps["duration_ps"].sum()) for host in hosts}
    found: dict[str, dict[str, float]] = {"share": {}, "usual": {}}
    for row in host_time(run).filter_by("host", *hosts).records():
        weight = length[row["host"]] / max(sum(length.values()), 1.0)
        for column, parts in found.items():
            parts[row["part"]] = parts.get(row["part"], 0.0) + weight * row[column]
    return HostTime(found["share"], found["usual"])


def time_without_ops(run: Run, host: str) -> dict[str, Values]:
    """Of each steady step of a host, float64 ps: its computation in which no op ran, nor the
    executor, by part.
    """
    times = _by_step(run, run.by_host[host])
    return {part: times[:, [part == each for each in _RISING]].sum(axis=1) for part in (PYTHON, DISPATCH, WAITING)}


def _by_step(run: Run, timeline: Timeline) -> Values:
    """Time of each part (see `_RISING`) in each steady step, float64 ps of shape (steps, parts)."""
    breakdown = step_breakdown(run).select_hosts(timeline.host)
    compute = breakdown.category_ps(Category.HOST_COMPUTE)
    if not compute.sum():
        return np.zeros((len(compute), len(_RISING)))
    times = _times(timeline, breakdown.steady_mask)[breakdown.steady_mask].astype(np.float64)
    return np.asarray(times * (compute / np.maximum(times.sum(axis=1), 1))[:, None])  # beside several devices, it is their mean


def _rows(run: Run, timeline: Timeline) -> Iterator[tuple[object, ...]]:
    breakdown = step_breakdown(run).select_hosts(timeline.host)
    whole, times = breakdown.steady_steps, _by_step(run, timeline)
    new = breakdown.category_ps(Category.COMPILATION, whole) > _COMPILES * whole["duration_ps"]
    spent = {part: times[:, [part == each for each in _RISING]].sum(axis=1) for part in dict.fromkeys(_RISING)}
    spent[FIRST_RUN], spent[DISPATCH] = spent[DISPATCH] * new, spent[DISPATCH] * ~new
    length = float(whole["duration_ps"].sum())
    for part, time in spent.items():
        if total := float(time.sum()):
            usual = float(np.minimum(time, _USUAL * median(time)).sum())
            yield timeline.host, part, round(total / len(whole)), total / length, usual / length


def _times(timeline: Timeline, counted: Mask) -> np.ndarray:
    """Time of each part in each step, ps, of shape (steps, parts); zero where a step does not
    count.
    """
    trace, steps = timeline.trace, timeline.steps
    kind, of_name = event_kinds(timeline), _of_names(timeline)
    ran = find_hlo_events(trace)
    op = distinct(ran[host_mask(trace, ran)])
    found = [_spans(timeline, block, kind[block], op, of_name, counted) for block in trace.lines.iter_blocks()]
    row, kinds, begin, stop = time_matched_work(timeline, kind)
    more = np.where(kinds <= _COMPUTE, np.where(find_positions(op, row) >= 0, _RUNS, of_name[trace.name[row]]), _OTHER)
    for code in np.flatnonzero(np.bincount(more, minlength=1)).tolist():
        window, low, high = intersect_spans(steps.start, steps.end, merge_spans(begin[more == code], stop[more == code]))
        found.append((window.astype(np.int32), np.full(len(window), code, np.uint8), low, high))
    of, code_of, began, ended = (np.concatenate(column) for column in zip(*found, strict=True))
    del found
    times = compute_time_by_priority(of, code_of, began, ended, steps.start, steps.end, _OTHER + 1)
    return np.asarray(times[:, 1:_OTHER])


def _spans(
    timeline: Timeline, block: slice, kind: Codes, op: Indices, of_name: Codes, counted: Mask
) -> tuple[Codes, Codes, Picoseconds, Picoseconds]:
    """(step, part, start, end) of what a block of lines did in steps that count. Events inside one
    of the same part and step add nothing.
    """
    trace, step = timeline.trace, timeline.step_index[block]
    part = take_codes(of_name, trace.name[block])
    # What stands around an op that runs by itself is of no category.
    wanted = ((kind > 0) | (part == _RUNS)) & np.append(counted, False)[step]
    part[op[find_slice(op, block)] - block.start] = _RUNS
    part[kind > _COMPUTE] = _OTHER
    part[~wanted] = 0
    at = np.flatnonzero(wanted)
    parent = trace.parent[at + block.start] - block.start  # of the same line, and so of this block
    inner = parent >= 0
    inner[inner] = (part[parent[inner]] == part[at[inner]]) & (step[parent[inner]] == step[at[inner]])
    at = at[~inner]
    rows = at + block.start
    return step[at], part[at], trace.start[rows], trace.end[rows]


def _of_names(timeline: Timeline) -> Codes:
    """What an event of computation on the host is, by its name."""
    names = timeline.event_names
    what = name_roles(timeline)
    program = np.fromiter((text == BLOCK_UNTIL_READY for text in timeline.trace.names), bool, len(timeline.trace.names))
    stalls = names.mask(EventFlag.WAITING_OP)
    found = (
        (stalls, _STALLS),
        ((what == WORK) | program, _RUNS),  # tasks of a compiled program leave no event while a thread awaits it
        ((what == OVERHEAD) | (what == WAIT) | names.mask(EventFlag.THUNK_EXECUTOR), _EXECUTES),
        (names.mask(EventFlag.DEVICE_WAIT | EventFlag.BLOCKING_WAIT), _AWAITS),
        (names.mask(_CALL), _CALLS),
    )
    return np.select([mask for mask, _ in found], [np.uint8(code) for _, code in found], np.uint8(_PYTHON))
