"""What a host did in the time that counts as computation on it: ops that ran, the executor between them, waiting, calls, Python.

"Host compute" of the step's categories is any event of a step that is nothing else. Here it is told apart, by what each event's name says;
where events overlap, what computes has the moment, then what makes it compute. The parts sum to the category.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.model.model_ops import AWAITS, OVERHEAD, WAIT, WORK, by_name
from outpace.metrics.program.step_breakdown import category_of, event_kinds, step_breakdown, unseen
from outpace.metrics.spans import union, within
from outpace.model import Category, Table, median, schema
from outpace.model.arrays import Codes, Indices, Mask, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.names import Is
from outpace.timeline.workers import executed, on_host
from outpace.trace.algorithms import among, distinct, looked_up, placed, sweep

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
_CALL = Is.TENSORFLOW | Is.WRAPPER | Is.DISPATCHES | Is.EAGER | Is.SESSION | Is.JAX_CALL | Is.JAX | Is.RUNTIME | Is.INPUT_WORK
_COMPUTE = next(code for code in range(1, 255) if category_of(code) is Category.HOST_COMPUTE)
_USUAL = 2  # times the median: what a step spends beyond is not what every step does
_COMPILES = 0.05  # of a step, from where what it calls runs for the first time

FIELDS = schema("""
    * host    | text     | host of the steps
    * part    | text     | what the host did | What it did
    + time_ps | ps       | time per step of the steady state | Per step
    + share   | fraction | share of the steady step | Of step
    + usual   | fraction | the same, of each step no more than twice what the median step spends: what comes once in many steps is left out \
                           | Usual, of step
