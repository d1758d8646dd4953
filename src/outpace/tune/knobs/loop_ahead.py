"""Inputs of the steps of a JAX loop made ahead, by a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.loop.options import AHEAD
from outpace.tune.optimisations.optimisation import Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopAhead:
    """Makes batches, and puts them on the device, while the steps before them run."""

    id = "loop_ahead"
    title = "batches made ahead"
    practice = "Make the next batches in a thread, and put them on the device (jax.device_put), while the device computes."
    opt_in = False
    minor = False
    reads = False
    loops = True
    framework = "jax"
    order = 40

    def keywords(self, program: Program) -> dict[str, str]:
        """None: the loop is written anew."""
        return {}

    def applies(self, program: Program) -> Applies | NotApplicable:
        """Where batches are made in Python between the steps, and nothing in a step is needed for that."""
        loop = program.loop
        if loop is None or loop.woven is None:
            return NotApplicable(loop.unwoven if loop is not None else "there is no loop")
        if loop.dataset is not None:
            return NotApplicable("its batches come from tf.data, which prefetches by itself")
        why = loop.woven.body.unmovable or loop.woven.body.shared
        if why:
            return NotApplicable(why)
        return Applies("each batch is made in Python while the device waits for it", Risk.EXACT)

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block read batches that were made ahead."""
        assert program.loop is not None
        return program.loop.turning(AHEAD)

    def proof(self, program: Program, runner: object) -> str | None:
        """How many steps read such batches."""
        woven = program.loop.woven if program.loop is not None else None
        return (
            f"{woven.made_ahead} steps read batches that a thread had made" if woven is not None and woven.made_ahead else None
        )

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the loop anew. Raises Unpatchable where it is not found."""
        from outpace.tune.patch.loop_edit import write_loop

        assert program.loop is not None
        write_loop(program.loop, edits_of, AHEAD)


KNOB = LoopAhead()
