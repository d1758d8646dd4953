# SPDX-License-Identifier: Apache-2.0
"""The page about functions and compilation."""

from __future__ import annotations

from outpace.metrics.facts.tf_functions import tf_functions
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.views.host_copies import host_copies
from outpace.metrics.views.host_fetches import host_fetches
from outpace.metrics.views.jit_calls import jit_calls
from outpace.model import Figure, Figures, Page, Table, TableView, Unavailable, Unit, humanize, select_nonempty
from outpace.model.units import format_count
from outpace.timeline import Run
from outpace.tools.functions import TOOL, evaluation
from outpace.tools.functions import findings as rules
from outpace.tools.functions.compute import compute_compilations, compute_control_flow
from outpace.tools.functions.retracing import compute_traces

_NONE = Unavailable(
    "no tf.function was called and nothing was compiled in this capture",
    "An eager program has none; a jitted JAX program compiles before the capture starts unless the first calls are captured.",
)


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    functions, compiled, control = tf_functions(run), compute_compilations(run), compute_control_flow(run)
    calls = jit_calls(run)
    if not any(len(table) for table in (functions, compiled, calls)):
        return TOOL.page(unavailable=_NONE)
    built = compute_traces(run)
    remark = _UNKNOWN if "unknown" in built["kinds"].tolist() else ""
    named = ("function", "source", "steps") if any(compiled["function"]) else ()
    sections = (
        _summary(functions, compiled),
        *select_nonempty(
            TableView(functions, _FUNCTIONS, pick=("host",)),
            TableView(built, ("function", "source", "step", "duration_ps", "graphs", "cause"), remark=remark),
            TableView(compiled, ("event", *named, "count", "total_ps", "in_steps_ps", "longest_ps")),
            TableView(calls),
            TableView(host_copies(run)),
            TableView(host_fetches(run)),
            TableView(control, ("type", "op", "count", "total_ps"), remark=_AUTOGRAPH),
        ),
    )
    kind = find_workload(run)
    findings = (*rules.iter_findings(run, functions, built, compiled, kind), *evaluation.iter_findings(run, kind))
    return TOOL.page(_headline(functions, compiled), sections, findings)


_FUNCTIONS = ("function", "calls", "traced", "eager", "xla", "graphs", "total_ps", "traced_ps")
_UNKNOWN = "'outpace profile' records the arguments of every graph and names the one that changed."
_AUTOGRAPH = (
    "Python's if and while on tensors become these ops: their branches cannot be fused with what stands around them. A condition that "
    "is known when the graph is built (a Python bool) costs nothing; tf.where computes both sides without a branch."
)


def _summary(functions: Table, compiled: Table) -> Figures:
    """Return the totals of calls, graphs and compilation."""
    return Figures(
        "Summary",
        (
            Figure("Calls of functions", int(functions["calls"].sum()), Unit.COUNT),
            Figure("Calls that built a graph", int(functions["traced"].sum()), Unit.COUNT),
            Figure("Building and compiling", int(compiled["total_ps"].sum()), Unit.PS, "in the capture"),
            Figure("In steps", int(compiled["in_steps_ps"].sum()), Unit.PS, "the step-time category Compilation"),
        ),
    )


def _headline(functions: Table, compiled: Table) -> str:
    """Return the sentence at the top of the page: the function that is built again at the highest
    cost, if any.
    """
    again = [row for row in functions.records() if row["traced"] >= rules.MIN_RETRACES.value]
    if again:
        worst = max(again, key=lambda row: int(row["traced_ps"]))
        time = humanize(worst["traced_ps"], Unit.PS)
        return f"'{worst['function']}' built a graph in {worst['traced']} of {format_count(worst['calls'], 'call')}; those calls took {time}."
    jitted = [row for row in compiled.records() if row["function"] and row["count"] > 1 and row["in_steps_ps"]]
    if jitted:
        worst = max(jitted, key=lambda row: int(row["in_steps_ps"]))
        time = humanize(worst["in_steps_ps"], Unit.PS)
        return (
            f"'{worst['function']}' was built {worst['count']} times (steps {worst['steps']}); that took {time} of the steps."
        )
    if compiled["in_steps_ps"].sum() > 0:
        return f"{humanize(int(compiled['in_steps_ps'].sum()), Unit.PS)} of the steps went to building graphs and compiling."
    if len(compiled):
        return (
            f"{humanize(int(compiled['total_ps'].sum()), Unit.PS)} went to building graphs and compiling, none of it in a step."
        )
    return "No retracing or compilation during the capture."
