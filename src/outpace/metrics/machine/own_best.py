"""How far ops run from their own best on a CPU, and how much of that goes to work beside the model on the same cores.

The same op with the same shapes takes 1.5 to 5 times as long within one capture. Its best run is the machine's own yardstick: not the one lucky
run, but one that a tenth of all runs (`BEST`) reach, of five runs at least (`_RUNS`).

What a run takes beyond its best is charged to work outside of the model (threads of tf.data) only as far as such work ran meanwhile:
whatever takes a core away takes no more of it than it gets: where more threads work than there are cores, each has its fair part. Two ops
of the model that share the cores are longer than each alone, and lose nothing. Where the fastest runs had company themselves, nobody knows
how fast the op is alone: at most, all of their company held them up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived, once
from outpace.metrics.input.segments import pipelines
from outpace.metrics.machine.cpu_saturation import core_time, undisturbed, working
from outpace.metrics.model.model_ops import ModelOps, model_ops, waits_for_others
from outpace.metrics.model.op_metrics import HOST
from outpace.metrics.program.step_breakdown import step_breakdown
from outpace.model import Table, Unit, humanize, median, schema
from outpace.model.arrays import Codes, Indices, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.names import HANDS_OVER, INPUT_THREADS
from outpace.trace.trace import BLOCK

BEST = 0.1  # of the runs of an op are as fast as its best
HELD_UP = 0.05  # of the step: less could not be measured
_RUNS = 5  # of an op, for one of them to be its best

FIELDS = schema("""
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
class Runs:
    """Some runs of ops, one entry per run. name: index of its op; duration: its own, ps; best: of its op, ps; beside: time that threads of the
    input worked meanwhile, ps, all threads together; at_best: the same of its op's fastest runs, mean, ps; wall, alone: see `ModelOps`; fair:
    the part of that time in which such a thread had a core: for the rest it waited for one, and took nothing from anybody."""

    name: Codes
    duration: Picoseconds
    best: Values
    beside: Values
    at_best: Values
    wall: Values
    alone: Values
    fair: float = 1.0

    def lost(self) -> Values:
        """What each takes beyond its best, of the step's time, ps."""
        return self._of_step(np.maximum(self.duration - self.best, 0.0))

    def taken(self, gone: float = 1.0, *, least: bool = False) -> Values:
        """What a step would lose of each (ps) if a share `gone` of the input's work were not there: at most, or (`least`) against its own
        best."""
        excess = np.maximum(self.duration - self.best, 0.0)
        took = gone * self.fair
        return self._of_step(np.minimum(excess if least else excess + took * self.at_best, took * self.beside))

    def _of_step(self, lost: Values) -> Values:
        """Of `lost` (ps by run), what the step can lose of it: time alone is the step's, of a moment that ops share each has its part."""
        shared = np.maximum(self.duration - self.alone, 1.0)
        more = np.maximum(lost - self.alone, 0.0) * (self.wall - self.alone) / shared
        return np.minimum(lost, self.alone) + more


@dataclass(frozen=True, eq=False)
class OwnRuns:
    """The runs of one host's ops that are known well enough.

    at: of each run, its place in `ops`; beside: see `Runs`; best, at_best: the same of each op, NaN where it is not known.
    """

    ops: ModelOps
    at: Indices
    beside: Values
    best: Values
    at_best: Values
    fair: float = 1.0
    _shares: dict[tuple[float, bool], float] = field(default_factory=dict, repr=False)

    def parts(self) -> Iterator[Runs]:
        """All of them, some at a time."""
        ops = self.ops
        for begin in range(0, len(self.at), BLOCK):
            at = self.at[begin : begin + BLOCK]
            name, beside = ops.name[at], self.beside[begin : begin + BLOCK]
            yield Runs(
                name, ops.duration[at], self.best[name], beside, self.at_best[name], ops.wall[at], ops.alone[at], self.fair
            )

    @once
    def at_their_best(self) -> tuple[float, float]:
        """What all take (wall clock), and what they would take at their own best without the input's work, ps."""
        spent = taken = 0.0
        for part in self.parts():
            spent, taken = spent + float(part.wall.sum()), taken + float(part.taken(least=True).sum())
        return spent, spent - taken

    def share(self, gone: float = 1.0, *, least: bool = False) -> float:
        """What a step would lose of all: see `Runs.taken`; as a share of it."""
        if (gone, least) not in self._shares:  # several tools ask for the same
            taken = sum(float(part.taken(gone, least=least).sum()) for part in self.parts())
            self._shares[gone, least] = taken / self.ops.steps / self.ops.step_ps
        return self._shares[gone, least]


@derived
def own_runs(run: Run) -> dict[str, OwnRuns]:
    """By host, without those whose devices compute and those with too few runs of each op."""
    found = {}
    for ops in model_ops(run):
        timeline = run.by_host[ops.host]
        if ops.side == HOST and not timeline.device_planes and ops.step_ps:
            known = core_time(run).get(ops.host)
            found[ops.host] = _of_host(ops, timeline, known.fair if known else 1.0)
    return {host: mine for host, mine in found.items() if len(mine.at)}


