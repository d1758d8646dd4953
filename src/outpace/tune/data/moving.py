"""Exchanges two neighbouring stages: `before -> after` becomes `after -> before`, each with its own arguments and function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outpace.tune.data.classes import construct
from outpace.tune.data.errors import RebuildError
from outpace.tune.data.rebuild import rebuild
from outpace.tune.data.tree import Pipeline, Stage


def moved_before(pipeline: Pipeline, stage: Stage, passed: Sequence[Stage]) -> Any:
    """The pipeline with `stage` in front of the stages that it passes (its inputs in order, the nearest first).

    Raises RebuildError when one of them feeds another stage too, or a class is unknown.
    """
    for other in passed:
        if len(pipeline.consumers(other)) != 1:
            raise RebuildError(f"{other.title} feeds another stage as well.")
    base = passed[-1].inputs[0].dataset

    def edit(node: Any, inputs: Sequence[Any]) -> Any:
        made = construct(node, [base])
        for other in reversed(passed):
            made = construct(other.dataset, [made])
        return made

    return rebuild(pipeline.dataset, [(stage.dataset, edit)])


def passable(stage: Stage, ops: Sequence[str]) -> list[Stage]:
    """The stages right before `stage` of the given operations that make one element of one element and always the same one."""
    found: list[Stage] = []
    below = stage.inputs[0] if len(stage.inputs) == 1 else None
    while below is not None and below.op in ops and below.deterministic and len(below.inputs) == 1:
        found.append(below)
        below = below.inputs[0]
    return found
