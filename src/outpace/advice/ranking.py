# SPDX-License-Identifier: Apache-2.0
"""The order in which a reader should act: largest saving first, then highest certainty, then least
work.

Findings form a tree. A symptom (the step waits for input) and its cause (this map, at this line)
are one piece of advice: the cause is shown, with the symptom as its reason. The symptom is shown by
itself only where no cause was found, or where the causes explain less than half of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from outpace._dataclass import dataclass
from outpace.advice.ledger import SHARED_SAVING, Ledger
from outpace.metrics.savings.budget import Budget
from outpace.model import CAPTURE_PREFIX, OUTSIDE_STEPS, Certainty, Effort, Finding, FindingKey, Page, Saving, Severity, Unit

_ORDER = {severity: i for i, severity in enumerate(Severity)}
_EFFORT = {effort: i for i, effort in enumerate(Effort)}
_CERTAINTY_WEIGHT = {Certainty.CERTAIN: 1.0, Certainty.LIKELY: 0.85, Certainty.POSSIBLE: 0.4}
_MIN_EXPLAINED = 0.5  # minimum share of a symptom's saving that its causes must explain for the symptom to be left out
_WORTH_OF_EXPLAINED = 0.2  # worth of explaining a part of the step without a known saving: of half the step, a tenth
_CLEAR = (Severity.HIGH, Severity.MODERATE)  # severities of what matters for sure, whatever it saves
_GRAIN = 0.01  # resolution of savings, as a share of the step: smaller differences count as equal, and effort decides


@dataclass(frozen=True)
class Ranking:
    """The findings of several pages as a report states them.

    stated: the pages with the findings that their tools stated.
    findings: most important first, each key once, with the savings that the budgets allow.
    struck: findings that were withdrawn, with the reason.
    merged: for the key of each of `findings`, the keys of the findings on the same line that were
        merged into it.
    """

    stated: tuple[Page, ...]
    findings: tuple[Finding, ...]
    struck: tuple[Finding, ...]
    merged: Mapping[FindingKey, tuple[FindingKey, ...]]

    def pages(self) -> tuple[Page, ...]:
        """Return the pages with the report's version of their findings, in its order. Findings that
        are not ranked (symptoms, which their causes replace) follow those that are; findings of
        severity INFO are last, and struck ones are left out.
        """
        by_key = {f.key: f for f in self.findings}
        rank = {key: at for at, key in enumerate(by_key)}

        def order(finding: Finding) -> tuple[bool, int]:
            return finding.severity is Severity.INFO, rank.get(finding.key, len(rank))

        def ranked(page: Page) -> tuple[Finding, ...]:
            findings = sorted({f.key: f for f in page.findings if not f.struck}.values(), key=order)
            return tuple(by_key.get(f.key, f) for f in findings)

        return tuple(replace(page, findings=ranked(page)) for page in self.stated)


def rank_findings(pages: Iterable[Page], budgets: Mapping[str, Budget] | None = None) -> Ranking:
    """Return the findings of all pages, ranked, merged and with the savings that they are granted.

    Findings with equal keys become one, with the evidence of both. `budgets` limits the savings by
    host; with None, savings stay as the rules computed them.
    """
    pages = tuple(pages)
    stated: dict[FindingKey, Finding] = {}
    for finding in (finding for page in pages for finding in page.findings):
        stated[finding.key] = _merge(stated[finding.key], finding) if finding.key in stated else finding
    valid = [f for f in stated.values() if not f.struck]

    def order(finding: Finding) -> tuple[bool, bool, bool, int, int, int, bool]:
        return _key(finding, _steps_share(budgets, finding) if budgets else 1.0)

    ordered = sorted(_absorb_symptoms(valid), key=order)
    if budgets is not None:
        ledger = Ledger(budgets)
        ordered = sorted((ledger.cap_saving(f) for f in ordered), key=order)
    lines = _group_by_line(ordered)
    ordered = sorted(map(_merge_line, lines), key=order)
    if budgets:
        ordered = [ledger.rescale_saving(f) for f in ordered]
    merged = {first.key: tuple(f.key for f in rest) for first, *rest in lines}
    return Ranking(pages, tuple(ordered), tuple(f for f in stated.values() if f.struck), merged)


def drop_unsupported_findings(pages: Iterable[Page], budgets: Mapping[str, Budget]) -> tuple[Page, ...]:
    """Return the pages with only the findings that the profile supports. Where no host has a step,
    these are the findings about the capture.
    """
    if budgets:
        return tuple(pages)
    return tuple(replace(page, findings=tuple(f for f in page.findings if f.id.startswith(CAPTURE_PREFIX))) for page in pages)


def _merge(first: Finding, second: Finding) -> Finding:
    worse = first if _ORDER[first.severity] <= _ORDER[second.severity] else second
    return replace(
        worse,
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence))),
        counter_evidence=tuple(dict.fromkeys((*first.counter_evidence, *second.counter_evidence))),
        saving=worse.saving or first.saving or second.saving,
        explains=tuple(dict.fromkeys((*first.explains, *second.explains))),
    )


def _group_by_line(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings on each line of the program together. A finding without a line, or of
    severity INFO, is alone.
    """
    lines: defaultdict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for at, finding in enumerate(findings):
        informs = finding.severity is Severity.INFO or not finding.location
        lines[(str(at),) if informs else (finding.host, finding.location)].append(finding)
    return list(lines.values())