""")


@dataclass(frozen=True)
class HostTime:
    """Shares of the steady step, of one host or several; `computation`: their sum. `usual`: the same without what few steps spend."""

    shares: dict[str, float]
    usual: dict[str, float]

    @property
    def computation(self) -> float:
        """Share of the step that counts as computation on the host."""
        return sum(self.shares.values())

    @property
    def running(self) -> float:
        """Share of the step in which ops ran."""
        return self.shares.get(OPS, 0.0)

    @property
    def calls(self) -> float:
        """Share of the step that is paid per call, whatever is in it: Python around calls, and the calls, as far as every step pays it. The
        executor is paid per op."""
        return sum(self.usual.get(part, 0.0) for part in (PYTHON, DISPATCH))

    @property
    def rest(self) -> tuple[str, float]:
        """(what else takes most of it, its share of the step)."""
        left = {part: share for part, share in self.shares.items() if part != OPS}
        return max(left.items(), key=lambda item: item[1]) if left else ("", 0.0)


@derived
def host_time(run: Run) -> Table:
    """`FIELDS`: a row per host and part, the largest first."""
    return Table.from_rows(
        "host_time", "Host compute, told apart", FIELDS, [r for t in run.hosts for r in _rows(run, t)]
    ).sorted_by("share")


def of_hosts(run: Run, *hosts: str) -> HostTime:
    """The parts of the mean step of these hosts, each weighed by its time."""
    breakdown = step_breakdown(run)
    length = {host: float(breakdown.of(host).whole["duration_ps"].sum()) for host in hosts}
    found: dict[str, dict[str, float]] = {"share": {}, "usual": {}}
    for row in host_time(run).of("host", *hosts).records():
        weight = length[row["host"]] / max(sum(length.values()), 1.0)
        for column, parts in found.items():
            parts[row["part"]] = parts.get(row["part"], 0.0) + weight * row[column]
    return HostTime(found["share"], found["usual"])


def without_ops(run: Run, host: str) -> dict[str, Values]:
    """Of each steady step of a host, float64 ps: its computation in which no op ran, nor the executor, by part."""
    times = _by_step(run, run.by_host[host])
    return {part: times[:, [part == each for each in _RISING]].sum(axis=1) for part in (PYTHON, DISPATCH, WAITING)}


def _by_step(run: Run, timeline: Timeline) -> Values:
    """Time of each part (see `_RISING`) in each steady step, float64 ps of shape (steps, parts)."""
    breakdown = step_breakdown(run).of(timeline.host)
    compute = breakdown.category(Category.HOST_COMPUTE)
    if not compute.sum():
        return np.zeros((len(compute), len(_RISING)))
    times = _times(timeline, breakdown.counted)[breakdown.counted].astype(np.float64)
    return np.asarray(times * (compute / np.maximum(times.sum(axis=1), 1))[:, None])  # beside several devices, it is their mean


def _rows(run: Run, timeline: Timeline) -> Iterator[tuple[object, ...]]:
    breakdown = step_breakdown(run).of(timeline.host)
    whole, times = breakdown.whole, _by_step(run, timeline)
    new = breakdown.category(Category.COMPILATION, whole) > _COMPILES * whole["duration_ps"]
    spent = {part: times[:, [part == each for each in _RISING]].sum(axis=1) for part in dict.fromkeys(_RISING)}
    spent[FIRST_RUN], spent[DISPATCH] = spent[DISPATCH] * new, spent[DISPATCH] * ~new
    length = float(whole["duration_ps"].sum())
    for part, time in spent.items():
        if total := float(time.sum()):
            usual = float(np.minimum(time, _USUAL * median(time)).sum())
            yield timeline.host, part, round(total / len(whole)), total / length, usual / length


def _times(timeline: Timeline, counted: Mask) -> np.ndarray:
    """Time of each part in each step, ps, of shape (steps, parts); zero where a step does not count."""
    trace, steps = timeline.trace, timeline.steps
    kind, of_name = event_kinds(timeline), _of_names(timeline)
    ran = executed(trace)
    op = distinct(ran[on_host(trace, ran)])
    found = [_spans(timeline, block, kind[block], op, of_name, counted) for block in trace.lines.blocks()]
    row, kinds, begin, stop = unseen(timeline, kind)
    more = np.where(kinds <= _COMPUTE, np.where(placed(op, row) >= 0, _RUNS, of_name[trace.name[row]]), _OTHER)
    for code in np.flatnonzero(np.bincount(more, minlength=1)).tolist():
        window, low, high = within(steps.start, steps.end, union(begin[more == code], stop[more == code]))
        found.append((window.astype(np.int32), np.full(len(window), code, np.uint8), low, high))
    of, code_of, began, ended = (np.concatenate(column) for column in zip(*found, strict=True))
    del found
    times = sweep(of, code_of, began, ended, steps.start, steps.end, _OTHER + 1)
    return np.asarray(times[:, 1:_OTHER])


def _spans(
    timeline: Timeline, block: slice, kind: Codes, op: Indices, of_name: Codes, counted: Mask
) -> tuple[Codes, Codes, Picoseconds, Picoseconds]:
    """(step, part, start, end) of what a block of lines did in steps that count. Events inside one of the same part and step add nothing."""
    trace, step = timeline.trace, timeline.step_of[block]
    part = looked_up(of_name, trace.name[block])
    # What stands around an op that runs by itself is of no category.
    wanted = ((kind > 0) | (part == _RUNS)) & np.append(counted, False)[step]
    part[op[among(op, block)] - block.start] = _RUNS
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
    names = timeline.names
    what = by_name(timeline)
    program = np.fromiter((text == AWAITS for text in timeline.trace.names), bool, len(timeline.trace.names))
    stalls = names.are(Is.AWAITS_OTHERS)
    found = (
        (stalls, _STALLS),
        ((what == WORK) | program, _RUNS),  # tasks of a compiled program leave no event while a thread awaits it
        ((what == OVERHEAD) | (what == WAIT) | names.are(Is.THUNKS), _EXECUTES),
        (names.are(Is.AWAITS_DEVICE | Is.BLOCKS), _AWAITS),
        (names.are(_CALL), _CALLS),
    )
    return np.select([mask for mask, _ in found], [np.uint8(code) for _, code in found], np.uint8(_PYTHON))
