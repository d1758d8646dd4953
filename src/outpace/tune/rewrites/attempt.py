"""Applies a rewrite and lets it stand only when the result was verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.tree import Pipeline
from outpace.tune.data.verify import ELEMENTS, Difference, Verified, verify
from outpace.tune.rewrites.rewrite import Reason, Refusal, Rewrite


@dataclass(frozen=True, eq=False)
class Rewritten:
    """A rewritten pipeline that was verified against its original."""

    rewrite: Rewrite
    reason: Reason
    verified: Verified
    dataset: Any = field(repr=False)


def attempt(
    rewrite: Rewrite, pipeline: Pipeline, elements: int = ELEMENTS, reason: Reason | Refusal | None = None
) -> Rewritten | Refusal:
    """Apply and verify; a refusal says whether the rewrite does not apply, cannot be built, or gives something else.

    `reason`: what `rewrite.applies(pipeline)` said, where it was asked already.
    Runs `elements` source elements of both pipelines, with the effects that `effects(pipeline)` lists. The pipeline stays as it is.
    """
    reason = reason or rewrite.applies(pipeline)
    if isinstance(reason, Refusal):
        return reason
    try:
        dataset = rewrite.apply(pipeline)
    except RebuildError as error:
        return Refusal(str(error))
    outcome = verify(pipeline.dataset, dataset, elements, reason.risk, rewrite.options_change)
    if isinstance(outcome, Difference):
        return Refusal(f"{rewrite.title}: {outcome.what}")
    return Rewritten(rewrite, reason, outcome, dataset)
