# SPDX-License-Identifier: Apache-2.0
"""How much slower ops run on a CPU than in their own best runs, and how much of that is due to the
input pipeline's work on the same cores.

The same op with the same shapes takes 1.5 to 5 times as long within one capture. Its best time is
the machine's own yardstick: not the fastest run, which may be luck, but a time that a tenth of all
runs (`BEST_FRACTION`) reach, of at least five runs (`_RUNS`).

The excess of a run over the best time is attributed to work outside of the model (threads of
tf.data) only as far as such work ran at the same time: work takes no more from a core than the time
that it gets there, and where more threads work than there are cores, each has its fair share. Two
ops of the model that share the cores each take longer than alone, but the step loses nothing. Where
the fastest runs overlapped input work as well, nobody knows how fast the op is alone: the upper
bound assumes that all of this overlap slowed them down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.facts.cpu_saturation import core_shares, is_undisturbed, thread_busy_times
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.model_ops import ModelOps, is_waiting_op, model_ops
from outpace.metrics.facts.op_metrics import HOST
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Row, Table, TableType, Unit, humanize, median
from outpace.model.arrays import Codes, Indices, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import GET_NEXT_THREADS, INPUT_THREADS
from outpace.trace.trace import BLOCK_EVENTS

BEST_FRACTION = 0.1  # share of an op's runs that are at least as fast as its best time
MIN_CONTENTION = 0.05  # share of the step: a smaller loss could not be measured
_RUNS = 5  # minimum number of runs of an op from which its best time is determined

OWN_BEST = TableType("own_best", "Ops against their own best").columns("""
      host      | text     | host that ran the op
      name      | text     | name of the op
      type      | text     | type of the op
    + runs      | count    | runs of the op in the steady steps
      median_ps | ps       | median time of a run | Median
      best_ps   | ps       | time that the fastest tenth of the runs needs at most (the second fastest of fewer than twenty) | Best
      flops     | count    | floating-point operations of a run, as its program tells; empty where it does not | FLOPs
    + wall_ps   | ps       | time per step, wall clock: threads at work at once share a moment | Per step
    + lost_ps   | ps       | time per step that all runs together take beyond their best, wall clock | Beyond best
      beside    | cores    | threads of the input pipeline that worked meanwhile, on average
      at_best   | cores    | the same during its fastest runs: where it is not 0, alone the op may be faster still
    + taken_ps  | ps       | of what is lost, no more than these threads worked meanwhile | Taken by input
""")


@dataclass(frozen=True, eq=False)
class OpRuns:
    """Runs of ops, one array entry per run.

    op_index: index of the op
    duration_ps: length of the run, ps
    best_ps: best time of the op, ps
    input_work_ps: time that the input's threads worked during the run, ps, summed over threads
    best_input_work_ps: mean of `input_work_ps` over the fastest runs of the op, ps
    attributed_ps: see `ModelOps`
    exclusive_ps: see `ModelOps`
    thread_core_share: share of the input threads' work in which they had a core; for the rest they
        waited for one, and took nothing from other threads
    """

    op_index: Codes
    duration_ps: Picoseconds
    best_ps: Values
    input_work_ps: Values
    best_input_work_ps: Values
    attributed_ps: Values
    exclusive_ps: Values
    thread_core_share: float = 1.0

    def lost_ps(self) -> Values:
        """Return the step time that each run takes beyond its op's best time, float64 ps."""
        return self._step_part(np.maximum(self.duration_ps - self.best_ps, 0.0))

    def taken_ps(self, removed_share: float = 1.0, *, at_least: bool = False) -> Values:
        """Return the step time that each run would save without a share of the input's work,
        float64 ps.

        removed_share: share of the input's work that is removed
        at_least: return the lower bound, against the op's own best time, instead of the upper bound
        """
        excess = np.maximum(self.duration_ps - self.best_ps, 0.0)
        took = removed_share * self.thread_core_share
        return self._step_part(
            np.minimum(excess if at_least else excess + took * self.best_input_work_ps, took * self.input_work_ps)
        )

    def _step_part(self, lost: Values) -> Values:
        """Return the part of `lost` (ps per run) that shortens the step.

        Time in which the op ran alone counts in full; of a moment that ops share, each has its
        part.
        """
        shared = np.maximum(self.duration_ps - self.exclusive_ps, 1.0)
        more = np.maximum(lost - self.exclusive_ps, 0.0) * (self.attributed_ps - self.exclusive_ps) / shared
        return np.minimum(lost, self.exclusive_ps) + more


