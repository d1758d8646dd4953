"""Inputs that Python makes: the batches of a `PyDataset` are kept in memory, or made by several threads ahead of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outpace.model.units import Unit, humanize
from outpace.tune.data.size import SHARE, available_memory, element_bytes
from outpace.tune.optimisations.knob import ReaderKnob
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable
from outpace.tune.purity.reading import doubt
from outpace.tune.risk import Risk

if TYPE_CHECKING:
    from outpace.tune.program.program import Program


_BY_EPOCH = ("on_epoch_begin", "on_epoch_end")


class KeptBatches(ReaderKnob):
    """Keeps what `__getitem__` returns, by its index; Keras shuffles the order of batches, not what they hold."""

    id = "kept_batches"
    title = "batches kept in memory"
    practice = (
        "Decorate __getitem__ of the PyDataset with functools.cache, so that each batch is made once and not in every epoch."
    )
    order = 1

    def decorators(self, program: Program) -> dict[str, str]:
        """`functools.cache` on `__getitem__`."""
        return {"__getitem__": "functools.cache"}

    def applies(self, program: Program, /) -> Answer:
        """Where a PyDataset's batches are the same in every epoch, as its code shows, and fit into half of the free memory."""
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
        against = doubt(x.__getitem__)
        if against is not None:
            return NotApplicable(f"its batches may be others in the next epoch: {against}")
        total, free = program.batches * element_bytes(program.spare), available_memory()
        if total > SHARE * free:
            return NotApplicable(
                f"its batches take {humanize(total, Unit.BYTES)}, more than half of the {humanize(free, Unit.BYTES)} that are free"
            )
        return Applies(
            f"{type(x).__name__}.__getitem__ makes the same batches in every epoch ({humanize(total, Unit.BYTES)})", Risk.EXACT
        )


def _overrides(x: Any, name: str) -> bool:
    import keras

    return getattr(type(x), name, None) is not getattr(keras.utils.PyDataset, name, None)


class Workers(ReaderKnob):
    """As many threads as there are cores call `__getitem__`, where Keras would call it in one."""

    id = "workers"
    title = "workers of the PyDataset"
    practice = "Let several threads make the batches: super().__init__(workers=os.cpu_count()) in the PyDataset's constructor."
    order = 2

    def keywords(self, program: Program) -> dict[str, str]:
        """`workers=os.cpu_count()`."""
        return {"workers": "os.cpu_count()"}

    def applies(self, program: Program, /) -> Answer:
        """Where a PyDataset is read by a single thread, and its code shows nothing that several threads could disturb."""
        x = program.source.py_dataset
        if x is None:
            return NotApplicable("the input is no PyDataset")
        if x.workers > 1 or x.use_multiprocessing:
            return NotApplicable(f"it has workers already ({x.workers})")
        against = doubt(x.__getitem__)
        if against is not None:
            return Applies(
                f"one thread makes its batches, and several would share what its code shows: {against}", Risk.STATISTICAL
            )
        return Applies("one thread makes its batches, one after the other", Risk.EXACT)


OPTIMISATIONS = (KeptBatches(), Workers())
