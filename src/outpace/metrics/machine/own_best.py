"""How far ops run from their own best on a CPU, and how much of that goes to work beside the model on the same cores.

The same op with the same shapes takes 1.5 to 5 times as long within one capture. Its best run is the machine's own yardstick: not the one lucky
run, but one that a tenth of all runs (`BEST`) reach, of five runs at least (`_RUNS`).

What a run takes beyond its best is charged to work outside of the model (threads of tf.data) only as far as such work ran meanwhile: whatever
takes a core away takes no more of it than its own time. Two ops of the model that share the cores are longer than each alone, and lose
nothing. Where the fastest runs had company themselves, nobody knows how fast the op is alone: at most, all of their company held them up.
"""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.input.segments import pipelines
from outpace.metrics.machine.cpu_saturation import undisturbed, working
from outpace.metrics.model.model_ops import ModelOps, model_ops, waits_for_others
from outpace.metrics.model.op_metrics import HOST
from outpace.metrics.program.step_breakdown import step_breakdown
from outpace.model import Table, Unit, humanize, schema
from outpace.model.arrays import Codes, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.names import HANDS_OVER, INPUT_THREADS

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
class OwnRuns:
    """The runs of one host's ops that are known well enough, one entry per run.

    name: index into the ops; best, duration: of its op and its own, ps; beside: time that threads of the input worked meanwhile, ps, all
    threads together; at_best: the same of the op's fastest runs, mean, ps; wall, alone: of its time, see `ModelOps`.
    """

    ops: ModelOps
    name: Codes
    duration: Picoseconds
    best: Values
    beside: Values
    at_best: Values
    wall: Values
    alone: Values

    def of_step(self, lost: Values) -> Values:
        """Of `lost` (ps by run), what the step can lose of it: time alone is the step's, of a moment that ops share each has its part."""
        shared = np.maximum(self.duration - self.alone, 1.0)
        return np.minimum(lost, self.alone) + np.maximum(lost - self.alone, 0.0) * (self.wall - self.alone) / shared

    def taken(self, gone: float = 1.0, *, least: bool = False) -> Values:
        """What each run would lose (ps) if a share `gone` of the input's work were not there: at most, or (`least`) against its own best."""
        excess = np.maximum(self.duration - self.best, 0.0)
        return np.minimum(excess + (0.0 if least else gone * self.at_best), gone * self.beside)

    def share(self, lost: Values) -> float:
        """A time by run as a share of the step."""
        return float(self.of_step(lost).sum()) / self.ops.steps / self.ops.step_ps


@derived
def own_runs(run: Run) -> dict[str, OwnRuns]:
    """By host, without those whose devices compute and those with too few runs of each op."""
    found = {}
    for ops in model_ops(run):
        timeline = run.by_host[ops.host]
        if ops.side == HOST and not timeline.device_planes and ops.step_ps:
            found[ops.host] = _of_host(ops, timeline)
    return {host: mine for host, mine in found.items() if len(mine.name)}


def _of_host(ops: ModelOps, timeline: Timeline) -> OwnRuns:
    waits = np.array([waits_for_others(kind) for _, kind, _ in ops.ops], bool)
    known = (np.bincount(ops.name, minlength=len(ops.ops)) >= _RUNS) & ~waits
    at = np.flatnonzero(known[ops.name])
    start, end = ops.start[at], ops.start[at] + ops.duration[at]
    work = np.zeros(len(at))
    for thread, when in working(timeline):
        if thread.startswith(INPUT_THREADS) and not thread.startswith(HANDS_OVER):
            work += when.until(end) - when.until(start)  # in order of time: neighbours are found near each other
    rank = np.lexsort((ops.duration[at], ops.name[at]))  # by op, fastest first
    order, beside = at[rank], work[rank]
    name, duration = ops.name[order], ops.duration[order]
    first = np.flatnonzero(np.diff(name, prepend=-1))
    count = np.diff(first, append=len(name))
    fast = np.maximum(np.ceil(BEST * count).astype(np.int64), 2)
    company = np.concatenate(([0.0], np.cumsum(beside)))
    at_best = (company[first + fast] - company[first]) / fast
    best = duration[first + fast - 1].astype(np.float64)
    each = np.repeat(np.arange(len(first)), count)
    return OwnRuns(ops, name, duration, best[each], beside, at_best[each], ops.wall[order], ops.alone[order])


