"""Threads that make the batches of a `PyDataset` ahead of the step."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.capture.notes import usable_cpus
from outpace.tune.data.verify import Risk
from outpace.tune.knobs.knob import Applies, NotHere
from outpace.tune.knobs.switch import switched
from outpace.tune.purity.reading import doubt

if TYPE_CHECKING:
    from outpace.tune.program.program import Program
    from outpace.tune.program.stepper import Reader, Stepper

FEWEST = 2  # a single one runs in the thread that reads


class Workers:
    """As many threads as there are cores call `__getitem__`, where Keras would call it in one."""

    id = "workers"
    title = "workers of the PyDataset"
    practice = "Let several threads make the batches: super().__init__(workers=os.cpu_count()) in the PyDataset's constructor."
    opt_in = False
    minor = False
    reads = True
    loops = False
    order = 2

    def keywords(self, program: Program) -> dict[str, str]:
        """`workers=os.cpu_count()`."""
        return {"workers": "os.cpu_count()"}

    def decorators(self, program: Program) -> dict[str, str]:
        """None."""
        return {}

    def applies(self, program: Program) -> Applies | NotHere:
        """Where a PyDataset is read by a single thread, and its code shows nothing that several threads could disturb."""
        x = program.source.py_dataset
        if x is None:
            return NotHere("the input is no PyDataset")
        if x.workers > 1 or x.use_multiprocessing:
            return NotHere(f"it has workers already ({x.workers})")
        against = doubt(x.__getitem__)
        if against is not None:
            return Applies(
                f"one thread makes its batches, and several would share what its code shows: {against}", Risk.STATISTICAL
            )
        return Applies("one thread makes its batches, one after the other", Risk.EXACT)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Feeds that are made inside the block have workers."""
        return switched(program.source.py_dataset, workers=max(FEWEST, usable_cpus()))

    def proof(self, program: Program, runner: Stepper | Reader) -> str | None:
        """Keras made workers for what is read."""
        return f"{runner.feed.workers} threads make batches" if runner.feed.workers > 1 else None


KNOB = Workers()
