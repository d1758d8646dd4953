# SPDX-License-Identifier: Apache-2.0
"""Report page of a comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

from outpace.compare.changes import Change
from outpace.compare.evidence import CALIBRATION_LOOPS
from outpace.compare.facts import VERSION_FACT
from outpace.compare.flame import build_flame_graph
from outpace.compare.gate import Gate, GateOutcome
from outpace.compare.headline import find_slowed_part, render_headline, render_remedy
from outpace.compare.line_changes import compute_line_changes
from outpace.compare.line_work import build_line_work
from outpace.compare.side import Side
from outpace.compare.verdict import Comparison, Verdict, VerdictBasis
from outpace.metrics.facts.step_breakdown import CATEGORY_COLORS
from outpace.metrics.facts.step_breakdown import CATEGORY_COLUMNS as CATEGORY_SERIES
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Figure,
    Figures,
    Page,
    Paragraph,
    Report,
    Row,
    Section,
    Table,
    TableType,
    TableView,
    Unit,
    humanize,
)

_SAME = 0.005  # relative difference up to which two step times are shown as one
ID, TITLE = "compare", "Comparison"
QUESTION = "Is the second run faster or slower than the first, where, and is it the program?"

CHANGE_COLUMNS = TableType("changes", "All parts").columns("""
    * part      | text     | op, stage of the input pipeline, or what no op stands for
    * type      | text     | type of the op
    * where     | text     | host, devices, or the step itself
      work      | text     | class of work, which another machine changes as a whole | Class
    + before_ps | ps       | its self time per step in the first run | Before
    + after_ps  | ps       | its self time per step in the second run | After
      ratio     | ratio    | of the second to the first
      expected  | ratio    | the same of its class of work, which the machine explains | As the machine
    + delta_ps  | ps       | what the second run takes more than its class explains | More
      low_ps    | ps       | lower end of the 95% CI of that | From
      high_ps   | ps       | upper end | To
    + share     | fraction | of the step that it is more or less of | Of step
      became    | text     | changed, new, gone, moved to or from another; empty where it changed as its class did
      now       | text     | its name in the second run, where that is another
""")
OWN_CHANGE_COLUMNS = replace(CHANGE_COLUMNS, name="own_changes", title="What the program changed")
LINE_COLUMNS = TableType("lines", "Lines of Python", shared=CHANGE_COLUMNS).columns("""
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
""")
CATEGORY_COLUMNS = TableType("categories", "Categories").columns("""
    * category  | text     | step-time category
    + before_ps | ps       | mean per step in the first run | Before
    + after_ps  | ps       | mean per step in the second run | After
    + more_ps   | ps       | the second less the first | More
    + share     | fraction | of the change of the step time | Of change
""")
SIDE_COLUMNS = TableType("sides", "A step of each run").columns(
    "* side | text | the first run, or the second\n"
    + "\n".join(f"+ {each.column} | ps | mean per step in this category | {each.label}" for each in Category)
)
CLASS_COLUMNS = TableType("classes", "By class of work").columns("""
    * work   | text     | class of work
    + parts  | count    | ops of it that say how it changed
      ratio  | ratio    | time in the second run to that in the first, of its middle op
      spread | fraction | how far its ops lie from that
""")
MACHINE_COLUMNS = TableType("machine", "The machine, from outside the program").columns("""
    * what   | text     | loop, or who used the machine
      before | ps       | mean of the first run's captures
      after  | ps       | mean of the second run's captures
    + ratio  | ratio    | how many times as long the loop takes there
      used_before | fraction | of the machine's processor time, that other programs used in the first run's captures | Used before
      used_after  | fraction | the same in the second run's | Used after
""")
HOST_COLUMNS = TableType("hosts", "Host by host").columns("""
    * host      | text     | host, by its name in the second run
    + before_ps | ps       | its mean step in the first run | Before
    + after_ps  | ps       | its mean step in the second run | After
      ratio     | ratio    | of the second to the first
      program   | fraction | of a step, that its own parts add | Program
      verdict   | text     | what its own parts come to
      part      | text     | the part that takes most more, and is no waiting for others
      more_ps   | ps       | what that takes more than its class explains | More
""")
DIFFERENCE_COLUMNS = TableType("differs", "What the runs do not share").columns("""
    * what    | text | what the runs do not share
      before  | text | in the first run
      after   | text | in the second run
      means   | text | what that means for the verdict
      forbids | bool | whether step times can then not be compared
