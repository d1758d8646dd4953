"""The page of the model's own time."""

from __future__ import annotations

from outpace.metrics.input.odd_ops import odd_ops
from outpace.metrics.machine.core_use import core_use, lone_ops
from outpace.metrics.machine.own_best import own_best
from outpace.metrics.model.double_ops import double_ops
from outpace.metrics.model.hlo_lines import hlo_lines
from outpace.metrics.model.model_parts import model_parts
from outpace.metrics.model.model_work import model_work
from outpace.metrics.model.small_ops import small_ops
from outpace.metrics.program.budget import ALL_HOSTS, budgets
from outpace.metrics.program.no_steps import no_steps
from outpace.metrics.program.program import program
from outpace.metrics.slices import slices
from outpace.model import Chart, ChartKind, Page, Rows, Section, Table, filled
from outpace.timeline import Run
from outpace.tools.model_time import TOOL, facts
from outpace.tools.model_time import findings as rules
from outpace.tools.model_time.facts import Part, parts
from outpace.tools.model_time.schema import MODEL_SHARES

_BY = ("layer_type", "top_op", "source", "kind")
_WAYS = {"together": "self_ps", "forward": "forward_ps", "backward": "backward_ps"}
_PARTS = ("part", "source", "share", "forward_ps", "backward_ps", "self_ps", "top_op", "count")


def _rows(table: Table) -> Rows:
    if table.name == "model_parts":
        return Rows(table, _PARTS, limit=12, pick=("side", "host"), by=_BY, sums=("self_ps",))
    if table.name == "model_work":
        return Rows(table, limit=12, pick=("side", "host"), by=("work", "top_op"))
    return Rows(table, limit=12, pick=tuple(name for name in ("host",) if name in table))


def _shares(parts: Table) -> Table:
    """What the parts take of the ops' time on each side, forward and backward together and each alone: the largest, and the rest as one."""
    rows: list[tuple[object, ...]] = []
    sides, names = parts["side"].tolist(), parts["part"].tolist()
    for side in dict.fromkeys(sides):
        for way, column in _WAYS.items():
            sums: dict[str, int] = {}
            for own, name, size in zip(sides, names, parts[column].tolist(), strict=True):
                if own == side:
                    sums[name] = sums.get(name, 0) + int(size)
            rows += [(side, way, name, size) for name, size in slices(sums)]
    return Table.from_rows("model_shares", "Time of the parts", MODEL_SHARES, rows)


def _headline(largest: Part) -> str:
    """The largest part, where it is large: what takes a hundredth is nobody's headline."""
    if largest.share < facts.LARGE:
        return f"No part of the model takes {facts.LARGE:.0%} of the step; the largest is {largest} with {largest.share:.0%}."
    return f"{largest} takes {largest.share:.0%} of the step, {largest.most}."


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    known, kind = budgets(run), program(run)
    if ALL_HOSTS not in known:
        return TOOL.page(unavailable=no_steps(run))
    model = (model_parts(run), model_work(run), hlo_lines(run), odd_ops(run), small_ops(run), double_ops(run))
    tables = (*model, own_best(run), core_use(run), lone_ops(run))
    shares = _shares(model[0])
    picture = Chart(shares.title, ChartKind.PIE, shares, "part", ("time_ps",), select="side", then=("way",))
    sections: list[Section] = [*filled(picture), *(_rows(table) for table in tables if len(table))]
    found = tuple(rules.find(run, known, kind))
    hidden = tuple(table for table in tables if not len(table))
    largest = [part for t in run.hosts if t.host in known for part in parts(run, t.host, kind)[:1]]
    headline = "The profile does not say which parts of the model take its time."
    if largest:
        headline = _headline(largest[0])
    return TOOL.page(headline, tuple(sections), found, hidden)
