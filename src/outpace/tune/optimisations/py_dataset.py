# SPDX-License-Identifier: Apache-2.0
"""Inputs that Python makes: the batches of a `PyDataset` are kept in memory, or made by several
threads ahead of the step.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from outpace._memory import free_memory
from outpace.capture.frames import is_user_file
from outpace.model.units import Unit, humanize
from outpace.tune.data.size import SHARE, element_bytes
from outpace.tune.optimisations.knob import ReaderKnob
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable, Reach
from outpace.tune.purity.evidence import ELEMENTS, SECONDS
from outpace.tune.risk import Risk
from outpace.tune.same.state import read_values

if TYPE_CHECKING:
    from outpace.tune.program.program import Program


_BY_EPOCH = ("on_epoch_begin", "on_epoch_end")


class KeptBatches(ReaderKnob):
    """Keeps what `__getitem__` returns, by its index; Keras shuffles the order of batches, not what
    they hold.
    """

    id = "kept_batches"
    title = "batches kept in memory"
    reach = Reach(of_input=0.9)
    practice = (
        "Decorate __getitem__ of the PyDataset with functools.cache, so that each batch is made once and not in every epoch."
    )
    order = 1

    def decorators(self, program: Program) -> dict[str, str]:
        """`functools.cache` on `__getitem__`."""
        return {"__getitem__": "functools.cache"}

    def applies(self, program: Program, /) -> Answer:
        """Where a PyDataset's batches are the same when they are made again, and fit into half of
        the free memory.
        """
        x = program.source.py_dataset
        if x is None:
            return NotApplicable("the input is no PyDataset")
        if program.batches is None:
            return NotApplicable("the number of its batches is not known")
        if x.use_multiprocessing:
            return NotApplicable("its batches are made in other processes, each of which would keep all of them")
        own = next((name for name in _BY_EPOCH if _overrides(x, name)), None)
        if own is not None:
            return NotApplicable(f"its {own} may change what a batch holds")
        other = _other(x, program.batches)
        if other is not None:
            return NotApplicable(f"its batch {other} was another when it was made again")
        total, free = program.batches * element_bytes(program.spare), free_memory()
        if total > SHARE * free:
            return NotApplicable(
                f"its batches take {humanize(total, Unit.BYTES)}, more than half of the {humanize(free, Unit.BYTES)} that are free"
            )
        return Applies(
            f"{type(x).__name__}.__getitem__ makes the same batches in every epoch ({humanize(total, Unit.BYTES)})", Risk.EXACT
        )


def _other(x: Any, batches: int, threads: int = 1) -> int | None:
    """Of some batches, spread over all, the first that is another when it is made again, by so many
    threads; None where all are the same.
    """
    spread = range(0, batches, -(-batches // ELEMENTS))
    first: dict[int, int | None] = {}
    began = time.perf_counter()
    for at in spread:
        first[at] = _made(x, at)
        if time.perf_counter() - began > SECONDS / 2:
            break
    with ThreadPoolExecutor(threads) as pool:
        again = list(pool.map(lambda at: _made(x, at), first))
    return next((at for at, new in zip(first, again, strict=True) if new is None or first[at] != new), None)


def _made(x: Any, at: int) -> int | None:
    """A number for what a batch holds; None where it cannot be made or compared."""
    try:
        return hash(tuple(read_values(x[at], is_user_file).items()))
    except Exception:  # whatever the user's code raises, in several threads above all
        return None


def _overrides(x: Any, name: str) -> bool:
    import keras

    return getattr(type(x), name, None) is not getattr(keras.utils.PyDataset, name, None)


class Workers(ReaderKnob):
    """As many threads as there are cores call `__getitem__`, where Keras would call it in one."""

    id = "workers"
    title = "workers of the PyDataset"
    reach = Reach(of_input=0.5)
    practice = "Let several threads make the batches: super().__init__(workers=os.cpu_count()) in the PyDataset's constructor."
    order = 2

    def keywords(self, program: Program) -> dict[str, str]:
        """`workers=os.cpu_count()`."""
        return {"workers": "os.cpu_count()"}

    def applies(self, program: Program, /) -> Answer:
        """Where a PyDataset is read by a single thread; several threads must make the
        same batches.
        """
        x = program.source.py_dataset
        if x is None:
            return NotApplicable("the input is no PyDataset")
        if x.workers > 1 or x.use_multiprocessing:
            return NotApplicable(f"it has workers already ({x.workers})")
        other = _other(x, program.batches or 1, os.cpu_count() or 1)
        if other is not None:
            return Applies(f"one thread makes its batches, and several made another one of batch {other}", Risk.STATISTICAL)
        return Applies("one thread makes its batches, one after the other", Risk.EXACT)


OPTIMISATIONS = (KeptBatches(), Workers())
