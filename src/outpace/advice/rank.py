"""The order in which a reader should act."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from outpace.model import Finding, Page, Severity

_ORDER = {severity: i for i, severity in enumerate(Severity)}


def rank(pages: Iterable[Page]) -> tuple[Finding, ...]:
    """Findings of all pages, what to do first on top: by severity; among equals what names a source line, then what saves most.

    Findings that say the same of the same place (equal id, location and host) become one, with the evidence of both.
    """
    merged: dict[tuple[str, str, str], Finding] = {}
    for page in pages:
        for finding in page.findings:
            key = (finding.id, finding.location, finding.host)
            merged[key] = _merge(merged[key], finding) if key in merged else finding
    return tuple(sorted(merged.values(), key=_key))


def _merge(first: Finding, second: Finding) -> Finding:
    worse = first if _ORDER[first.severity] <= _ORDER[second.severity] else second
    return replace(
        worse,
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence))),
        counter_evidence=tuple(dict.fromkeys((*first.counter_evidence, *second.counter_evidence))),
        saving=worse.saving or first.saving or second.saving,
        saving_fraction=worse.saving_fraction or first.saving_fraction or second.saving_fraction,
    )


def _key(finding: Finding) -> tuple[int, bool, float]:
    saving = (
        finding.saving_fraction.middle if finding.saving_fraction else finding.saving.middle * 1e-15 if finding.saving else 0.0
    )
    return _ORDER[finding.severity], not finding.location, -saving