@dataclass(frozen=True, eq=False)
class BestCaseRuns:
    """The runs of one host's ops of which the best time is known.

    ops: the host's ops
    index: index into the executions of `ops`, per run
    input_work_ps: see `OpRuns`, per run
    best_ps: best time, ps per op; NaN where it is not known
    best_input_work_ps: see `OpRuns`, per op; NaN where it is not known
    thread_core_share: see `OpRuns`
    """

    ops: ModelOps
    index: Indices
    input_work_ps: Values
    best_ps: Values
    best_input_work_ps: Values
    thread_core_share: float = 1.0
    _shares: dict[tuple[float, bool], float] = field(default_factory=dict, repr=False)

    def iter_blocks(self) -> Iterator[OpRuns]:
        """Yield all runs in blocks of `BLOCK_EVENTS`."""
        ops = self.ops
        for begin in range(0, len(self.index), BLOCK_EVENTS):
            at = self.index[begin : begin + BLOCK_EVENTS]
            name, input_work_ps = ops.op_index[at], self.input_work_ps[begin : begin + BLOCK_EVENTS]
            yield OpRuns(
                name,
                ops.duration[at],
                self.best_ps[name],
                input_work_ps,
                self.best_input_work_ps[name],
                ops.attributed_ps[at],
                ops.exclusive_ps[at],
                self.thread_core_share,
            )

    @once
    def spent_and_best_ps(self) -> tuple[float, float]:
        """(time of all runs, their time at the ops' own best without the input's work), wall clock,
        ps.
        """
        spent = taken_ps = 0.0
        for part in self.iter_blocks():
            spent, taken_ps = spent + float(part.attributed_ps.sum()), taken_ps + float(part.taken_ps(at_least=True).sum())
        return spent, spent - taken_ps

    def lost_share(self, removed_share: float = 1.0, *, at_least: bool = False) -> float:
        """Return the share of a step that all runs together would save: the sum of
        `OpRuns.taken_ps`.
        """
        if (removed_share, at_least) not in self._shares:  # cached, since several tools ask for the same share
            taken_ps = sum(float(part.taken_ps(removed_share, at_least=at_least).sum()) for part in self.iter_blocks())
            self._shares[removed_share, at_least] = taken_ps / self.ops.step_count / self.ops.step_ps
        return self._shares[removed_share, at_least]


@memoize
def best_case_runs(run: Run) -> dict[str, BestCaseRuns]:
    """Return the runs of known best time by host.

    Hosts with devices, and hosts without an op of enough runs, are left out.
    """
    by_host = {}
    for ops in model_ops(run):
        timeline = run.by_host[ops.host]
        if ops.side == HOST and not timeline.device_planes and ops.step_ps:
            shares = core_shares(run).get(ops.host)
            by_host[ops.host] = _host_runs(ops, timeline, shares.thread_core_share if shares else 1.0)
    return {host: runs for host, runs in by_host.items() if len(runs.index)}


def _host_runs(ops: ModelOps, timeline: Timeline, fair: float) -> BestCaseRuns:
    waits = np.array([is_waiting_op(kind) for _, kind, _ in ops.ops], bool)
    has_best = (np.bincount(ops.op_index, minlength=len(ops.ops)) >= _RUNS) & ~waits
    at = np.flatnonzero(has_best[ops.op_index]).astype(np.int32)
    start, duration = ops.start[at], ops.duration[at]
    end = start + duration
    input_work_ps = np.zeros(len(at))
    for thread, when in thread_busy_times(timeline):
        if thread.startswith(INPUT_THREADS) and not thread.startswith(GET_NEXT_THREADS):
            # Sorted by time, so that successive look-ups read neighbouring memory.
            input_work_ps += when.busy_until(end) - when.busy_until(start)
    del start, end
    best, company = np.full(len(ops.ops), np.nan), np.full(len(ops.ops), np.nan)
    for op, runs in _each_op(ops.op_index[at]):
        fastest = runs[np.argsort(duration[runs], kind="stable")[: max(math.ceil(BEST_FRACTION * len(runs)), 2)]]
        best[op], company[op] = duration[fastest[-1]], input_work_ps[fastest].mean()
    return BestCaseRuns(ops, at, input_work_ps, best, company, fair)


def _each_op(name: Codes) -> Iterator[tuple[int, Indices]]:
    """Yield (op, positions of its runs) of each op, in order."""
    small = len(name) > 0 and int(name.max()) < 1 << 16  # NumPy sorts 16-bit integers in two passes
    order = np.argsort(name.astype(np.uint16) if small else name, kind="stable").astype(np.int32)
    count = np.bincount(name)
    end = np.cumsum(count)
    for op in np.flatnonzero(count).tolist():
        yield op, order[end[op] - count[op] : end[op]]


