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
    Table,
    TableView,
    Unit,
    humanize,
    parse_schema,
)
from outpace.model.units import format_count

BASELINE_COLUMNS = parse_schema("""
    * baseline | text  | name of the baseline
      step_ps  | ps    | mean step time | Step time
    + captures | count | captures it holds
    + steps    | count | steady steps of all captures
      program  | text  | whose program it is
      script   | text  | script that was captured
      outpace  | text  | version of Outpace that read the profiles
""")
PART_COLUMNS = parse_schema("""
    * part  | text     | op, stage of the input pipeline, or what no op stands for
    * type  | text     | type of the op
    * where | text     | host, devices, or the step itself
      work  | text     | class of work, which another machine changes as a whole | Class
    + ps    | ps       | self time per step | Per step
    + share | fraction | of the step | Of step
""")
FACT_COLUMNS = parse_schema("""
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
        facts = [side.facts.get(fact, "") for fact in ("program", "script", VERSION_FACT)]
        rows.append((name, side.step_time.value, len(side.captures), side.step_count, *facts))
    table = Table.from_rows("baselines", "Baselines", BASELINE_COLUMNS, rows)
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
    rows = [(name, kind, where, classify_part((where, kind, name)), time, time / step) for time, (where, kind, name) in means]
    says = f"{side.name}: {humanize(step, Unit.PS)} per step, {side.size_text}."
    sections = (
        Figures("Step time", figures),
        TableView(Table.from_rows("parts", "Parts", PART_COLUMNS, rows), ("part", "type", "ps", "share"), limit=15),
        TableView(
            Table.from_rows("facts", "What is compared", FACT_COLUMNS, sorted(side.facts.items())), limit=len(side.facts)
        ),
    )
    return Report(side.name, says, (), (), (Page("baseline", "Baseline", "What does it hold?", says, sections),), advises=False)
