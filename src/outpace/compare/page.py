"""The page of a comparison."""

from __future__ import annotations

import math

from outpace.compare.facts import EXAMPLES, OUTPACE
from outpace.compare.flame import picture
from outpace.compare.gate import Gate, Outcome
from outpace.compare.lines import above_all, lines
from outpace.compare.machine import FEW
from outpace.compare.verdict import Change, Comparison, Kind, Verdict
from outpace.model import (
    Category,
    Field,
    Figure,
    Figures,
    Page,
    Report,
    Rows,
    Section,
    Table,
    Text,
    Unit,
    humanize,
    schema,
)

ID, TITLE = "compare", "Comparison"
QUESTION = "Is the second run faster or slower than the first, where, and is it the program?"

CHANGES = schema("""
    * part      | text     | op, stage of the input pipeline, or what no op stands for
    * type      | text     | type of the op
    * where     | text     | host, devices, or the step itself
      work      | text     | class of work, which another machine changes as a whole | Class
    + before_ps | ps       | its self time per step in the first run | Before
    + after_ps  | ps       | its self time per step in the second run | After
      ratio     | ratio    | of the second to the first
      expected  | ratio    | the same of its class of work, which the machine explains | Class ratio
    + delta_ps  | ps       | what the second run takes more than its class explains | More
      low_ps    | ps       | lower end of the 95% CI of that | From
      high_ps   | ps       | upper end | To
    + share     | fraction | of the step that it is more or less of | Of step
      became    | text     | changed, new, gone, moved to or from another; empty where it changed as its class did
      now       | text     | its name in the second run, where that is another
""")
LINES = schema(
    """
    * part | text | line of your own code with its function, or the function of a library | Line
    * type | text | source of the line | Code
      where
      work
    + before_ps | ps | what it takes per step of the time in which no op runs, in the first run | Before
    + after_ps  | ps | the same in the second run | After
      ratio
      expected
      delta_ps
      low_ps
      high_ps
      share
      became
      now
    """,
    *CHANGES,
)
CATEGORIES = schema("""
    * category  | text     | step-time category
    + before_ps | ps       | mean per step in the first run | Before
    + after_ps  | ps       | mean per step in the second run | After
    + more_ps   | ps       | the second less the first | More
    + share     | fraction | of the change of the step time | Of change
""")
CLASSES = schema("""
    * work   | text     | class of work
    + parts  | count    | ops of it that say how it changed
      ratio  | ratio    | time in the second run to that in the first, of its middle op
      spread | fraction | how far its ops lie from that
""")
DIFFERS = schema("""
    * what    | text | what the runs do not share
      before  | text | in the first run
      after   | text | in the second run
      means   | text | what that means for the verdict
      forbids | bool | whether step times can then not be compared
""")


def report_of(found: Comparison, gate: Gate | None = None) -> Report:
    """The comparison as a report of one page; what its gate says comes first."""
    page = page_of(found, gate)
    names = f"{found.before.name} → {found.after.name}"
    return Report(names, page.headline, _warnings(found), (), (page,), advises=False)


def page_of(found: Comparison, gate: Gate | None = None) -> Page:
    """Everything that a comparison says."""
    one, two = found.step_before, found.step_after
    items = [
        Figure("Before", one.value, Unit.PS, f"{found.before.name}, {found.before.amount}"),
        Figure("After", two.value, Unit.PS, f"{found.after.name}, {found.after.amount}"),
        Figure("Ratio", found.ratio, Unit.RATIO, f"95% CI {found.low:.2f} to {found.high:.2f}"),
        Figure("Verdict", found.verdict.value, Unit.TEXT, _why(found)),
    ]
    if gate is not None:
        items.append(Figure("Gate", gate.outcome.value, Unit.TEXT, f"{100 * gate.allowed:g}% of a step"))
    sections: list[Section] = [Figures("Step time", tuple(items)), Rows(_categories(found))]
    own = found.own
    if own:
        sections.append(Rows(_changes(found, own, "own_changes", "What the program changed"), _SHOWN, limit=15))
    sampled = lines(found)
    sections.append(picture(found, sampled))
    sections.append(
        Rows(
            _changes(found, found.changes, "changes", "All parts"),
            _SHOWN,
            limit=10,
            folded=True,
            by=("work", "became", "type"),
            sums=("delta_ps",),
        )
    )
    if sampled:
        sections.append(Rows(_changes(found, sampled, "lines", "Lines of Python", LINES), _SHOWN, limit=10, remark=_SAMPLED))
    sections.append(Rows(_classes(found), remark=_IN_TURNS if found.in_turns else _MACHINE))
    if found.differs:
        sections.append(Rows(_differs(found), ("what", "before", "after", "means")))
    undecided = (
        found.verdict is Verdict.OPEN if gate is None else gate.outcome is Outcome.OPEN and (found.in_turns or not found.blind)
    )
    if found.comparable and undecided:
        sections.append(Text("What would decide", _more(found)))
    says = headline(found) if gate is None else f"{gate.sentence} {headline(found)}"
    return Page(ID, TITLE, QUESTION, says, tuple(sections))