@memoize
def best_case_ops(run: Run) -> Table:
    """Return a table with one row per host and op, largest loss first (columns: `OWN_BEST`)."""
    return OWN_BEST.build(row for host_runs in best_case_runs(run).values() for row in _rows(host_runs)).sort_by("lost_ps")


def _rows(host_runs: BestCaseRuns) -> list[Row]:
    ops, count = host_runs.ops, len(host_runs.ops.ops)
    sums = np.zeros((5, count))
    for part in host_runs.iter_blocks():
        values = (part.attributed_ps, part.lost_ps(), part.taken_ps(at_least=True), part.input_work_ps, part.duration_ps)
        sums += [np.bincount(part.op_index, column, count) for column in values]
    rows: list[Row] = []
    for op, runs in _each_op(ops.op_index[host_runs.index]):
        (name, kind, _), best, flops = ops.ops[op], float(host_runs.best_ps[op]), float(ops.flops[op])
        wall, lost, taken_ps = (round(time / ops.step_count) for time in sums[:3, op].tolist())
        row = OWN_BEST.row(
            host=ops.host,
            name=name,
            type=kind,
            runs=len(runs),
            median_ps=round(median(ops.duration[host_runs.index[runs]])),
            best_ps=round(best),
            flops=flops if flops > 0 else float("nan"),
            wall_ps=wall,
            lost_ps=lost,
            beside=float(sums[3, op]) / max(float(sums[4, op]), 1.0),
            at_best=float(host_runs.best_input_work_ps[op]) / max(best, 1.0),
            taken_ps=taken_ps,
        )
        rows.append(row)
    return rows


def format_contention(run: Run, host: str) -> str:
    """Return a clause on what the model's ops take per step, and at their best without the input
    pipeline.

    Return "" where less than `MIN_CONTENTION` of the step is lost to the pipeline, or nothing is
    known.
    """
    host_runs = best_case_runs(run).get(host)
    if host_runs is None:
        return ""
    spent, best = host_runs.spent_and_best_ps
    if (spent - best) / host_runs.ops.step_count / host_runs.ops.step_ps < MIN_CONTENTION:
        return ""
    steps = step_breakdown(run).steps_per_execution[host] / host_runs.ops.step_count
    return f"the model's ops take {humanize(spent * steps, Unit.PS)} per step, {humanize(best * steps, Unit.PS)} at their best"


def contention_saving(run: Run, timeline: Timeline, removed_ps: float, wait_ps: float) -> tuple[float, float]:
    """Return the share of its own time that a step saves if input threads work less: (lower, upper)
    bound.

    removed_ps: work of input threads that is removed, ps per step
    wait_ps: time that the model waits for input with idle threads, ps per step; left out of the
        step's own time

    Derivation of the lower bound: the time that ops took beyond their own best while input threads
    worked, where no other program took cores. Of the upper bound: `b` threads of the input are busy
    on `n` cores, and each op ends with its slowest part, which takes `1 + max(min(b, 1), b / n)`
    times as long if it shares its core. The saving is no more than was measured, and no more than
    the cores allow: the rest of their work takes its time on all of them, so that a step, waits
    included, loses at most the time in which cores are idle and the time that is freed.

    Return (0, 0) on hosts with an accelerator, where the number of cores is unknown, and where no
    step takes time.
    """
    cores = run.core_count(timeline)
    whole = timeline.steps.duration[timeline.steps.steady_rows]
    step = float(whole.mean()) if len(whole) else 0.0
    if run.has_device or not cores or not step:
        return 0.0, 0.0
    host_pipelines = [pipeline for pipeline in pipelines(run) if pipeline.host == timeline.host]
    busy = sum(stage.work_ps / max(pipeline.steps_ps, 1) for pipeline in host_pipelines for stage in pipeline.stages)
    away = min(removed_ps / step, busy)
    least, most = 0.0, 1 - _slowest(busy - away, cores) / _slowest(busy, cores)
    runs = best_case_runs(run).get(timeline.host)
    factor = step / max(step - wait_ps, 1.0)
    shares = core_shares(run).get(timeline.host)
    if shares is not None and busy:
        most = max(0.0, min(most, (shares.idle_share + shares.input_share * away / busy - wait_ps / step) * factor))
    if runs is not None and busy:
        most = min(most, runs.lost_share(away / busy) * factor)
        least = min(most, runs.lost_share(away / busy, at_least=True) * factor) if is_undisturbed(run, timeline) else 0.0
    return least, most


def _slowest(busy: float, cores: int) -> float:
    """Return the average slowdown of an op whose slowest part shares its core with other threads.

    busy: mean number of other threads that work
    cores: number of cores
    """
    return 1 + max(min(busy, 1.0), busy / cores)
