"""Donated arguments for the compiled step of a JAX loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.model.units import Unit, counted, humanize
from outpace.tune.data.verify import Risk
from outpace.tune.loop.options import DONATED
from outpace.tune.optimisations.optimisation import Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopDonate:
    """Gives the step's state away: its memory is used for the new one."""

    id = "loop_donate"
    title = "donated arguments"
    practice = "Give the state that a step replaces away (donate_argnums of jax.jit), so that it is not copied."
    opt_in = False
    minor = False
    reads = False
    loops = True
    framework = "jax"
    order = 30

    def keywords(self, program: Program) -> dict[str, str]:
        """`donate_argnums`, of `jax.jit`."""
        donation = program.loop.donation if program.loop is not None else None
        given = donation.given.values() if donation is not None else ()
        return {name: repr(value) for each in given for name, value in each.options.items()}

    def applies(self, program: Program) -> Applies | NotApplicable:
        """Where the loop replaces arguments by results, and nothing else holds the old values."""
        loop = program.loop
        if loop is None or loop.donation is None:
            return NotApplicable(loop.unwoven if loop is not None else "there is no loop")
        if loop.donation.why:
            return NotApplicable(loop.donation.why)
        said = ", ".join(name for each in loop.donation.given.values() for name in each.said)
        return Applies(
            f"the step returns {said} in memory of its own, though the loop needs the old values no more", Risk.REORDERED
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block give it away."""
        assert program.loop is not None
        return program.loop.turning(DONATED)

    def proof(self, program: Program, runner: object) -> str | None:
        """How many arrays were gone after the call."""
        donation = program.loop.donation if program.loop is not None else None
        if donation is None or not donation.given_away:
            return None
        return f"{counted(donation.given_away, 'array')} of the state, {humanize(donation.bytes, Unit.BYTES)}, gave their memory to the new one"

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the option. Raises Unpatchable where the call of jax.jit is not found."""
        from outpace.tune.patch.loop_edit import write_donation

        assert program.loop is not None
        write_donation(program.loop, edits_of)


KNOB = LoopDonate()
