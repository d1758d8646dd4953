# SPDX-License-Identifier: Apache-2.0
"""Findings on profiles that support no conclusion: the first thing to change is the capture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, instruction_stats
from outpace.metrics.facts.missing_steps import (
    CAPTURE_ADVICE,
    REPAIR_ADVICE,
    explain_missing_steps,
    format_missing_bytes,
    marking_advice,
    recapture_advice,
)
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.python_samples import lines_in_windows
from outpace.metrics.facts.workload import Workload
from outpace.metrics.source_line import format_source_line
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Unit, humanize
from outpace.timeline import Run
from outpace.timeline.builds import find_unfinished_build

_SIZES = 3  # minimum number of different matrix products for their rates to be compared
_MOST = 6  # maximum number of rates in a sentence


def iter_findings(run: Run, program: Workload) -> Iterator[Finding]:
    """Yield at most one finding: no events, lost bytes, no step, or no whole step."""
    lost, why = format_missing_bytes(run), explain_missing_steps(run)
    if run.events == 0:
        yield _recapture_finding("empty", why.reason, CAPTURE_ADVICE, run)
    elif lost:
        yield _recapture_finding(
            "damaged", f"the profile is damaged: {lost}; what it still shows may be incomplete", REPAIR_ADVICE, run
        )
    elif not any(len(timeline.steps) for timeline in run.hosts):
        yield replace(
            _recapture_finding("no_steps", why.reason, recapture_advice(run, program), run), location=_build_line(run)
        )
    elif why_not := partial_step_reason(run):
        rates = _rates(run)
        whole = marking_advice(program)
        action = (
            f"Judge a benchmark product by product: {rates}. For a training, {whole[:1].lower()}{whole[1:]}" if rates else whole
        )
        yield _recapture_finding("no_whole_step", f"no whole training step was captured: {why_not}", action, run)


def _build_line(run: Run) -> str:
    """Return the line that started the build which the end of the capture cut off, where Python
    samples show it; else "".
    """
    for timeline in run.hosts:
        if (cut := find_unfinished_build(timeline.trace)) is not None:
            window = np.array([cut.start]), np.array([timeline.span_ps[1]])
            return next((format_source_line(file, line) for file, line, *_ in lines_in_windows(run, timeline, *window)), "")
    return ""


def _rates(run: Run) -> str:
    """Return the rates at which a device computed matrix products of several sizes, smallest first;
    "" where fewer than `_SIZES` different products have a known rate.
    """
    ran = [
        r for ops in instruction_stats(run).values() for r in ops if r.op.has_product and r.side == DEVICE_SIDE and r.time_ps
    ]
    rates = {(r.op.cost.flops, r.op.cost.bytes): r.flops_per_s / 1e12 for r in ran}
    if len(rates) < _SIZES:
        return ""
    texts = (f"{humanize(size, Unit.RATIO)}FLOP at {rates[size, moved]:.3g}" for size, moved in sorted(rates)[-_MOST:])
    return f"{', '.join(texts)} TFLOP/s"


def _recapture_finding(kind: str, reason: str, action: str, run: Run) -> Finding:
    return Finding(
        id=f"capture.{kind}",
        severity=Severity.HIGH,
        sentence=f"{reason[:1].upper()}{reason[1:]}.",
        action=action,
        evidence=(Evidence("events in the profile", float(run.events), Unit.COUNT, "hosts"),),
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
    )
