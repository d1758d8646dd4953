"""Batches of a `PyDataset` that are made once, and kept in memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from outpace.model.units import Unit, humanize
from outpace.tune.data.size import SHARE, available_memory, element_bytes
from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Applies, NotHere
from outpace.tune.knobs.turned import Turned
from outpace.tune.purity.reading import doubt

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Reader, Stepper

_BY_EPOCH = ("on_epoch_begin", "on_epoch_end")


class KeptBatches:
    """Keeps what `__getitem__` returns, by its index; Keras shuffles the order of batches, not what they hold."""

    id = "kept_batches"
    title = "batches kept in memory"
    practice = (
        "Decorate __getitem__ of the PyDataset with functools.cache, so that each batch is made once and not in every epoch."
    )
    opt_in = False
    minor = False
    reads = True
    loops = False
    order = 1

    def keywords(self, program: Program) -> dict[str, str]:
        """None: it is no matter of `compile`."""
        return {}

    def decorators(self, program: Program) -> dict[str, str]:
        """`functools.cache` on `__getitem__`."""
        return {"__getitem__": "functools.cache"}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where a PyDataset's batches are the same in every epoch, as its code shows, and fit into half of the free memory."""
        x = program.source.py_dataset
        if x is None:
            return NotHere("the input is no PyDataset")
        if program.batches is None:
            return NotHere("the number of its batches is not known")
        if x.use_multiprocessing:
            return NotHere("its batches are made in other processes, each of which would keep all of them")
        own = next((name for name in _BY_EPOCH if _overrides(x, name)), None)
        if own is not None:
            return NotHere(f"its {own} may change what a batch holds")
        against = doubt(x.__getitem__)
        if against is not None:
            return NotHere(f"its batches may be others in the next epoch: {against}")
        total, free = program.batches * element_bytes(program.spare), available_memory()
        if total > SHARE * free:
            return NotHere(
                f"its batches take {humanize(total, Unit.BYTES)}, more than half of the {humanize(free, Unit.BYTES)} that are free"
            )
        return Applies(
            f"{type(x).__name__}.__getitem__ makes the same batches in every epoch ({humanize(total, Unit.BYTES)})", Risk.EXACT
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Feeds that are made inside the block keep their batches, all in one memory."""

        def on(back: ExitStack) -> None:
            back.callback(setattr, program.source, "keeping", program.source.keeping)
            program.source.keeping = True

        return Turned(on)

    def proof(self, program: Program, runner: Stepper | Reader) -> str | None:
        """Batches came out of memory."""
        hits = program.source.kept.hits if program.source.py_dataset is not None else 0
        return f"{hits} batches were read from memory" if hits else None


def _overrides(x: Any, name: str) -> bool:
    import keras

    return getattr(type(x), name, None) is not getattr(keras.utils.PyDataset, name, None)


KNOB = KeptBatches()
