"""Whether a stage of a pipeline gives the same elements in every epoch, and what to say where it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from outpace.tune.purity.traced import FunctionFacts


class Judged(Protocol):
    """What is asked of a stage (see data/tree.py)."""

    @property
    def op(self) -> str | None:
        """Its public operation."""

    @property
    def title(self) -> str:
        """How sentences name it."""

    @property
    def opaque(self) -> bool:
        """Whether its class is unknown."""

    @property
    def deterministic(self) -> bool:
        """Whether the stage itself gives the same elements in the same order whenever its inputs do."""

    @property
    def functions(self) -> tuple[FunctionFacts, ...]:
        """The facts of its functions."""


def constant(stage: Judged) -> bool:
    """Whether what a stage gives may be kept for later epochs, as far as it depends on the stage itself."""
    return stage.deterministic and stage.op != "repeat"


def why_not_constant(stage: Judged) -> str:
    """Why a stage's elements may not be kept for later epochs."""
    if stage.opaque:
        return (
            f"{stage.title} is of a class that is not known, so nobody can say that its elements are the same in every epoch."
        )
    if stage.op == "shuffle":
        return f"{stage.title} gives another order in every epoch, and what follows it does not let it pass."
    if stage.op == "repeat":
        return f"{stage.title} repeats elements before they are cached, and what follows it does not let it pass."
    causes = ", ".join(sorted({cause for facts in stage.functions for cause in facts.changing}))
    against = "; ".join(dict.fromkeys(doubt for facts in stage.functions for doubt in facts.python_doubts))
    why = f"{causes}: {against}" if against else causes or "its order is free"
    return f"{stage.title} may give other elements in the next epoch ({why})."


def deterministic(node: Any, op: str | None, arguments: Mapping[str, Any], found: tuple[FunctionFacts, ...]) -> bool:
    """A stage that is not known, draws, runs Python that cannot be read, reads mutable state or hands over out of order is not."""
    if op is None or op == "shuffle" or arguments.get("deterministic") == "false":
        return False
    if op == "random" and getattr(node, "_rerandomize", None):
        return False
    if type(node).__name__ == "_RandomDataset" and not any(_seeds(node)):
        return False
    return all(facts.repeatable for facts in found)


def _seeds(node: Any) -> tuple[int, int]:
    return plain(getattr(node, "_seed", 0)) or 0, plain(getattr(node, "_seed2", 0)) or 0


def plain(value: Any) -> Any:
    """An argument of a stage as a plain value; None for others."""
    with contextlib.suppress(Exception):
        value = value.numpy() if hasattr(value, "numpy") else value
        value = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, (bool, int, float, str)) else None
