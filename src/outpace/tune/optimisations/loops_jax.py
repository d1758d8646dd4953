"""Optimisations of a JAX loop of the user's own: its step compiled, its arguments given away, the loop written anew around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outpace.tune.optimisations.knob import LoopKnob
from outpace.tune.optimisations.loops_tensorflow import LoopGraph, LoopReads, LoopSeveral, untaken
from outpace.tune.optimisations.optimisation import Answer, Applies, Explained, NotApplicable
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
        said = ", ".join(donation.said)
        return Applies(f"the step returns {said} in memory of its own, though the loop replaces the old values", Risk.REORDERED)

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the option. Raises Unpatchable where the call of jax.jit is not found."""
        from outpace.tune.patch.loop_edit import write_donation

        assert program.loop is not None
        write_donation(program.loop, edits_of)


class LoopAhead(LoopKnob):
    """Makes batches, and puts them on the device, while the steps before them run. Explained."""

    framework = "jax"
    id = "loop_ahead"
    title = "batches made ahead"
    practice = "Make the next batches in a thread, and put them on the device (jax.device_put), while the device computes."
    order = 40

    def applies(self, program: Program, /) -> Answer:
        """Where batches are made in Python between the steps."""
        taken = program.loop.taken if program.loop is not None else None
        if taken is None:
            return untaken(program)
        if program.dataset is not None:
            return NotApplicable("its batches come from tf.data, which prefetches by itself")
        why = taken.body.unmovable
        if why or taken.body.looks:
            return NotApplicable(
                why or f"line {taken.body.looks[0].lineno} may end the loop before all batches that were made are used"
            )
        return Explained(
            "each batch is made in Python while the device waits for it: make the next ones in a thread, and jax.device_put them",
            "it gains where making a batch takes long, and a thread costs more than it gives where it does not",
        )

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Never called: it is explained."""


def _donation(program: Program) -> Donation | None:
    return program.loop.donation if program.loop is not None else None


OPTIMISATIONS = (
    LoopGraph("loop_jit", "jax.jit", "jax"),
    LoopSeveral("loop_several", "jax.lax.scan", "jax"),
    LoopReads("loop_later", "jax"),
    LoopDonate(),
    LoopAhead(),
)