_OLDER = "They may tell parts apart in different ways: save the baseline anew where its profiles are at hand."
_MACHINE = "A class changes as a whole where another machine runs it, or a busy one."
_IN_TURNS = "Captured in turns: a machine that is busy now and then falls on both sides alike, so that the program changed whole classes."
_SAMPLED = "Of the time in which no op runs, as the samples divide it; lines take no part in the verdict."
_SHOWN = ("part", "became", "before_ps", "after_ps", "delta_ps", "low_ps", "high_ps")


def headline(found: Comparison) -> str:
    """The verdict in a sentence, with what explains it."""
    change = f"{abs(found.ratio - 1):.1%}"
    interval = f"95% CI of the step's ratio {found.low:.2f} to {found.high:.2f}"
    if not found.comparable:
        what = ", ".join(name for name, *_, forbids in found.differs if forbids)
        takes = f"The step takes {_more_or_less(found.ratio)}"
        return f"Not to be compared by the step: the runs differ in {what}. {takes}{_per_example(found)}."
    if found.verdict in (Verdict.FASTER, Verdict.SLOWER):
        if found.in_turns or (found.blind and not found.own):
            return f"{found.after.name} is {change} {found.verdict.value} ({interval}); {_as_a_whole(found)}."
        return f"{found.after.name} is {found.verdict.value}: {_explained(found)}{_machine(found)}"
    if found.verdict is Verdict.MACHINE:
        evenly = "alike" if _evenly(found) else "unevenly"
        longer = _more_or_less(found.ratio)
        return f"The machine: the step takes {longer}, its classes of work {evenly}, and no part of the program stands out ({interval})."
    if found.verdict is Verdict.SAME:
        bound = f"the program adds or saves at most {found.bound:.1%} of it"
        return f"No difference: the step takes {_more_or_less(found.ratio)}, and {bound}.{_beside(found)}"
    longer, bound = _more_or_less(found.ratio), f"the program may add or save up to {found.bound:.0%} of it"
    return f"Inconclusive: the step takes {longer}, and {bound}.{_beside(found)} {_more(found)}"


def _per_example(found: Comparison) -> str:
    """What an example takes, where steps have other numbers of them and that is all that forbids a comparison."""
    if [name for name, *_, forbids in found.differs if forbids] != [EXAMPLES]:
        return ""
    one, two = (int(side.facts[EXAMPLES]) for side in (found.before, found.after))
    return f", an example {_more_or_less(found.ratio * one / two)}"


def _beside(found: Comparison) -> str:
    """What changed without a change of the step."""
    return f" {found.leading.named} {said(found.leading)}, on threads that work beside the step." if found.beside else ""


def _as_a_whole(found: Comparison) -> str:
    """What is known beyond the step's ratio, where the step alone says it."""
    if not found.in_turns:
        known = "too few ops are known to tell where, and whether it was the machine"
    elif found.blind:
        known = f"captures in turns rule the machine out{'' if found.own else ', and too few ops are known to tell where'}"
    else:
        known = f"captures in turns rule the machine out, so that whole classes of work are the program's ({_largest(found)})"
    return f"{known}; {_parts(found)}" if found.own else known


def _largest(found: Comparison) -> str:
    """The classes of work that hold most of the step, with their ratios."""
    held = {work: sum(each.before.value for each in found.changes if each.work == work) for work in found.factors}
    works = sorted((work for work in held if found.factors[work].parts >= FEW), key=lambda work: -held[work])
    return ", ".join(f"{work} {math.exp(found.factors[work].log):.2f} times" for work in works[:2])