""")


def build_report(comparison: Comparison, gate: Gate | None = None) -> Report:
    """Return the comparison as a report of one page; the result of the gate comes first."""
    page = build_page(comparison, gate)
    names = f"{comparison.before.name} → {comparison.after.name}"
    return Report(names, page.headline, _warnings(comparison), (), (page,), advises=False)


def build_page(comparison: Comparison, gate: Gate | None = None) -> Page:
    """Return the page with all results of a comparison."""
    one, two = comparison.step_before, comparison.step_after
    items = [
        Figure("Before", one.value, Unit.PS, _side_label(comparison.before, one.value)),
        Figure("After", two.value, Unit.PS, _side_label(comparison.after, two.value)),
        Figure("Ratio", comparison.ratio, Unit.RATIO, f"95% CI {comparison.ratio_low:.2f} to {comparison.ratio_high:.2f}"),
        Figure("Verdict", comparison.verdict.value, Unit.TEXT, _why(comparison)),
    ]
    if gate is not None:
        items.append(Figure("Gate", gate.outcome.value, Unit.TEXT, f"{100 * gate.tolerance:g}% of a step"))
    sections: list[Section] = [Figures("Step time, trimmed mean", tuple(items))]
    if comparison.basis is VerdictBasis.IDENTICAL:
        return Page(ID, TITLE, QUESTION, _headline(comparison, gate), tuple(sections), key_figures=tuple(items))
    sections.append(Chart(_PICTURE, ChartKind.STACK_SERIES, _sides(comparison), "side", CATEGORY_SERIES, CATEGORY_COLORS))
    sections.append(TableView(_categories(comparison)))
    sampled, own_changes = compute_line_changes(comparison), comparison.own_changes
    sections.append(build_flame_graph(comparison, sampled))
    if own_changes:
        sections.append(TableView(_changes(comparison, own_changes, OWN_CHANGE_COLUMNS), _SHOWN, limit=15))
    sections.append(
        TableView(
            _changes(comparison, comparison.changes),
            _SHOWN,
            limit=10,
            folded=True,
            by=("work", "became", "type"),
            sums=("delta_ps",),
        )
    )
    if sampled:
        sections.append(TableView(_changes(comparison, sampled, LINE_COLUMNS), _SHOWN, limit=10, remark=_SAMPLED))
    compiled = build_line_work(*(side.captures[0].line_work for side in (comparison.before, comparison.after)))
    if len(compiled):
        sections.append(TableView(compiled, _WORK_SHOWN, limit=10, remark=_WORK))
    in_turns = comparison.basis is VerdictBasis.IN_TURNS
    sections.append(TableView(_classes(comparison), remark=_IN_TURNS if in_turns else _CLASSES))
    if comparison.evidence.available:
        sections.append(TableView(_machine(comparison), remark=_MACHINE))
    if comparison.host_comparisons:
        sections.append(TableView(_hosts(comparison), remark=_HOSTS))
    if comparison.differences:
        sections.append(TableView(_differs(comparison), ("what", "before", "after", "means")))
    undecided = comparison.verdict is Verdict.OPEN if gate is None else gate.outcome is GateOutcome.OPEN
    if comparison.is_comparable and undecided:
        sections.append(Paragraph("What would decide", render_remedy(comparison)))
    return Page(ID, TITLE, QUESTION, _headline(comparison, gate), tuple(sections), key_figures=tuple(items))


def _headline(comparison: Comparison, gate: Gate | None) -> str:
    return render_headline(comparison) if gate is None else f"{gate.sentence} {render_headline(comparison)}"


def _side_label(side: Side, trimmed: float) -> str:
    """Return the label of a side's step time, with the untrimmed mean that a report of the side
    shows where it differs.
    """
    label = f"{side.name}, {side.size_text}"
    same = abs(side.untrimmed_step_ps / trimmed - 1) < _SAME
    return label if same else f"{label}; untrimmed, as in its report, {humanize(side.untrimmed_step_ps, Unit.PS)}"


_PICTURE = "A step before and after"
_OLDER = "They may tell parts apart in different ways: save the baseline anew where its profiles are at hand."
_CLASSES = (
    "A class changes where another machine runs it, or a busy one, or where the program changes all of it (threads, precision)."
)
_MACHINE = "Short loops that each capture timed, and what other programs used of the machine meanwhile: nothing of this is the program's."
_IN_TURNS = "Captured in turns: a machine that is busy now and then falls on both sides alike, so that the program changed whole classes."
_SAMPLED = "Of the time in which no op runs, as the samples divide it. Lines that are new take part in the verdict."
_WORK = (
    "Operations and bytes are counted from the programs: the same work that takes longer is slower, more work is the program's."
)
_WORK_SHOWN = ("op", "source", "work", "before_ps", "after_ps", "more_ps", "roof_before", "roof_after")
_HOSTS = "Each host with itself: one that takes longer makes all others wait, so that every step takes longer."
_SHOWN = ("part", "became", "before_ps", "after_ps", "delta_ps", "low_ps", "high_ps")


def _why(comparison: Comparison) -> str:
    return f"{len(comparison.own_changes)} of {len(comparison.changes)} parts changed by more than their class of work"


def _warnings(comparison: Comparison) -> tuple[str, ...]:
    return tuple(
        f"{name} differs: {one or 'unknown'} and {two or 'unknown'}. {_OLDER if name == VERSION_FACT else 'Step times say little.'}"
        for name, one, two, _, forbids in comparison.differences
        if forbids or name == VERSION_FACT
    )


def _changes(comparison: Comparison, changes: tuple[Change, ...], kind: TableType = CHANGE_COLUMNS) -> Table:
    rows = []
    for change in changes:
        where, part_type, part = change.part
        before, after = change.before.value, change.after.value
        row = kind.row(
            change,
            part=part,
            type=part_type,
            where=where,
            work=change.work_class,
            before_ps=before,
            after_ps=after,
            ratio=after / before if before else math.nan,
            expected=math.exp(comparison.factors[change.work_class].log_factor),
            share=change.delta_ps / comparison.step_expected_ps,
            became=change.kind.value,
            now=change.name_after if change.name_after != part else "",
        )
        rows.append(row)
    return kind.build(rows)


def _sides(comparison: Comparison) -> Table:
    """Return `SIDE_COLUMNS`: the mean step of both runs, by category."""
    return SIDE_COLUMNS.build(
        {"side": side, **{each.column: comparison.categories[each][at].value for each in Category}}
        for at, side in enumerate(("Before", "After"))
    )


def _categories(comparison: Comparison) -> Table:
    growth_ps = comparison.step_after.value - comparison.step_before.value
    rows = []
    for category in Category:
        one, two = (mean.value for mean in comparison.categories[category])
        if one or two:
            times = {"before_ps": one, "after_ps": two, "more_ps": two - one}
            rows.append({"category": category.label, **times, "share": (two - one) / growth_ps if growth_ps else 0.0})
    return CATEGORY_COLUMNS.build(rows)


def _classes(comparison: Comparison) -> Table:
    return CLASS_COLUMNS.build(
        CLASS_COLUMNS.row(factor, work=work, parts=factor.part_count, ratio=math.exp(factor.log_factor))
        for work, factor in comparison.factors.items()
    )


def _hosts(comparison: Comparison) -> Table:
    rows = []
    for host in comparison.host_comparisons:
        part = find_slowed_part(host)
        row = HOST_COLUMNS.row(
            host,
            host=host.after.name,
            before_ps=host.step_before.value,
            after_ps=host.step_after.value,
            program=host.program_share.value,
            verdict=host.verdict.value,
            part=part.label if part else "",
            more_ps=part.delta_ps if part else 0.0,
        )
        rows.append(row)
    return HOST_COLUMNS.build(rows)


def _differs(comparison: Comparison) -> Table:
    kind = DIFFERENCE_COLUMNS
    return kind.build(
        kind.row(difference, what=difference.name, means=difference.meaning, forbids=difference.blocks)
        for difference in comparison.differences
    )


def _machine(comparison: Comparison) -> Table:
    evidence = comparison.evidence
    rows: list[Row] = []
    unknown = dict.fromkeys(("before", "after", "ratio", "used_before", "used_after"), math.nan)
    for loop in (name for name in CALIBRATION_LOOPS if name in evidence.loop_ratios):
        one, two = (
            1e3 * fmean(capture.machine.loop_ns[loop] for capture in side.captures)
            for side in (comparison.before, comparison.after)
        )
        rows.append({**unknown, "what": f"a loop of {loop}", "before": one, "after": two, "ratio": evidence.loop_ratios[loop]})
    if evidence.others_shares is not None:
        before, after = evidence.others_shares
        rows.append({**unknown, "what": "other programs", "used_before": before, "used_after": after})
    return MACHINE_COLUMNS.build(rows)
