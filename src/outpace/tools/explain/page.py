# SPDX-License-Identifier: Apache-2.0
"""The page that explains one step."""

from __future__ import annotations

from outpace.metrics.facts.missing_steps import explain_missing_steps
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Figure,
    Figures,
    Link,
    Links,
    Page,
    Section,
    Table,
    TableView,
    Unit,
    UsageError,
    humanize,
)
from outpace.model.text import format_suggestion
from outpace.timeline import Run
from outpace.tools.explain import TOOL
from outpace.tools.explain.compute import TargetStep, compute_categories, compute_event_groups, compute_events, select_step

_GROUPS = ("op", "kernel", "category", "thread", "count", "counted_ps")
_EVENTS = ("op", "kernel", "category", "thread", "offset_ps", "duration_ps", "counted_ps")
_BY, _SUMS = ("category", "op", "event", "thread"), ("counted_ps",)
_HOW = (
    "Every moment counts for one event only: that of the category with the highest priority in the breakdown, and of its events the "
    "innermost. In the workbench, choose another step above; in a terminal, 'outpace explain PATH step NUMBER [CATEGORY]' explains it."
)


def analyse(run: Run, *, step: int | None = None, category: Category | str | None = None, host: str | None = None) -> Page:
    """Return the page of one step.

    step: number of the step; None for the slowest complete one
    category: category to which the events are limited: its key, such as `kernel_launch`, or its
        name
    host: host of the step; None for the first host that has it

    Raises UsageError where the step, the category or the host does not exist.
    """
    selected = None if category is None else _category(category)
    target = select_step(run, step, host)
    if target is None:
        return TOOL.page(unavailable=explain_missing_steps(run))
    every = compute_events(target, None)
    events = every if selected is None else compute_events(target, selected)
    compared = compute_categories(run, target, every)
    begin, end = target.span
    items = (
        Figure(
            "Step",
            target.number,
            Unit.COUNT,
            f"of {target.timeline.host}" + (", the slowest complete one" if step is None else ""),
        ),
        Figure("Length", end - begin, Unit.PS),
        *(
            [Figure("Device", target.device_name, Unit.TEXT, "the busiest; its work and the host's are explained")]
            if target.device
            else []
        ),
        Figure("Starts", begin - target.timeline.zero_ps, Unit.PS, "after the first event of its host"),
    )
    sections: tuple[Section, ...] = (
        Figures("The step", items),
        TableView(compared),
        *_steps_link(target),
        TableView(compute_event_groups(events), _columns_to_show(_GROUPS, events), limit=15, remark=_HOW, by=_BY, sums=_SUMS),
        TableView(events, _columns_to_show(_EVENTS, events), limit=10 if step is None else 40, by=_BY, sums=_SUMS),
    )
    colors = {c.label: c.value for c in Category}
    glance = Chart("Its categories", ChartKind.STACK_TOTAL, compared, "category", ("time_ps",), colors)
    return TOOL.page(_headline(target, compared, selected), sections, glance=glance)


def _steps_link(target: TargetStep) -> tuple[Section, ...]:
    """Return a link to the table of the host's other steps; () where there is only one step."""
    steps = len(target.timeline.steps)
    if steps < 2:
        return ()
    link = Link("steps of this host", steps, Unit.COUNT, ("overview.steps",), "each by its categories")
    return (Links("Other steps", (link,)),)


def _columns_to_show(columns: tuple[str, ...], table: Table) -> tuple[str, ...]:
    """Return the columns to show, without the kernel column where no event has a kernel."""
    return columns if any(table["kernel"].tolist()) else tuple(name for name in columns if name != "kernel")


def _category(name: Category | str) -> Category:
    """Return the category with this key or name.

    Raises UsageError where there is none.
    """
    key = str(getattr(name, "value", name)).lower().replace(" ", "_").replace("-", "_")
    for category in Category:
        if key in (category.value, category.label.lower().replace(" ", "_").replace("-", "_")):
            return category
    keys = [c.value for c in Category]
    raise UsageError(f"There is no category '{name}'.{format_suggestion(key, keys)} There are: {', '.join(keys)}.")


def _headline(target: TargetStep, compared: Table, selected: Category | None) -> str:
    """Return the sentence at the top of the page."""
    records = list(compared.records())
    begin, end = target.span
    if selected is not None:
        row = next((r for r in records if r["category"] == selected.label), None)
        time = row["time_ps"] if row else 0
        return f"{humanize(time, Unit.PS)} of the {humanize(end - begin, Unit.PS)} of step {target.number} are {selected.label.lower()}."
    most = max(records, key=lambda r: r["time_ps"] - r["usual_ps"], default=None)
    if most is None or len(target.timeline.steps) == 1:
        return f"Step {target.number}, the only one, took {humanize(end - begin, Unit.PS)}."
    more = most["time_ps"] - most["usual_ps"]
    if more <= 0:
        return f"Step {target.number} took {humanize(end - begin, Unit.PS)}, no longer than others in any category."
    return (
        f"Step {target.number} took {humanize(end - begin, Unit.PS)}; it differs most from the mean step in {most['category'].lower()} "
        f"({humanize(more, Unit.PS)} more)."
    )
