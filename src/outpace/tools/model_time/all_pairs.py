# SPDX-License-Identifier: Apache-2.0
"""Advice on arrays of all pairs: broadcasting combines each row of one array with each of another,
and the result is added up again. A matrix product gives the same sums without that array.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.metrics.facts.graph_costs import Pairs, graph_costs
from outpace.metrics.views.model_parts import located_ops
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit
from outpace.timeline import Run
from outpace.tools.model_time.parts import format_source
from outpace.tools.model_time.work_summary import compute_saving

_SUMS = ("Sum", "Mean")
_TIME = Threshold(
    "time in arrays of all pairs", 0.15, Unit.FRACTION, "our choice: a smaller gain is not worth other arithmetic"
)


@dataclass(frozen=True)
class _Sums:
    """What a part of the model does with an array of all pairs.

    share: share of the step of the ops that take or make it.
    source: line that makes it.
    is_summed: whether the forward pass adds it up.
    """

    share: float
    source: str
    is_summed: bool


def iter_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on each part of one host's model that goes through an array of all pairs
    for much of the step.
    """
    for pairs, found in _find_sums(run, host).items():
        if not found.is_summed or found.share < _TIME.value:
            continue
        how = (
            "squared distances are |x|^2 - 2 x c + |c|^2, of which the middle is a product"
            if pairs.is_difference
            else "a sum of products is one product"
        )
        at = format_source(found.source)
        yield Finding(
            id="all_pairs",
            severity=Severity.HIGH,
            sentence=f"{found.share:.0%} of the step goes through an array of all pairs{f' (at {at})' if at else ''}, "
            f"{pairs.sizes} numbers that are added up again.",
            action=f"Multiply instead of broadcasting (tf.matmul, tf.einsum): {how}, and the array is never made.",
            evidence=(Evidence("share of the step in ops on that array", found.share, Unit.FRACTION, "model_parts"),),
            threshold=_TIME,
            saving=compute_saving(found.share, "if the product took no time"),
            counter_evidence=("Differences of nearly equal numbers lose digits in a product.",) * pairs.is_difference,
            location=at,
            host=host,
            certainty=Certainty.LIKELY,
            effort=Effort.SMALL,
            explains=("slow_part", "slow_kind", "model_bound", "small_ops"),
        )


def _find_sums(run: Run, host: str) -> dict[Pairs, _Sums]:
    """Return what becomes of the arrays of all pairs that the parts of a host's model make."""
    costs = graph_costs(run).get(host)
    if costs is None:
        return {}
    ran = [(ops, op) for ops, located in located_ops(run) if ops.host == host for op in located]
    places: dict[str, tuple[Pairs, str]] = {}
    for _, op in ran:
        if (pairs := costs.find_pairs(op.name)) is not None:
            places.setdefault(op.location.part, (pairs, op.location.source))
    shares, steps = defaultdict[str, float](float), defaultdict[str, list[str]](list)
    for ops, op in ran:
        part, text = op.location.part, costs.find_text(op.name)
        if part in places and places[part][0].shape in text.split(" "):
            shares[part] += ops.step_share(op.wall_ps)
            steps[part] += [] if op.location.is_backward else [text]
    return {
        pairs: _Sums(min(shares[part], 1.0), source, _is_product(pairs, steps[part]))
        for part, (pairs, source) in places.items()
    }


def _is_product(pairs: Pairs, texts: list[str]) -> bool:
    """Whether a sum of products is all that the forward pass makes of an array of all pairs, by the
    texts of the ops that make or take it: of differences their squares are added up.
    """
    kinds = [text.partition(" ")[0] for text in texts]
    made = [text for text in texts if text.endswith(f" {pairs.shape}")]
    squares = kinds.count("Square")
    is_squared = kinds.count("SquaredDifference") == 1 or squares == 1
    return (
        any(kind in _SUMS for kind in kinds)
        and all(kind in (*_SUMS, "Square", pairs.kind) for kind in kinds)
        and len(made) == 1 + squares
        and is_squared == pairs.is_difference
    )
