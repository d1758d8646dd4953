"""Exchanges two neighbouring stages: `before -> after` becomes `after -> before`, each with its own arguments and function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.classes import construct
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
    """The stages right before `stage` of the given operations that make one element of one element and always the same one.

    Of a Python function that is only known under a condition, which who moves a stage does not state.
    """
    found: list[Stage] = []
    below = stage.inputs[0] if len(stage.inputs) == 1 else None
    while below is not None and below.op in ops and _passable(below):
        found.append(below)
        below = below.inputs[0]
    return found


def _passable(stage: Stage) -> bool:
    return stage.deterministic and len(stage.inputs) == 1 and not any(facts.python for facts in stage.functions)
