# SPDX-License-Identifier: Apache-2.0
"""First screen: what a reader sees in ten seconds, in the same order in every renderer.

The order is warnings, headline, key figures, the steady step, changes with their savings, evidence
for the confidence, and next commands.
"""

from __future__ import annotations

import math

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.model import OUTSIDE_STEPS, Chart, Command, Figure, Finding, Interval, Report, Saving, Severity, Unit
from outpace.model.text import clean, clean_prose, format_cell
from outpace.report.chart_data import compute_parts

_AT_ROOF = " at the device's limits"
_AT_MOST, _OR_MORE = "at most ", " or more"


@dataclass(frozen=True)
class FirstScreen:
    """Contents of the first screen. `glance` (the steady step) is None where the run has none;
    `changes` are the findings that recommend a change, by decreasing saving.
    """

    source: str
    warnings: tuple[str, ...]
    headline: str
    figures: tuple[Figure, ...]
    glance: Chart | None
    changes: tuple[Finding, ...]
    evidence: tuple[str, ...]
    next: tuple[Command, ...]

    @once
    def step_ps(self) -> float:
        """Length of the steady step in the chart, ps; 0 where there is no chart."""
        return sum(part.value for part in compute_parts(self.glance)) if self.glance else 0.0

    def host(self, finding: Finding) -> str:
        """Return the host of a finding, where findings refer to several hosts; empty otherwise."""
        return clean(finding.host) if len({f.host for f in self.changes if f.host}) > 1 else ""


def build_first_screen(report: Report) -> FirstScreen:
    """Return the first screen of `report`."""
    changes = tuple(f for f in report.findings if f.severity is not Severity.INFO)
    return FirstScreen(
        source=clean(report.source),
        warnings=tuple(clean_prose(w) for w in report.warnings),
        headline=clean_prose(report.headline),
        figures=next((page.key_figures for page in report.pages if page.key_figures), ()),
        glance=next((page.glance for page in report.pages if is_drawable(page.glance)), None),
        changes=changes,
        evidence=_evidence(report, changes[0] if changes else None),
        next=report.next,
    )


def is_drawable(chart: Chart | None) -> bool:
    """Whether a chart of parts has any part to show."""
    return chart is not None and any(p.value for p in compute_parts(chart))


def format_saving(finding: Finding, known_step_ps: float = 0.0) -> str:
    """Return the saving as text: time per step, at most or as a range, and its base (unless the
    base is the `known_step_ps` step, ps); empty where the saving cannot be estimated.
    """
    saving = finding.saving
    if saving is None:
        return ""
    share, base = _share(saving), clean(saving.base)
    if saving.takes_from == (OUTSIDE_STEPS,) or not saving.step:
        return f"{share} of the {base or 'step time'}"
    low, high = (Interval(saving.low, saving.high, Unit.FRACTION, "").scale(saving.step, Unit.PS), saving.high * saving.step)
    time = _range(low) if saving.is_predicted else f"{_at_most(saving)}{format_cell(high, Unit.PS)}"
    share = share.removeprefix(_AT_MOST).removesuffix(_limit(saving))
    if math.isclose(saving.step, known_step_ps, rel_tol=1e-6):
        return f"{time} per step ({share}){_limit(saving)}"
    base = base.removeprefix("recorded ") if known_step_ps else base
    return f"{time} per step ({share} of the {format_cell(saving.step, Unit.PS)} {base}){_limit(saving)}"


def _share(saving: Saving) -> str:
    if saving.is_predicted:
        return _range(Interval(saving.low, saving.high, Unit.FRACTION, ""))
    return f"{_at_most(saving)}{format_cell(saving.high, Unit.FRACTION)}{_limit(saving)}"


def _at_most(saving: Saving) -> str:
    return "" if _limit(saving) else _AT_MOST


def _limit(saving: Saving) -> str:
    """Return what limits a saving that is no upper bound, in words behind it; "" for others."""
    return _AT_ROOF if saving.at_roof else _OR_MORE if saving.at_least else ""


def format_assumption(finding: Finding) -> str:
    """Return the assumption behind the bounds of the saving."""
    return clean(finding.saving.assumes) if finding.saving else ""


def _range(interval: Interval) -> str:
    low, high = format_cell(interval.low, interval.unit), format_cell(interval.high, interval.unit)
    if low == high:
        return low
    number = low.rstrip("%") if low.endswith("%") else low.rpartition(" ")[0]
    unit = low.removeprefix(number)
    # "2 to 5 ms" is easier to read than "2 ms to 5 ms", and both bounds have the same unit
    return f"{number} to {high}" if number and high.endswith(unit) else f"{low} to {high}"


def _evidence(report: Report, finding: Finding | None) -> tuple[str, ...]:
    stated = tuple(clean_prose(line) for page in report.pages for line in page.evidence)
    if stated or finding is None:
        return stated
    measured = tuple(clean(str(e)) for e in finding.evidence)
    against = tuple(f"caveat: {clean(c)}" for c in finding.counter_evidence)
    return measured + (against or ("no caveat is known",))