@derived
def own_best(run: Run) -> Table:
    """`FIELDS`: a row per host and op, what is lost most first."""
    rows = [row for mine in own_runs(run).values() for row in _rows(mine)]
    return Table.from_rows("own_best", "Ops against their own best", FIELDS, rows).sorted_by("lost_ps")


def _rows(mine: OwnRuns) -> list[tuple[object, ...]]:
    ops, rows = mine.ops, []
    lost = mine.of_step(np.maximum(mine.duration - mine.best, 0.0))
    taken = mine.of_step(mine.taken(least=True))
    first = np.flatnonzero(np.diff(mine.name, prepend=-1))
    for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(mine.name)], strict=True):
        part = slice(begin, end)
        name, kind, _ = ops.ops[int(mine.name[begin])]
        median = float(np.median(mine.duration[part]))
        per_step = [round(float(v[part].sum()) / ops.steps) for v in (mine.wall, lost)]
        beside = float(mine.beside[part].sum()) / max(float(mine.duration[part].sum()), 1.0)
        flops = float(ops.flops[int(mine.name[begin])])
        counted = (end - begin, round(median), round(float(mine.best[begin])), flops if flops > 0 else float("nan"))
        at_best = float(mine.at_best[begin]) / max(float(mine.best[begin]), 1.0)
        rows.append((ops.host, name, kind, *counted, *per_step, beside, at_best, round(float(taken[part].sum()) / ops.steps)))
    return rows


def held_up(run: Run, host: str) -> str:
    """In words: what the model's ops take per step, and at their best without the input pipeline; "" where nothing that matters is known to
    be lost to it."""
    mine = own_runs(run).get(host)
    taken = mine.share(mine.taken(least=True)) if mine is not None else 0.0
    if mine is None or taken < HELD_UP:
        return ""
    steps = step_breakdown(run).per_row[host] / mine.ops.steps
    spent = float(mine.wall.sum())
    best = spent - float(mine.of_step(mine.taken(least=True)).sum())
    return f"the model's ops take {humanize(spent * steps, Unit.PS)} per step, {humanize(best * steps, Unit.PS)} at their best"


def competition(run: Run, timeline: Timeline, gone: float, waits: float) -> tuple[float, float]:
    """Share of its own time (waits for input left out) that a step saves if input threads work `gone` ps less per step: at least, at most.

    Derivation: at least, what ops took beyond their own best while input threads worked, where no other program took cores. At most, `b`
    threads of the input are busy on `n` cores, and each op ends with its slowest part: one that shares its core takes
    `1 + max(min(b, 1), b / n)` times as long; but no more than was measured. `waits`: ps per step that the model waits, in which its threads
    are idle. (0, 0) on hosts with an accelerator, where the number of cores is not known, and where no step takes time.
    """
    cores = run.core_count(timeline)
    step = float(np.mean(timeline.steps.duration)) if len(timeline.steps) else 0.0
    if run.has_device or not cores or not step:
        return 0.0, 0.0
    mine = [pipeline for pipeline in pipelines(run) if pipeline.host == timeline.host]
    busy = sum(stage.work for pipeline in mine for stage in pipeline.stages) / len(timeline.steps) / step
    away = min(gone / step, busy)
    least, most = 0.0, 1 - _slowest(busy - away, cores) / _slowest(busy, cores)
    runs = own_runs(run).get(timeline.host)
    if runs is not None and busy:
        own = step / max(step - waits, 1.0)
        most = min(most, runs.share(runs.taken(away / busy)) * own)
        least = min(most, runs.share(runs.taken(away / busy, least=True)) * own) if undisturbed(run, timeline) else 0.0
    return least, most


def _slowest(busy: float, cores: int) -> float:
    """How many times as long an op takes whose slowest part shares its core with `busy` other threads on `cores`, on average."""
    return 1 + max(min(busy, 1.0), busy / cores)
