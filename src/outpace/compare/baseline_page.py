# SPDX-License-Identifier: Apache-2.0
"""Report pages about baselines: all baselines of a folder, and the contents of one."""

from __future__ import annotations

from outpace.compare import baseline, baseline_store
from outpace.compare.facts import VERSION_FACT
from outpace.compare.side import Side, classify_part
from outpace.model import (
    Figure,
    Figures,
    NotFoundError,
    Page,
    ProfileError,
    Report,
    TableType,
    TableView,
    Unit,
    humanize,
)
from outpace.model.units import format_count

BASELINE_COLUMNS = TableType("baselines", "Baselines").columns("""
    * baseline | text  | name of the baseline
      step_ps  | ps    | mean step time | Step time
    + captures | count | captures it holds
    + steps    | count | steady steps of all captures
      program  | text  | whose program it is
      script   | text  | script that was captured
      outpace  | text  | version of Outpace that read the profiles
""")
PART_COLUMNS = TableType("parts", "Parts").columns("""
    * part  | text     | op, stage of the input pipeline, or what no op stands for
    * type  | text     | type of the op
    * where | text     | host, devices, or the step itself
      work  | text     | class of work, which another machine changes as a whole | Class
    + ps    | ps       | self time per step | Per step
    + share | fraction | of the step | Of step
""")
FACT_COLUMNS = TableType("facts", "What is compared").columns("""
    * what  | text | what a comparison asks both sides for
      value | text | what it is of this one
""")


def build_baselines_report(folder: str) -> Report:
    """Return a report that lists the baselines of a folder, with the reason for each that cannot be
    read.
    """
    rows, unread = [], []
    for name in baseline_store.find_baselines(folder):
        try:
            side = baseline.read_baseline(baseline_store.baseline_path(name, folder), name)
        except (ProfileError, NotFoundError) as error:
            unread.append(str(error))
            continue
        row = BASELINE_COLUMNS.row(
            baseline=name,
            step_ps=side.step_time.value,
            captures=len(side.captures),
            steps=side.step_count,
            program=side.facts.get("program", ""),
            script=side.facts.get("script", ""),
            outpace=side.facts.get(VERSION_FACT, ""),
        )
        rows.append(row)
    table = BASELINE_COLUMNS.build(rows)
    says = f"{format_count(len(rows), 'baseline')} in {folder}."
    page = Page("baselines", "Baselines", "What can runs be compared with?", says, (TableView(table),))
    return Report(folder, says, tuple(unread), (), (page,), advises=False)


def build_baseline_report(side: Side) -> Report:
    """Return a report of one page with the contents of a baseline."""
    step = side.step_time.value
    figures = (
        Figure("Step time", step, Unit.PS, side.size_text),
        Figure("Parts", len(side.parts), Unit.COUNT),
    )
    means = sorted(((side.part_mean(part).value, part) for part in side.parts), reverse=True)
    rows = []
    for time, part in means:
        columns = dict(zip(("where", "type", "part"), part, strict=True))
        rows.append(PART_COLUMNS.row(columns, work=classify_part(part), ps=time, share=time / step))
    facts = FACT_COLUMNS.build({"what": fact, "value": value} for fact, value in sorted(side.facts.items()))
    says = f"{side.name}: {humanize(step, Unit.PS)} per step, {side.size_text}."
    sections = (
        Figures("Step time", figures),
        TableView(PART_COLUMNS.build(rows), ("part", "type", "ps", "share"), limit=15),
        TableView(facts, limit=len(side.facts)),
    )
    return Report(side.name, says, (), (), (Page("baseline", "Baseline", "What does it hold?", says, sections),), advises=False)
