"""Is a finding right? Its rule must be one that speaks of the planted cause, and where the cause
has a place, it must name that line.

The kind and the lines stand in the program's truth (corpus/README.md), which was written before any
report was read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

NEAR = 2  # lines: a call that spans several lines is named by its first or its last

INPUT = frozenset(
    {"slow_stage", "no_cache", "no_prefetch", "python_in_pipeline", "input_bound", "late_shuffle", "new_iterators"}
)
PYTHON = frozenset({
    "python_line", "read_one_by_one", "arguments_copied", "periodic_line", "even_stops", "evaluates_in_steps", "results_fetched",
    "waits_in_calls",
})  # fmt: skip
MODEL = frozenset({
    "slow_part", "slow_kind", "odd_ops", "python_in_model", "float64", "all_pairs", "emulated_half", "idle_updates", "one_hot_product",
    "recomputed", "repeated_backward", "loop_repeats", "unfused_attention", "unused_results",
})  # fmt: skip
SMALL = frozenset({"small_steps", "small_ops", "per_call_cost"})
BUILT = frozenset({"expensive_tf_function", "recompiled", "compiling_in_steps"})
EAGER = frozenset({"eager_ops", "expensive_tf_function", "op_by_op"})
ROUND = frozenset({"periodic_cost", "periodic_line", "python_line", "time_outside_steps", "evaluates_in_steps"})
BUSY = frozenset({"cpu_contention", "background_threads"})


@dataclass(frozen=True)
class Kind:
    """Rules that speak of a kind of plant, and whether they must name its line (a batch size and a
    missing option have none of their own).
    """

    words: tuple[str, ...]
    rules: frozenset[str]
    placed: bool = True


KINDS = (  # the first whose word stands in the kind that the author gave
    Kind(("tiny batch", "tiny_batch"), SMALL | {"python_overhead"}, placed=False),
    Kind(("contention",), BUSY | INPUT, placed=False),
    Kind(("xla", "jit_compile"), SMALL, placed=False),
    Kind(
        ("run_eagerly", "eager", "unjitted", "half of the model jitted", "half_jit", "half jit", "partial"),
        EAGER | PYTHON,
        placed=False,
    ),
    Kind(("retrac", "recompil"), BUILT),
    Kind(("random", "augment", "image"), MODEL),
    Kind(("slow layer", "slow_layer", "slow op", "slow_op"), MODEL),
    Kind(("checkpoint", "validation", "evaluation", "eval"), ROUND),
    Kind(("python map", "python_map", "slow map", "slow_map"), INPUT),
    Kind(("generator",), INPUT | PYTHON),
    Kind(("reader",), INPUT | PYTHON),
    Kind(("copied",), PYTHON | INPUT | {"high_output"}),  # in the loop, or in what makes the batches
    Kind(("callback", "sync", "python", "numpy", "preprocess", "convert", "transfer"), PYTHON | {"high_output"}),
)


@dataclass(frozen=True)
class Verdict:
    """Whether a finding names the cause, and its place."""

    cause: bool
    place: bool

    @property
    def right(self) -> bool:
        """Both."""
        return self.cause and self.place


def kind_of(truth: dict[str, Any]) -> Kind:
    """The kind of a plant; ValueError for one that no rule of this file knows."""
    said = str(truth["kind"]).lower()
    for kind in KINDS:
        if any(word in said for word in kind.words):
            return kind
    raise ValueError(f"no kind of plant is called {said!r}")


def judge(finding: dict[str, Any], truth: dict[str, Any], file: str) -> Verdict:
    """Judge one finding of a report's JSON against a truth of a file."""
    kind = kind_of(truth)
    cause = finding["id"] in kind.rules
    named = named_lines(finding, file)
    place = any(abs(line - int(known)) <= NEAR for line in named for known in truth["lines"])
    return Verdict(cause, place or not kind.placed)


def named_lines(finding: dict[str, Any], file: str) -> set[int]:
    """Lines of a file that a finding names, as its location or in its sentence and action."""
    text = " ".join((finding["location"], finding["sentence"], finding["action"]))
    return {int(number) for number in re.findall(rf"(?<!\w){re.escape(file)}:(\d+)", text)}


def rank_of(findings: list[dict[str, Any]], truth: dict[str, Any], file: str) -> int | None:
    """Place of the first finding that is right about a truth, from 1; None where none is."""
    given = [f for f in findings if f["severity"] != "info"]
    return next((at for at, finding in enumerate(given, 1) if judge(finding, truth, file).right), None)


def promised(findings: list[dict[str, Any]]) -> float:
    """The largest share of the step that the first finding of a report says could be saved; 0 where
    it promises nothing.
    """
    given = [f for f in findings if f["severity"] != "info"]
    return float(given[0]["saving"]["high"]) if given and given[0]["saving"] else 0.0
