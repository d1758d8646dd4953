"""What a step would lose if one thing were otherwise: the bounds of promises, one function for each
way to change a program.

A step is a critical path: work that overlaps other work, or that only moves to cores which are
busy, takes its time all the same. Shares are of the steady step; each is what can be lost at most.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.facts.device_specs import peak_flops
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, InstructionStats, instruction_stats
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.savings.budget import budgets
from outpace.model import Category
from outpace.model.arrays import Values
from outpace.timeline import Run, Timeline
from outpace.timeline.hlo_analysis import SINGLE
from outpace.timeline.hlo_modules import HloOp

MIN_CAUSE_SHARE = (
    0.5  # of a wait, for work to be its cause: else most of it is not the pipeline's, but what asking for a batch costs
)
_KEEPS_UP = 0.1
_TINY = 10e6  # ps per kernel: two to three times what a launch costs
_LEAST = 1e6  # ps that a kernel of a GPU takes which does nothing
_OF_DEVICES = (
    *(Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32, Category.DEVICE_COLLECTIVES, Category.DEVICE_TO_DEVICE),
    Category.OUTPUT,
)


def overlap_bound(wait_ps: Values, step_ps: Values) -> float:
    """If waits (ps, by step) ran beside the rest of the step (`.prefetch()`): the shorter of the
    two hides behind the longer one.
    """
    total = float(step_ps.sum())
    return float(np.minimum(wait_ps, step_ps - wait_ps).sum()) / total if total > 0 else 0.0


def input_wait_bound(wait_share: float, work_share: float) -> float:
    """Of a wait for input (`wait_share` of the step), what is the pipeline's, whose slowest threads
    work for `work_share` of the step beside it.

    Nothing, if they work for a tenth of the rest of the step: they are ready long before. No more
    than their work, if the wait is much longer.
    """
    if work_share < _KEEPS_UP * (1 - wait_share):
        return 0.0
    return wait_share if work_share >= MIN_CAUSE_SHARE * wait_share else work_share


def background_bound(run: Run, host: str, spent_share: float, work_share: float, other_share: float = 0.0) -> float:
    """If `work_share` (of the step, on one thread) ran on all cores beside the rest of the step:
    `spent_share`, the part of it that the step spends on it today, but no more than the cores, and
    the slowest of what runs beside it (`other_share`), leave.

    Derivation: `n` cores, busy for a part `b` of the time, do `n * b` of work per step, wherever it
    runs: no step is shorter than `b` of today's, nor than `work_share / n`. What a profile does not
    show of the cores' work makes the bound larger, never smaller. What other programs take counts:
    a step that waits for a core is as long as it is because of them.
    """
    cores = run.core_count(run.by_host[host])
    row = next(cpu_saturation(run).filter_by("host", host).records(), None)
    busy = (row["saturation"] if row else None) or 0.0
    return max(0.0, min(spent_share, 1 - max(other_share, busy, work_share / cores if cores else 0.0)))


def rebuild_bound(calls_ps: float, usual_call_ps: float, count: int) -> float:
    """If `count` calls that built something, `calls_ps` long in all, took as long as those that
    built nothing (`usual_call_ps` each; 0: unknown): building goes, and with it the first run of
    what was built.
    """
    return max(0.0, calls_ps - count * usual_call_ps)


def call_overhead_bound(run: Run, host: str, *, include_input: bool = False) -> float:
    """If calls, Python, dispatch and launches cost nothing: the step less the time in which the
    model's ops run, on a device where there is one, and less compilation and waits, which are no
    matter of calls; `waits`: those for input are (an adapter that works once per call).
    """
    shares = budgets(run)[host].category_shares
    if run.by_host[host].device_planes:
        runs = sum(shares[c.value] for c in _OF_DEVICES)
    else:
        runs = max((ops.busy_ps / ops.step_ps for ops in model_ops(run) if ops.host == host and ops.step_ps), default=0.0)
    return max(0.0, 1 - runs - shares[Category.COMPILATION.value] - (0.0 if include_input else shares[Category.INPUT.value]))


def half_precision_fraction(run: Run) -> float:
    """Of what devices compute in 32 bits, twice the part that narrower numbers can save
    (`half_precision_bound`), as far as programs tell; else all.
    """
    total = sum(
        r.share
        for those in instruction_stats(run).values()
        for r in those
        if r.side == DEVICE_SIDE and r.op.precision_bits == SINGLE
    )
    saved = sum(half_precision_bound(those, run.by_host[host]) for host, those in instruction_stats(run).items())
    return 2 * saved / total if total else 1.0


def half_precision_bound(instructions: Iterable[InstructionStats], timeline: Timeline) -> float:
    """Share of the step that devices' ops in 32 bits would lose in 16: half of it, where arrays
    take half the bytes; of products what they take beyond the device's peak in 16 bits, where that
    is known, and all of those that keep all digits. Not what any kernel takes, nor copies of
    parameters that are not donated, which stay as wide as they are.
    """
    peak = max(map(peak_flops, timeline.device_planes), default=0.0)
    least = 0.0 if any("TPU" in plane.name for plane in timeline.device_planes) else _LEAST
    able = (r for r in instructions if r.side == DEVICE_SIDE and r.op.precision_bits == SINGLE and not r.op.undonated_argument)
    return sum(r.share * _narrower(r, peak, least) for r in able)


def _narrower(ran: InstructionStats, peak: float, least: float) -> float:
    """Part of an op's time that it can lose."""
    part = 1.0 if ran.op.is_highest_precision else max(0.5, 1 - ran.flops_per_s / peak) if ran.op.flops > 0 and peak else 0.5
    kernel = ran.time_ps * ran.device_steps / max(ran.count, 1)
    return max(0.0, min(part, 1 - least / kernel)) if kernel else 0.0


def fusion_bound(run: Run, host: str) -> float:
    """If devices' compiled ops were all in one program: those that are no products nor calls of a
    library, and kernels that take no longer than starting them, could be parts of others.
    """
    ran = (r for r in instruction_stats(run).get(host, ()) if r.side == DEVICE_SIDE)
    gone = sum(r.share for r in ran if _fuses(r.op) or r.time_ps * r.device_steps < _TINY * r.count)
    shares = budgets(run)[host].category_shares
    return min(gone, shares[Category.DEVICE_COMPUTE_16.value] + shares[Category.DEVICE_COMPUTE_32.value])


def _fuses(op: HloOp) -> bool:
    return op.flops <= 0 and op.opcode != "custom-call"


def tensor_core_bound(share_32: float, share_16: float, eligible_share: float) -> float:
    """If what a device computes in 32 bits, `share_32` of the step, ran in 16, as `share_16` of it
    does already: of all that it computes the part that is `eligible_share` for tensor cores takes
    any time less, what else is in 32 bits moves half as many bytes.
    """
    return (share_32 + min(share_32, eligible_share * (share_32 + share_16))) / 2
