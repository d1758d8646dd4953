"""Optimisations of a JAX loop of the user's own: its step compiled, its arguments given away, the loop written anew around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outpace.tune.loop.taken import AT_ONCE, LATER, Taken
from outpace.tune.optimisations.knob import LoopKnob
from outpace.tune.optimisations.loops_tensorflow import LoopGraph, LoopSeveral, Rewritten, untaken
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable
from outpace.tune.risk import Risk

if TYPE_CHECKING:
    from outpace.tune.loop.donation import Donation
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopDonate(LoopKnob):
    """Gives the step's state away: its memory is used for the new one."""

    id = "loop_donate"
    title = "donated arguments"
    practice = "Give the state that a step replaces away (donate_argnums of jax.jit), so that it is not copied."
    framework = "jax"
    order = 30

    def keywords(self, program: Program) -> dict[str, str]:
        """`donate_argnums`, of `jax.jit`."""
        donation = _donation(program)
        given = donation.given.values() if donation is not None else ()
        return {name: repr(value) for each in given for name, value in each.options.items()}

    def applies(self, program: Program, /) -> Answer:
        """Where the loop replaces arguments by results, and nothing else holds the old values."""
        donation = _donation(program)
        if donation is None:
            return untaken(program)
        if donation.why:
            return NotApplicable(donation.why)
        said = ", ".join(name for each in donation.given.values() for name in each.said)
        return Applies(
            f"the step returns {said} in memory of its own, though the loop needs the old values no more", Risk.REORDERED
        )

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the option. Raises Unpatchable where the call of jax.jit is not found."""
        from outpace.tune.patch.loop_edit import write_donation

        assert program.loop is not None
        write_donation(program.loop, edits_of)


class LoopLater(Rewritten):
    """Keeps arrays, and reads their values later, so that Python does not wait for each step."""

    framework = "jax"
    id = "loop_later"
    title = "values read later"
    practice = "Do not read values (float(loss), print) in every step, which waits for the device: keep the arrays, and read many at once."
    order = 25
    option = LATER

    def fits(self, program: Program, taken: Taken) -> Answer:
        """Where each step reads values that nothing in the loop depends on."""
        later = taken.later
        places = [f"{taken.place(sync.line)} {sync.said}" for sync in later.syncs if sync.each]
        if later.why:
            return NotApplicable(f"{later.why} ({', '.join(places)})" if places else later.why)
        return Applies(
            f"every step waits for the device to read a value ({', '.join(places)}); it would come {AT_ONCE} steps at a time",
            Risk.EXACT,
        )


def _donation(program: Program) -> Donation | None:
    return program.loop.donation if program.loop is not None else None


OPTIMISATIONS = (
    LoopGraph("loop_jit", "jax.jit", "jax"),
    LoopSeveral("loop_several", "jax.lax.scan", "jax"),
    LoopLater(),
    LoopDonate(),
)
