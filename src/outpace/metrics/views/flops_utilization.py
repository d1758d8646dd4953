# SPDX-License-Identifier: Apache-2.0
"""How much of the devices' arithmetic a training uses: MFU and HFU; and their duty cycle.

MFU (model FLOPs utilization; Chowdhery et al., "PaLM", 2022) is the time that the matrix products
and convolutions of the model need at the devices' peak, as a share of the time that passed. HFU
(hardware) counts what the backward pass computes once more, too (`jax.checkpoint`). Each product is
counted at the peak of its precision.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.device_peaks import data_sheet_flops, peak_flops
from outpace.metrics.facts.device_work import device_work
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, InstructionStats, instruction_stats
from outpace.metrics.facts.roofs import device_roofs, product_seconds
from outpace.metrics.savings.budget import compute_gap_share
from outpace.metrics.spans import merge_spans
from outpace.timeline import Run, Timeline
from outpace.trace.algorithms import distinct

_UNKNOWN = 0.03  # share of the devices' time in calls of unknown arithmetic, from which the figures are lower limits
_PS = 1e12  # picoseconds in a second


@dataclass(frozen=True)
class FlopsUtilization:
    """Use of the arithmetic of the devices, the mean over hosts.

    mfu, hfu: shares of the data sheet's peak, where that is known, else of the peak at the highest
        clock.
    clock_mfu: the MFU as a share of the peak at the highest clock.
    flops_per_s: operations of matrix products per second and device, without those that are
        computed again.
    peak_flops: the peak in 16 bits that `mfu` is a share of, operations per second.
    is_data_sheet: whether that is the data sheet's.
    is_lower_limit: whether there are calls whose arithmetic is not known.
    """

    mfu: float
    hfu: float
    clock_mfu: float
    flops_per_s: float
    peak_flops: float
    is_data_sheet: bool
    is_lower_limit: bool


@memoize
def flops_utilization(run: Run) -> FlopsUtilization | None:
    """Return the use of the devices' arithmetic in the steady steps, time between steps included.

    The result is None without steps, without matrix products on a device, and for devices whose
    peak is not known.
    """
    hosts = [timeline for timeline in run.hosts if timeline.host in main_program_hosts(run)]
    found = [one for timeline in hosts if (one := _of_host(run, timeline)) is not None]
    if not found:
        return None
    mfu, hfu, clock_mfu, rate = (
        sum(values) / len(found)
        for values in zip(*((one.mfu, one.hfu, one.clock_mfu, one.flops_per_s) for one in found), strict=True)
    )
    is_lower_limit = any(one.is_lower_limit for one in found)
    return replace(found[0], mfu=mfu, hfu=hfu, clock_mfu=clock_mfu, flops_per_s=rate, is_lower_limit=is_lower_limit)


@memoize
def duty_cycle(run: Run) -> float | None:
    """Return the share of the steady steps in which a device is busy, the mean over devices; None
    without steps or devices.
    """
    shares = []
    for timeline in (timeline for timeline in run.hosts if timeline.host in main_program_hosts(run)):
        trace, steps, work = timeline.trace, timeline.steps, device_work(timeline)
        steady = np.zeros(len(steps) + 1, bool)
        steady[steps.steady_rows] = True
        length = float(steps.duration[steps.steady_rows].sum())
        chosen = np.flatnonzero(steady[work.step])
        plane = trace.lines.plane[trace.line[work.row[chosen]]]
        for device in distinct(plane.astype(np.int64)).tolist():
            start, end = merge_spans(work.start[chosen[plane == device]], work.end[chosen[plane == device]])
            shares.append(float((end - start).sum()) / length)
    return sum(shares) / len(shares) if shares else None


def _of_host(run: Run, timeline: Timeline) -> FlopsUtilization | None:
    """Return the use of the arithmetic of one host's devices; None where it is not known."""
    ran = [r for r in instruction_stats(run).get(timeline.host, ()) if r.side == DEVICE_SIDE]
    wall_ps = _wall_ps(timeline) * max((r.device_steps for r in ran), default=0)
    if not wall_ps or not timeline.device_planes:
        return None
    plane = timeline.device_planes[0]
    peak, sheet = peak_flops(plane), data_sheet_flops(plane)
    again = [r for r in ran if r.op.is_repeat]
    needed, repeated = (_needed_ps(run_ops, timeline) for run_ops in (ran, again))
    if not needed or not peak:
        return None
    scale = peak / sheet if sheet else 1.0
    unknown = sum(r.time_ps for r in ran if not r.op.cost.is_complete)
    flops = sum(r.op.cost.product_flops * r.count for r in ran) - sum(r.op.cost.product_flops * r.count for r in again)
    return FlopsUtilization(
        mfu=(needed - repeated) / wall_ps * scale,
        hfu=needed / wall_ps * scale,
        clock_mfu=(needed - repeated) / wall_ps,
        flops_per_s=flops / wall_ps * _PS,
        peak_flops=sheet or peak,
        is_data_sheet=bool(sheet),
        is_lower_limit=unknown >= _UNKNOWN * sum(r.time_ps for r in ran),
    )


def _wall_ps(timeline: Timeline) -> float:
    """Return the mean time from the start of a steady step to the start of the next one, ps."""
    steps = timeline.steps
    whole = steps.duration[steps.steady_rows]
    gap = compute_gap_share(timeline) if len(whole) else 0.0
    return float(whole.mean()) / (1 - gap) if len(whole) and gap < 1 else 0.0


def _needed_ps(ran: list[InstructionStats], timeline: Timeline) -> float:
    """Return the time that the products of some ops need at the devices' peak, ps."""
    roofs = device_roofs(timeline.device_planes[0])
    return sum(product_seconds(r.op, roofs) * r.count for r in ran if r.op.has_product) * _PS
