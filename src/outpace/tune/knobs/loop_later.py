"""Values that each step of a JAX loop hands to Python, read for many steps at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.loop.options import LATER
from outpace.tune.loop.weave import AT_ONCE
from outpace.tune.optimisations.optimisation import Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopLater:
    """Keeps arrays, and reads their values later, so that Python does not wait for each step."""

    id = "loop_later"
    title = "values read later"
    practice = "Do not read values (float(loss), print) in every step, which waits for the device: keep the arrays, and read many at once."
    opt_in = False
    minor = False
    reads = False
    loops = True
    framework = "jax"
    order = 25

    def keywords(self, program: Program) -> dict[str, str]:
        """None: the loop is written anew."""
        return {}

    def applies(self, program: Program) -> Applies | NotApplicable:
        """Where each step reads values that nothing in the loop depends on."""
        loop = program.loop
        if loop is None or loop.woven is None:
            return NotApplicable(loop.unwoven if loop is not None else "there is no loop")
        later = loop.woven.later
        places = [f"{loop.woven.place(sync.line)} {sync.said}" for sync in later.syncs if sync.each]
        if later.why:
            return NotApplicable(f"{later.why} ({', '.join(places)})" if places else later.why)
        return Applies(
            f"every step waits for the device to read a value ({', '.join(places)}); it would come {AT_ONCE} steps at a time",
            Risk.EXACT,
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block read values later."""
        assert program.loop is not None
        return program.loop.turning(LATER)

    def proof(self, program: Program, runner: object) -> str | None:
        """How many steps did not wait."""
        woven = program.loop.woven if program.loop is not None else None
        return f"the values of {woven.kept_steps} steps were kept" if woven is not None and woven.kept_steps else None

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the loop anew. Raises Unpatchable where it is not found."""
        from outpace.tune.patch.loop_edit import write_loop

        assert program.loop is not None
        write_loop(program.loop, edits_of, LATER)


KNOB = LoopLater()
