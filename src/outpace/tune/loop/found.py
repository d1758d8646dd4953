"""What is known of a loop when it was found. Standard library only: it is imported before the script imports a framework."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.loop.jax_calls import JaxCalls


@dataclass(frozen=True, eq=False)
class Found:
    """A loop that trains. dataset: what the script reads in each step; None where that is nothing of tf.data. step: the code of the function
    whose calls are its steps then; None where they are made eagerly. jax: what the script calls of JAX, where that trains. whole: the code
    of a `tf.function` that is given the data set and makes all its steps in one call; then no step of it can be seen. numbers: that its
    steps of JAX returned so far, where these were asked for."""

    dataset: Any
    step: CodeType | None
    jax: JaxCalls | None = None
    whole: CodeType | None = None
    numbers: Sequence[Sequence[float]] = ()
