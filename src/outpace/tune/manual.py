"""`outpace.tune(model, data)` and `outpace.tune_dataset(data)`: tuning from Python, in a script or a notebook."""

from __future__ import annotations

import sys
from typing import Any

from outpace.model.errors import UsageError
from outpace.tune.program.program import Program
from outpace.tune.race import watching
from outpace.tune.session import BUDGET, Tuned, tune_program


def tune(
    model: Any, x: Any, *, budget: float = BUDGET, allow_statistical: bool = False, progress: bool = True, **arguments: Any
) -> Tuned:
    """Find what makes `model.fit(x, **arguments)` faster, and prove it.

    The model must be compiled; nothing is trained: model, optimizer and random numbers are put back bit by bit. `budget` is in seconds.
    What may change results by rounding or by other random numbers is only tried with `allow_statistical`. Print the result, or show it in a
    notebook; `result.apply()` turns the winner on. Raises UsageError where there is nothing that can be tuned, with the reason.
    """
    return _tuned(Program.of(model, x, **arguments), budget, allow_statistical, progress)


def tune_dataset(dataset: Any, *, budget: float = BUDGET, allow_statistical: bool = False, progress: bool = True) -> Tuned:
    """Find what makes a `tf.data.Dataset` faster, whoever reads it: an own training loop, or JAX.

    `result.dataset` is the fastest that was proven. Options and errors as in `tune`.
    """
    if "tensorflow" not in sys.modules or not isinstance(dataset, sys.modules["tensorflow"].data.Dataset):
        raise UsageError(f"A tf.data.Dataset can be tuned, and this is a {type(dataset).__name__}.")
    return _tuned(Program.of_input(dataset), budget, allow_statistical, progress)


def _tuned(program: Program, budget: float, allow_statistical: bool, progress: bool) -> Tuned:
    with watching(progress) as watch:
        return tune_program(program, budget=budget, allow_statistical=allow_statistical, watch=watch)
