"""Advice about functions that are traced again or run without a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from outpace.metrics.budget import at_most
from outpace.metrics.program import Program
from outpace.model import Category, Certainty, Effort, Evidence, Finding, Saving, Severity, Table, Threshold, Unit
from outpace.timeline import Run
from outpace.tools.functions import traces as kinds

EXPENSIVE = Threshold("expensive tf.function calls", 0.20, Unit.FRACTION, "XProf's overview page")
RETRACES = Threshold(
    "retraced in steady state", 2, Unit.COUNT, "tf.function guide: a function should be traced once per input signature"
)
_MATERIAL = 0.01  # of the time in steps
_FIXES = {
    kinds.VALUE: "Pass Python values as tensors (tf.constant, or a tf.Variable that is assigned): each value is a new graph.",
    kinds.SHAPE: "Give the function an input_signature with None where sizes change, or make the sizes equal (batch with drop_remainder=True, "
    "padded_batch); reduce_retracing=True relaxes shapes after the second one.",
    kinds.DTYPE: "Cast arguments to one dtype before the call.",
    kinds.STRUCTURE: "Pass the same arguments in every call; move optional parts into functions of their own.",
    kinds.SAME: "Create the function once, outside the loop: every tf.function(...) has graphs of its own, and so has every new object with "
    "a decorated method.",
}
_FIX = "Pass tensors instead of Python numbers, give the function an input_signature, and create it once, outside the loop."
_EAGER = "Remove tf.config.run_functions_eagerly(True): the function then runs as a graph."
_EAGER_KERAS = (
    "Remove run_eagerly=True from compile(), or tf.config.run_functions_eagerly(True): the step then runs as a graph."
)


def find(run: Run, functions: Table, built: Table, program: Program) -> Iterator[Finding]:
    """A finding for every function whose calls mostly build graphs or run op by op, and for names that are built again and again."""
    in_steps = sum(int(t.steps.duration.sum()) for t in run.hosts)
    for row in functions.records():
        if row["expensive_ps"] < _MATERIAL * in_steps:
            continue
        share = row["expensive_ps"] / row["total_ps"] if row["total_ps"] else 0.0
        retraced = row["traced"] >= RETRACES.value
        if share >= EXPENSIVE.value and (retraced or row["eager"]):
            yield _expensive(row, share, retraced, [t for t in built.records() if _same(t, row)], in_steps, program)


def _same(trace: dict[str, Any], row: dict[str, Any]) -> bool:
    return bool(trace["function"] == row["function"] and trace["host"] == row["host"])


def _expensive(
    row: dict[str, Any], share: float, retraced: bool, built: list[dict[str, Any]], in_steps: int, program: Program
) -> Finding:
    reason = f"built a new graph in {row['traced']} of {row['calls']} calls" if retraced else "ran op by op, without a graph"
    known = [t for t in built if t["kinds"] not in (kinds.FIRST, kinds.UNKNOWN)]
    causes = Counter(kind for t in known for kind in t["kinds"].split(", ")).most_common()
    example = next((t for t in known if causes and causes[0][0] in t["kinds"].split(", ")), None)
    why = f" For example: {example['cause']}." if example else ""
    action = " ".join(_FIXES[kind] for kind, _ in causes) or _FIX
    return Finding(
        id="expensive_tf_function",
        severity=Severity.HIGH if retraced else Severity.MODERATE,
        sentence=f"tf.function '{row['function']}' {reason}; that took {share:.0%} of its time.{why}",
        action=action if retraced else program.say(keras=_EAGER_KERAS, tensorflow=_EAGER, jax=_EAGER),
        evidence=(
            Evidence("share of the function's time in such calls", share, Unit.FRACTION, "function_calls"),
            Evidence("graphs that the function had at its last call", float(row["graphs"]), Unit.COUNT, "function_calls"),
            *(Evidence(f"calls because of: {kind}", float(count), Unit.COUNT, "traces") for kind, count in causes),
        ),
        threshold=EXPENSIVE,
        location=next((t["source"] for t in built if t["source"]), ""),
        host=row["host"],
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=("compiling_in_steps",) if retraced else ("eager_ops",),
        saving=_saving(row, retraced, in_steps),
    )


def _saving(row: dict[str, Any], retraced: bool, in_steps: int) -> Saving | None:
    """What the building of graphs took; of calls that run op by op a profile does not tell how much a graph would save."""
    if not retraced or not in_steps:
        return None
    return at_most(row["traced_ps"] / in_steps, Category.COMPILATION, assumes="if no call built a graph")
