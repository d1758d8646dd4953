"""The first screen: what a reader sees in ten seconds, in the same order in every renderer.

Warnings, headline, the average step, the first thing to change with the gain to expect, how good the evidence is.
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model import OUTSIDE, Chart, Finding, Interval, Report, Saving, Severity, Unit
from outpace.model.text import clean, clean_prose, shown
from outpace.report.chart_data import parts


@dataclass(frozen=True)
class FirstScreen:
    """Contents of the first screen. `glance` (the average step) and `first_finding` are None where the run has none."""

    warnings: tuple[str, ...]
    headline: str
    glance: Chart | None
    first_finding: Finding | None
    evidence: tuple[str, ...]


def first_screen(report: Report) -> FirstScreen:
    """Collect the first screen of `report`."""
    finding = next((f for f in report.findings if f.severity is not Severity.INFO), None)
    return FirstScreen(
        warnings=tuple(clean_prose(w) for w in report.warnings),
        headline=clean_prose(report.headline),
        glance=next((page.glance for page in report.pages if drawable(page.glance)), None),
        first_finding=finding,
        evidence=_evidence(report, finding),
    )


def drawable(chart: Chart | None) -> bool:
    """Whether a picture of parts has any to show."""
    return chart is not None and any(p.value for p in parts(chart))


def saving_text(finding: Finding) -> str:
    """What a step saves, at most or from ... to ..., on which base; empty where no honest number exists."""
    saving = finding.saving
    if saving is None:
        return ""
    share, base = _share(saving), clean(saving.base)
    if saving.takes_from == (OUTSIDE,) or not saving.step:
        return f"{share} of the {base or 'step time'}"
    low, high = (Interval(saving.low, saving.high, Unit.FRACTION, "").scaled(saving.step, Unit.PS), saving.high * saving.step)
    time = _range(low) if saving.predicted else f"at most {shown(high, Unit.PS)}"
    share = share.removeprefix("at most ")
    return f"{time} per step ({share} of the {shown(saving.step, Unit.PS)} {base})"


def _share(saving: Saving) -> str:
    if saving.predicted:
        return _range(Interval(saving.low, saving.high, Unit.FRACTION, ""))
    return f"at most {shown(saving.high, Unit.FRACTION)}"


def saving_bound(finding: Finding) -> str:
    """The assumption behind the ends of the saving."""
    return clean(finding.saving.assumes) if finding.saving else ""


def _range(interval: Interval) -> str:
    low, high = shown(interval.low, interval.unit), shown(interval.high, interval.unit)
    if low == high:
        return low
    number, _, unit = low.rpartition(" ")
    # "2 to 5 ms" reads better than "2 ms to 5 ms", and both ends are in the same unit
    return f"{number} to {high}" if number and high.endswith(f" {unit}") else f"{low} to {high}"


def _evidence(report: Report, finding: Finding | None) -> tuple[str, ...]:
    stated = tuple(clean_prose(line) for page in report.pages for line in page.evidence)
    if stated or finding is None:
        return stated
    measured = tuple(clean(str(e)) for e in finding.evidence)
    against = tuple(f"speaks against it: {clean(c)}" for c in finding.counter_evidence)
    return measured + (against or ("no counter-evidence was recorded",))
