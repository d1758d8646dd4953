"""What a step would lose if one thing were otherwise: the bounds of promises, one function for each way to change a program.

A step is a critical path: work that overlaps other work, or that only moves to cores which are busy, takes its time all the same. Shares are
of the steady step; each is what can be lost at most.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from outpace.metrics.machine.cpu_saturation import cpu_saturation
from outpace.metrics.machine.device import peak_flops
from outpace.metrics.model.hlo_lines import DEVICE, Ran, ran_ops
from outpace.metrics.model.model_ops import model_ops
from outpace.metrics.program.budget import budgets
from outpace.model import Category
from outpace.model.arrays import Values
from outpace.timeline import Run, Timeline
from outpace.timeline.hlo import HloOp
from outpace.timeline.hlo_meaning import SINGLE

EXPLAINS = 0.5  # of a wait, for work to be its cause: else most of it is not the pipeline's, but what asking for a batch costs
_KEEPS_UP = 0.1
_TINY = 10e6  # ps per kernel: two to three times what a launch costs
_LEAST = 1e6  # ps that a kernel of a GPU takes which does nothing
_OF_DEVICES = (
    *(Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32, Category.DEVICE_COLLECTIVES, Category.DEVICE_TO_DEVICE),
    Category.OUTPUT,
)


def overlapped(waits: Values, steps: Values) -> float:
    """If waits (ps, by step) ran beside the rest of the step (`.prefetch()`): the shorter of the two hides behind the longer one."""
    total = float(steps.sum())
    return float(np.minimum(waits, steps - waits).sum()) / total if total > 0 else 0.0


def awaited(share: float, works: float) -> float:
    """Of a wait for input (`share` of the step), what is the pipeline's, whose slowest threads work for `works` of the step beside it.

    Nothing, if they work for a tenth of the rest of the step: they are ready long before. No more than their work, if the wait is much longer.
    """
    if works < _KEEPS_UP * (1 - share):
        return 0.0
    return share if works >= EXPLAINS * share else works


def moved(run: Run, host: str, gone: float, work: float, others: float = 0.0) -> float:
    """If `work` (of the step, on one thread) ran on all cores beside the rest of the step: `gone`, the part of it that the step spends on it
    today, but no more than the cores, and the slowest of what runs beside it (`others`), leave.

    Derivation: `n` cores, busy for a part `b` of the time, do `n * b` of work per step, wherever it runs: no step is shorter than `b` of
    today's, nor than `work / n`. What a profile does not show of the cores' work makes the bound larger, never smaller. What other programs
    take counts: a step that waits for a core is as long as it is because of them.
    """
    cores = run.core_count(run.by_host[host])
    row = next(cpu_saturation(run).of("host", host).records(), None)
    busy = (row["saturation"] if row else None) or 0.0
    return max(0.0, min(gone, 1 - max(others, busy, work / cores if cores else 0.0)))


def called_once(calls: float, usual: float, count: int) -> float:
    """If `count` calls that built something, `calls` long in all, took as long as those that built nothing (`usual` each; 0: unknown): building
    goes, and with it the first run of what was built."""
    return max(0.0, calls - count * usual)


def uncomputed(run: Run, host: str, *, waits: bool = False) -> float:
    """If calls, Python, dispatch and launches cost nothing: the step less the time in which the model's ops run, on a device where there is
    one, and less compilation and waits, which are no matter of calls; `waits`: those for input are (an adapter that works once per call)."""
    shares = budgets(run)[host].shares
    if run.by_host[host].device_planes:
        runs = sum(shares[c.value] for c in _OF_DEVICES)
    else:
        runs = max((ops.busy_ps / ops.step_ps for ops in model_ops(run) if ops.host == host and ops.step_ps), default=0.0)
    return max(0.0, 1 - runs - shares[Category.COMPILATION.value] - (0.0 if waits else shares[Category.INPUT.value]))


def narrowed(run: Run) -> float:
    """Of what devices compute in 32 bits, twice the part that narrower numbers can save (`narrower`), as far as programs tell; else all."""
    total = sum(r.share for those in ran_ops(run).values() for r in those if r.side == DEVICE and r.op.bits == SINGLE)
    saved = sum(narrower(those, run.by_host[host]) for host, those in ran_ops(run).items())
    return 2 * saved / total if total else 1.0


def narrower(ran: Iterable[Ran], timeline: Timeline) -> float:
    """Share of the step that devices' ops in 32 bits would lose in 16: half of it, where arrays take half the bytes; of products what they take
    beyond the device's peak in 16 bits, where that is known, and all of those that keep all digits. Not what any kernel takes, nor copies of
    parameters that are not donated, which stay as wide as they are."""
    peak = max(map(peak_flops, timeline.device_planes), default=0.0)
    least = 0.0 if any("TPU" in plane.name for plane in timeline.device_planes) else _LEAST
    able = (r for r in ran if r.side == DEVICE and r.op.bits == SINGLE and not r.op.undonated)
    return sum(r.share * _narrower(r, peak, least) for r in able)


def _narrower(ran: Ran, peak: float, least: float) -> float:
    """Part of an op's time that it can lose."""
    part = 1.0 if ran.op.exact else max(0.5, 1 - ran.flops_per_s / peak) if ran.op.flops > 0 and peak else 0.5
    kernel = ran.time * ran.steps / max(ran.count, 1)
    return max(0.0, min(part, 1 - least / kernel)) if kernel else 0.0


def fused(run: Run, host: str) -> float:
    """If devices' compiled ops were all in one program: those that are no products nor calls of a library, and kernels that take no longer than
    starting them, could be parts of others."""
    ran = (r for r in ran_ops(run).get(host, ()) if r.side == DEVICE)
    gone = sum(r.share for r in ran if _fuses(r.op) or r.time * r.steps < _TINY * r.count)
    shares = budgets(run)[host].shares
    return min(gone, shares[Category.DEVICE_COMPUTE_16.value] + shares[Category.DEVICE_COMPUTE_32.value])


def _fuses(op: HloOp) -> bool:
    return op.flops <= 0 and op.opcode != "custom-call"


def in_16_bits(full: float, half: float, eligible: float) -> float:
    """If what a device computes in 32 bits, `full` of the step, ran in 16, as `half` of it does already: of all that it computes the part that
    is `eligible` for tensor cores takes any time less, what else is in 32 bits moves half as many bytes."""
    return (full + min(full, eligible * (full + half))) / 2
