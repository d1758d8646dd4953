"""Is the program input-bound, and do input and model fight over the cores?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.step_breakdown import StepBreakdown
from outpace.model import Category, Evidence, Finding, Severity, Table, Threshold, Unit, bootstrap_saving

_XPROF = "XProf's input pipeline page"
HIGH = Threshold("highly input-bound", 0.20, Unit.FRACTION, _XPROF)
MODERATE = Threshold("moderately input-bound", 0.05, Unit.FRACTION, _XPROF)
POTENTIAL = Threshold("potentially input-bound", 0.03, Unit.FRACTION, f"{_XPROF}: share of 'All others'")
_SATURATED = Threshold("cores saturated", 0.90, Unit.FRACTION, "above this a thread that becomes ready has to wait for a core")
_COMPETES = Threshold("input's share of busy time", 0.20, Unit.FRACTION, "less cannot slow the model noticeably")


def verdict(breakdown: StepBreakdown) -> tuple[Severity, str, float]:
    """(severity, sentence, share of the step time that waits for input)."""
    whole = breakdown.whole
    total = float(whole["duration_ps"].sum())
    share = float(breakdown.category(Category.INPUT, whole).sum()) / total
    others = float(breakdown.category(Category.ALL_OTHERS, whole).sum()) / total
    if share >= HIGH.value:
        return Severity.HIGH, f"The program is highly input-bound: {share:.1%} of the step time waits for input.", share
    if share >= MODERATE.value:
        return Severity.MODERATE, f"The program is moderately input-bound: {share:.1%} of the step time waits for input.", share
    if others >= POTENTIAL.value:
        text = f"The program may be input-bound: {share:.1%} of the step time waits for input, and {others:.1%} has no recognised event."
        return Severity.POTENTIAL, text, share
    return Severity.INFO, f"The program is not input-bound: {share:.1%} of the step time waits for input.", share


def find(breakdown: StepBreakdown, saturation: Table | None) -> Iterator[Finding]:
    """All findings. `saturation` is given on hosts without an accelerator."""
    whole = breakdown.whole
    if len(whole) == 0:
        return
    severity, sentence, share = verdict(breakdown)
    if severity in (Severity.HIGH, Severity.MODERATE):
        bound = "if no step waited for input (Amdahl's bound; 95 % interval over the steps)"
        saving, fraction = bootstrap_saving(breakdown.category(Category.INPUT, whole), whole["duration_ps"], bound)
        yield Finding(
            id="input_bound",
            severity=severity,
            sentence=sentence,
            action="Act on the stage that limits the pipeline (see the tf.data page), then cache, parallelise and prefetch.",
            evidence=(
                Evidence("share of the step time that waits for input", share, Unit.FRACTION, "step_statistics"),
                Evidence("share in the step that waited most", _worst(breakdown), Unit.FRACTION, "steps"),
            ),
            threshold=HIGH if severity is Severity.HIGH else MODERATE,
            counter_evidence=_against(saturation),
            saving=saving,
            saving_fraction=fraction,
            knobs=("cache", "parallel_map", "prefetch"),
        )
    if saturation is not None:
        yield from _contention(saturation)


def _worst(breakdown: StepBreakdown) -> float:
    whole = breakdown.whole
    return float(np.max(breakdown.category(Category.INPUT, whole) / np.maximum(whole["duration_ps"], 1)))


def _against(saturation: Table | None) -> tuple[str, ...]:
    if saturation is None or not len(saturation):
        return ()
    worst = float(np.nanmax(np.append(saturation["saturation"], 0.0)))
    if worst < _SATURATED.value:
        return ()
    return (f"The cores are {worst:.0%} busy: input and model compete, so that parallel input alone saves less than the wait.",)


def _contention(saturation: Table) -> Iterator[Finding]:
    for row in saturation.records():
        busy, input_share = row["saturation"], row["input_share"]
        if busy is None or busy < _SATURATED.value or input_share is None or input_share < _COMPETES.value:
            continue
        yield Finding(
            id="cpu_contention",
            severity=Severity.MODERATE,
            sentence=f"The cores of {row['host']} are {busy:.0%} busy, {input_share:.0%} of it with input: background input slows the model "
            "down even where no step waits.",
            action="Cache what does not change between epochs, preprocess offline, or move input to other machines (tf.data service).",
            evidence=(
                Evidence("busy threads per core during steps", busy, Unit.FRACTION, "saturation"),
                Evidence("input's share of the busy time", input_share, Unit.FRACTION, "saturation"),
            ),
            threshold=_SATURATED,
            host=row["host"],
            knobs=("cache", "data_service"),
        )
