"""The first screen: what a reader sees in ten seconds, in the same order in every renderer.

Warnings, headline, the average step, the first thing to change with the gain to expect, how good the evidence is.
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model import Chart, ChartKind, Figures, Finding, Interval, Page, Report, Severity, Text
from outpace.report.chart_data import parts
from outpace.report.text import clean, clean_prose, shown

EVIDENCE_TITLE = "Evidence"
"""A page's `Text` or `Figures` section with this title says how good the evidence is; the first screen shows it."""


@dataclass(frozen=True)
class FirstScreen:
    """Contents of the first screen. `average_step` and `first_finding` are None where the run has none."""

    warnings: tuple[str, ...]
    headline: str
    average_step: Chart | None
    first_finding: Finding | None
    evidence: tuple[str, ...]


def first_screen(report: Report) -> FirstScreen:
    """Collect the first screen of `report`."""
    finding = next((f for f in report.findings if f.severity is not Severity.INFO), None)
    return FirstScreen(
        warnings=tuple(clean_prose(w) for w in report.warnings),
        headline=clean_prose(report.headline),
        average_step=next((c for page in report.pages if (c := average_step(page))), None),
        first_finding=finding,
        evidence=_evidence(report, finding),
    )


def average_step(page: Page) -> Chart | None:
    """The page's stacked bar of the average step, if it has one with something to draw."""
    charts = (s for s in page.sections if isinstance(s, Chart) and s.kind is ChartKind.STACK_TOTAL)
    return next((c for c in charts if any(p.value for p in parts(c))), None)


def saving_text(finding: Finding) -> str:
    """The gain to expect: the saving per step as an interval and as a share; empty where no honest number exists."""
    saving, fraction = finding.saving, finding.saving_fraction
    if saving is None and fraction is None:
        return ""
    if saving is None and fraction is not None:
        return f"{_range(fraction)} of the step time"
    assert saving is not None
    share = f" ({_range(fraction)} of the step time)" if fraction is not None else ""
    return f"{_range(saving)} per step{share}"


def saving_bound(finding: Finding) -> str:
    """The assumption behind the ends of the saving."""
    interval = finding.saving or finding.saving_fraction
    return clean(interval.bound) if interval else ""


def _range(interval: Interval) -> str:
    low, high = shown(interval.low, interval.unit), shown(interval.high, interval.unit)
    if low == high:
        return low
    number, _, unit = low.rpartition(" ")
    # "2 to 5 ms" reads better than "2 ms to 5 ms", and both ends are in the same unit
    return f"{number} to {high}" if number and high.endswith(f" {unit}") else f"{low} to {high}"


def _evidence(report: Report, finding: Finding | None) -> tuple[str, ...]:
    stated = tuple(line for page in report.pages for line in _stated_evidence(page))
    if stated or finding is None:
        return stated
    measured = tuple(clean(str(e)) for e in finding.evidence)
    against = tuple(f"speaks against it: {clean(c)}" for c in finding.counter_evidence)
    return measured + (against or ("no counter-evidence was recorded",))


def _stated_evidence(page: Page) -> tuple[str, ...]:
    lines: list[str] = []
    for section in page.sections:
        if isinstance(section, Text) and section.title == EVIDENCE_TITLE:
            lines += [line for line in clean_prose(section.body).splitlines() if line.strip()]
        elif isinstance(section, Figures) and section.title == EVIDENCE_TITLE:
            lines += [f"{clean(i.label)}: {shown(i.value, i.unit)} {clean(i.remark)}".strip() for i in section.items]
    return tuple(lines)
