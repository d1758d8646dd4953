# SPDX-License-Identifier: Apache-2.0
"""Upper bounds on what a step saves if one thing changes: one function for each way to change a
program.

A step is a critical path: work that overlaps other work, or that only moves to busy cores, takes
its time all the same. Shares are of the steady step; each is the most that can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.facts.device_peaks import peak_flops
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, InstructionStats, instruction_stats
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.savings.budget import budgets
from outpace.model import Category
from outpace.model.arrays import Values
from outpace.timeline import Run, Timeline
from outpace.timeline.hlo.ops import HloOp
from outpace.timeline.hlo.precision import SINGLE

# Minimum share of a wait for which work is its cause: else most of the wait is not the pipeline's,
# but the cost of asking for a batch.
MIN_CAUSE_SHARE = 0.5
_KEEPS_UP = 0.1  # share of the rest of the step: with less work than this, elements are ready long before
_TINY = 10e6  # ps: a kernel shorter than this is tiny; two to three times the cost of a launch
_SINGLE_OPCODES = ("fft", "cholesky", "triangular-solve")  # opcodes that XLA has no 16-bit code for
_LEAST = 1e6  # ps: time of a GPU kernel that does nothing
_OF_DEVICES = (
    *(Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32, Category.DEVICE_COLLECTIVES, Category.DEVICE_TO_DEVICE),
    Category.OUTPUT,
)


def overlap_bound(wait_ps: Values, step_ps: Values) -> float:
    """Return the share of the steps that is saved if waits overlap the rest of the step
    (`.prefetch()`).

    wait_ps: waits, ps per step
    step_ps: length of each step, ps

    The shorter of wait and rest hides behind the longer one.
    """
    total = float(step_ps.sum())
    return float(np.minimum(wait_ps, step_ps - wait_ps).sum()) / total if total > 0 else 0.0


def input_wait_bound(wait_share: float, work_share: float) -> float:
    """Return the part of a wait for input that is the pipeline's own, as a share of the step.

    wait_share: the wait, as a share of the step
    work_share: work of the pipeline's slowest threads, which runs in parallel to the step, as a
        share of the step

    The result is 0 if that work is below a tenth of the rest of the step: the elements are ready
    long before. It is the work itself if the wait is more than twice as long.
    """
    if work_share < _KEEPS_UP * (1 - wait_share):
        return 0.0
    return wait_share if work_share >= MIN_CAUSE_SHARE * wait_share else work_share


def background_bound(run: Run, host: str, spent_share: float, work_share: float, other_share: float = 0.0) -> float:
    """Return the share saved if work ran on all cores in parallel to the rest of the step.

    work_share: the work on one thread, as a share of the step
    spent_share: part of the work that the step spends on it today, as a share of the step
    other_share: the slowest of what runs in parallel, as a share of the step

    The result is `spent_share`, but no more than the cores and `other_share` leave. Derivation: `n`
    cores, busy for a part `b` of the time, do `n * b` of work per step, wherever it runs: no step
    is shorter than `b` of today's step, nor than `work / n`. Work on the cores that a profile
    does not show makes the bound larger, never smaller. Work of other programs counts: a step that
    waits for a core is as long as it is because of them.
    """
    cores = run.core_count(run.by_host[host])
    row = next(cpu_saturation(run).filter_by("host", host).records(), None)
    busy = (row["saturation"] if row else None) or 0.0
    return max(0.0, min(spent_share, 1 - max(other_share, busy, work_share / cores if cores else 0.0)))


def rebuild_bound(calls_ps: float, usual_call_ps: float, count: int) -> float:
    """Return the time saved if calls that built a function took as long as calls that did not, ps.

    calls_ps: total length of the calls that built, ps
    usual_call_ps: length of a call that did not build, ps; 0 where it is unknown
    count: number of calls that built

    The saving contains the building and the first run of what was built.
    """
    return max(0.0, calls_ps - count * usual_call_ps)


def call_overhead_bound(run: Run, host: str, *, include_input: bool = False) -> float:
    """Return the share saved if calls, Python, dispatch and launches cost nothing.

    include_input: whether waits for input are saved as well (an adapter that works once per call)

    This is the step less the time in which the model's ops run, less compilation, and less waits
    for input unless `include_input`. On a host with devices, the ops are the devices', with their
    collectives and copies between devices and to the host.
    """
    shares = budgets(run)[host].category_shares
    if run.by_host[host].device_planes:
        runs = sum(shares[c.value] for c in _OF_DEVICES)
    else:
        runs = max((ops.busy_ps / ops.step_ps for ops in model_ops(run) if ops.host == host and ops.step_ps), default=0.0)
    return max(0.0, 1 - runs - shares[Category.COMPILATION.value] - (0.0 if include_input else shares[Category.INPUT.value]))


def half_precision_fraction(run: Run) -> float:
    """Return twice the part of the devices' 32-bit time that 16 bits can save
    (`half_precision_bound`).

    Return 1 where no op is known to compute in 32 bits.
    """
    total = sum(
        instruction.share
        for instructions in instruction_stats(run).values()
        for instruction in instructions
        if instruction.side == DEVICE_SIDE and instruction.op.precision_bits == SINGLE
    )
    saved = sum(half_precision_bound(instructions, run.by_host[host]) for host, instructions in instruction_stats(run).items())
    return 2 * saved / total if total else 1.0


def half_precision_bound(instructions: Iterable[InstructionStats], timeline: Timeline) -> float:
    """Return the share of the step that the devices' 32-bit ops would save in 16 bits.

    An op saves half of its time, because arrays take half the bytes. A product saves its time
    beyond the device's peak in 16 bits where that is known and more, and all of it where it
    computes at the highest precision. The minimum time of a kernel stays, and so do copies of
    parameters that are not donated, which keep their width.
    """
    peak = max(map(peak_flops, timeline.device_planes), default=0.0)
    least = 0.0 if any("TPU" in plane.name for plane in timeline.device_planes) else _LEAST
    able = (
        instruction
        for instruction in instructions
        if instruction.side == DEVICE_SIDE
        and instruction.op.precision_bits == SINGLE
        and not instruction.op.undonated_argument
        and instruction.op.opcode not in _SINGLE_OPCODES
    )
    return sum(instruction.share * _narrower(instruction, peak, least) for instruction in able)


def _narrower(ran: InstructionStats, peak: float, least: float) -> float:
    """Return the part of an op's time that it can save.

    least: minimum time of a kernel, ps
    """
    part = 1.0 if ran.op.is_highest_precision else max(0.5, 1 - ran.flops_per_s / peak) if ran.op.has_product and peak else 0.5
    kernel = ran.time_ps * ran.device_steps / max(ran.count, 1)
    return max(0.0, min(part, 1 - least / kernel)) if kernel else 0.0


def fusion_bound(run: Run, host: str) -> float:
    """Return the share saved if all compiled ops of the devices were in one program.

    Ops other than products and library calls, and kernels that take no longer than their launch,
    could become parts of other kernels.
    """
    ran = (instruction for instruction in instruction_stats(run).get(host, ()) if instruction.side == DEVICE_SIDE)
    gone = sum(
        instruction.share
        for instruction in ran
        if _fuses(instruction.op) or instruction.time_ps * instruction.device_steps < _TINY * instruction.count
    )
    shares = budgets(run)[host].category_shares
    return min(gone, shares[Category.DEVICE_COMPUTE_16.value] + shares[Category.DEVICE_COMPUTE_32.value])


def _fuses(op: HloOp) -> bool:
    return not op.has_product and op.opcode != "custom-call"


def tensor_core_bound(share_32: float, share_16: float, eligible_share: float) -> float:
    """Return the share saved if a device's 32-bit work ran in 16 bits.

    share_32: time in 32 bits, as a share of the step
    share_16: time in 16 bits, as a share of the step
    eligible_share: part of all computing that tensor cores can do

    Eligible work in 32 bits is saved entirely, as an upper bound; other work in 32 bits moves half
    as many bytes.
    """
    return (share_32 + min(share_32, eligible_share * (share_32 + share_16))) / 2