def _of_host(ops: ModelOps, timeline: Timeline, fair: float) -> OwnRuns:
    waits = np.array([waits_for_others(kind) for _, kind, _ in ops.ops], bool)
    known = (np.bincount(ops.name, minlength=len(ops.ops)) >= _RUNS) & ~waits
    at = np.flatnonzero(known[ops.name]).astype(np.int32)
    start, duration = ops.start[at], ops.duration[at]
    end = start + duration
    beside = np.zeros(len(at))
    for thread, when in working(timeline):
        if thread.startswith(INPUT_THREADS) and not thread.startswith(HANDS_OVER):
            beside += when.until(end) - when.until(start)  # in order of time: neighbours are found near each other
    del start, end
    best, company = np.full(len(ops.ops), np.nan), np.full(len(ops.ops), np.nan)
    for op, runs in _each_op(ops.name[at]):
        fastest = runs[np.argsort(duration[runs], kind="stable")[: max(math.ceil(BEST * len(runs)), 2)]]
        best[op], company[op] = duration[fastest[-1]], beside[fastest].mean()
    return OwnRuns(ops, at, beside, best, company, fair)


def _each_op(name: Codes) -> Iterator[tuple[int, Indices]]:
    """(op, places of its runs) of each op, in order."""
    small = len(name) > 0 and int(name.max()) < 1 << 16  # 16 bits NumPy sorts in two passes
    order = np.argsort(name.astype(np.uint16) if small else name, kind="stable").astype(np.int32)
    count = np.bincount(name)
    end = np.cumsum(count)
    for op in np.flatnonzero(count).tolist():
        yield op, order[end[op] - count[op] : end[op]]


@derived
def own_best(run: Run) -> Table:
    """`FIELDS`: a row per host and op, what is lost most first."""
    rows = [row for mine in own_runs(run).values() for row in _rows(mine)]
    return Table.from_rows("own_best", "Ops against their own best", FIELDS, rows).sorted_by("lost_ps")


def _rows(mine: OwnRuns) -> list[tuple[object, ...]]:
    ops, count = mine.ops, len(mine.ops.ops)
    sums = np.zeros((5, count))
    for part in mine.parts():
        values = (part.wall, part.lost(), part.taken(least=True), part.beside, part.duration)
        sums += [np.bincount(part.name, each, count) for each in values]
    rows: list[tuple[object, ...]] = []
    for op, runs in _each_op(ops.name[mine.at]):
        (name, kind, _), best, flops = ops.ops[op], float(mine.best[op]), float(ops.flops[op])
        wall, lost, taken = (round(time / ops.steps) for time in sums[:3, op].tolist())
        middle = round(median(ops.duration[mine.at[runs]]))
        told = (len(runs), middle, round(best), flops if flops > 0 else float("nan"), wall, lost)
        beside = float(sums[3, op]) / max(float(sums[4, op]), 1.0)
        rows.append((ops.host, name, kind, *told, beside, float(mine.at_best[op]) / max(best, 1.0), taken))
    return rows


def held_up(run: Run, host: str) -> str:
    """In words: what the model's ops take per step, and at their best without the input pipeline; "" where nothing that matters is known to
    be lost to it."""
    mine = own_runs(run).get(host)
    if mine is None:
        return ""
    spent, best = mine.at_their_best
    if (spent - best) / mine.ops.steps / mine.ops.step_ps < HELD_UP:
        return ""
    steps = step_breakdown(run).per_row[host] / mine.ops.steps
    return f"the model's ops take {humanize(spent * steps, Unit.PS)} per step, {humanize(best * steps, Unit.PS)} at their best"


def competition(run: Run, timeline: Timeline, gone: float, waits: float) -> tuple[float, float]:
    """Share of its own time (waits for input left out) that a step saves if input threads work `gone` ps less per step: at least, at most.

    Derivation: at least, what ops took beyond their own best while input threads worked, where no other program took cores. At most, `b`
    threads of the input are busy on `n` cores, and each op ends with its slowest part: one that shares its core takes `1 + max(min(b, 1), b
    / n)` times as long; but no more than was measured, and no more than the cores have: what is left of their work takes its time on all of
    them, so that a step, waits included, loses at most the time in which cores are idle and what is freed of them. `waits`: ps per step
    that the model waits, in which its threads are idle. (0, 0) on hosts with an accelerator, where the number of cores is not known, and
    where no step takes time.
    """
    cores = run.core_count(timeline)
    whole = timeline.steps.duration[timeline.steps.whole]
    step = float(whole.mean()) if len(whole) else 0.0
    if run.has_device or not cores or not step:
        return 0.0, 0.0
    mine = [pipeline for pipeline in pipelines(run) if pipeline.host == timeline.host]
    busy = sum(stage.work / max(pipeline.steps_ps, 1) for pipeline in mine for stage in pipeline.stages)
    away = min(gone / step, busy)
    least, most = 0.0, 1 - _slowest(busy - away, cores) / _slowest(busy, cores)
    runs = own_runs(run).get(timeline.host)
    own = step / max(step - waits, 1.0)
    known = core_time(run).get(timeline.host)
    if known is not None and busy:
        most = max(0.0, min(most, (known.idle + known.on_input * away / busy - waits / step) * own))
    if runs is not None and busy:
        most = min(most, runs.share(away / busy) * own)
        least = min(most, runs.share(away / busy, least=True) * own) if undisturbed(run, timeline) else 0.0
    return least, most


def _slowest(busy: float, cores: int) -> float:
    """How many times as long an op takes whose slowest part shares its core with `busy` other threads on `cores`, on average."""
    return 1 + max(min(busy, 1.0), busy / cores)
