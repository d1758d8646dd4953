"""The report of a tuning with its proof: what was shown of the edited script itself."""

from __future__ import annotations

from dataclasses import replace

from outpace.model import Evidence, Finding, Page, Rows, Section, Severity, Table, Text, Unit
from outpace.model.report import Report
from outpace.tune.pages.race import raced
from outpace.tune.proof import Proof
from outpace.tune.searched import Searched
from outpace.tune.trial.statistics import Estimate

ID = "tune"
NOT_PROVEN = "not proven"


def report_of(searched: Searched, proof: Proof | None) -> Report:
    """The report of the search, with the proof's own words where there was something to prove."""
    if proof is None:
        said = f"Nothing is kept, because no edit of the source can make it: {' '.join(searched.left)}" if searched.left else ""
        return _with(searched.without if said else searched.kept, said, None, ())
    if proof.stack is None:
        return _with(searched.without, _nothing(searched, proof), None, ("The proof", _said(searched, proof)))
    found = proof.gain
    assert found is not None
    names = " and ".join(proof.stack.titles)
    headline = f"Speed-up {found.ratio:.2f}x, 95% CI {found.low:.2f} to {found.high:.2f}, with: {names}."
    made = _with(searched.kept, f"{headline} {searched.bounds}".strip(), found, ("The proof", _said(searched, proof)))
    return _without(made, proof.dropped) if proof.dropped else made


def _nothing(searched: Searched, proof: Proof) -> str:
    assert searched.stack is not None
    return f"Nothing is kept: {searched.stack.name} seemed {searched.seen:.2f} times faster in the search. {proof.why}"


def _said(searched: Searched, proof: Proof) -> str:
    """What was compared and raced, in sentences."""
    judged = proof.judgement
    if judged.same is None:
        first = f"It is not proven to be the same program. {judged.why}"
    elif judged.same is False:
        first = judged.why
    elif judged.allowed:
        first = f"It was not shown to be the same program, which was allowed; it runs. {judged.why}"
    else:
        what = "The edited script is the same program" if judged.whole else "No difference was found in the first steps"
        first = f"{what}: {judged.sentence}."
    lines = [first]
    if proof.race is not None:
        lines.append("The edited script was raced against the original, both as processes of their own, over their own input.")
    if proof.dropped:
        lines.append(f"Taken out, because the rest is as fast without: {', '.join(proof.dropped)}.")
    lines += [f"Left out: {sentence}" for sentence in searched.left]
    return "\n".join(lines)


def _with(made: Report, headline: str, found: Estimate | None, section: tuple[str, ...]) -> Report:
    """A report with another headline, finding, and a first section of its page."""
    headline = headline or made.headline
    pages = tuple(_page(page, headline, section) if page.id == ID else page for page in made.pages)
    findings = tuple(_finding(each, found) if each.id == "tune.kept" and found is not None else each for each in made.findings)
    return replace(made, headline=headline, pages=pages, findings=findings)


def _page(page: Page, headline: str, section: tuple[str, ...]) -> Page:
    first: tuple[Section, ...] = (Text(*section),) if section else ()
    return replace(page, headline=headline, sections=(*first, *page.sections))


def _finding(each: Finding, found: Estimate) -> Finding:
    bound = f"95% CI of the time per step that is saved, measured on {found.rounds} fresh rounds of the edited script"
    return replace(
        each,
        severity=Severity.HIGH,
        sentence=f"Speed-up {found.ratio:.2f}x, 95% CI {found.low:.2f} to {found.high:.2f}.",
        evidence=(Evidence("ratio to the program as it was", found.ratio, Unit.RATIO, f"{ID}.ladder"),),
        saving=raced(found.low, found.high, bound),
    )


def _without(made: Report, dropped: tuple[str, ...]) -> Report:
    """The table of what was tried says of some changes that they are not kept."""

    def mended(section: Section) -> Section:
        if not isinstance(section, Rows) or section.table.name != "tried":
            return section
        table = section.table
        rows = [
            tuple(NOT_PROVEN if key == "outcome" and row["practice"] in dropped else value for key, value in row.items())
            for row in table.records()
        ]
        return replace(section, table=Table.from_rows(table.name, table.title, table.fields, rows))

    pages = tuple(replace(page, sections=tuple(map(mended, page.sections))) if page.id == ID else page for page in made.pages)
    return replace(made, pages=pages)
