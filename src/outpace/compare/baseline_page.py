"""Pages of baselines: all of a folder, and what one holds."""

from __future__ import annotations

from outpace.compare import baseline, places
from outpace.compare.facts import OUTPACE
from outpace.compare.side import Side, class_of
from outpace.model import Figure, Figures, NotFoundError, Page, ProfileError, Report, Rows, Table, Unit, humanize, schema
from outpace.model.units import counted

ALL = schema("""
    * baseline | text  | name of the baseline
      step_ps  | ps    | mean step time | Step time
    + captures | count | captures it holds
    + steps    | count | steady steps of all captures
      program  | text  | whose program it is
      script   | text  | script that was captured
      outpace  | text  | version of Outpace that read the profiles
""")
PARTS = schema("""
    * part  | text     | op, stage of the input pipeline, or what no op stands for
    * type  | text     | type of the op
    * where | text     | host, devices, or the step itself
      work  | text     | class of work, which another machine changes as a whole | Class
    + ps    | ps       | self time per step | Per step
    + share | fraction | of the step | Of step
""")
FACTS = schema("""
    * what  | text | what a comparison asks both sides for
      value | text | what it is of this one
""")


def all_of(folder: str) -> Report:
    """The baselines of a folder; of those that cannot be read, why."""
    rows, unread = [], []
    for name in places.names(folder):
        try:
            side = baseline.load(places.path_of(name, folder), name)
        except (ProfileError, NotFoundError) as error:
            unread.append(str(error))
            continue
        facts = [side.facts.get(fact, "") for fact in ("program", "script", OUTPACE)]
        rows.append((name, side.step.value, len(side.captures), side.steps, *facts))
    table = Table.from_rows("baselines", "Baselines", ALL, rows)
    says = f"{counted(len(rows), 'baseline')} in {folder}."
    page = Page("baselines", "Baselines", "What can runs be compared with?", says, (Rows(table),))
    return Report(folder, says, tuple(unread), (), (page,), advises=False)


def report_of(side: Side) -> Report:
    """What a baseline holds, as a report of one page."""
    step = side.step.value
    figures = (
        Figure("Step time", step, Unit.PS, side.amount),
        Figure("Parts", len(side.parts), Unit.COUNT),
    )
    means = sorted(((side.mean(part).value, part) for part in side.parts), reverse=True)
    rows = [(name, kind, where, class_of((where, kind, name)), time, time / step) for time, (where, kind, name) in means]
    says = f"{side.name}: {humanize(step, Unit.PS)} per step, {side.amount}."
    sections = (
        Figures("Step time", figures),
        Rows(Table.from_rows("parts", "Parts", PARTS, rows), ("part", "type", "ps", "share"), limit=15),
        Rows(Table.from_rows("facts", "What is compared", FACTS, sorted(side.facts.items())), limit=len(side.facts)),
    )
    return Report(side.name, says, (), (), (Page("baseline", "Baseline", "What does it hold?", says, sections),), advises=False)
