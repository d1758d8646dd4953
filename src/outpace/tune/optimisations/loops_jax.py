# SPDX-License-Identifier: Apache-2.0
"""Optimisations of a JAX loop of the user's own: its step compiled, its arguments given away, the
loop written anew around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outpace.tune.optimisations.knob import LoopKnob
from outpace.tune.optimisations.loops_tensorflow import LoopGraph, LoopReads, LoopSeveral, untaken
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
        said = ", ".join(donation.said)
        return Applies(f"the step returns {said} in memory of its own, though the loop replaces the old values", Risk.REORDERED)

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the option. Raises Unpatchable where the call of jax.jit is not found."""
        from outpace.tune.patch.loop_edit import write_donation

        assert program.loop is not None
        write_donation(program.loop, edits_of)


def _donation(program: Program) -> Donation | None:
    return program.loop.donation if program.loop is not None else None


OPTIMISATIONS = (
    LoopGraph("loop_jit", "jax.jit", "jax"),
    LoopSeveral("loop_several", "jax.lax.scan", "jax"),
    LoopReads("loop_later", "jax"),
    LoopDonate(),
)
