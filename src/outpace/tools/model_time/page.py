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
from outpace.model import Page, Rows, Section, Table
from outpace.timeline import Run
from outpace.tools.model_time import TOOL
from outpace.tools.model_time import findings as rules
from outpace.tools.model_time.facts import parts

_BY, _SUMS = (
    ("layer_type", "top_op", "source", "kind"),
    ("self_ps", "share", "forward_ps", "backward_ps", "overhead_ps", "count"),
)
_PARTS = ("part", "source", "share", "forward_ps", "backward_ps", "self_ps", "top_op", "count")


def _rows(table: Table) -> Rows:
    if table.name == "model_parts":
        return Rows(table, _PARTS, limit=12, pick=("side", "host"), by=_BY, sums=_SUMS)
    if table.name == "model_work":
        return Rows(table, limit=12, pick=("side", "host"), by=("work", "top_op"), sums=("self_ps", "share", "count"))
    return Rows(table, limit=12, pick=tuple(name for name in ("host",) if name in table))


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    known, kind = budgets(run), program(run)
    if ALL_HOSTS not in known:
        return TOOL.page(unavailable=no_steps(run))
    model = (model_parts(run), model_work(run), hlo_lines(run), odd_ops(run), small_ops(run), double_ops(run))
    tables = (*model, own_best(run), core_use(run), lone_ops(run))
    sections: tuple[Section, ...] = tuple(_rows(table) for table in tables if len(table))
    found = tuple(rules.find(run, known, kind))
    hidden = tuple(table for table in tables if not len(table))
    largest = [part for t in run.hosts for part in parts(run, t.host, kind)[:1]]
    headline = "The profile does not say which parts of the model take its time."
    if largest:
        headline = f"{largest[0]} takes {largest[0].share:.0%} of the step, most of it in {largest[0].op}."
    return TOOL.page(headline, sections, found, hidden)