def _explained(found: Comparison) -> str:
    """What the program adds or saves, and the changes that make most of it."""
    time = humanize(abs(found.program) * found.step_expected, Unit.PS)
    return f"{abs(found.program):.1%} of a step {'more' if found.program > 0 else 'less'} ({time}); {_parts(found)}."


def _parts(found: Comparison) -> str:
    """The program's changes that make most of it."""
    first = found.leading
    line = above_all(first, lines(found))
    named = f"{first.named} {said(first)}{f', above all {line.named}' if line else ''}"
    rest = len(found.own) - (first in found.own)
    return f"{named}{f', and {rest} more changes' if rest > 1 else ', and one more change' if rest else ''}"


def said(change: Change) -> str:
    """What became of a part, as the rest of a sentence that its name begins."""
    if change.kind is Kind.NEW:
        return f"is new ({humanize(change.after.value, Unit.PS)})"
    if change.kind is Kind.GONE:
        return f"is gone ({humanize(change.before.value, Unit.PS)})"
    return f"takes {humanize(change.after.value, Unit.PS)} instead of {humanize(change.before.value, Unit.PS)}"


def _machine(found: Comparison) -> str:
    """What the step does beyond the program's change, and whose that is."""
    rest = found.step_expected / found.step_before.value - 1
    whole = f" The step as a whole takes {_more_or_less(found.ratio)}"
    if found.least > found.program_high or found.most < found.program_low:
        return f"{whole}: nothing tells whose the rest is."
    return f"{whole}: the rest changed all work alike, as a machine does." if abs(rest) > 0.03 else ""


def _more_or_less(ratio: float) -> str:
    return f"{ratio - 1:.1%} longer" if ratio >= 1 else f"{1 - ratio:.1%} less"


def _evenly(found: Comparison) -> bool:
    logs = [each.log for each in found.factors.values() if each.parts > 1]
    spread = max((each.spread for each in found.factors.values()), default=0.0)
    return not logs or max(logs) - min(logs) <= 2 * spread


def _why(found: Comparison) -> str:
    return f"{len(found.own)} of {len(found.changes)} parts changed by more than their class of work"


def _more(found: Comparison) -> str:
    count = min(len(found.before.captures), len(found.after.captures))
    times = "three times" if count < 3 else f"{2 * count} times"
    return f"Capture each side {times}, in turns (--captures with --run and --against; --before and --after): their own spread then decides."


def _warnings(found: Comparison) -> tuple[str, ...]:
    return tuple(
        f"{name} differs: {one or 'unknown'} and {two or 'unknown'}. {_OLDER if name == OUTPACE else 'Step times say little.'}"
        for name, one, two, _, forbids in found.differs
        if forbids or name == OUTPACE
    )


def _changes(
    found: Comparison, changes: tuple[Change, ...], name: str, title: str, fields: tuple[Field, ...] = CHANGES
) -> Table:
    step = found.step_expected
    rows = [
        (
            each.part[2], each.part[1], each.part[0], each.work, each.before.value, each.after.value,
            each.after.value / each.before.value if each.before.value else math.nan, math.exp(found.factors[each.work].log),
            each.delta, each.low, each.high, each.delta / step, each.kind.value, each.name_after if each.name_after != each.part[2] else "",
        )
        for each in changes
    ]  # fmt: skip
    return Table.from_rows(name, title, fields, rows)


def _categories(found: Comparison) -> Table:
    whole = found.step_after.value - found.step_before.value
    rows = []
    for category in Category:
        one, two = (each.value for each in found.categories[category])
        if one or two:
            rows.append((category.label, one, two, two - one, (two - one) / whole if whole else 0.0))
    return Table.from_rows("categories", "Categories", CATEGORIES, rows)


def _classes(found: Comparison) -> Table:
    rows = [(work, each.parts, math.exp(each.log), each.spread) for work, each in found.factors.items()]
    return Table.from_rows("classes", "By class of work" if found.in_turns else "The machine, by class of work", CLASSES, rows)


def _differs(found: Comparison) -> Table:
    return Table.from_rows("differs", "What the runs do not share", DIFFERS, list(found.differs))