def _merge_line(findings: Sequence[Finding]) -> Finding:
    """Merge the findings on one line of the program: the first finding, with the actions and
    evidence of the others and the sum of the savings. A reader who mends a line mends all of it,
    and two shares of one line would read as two problems.
    """
    return replace(reduce(_merge_pair, findings), saving=_sum([finding.saving for finding in findings]))


def _merge_pair(first: Finding, second: Finding) -> Finding:
    """Merge two findings on one line, the first of which stays on top. The second one's action is
    added where it has a saving, since that saving belongs to the action.
    """
    also = f" Also: {second.action}" if second.saving is not None and second.action not in first.action else ""
    return replace(
        first,
        action=first.action + also,
        severity=min(first.severity, second.severity, key=lambda level: _ORDER[level]),
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence))),
        counter_evidence=tuple(note for note in (*first.counter_evidence, *second.counter_evidence) if note != SHARED_SAVING),
        explains=tuple(dict.fromkeys((*first.explains, *second.explains))),
        symptom=" ".join(filter(None, (first.symptom, second.sentence, second.symptom))),
    )


def _sum(savings: Sequence[Saving | None]) -> Saving | None:
    """Return the sum of the savings on one line.

    A saving that is part of the whole line's time adds nothing to it. Savings inside the steps and
    savings between the steps have different bases, so that only those with the base of the first
    one count.
    """
    present = [saving for saving in savings if saving is not None]
    if len(present) < 2:
        return present[0] if present else None
    first = present[0]
    same = [saving for saving in present if (OUTSIDE_STEPS in saving.takes_from) is (OUTSIDE_STEPS in first.takes_from)]
    apart = [saving for saving in same if not any(_is_part(saving, whole) for whole in same)]
    high = min(1.0, max(sum(saving.high for saving in apart), *(saving.high for saving in same)))
    low = sum(saving.low for saving in apart) if all(saving.is_predicted for saving in same) else 0.0
    takes = tuple(dict.fromkeys(key for saving in same for key in saving.takes_from))
    assumes = "; ".join(dict.fromkeys(saving.assumes for saving in same))
    sampled = sum(saving.expected for saving in apart) if any(saving.sampled for saving in apart) else 0.0
    return replace(first, low=min(low, high), high=high, takes_from=takes, assumes=assumes, sampled=sampled)


def _is_part(saving: Saving, of: Saving) -> bool:
    """Whether a saving is a part of another one that covers the whole time of the line."""
    return of.whole_line and not saving.whole_line and set(saving.takes_from) <= set(of.takes_from)


def _absorb_symptoms(findings: list[Finding]) -> list[Finding]:
    """Return the findings without the symptoms that other findings explain. Each cause carries the
    symptoms that it explains.
    """
    remaining, causes_of = dict(enumerate(findings)), _causes(findings)
    for at in _ends_first(causes_of):
        symptom = remaining[at]
        causes = [cause for cause in causes_of[at] if cause in remaining]
        if not causes:
            continue
        symptom_high = symptom.saving.high if symptom.saving else 0.0
        causes_high = sum(saving.high if (saving := findings[cause].saving) else symptom_high for cause in causes)
        for cause in causes:
            remaining[cause] = _add_symptom(remaining[cause], symptom)
        if causes_high >= _MIN_EXPLAINED * symptom_high:
            del remaining[at]
        elif symptom.saving is not None:
            remaining[at] = replace(symptom, saving=_subtract(symptom.saving, causes_high))
    return list(remaining.values())


def _subtract(saving: Saving, part: float) -> Saving:
    """Return a saving reduced by the part that belongs to another finding, as a share of
    the step.
    """
    return replace(saving, low=max(0.0, saving.low - part), high=max(0.0, saving.high - part))


def _causes(findings: list[Finding]) -> list[list[int]]:
    """Return, for each finding, the indices of the findings that explain it: those that name its id
    in `explains` and have the same host, or where one of the two has no host.
    """
    explaining: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, finding in enumerate(findings):
        for symptom in dict.fromkeys(finding.explains) if finding.severity is not Severity.INFO else ():
            explaining[symptom][finding.host].append(at)
    causes = []
    for at, finding in enumerate(findings):
        by_host = explaining[finding.id]
        hosts = dict.fromkeys((finding.host, "")) if finding.host else by_host
        causes.append(sorted(cause for host in hosts for cause in by_host.get(host, ()) if cause != at))
    return causes


def _ends_first(causes_of: list[list[int]]) -> Iterator[int]:
    """Yield the indices of the findings so that each comes after those that it explains: the last
    symptom of a chain of causes first. Of a cycle, the finding with the lowest index comes first.
    """
    explains = Counter(cause for causes in causes_of for cause in causes)
    left = dict.fromkeys(range(len(causes_of)))
    ends = [at for at in left if not explains[at]]
    while left:
        ends = sorted(ends) or [next(iter(left))]
        yield from ends
        for at in ends:
            del left[at]
        passed = [cause for at in ends for cause in causes_of[at] if cause in left]
        explains.subtract(passed)
        ends = [cause for cause in dict.fromkeys(passed) if not explains[cause]]


def _add_symptom(cause: Finding, symptom: Finding) -> Finding:
    """Return a cause with the sentence of its symptom and the worse severity of the two. The
    symptom's saving belongs to another action, so that the cause does not get it.
    """
    worse = min(cause.severity, symptom.severity, key=lambda level: _ORDER[level])
    return replace(cause, symptom=f"{cause.symptom} {symptom.sentence}".strip(), severity=worse)


def _steps_share(budgets: Mapping[str, Budget], finding: Finding) -> float:
    """Return the share of the time from the first step to the last that the steady steps of a
    finding's host take; 1 for a finding with a saving outside the steps, or on a host without a
    budget.
    """
    budget = budgets.get(finding.host)
    is_outside = finding.saving is not None and OUTSIDE_STEPS in finding.saving.takes_from
    return 1.0 if is_outside or budget is None else 1 - min(1.0, budget.category_shares.get(OUTSIDE_STEPS, 0.0))


def score_finding(finding: Finding, step_share: float = 1.0) -> float:
    """Return the worth of a finding as a share of the time: its expected saving, weighted by its
    certainty, or a part of what it explains where no saving is known.

    `step_share` is the share of the time that the finding's saving refers to.
    """
    if finding.severity is Severity.INFO:
        return 0.0
    if finding.saving is None:
        return step_share * _WORTH_OF_EXPLAINED * _explained_share(finding)
    return step_share * finding.saving.expected * _CERTAINTY_WEIGHT[finding.certainty]


def _explained_share(finding: Finding) -> float:
    """Return the share of the step that a finding says where it goes: its first evidence, where
    that is a share, and the finding matters for sure.
    """
    first = next(iter(finding.evidence), None)
    is_share = first is not None and first.unit is Unit.FRACTION and finding.severity in _CLEAR
    return min(1.0, first.value) if first is not None and is_share else 0.0


def _key(finding: Finding, inside: float) -> tuple[bool, bool, bool, int, int, int, bool]:
    """Return the sort key of a finding: capture first, then those that do not only inform, those
    that delay all workers; of these the largest worth, the worst severity where no saving is known,
    the least effort, and those with a known line.
    """
    return (
        not finding.id.startswith(CAPTURE_PREFIX),
        finding.severity is Severity.INFO,
        not finding.delays,
        -round(score_finding(finding, inside) / _GRAIN),
        _ORDER[finding.severity] if finding.saving is None else 0,
        _EFFORT[finding.effort],
        not finding.location,
    )
