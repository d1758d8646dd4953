"""Optimisations of a JAX loop of the user's own: its step compiled, its arguments given away, the loop written anew around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outpace.model.units import Unit, counted, humanize
from outpace.tune.data.verify import Risk
from outpace.tune.loop.weave import AHEAD, AT_ONCE, DONATED, LATER, SEVERAL
from outpace.tune.optimisations.compiled import FEWEST
from outpace.tune.optimisations.knob import LoopKnob
from outpace.tune.optimisations.loops_tensorflow import LoopGraph
from outpace.tune.optimisations.optimisation import Answer, Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.loop.donation import Donation
    from outpace.tune.loop.woven import Woven
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program

SHORT = 0.005  # seconds of a step: what a call costs is a small part of longer ones


class LoopDonate(LoopKnob):
    """Gives the step's state away: its memory is used for the new one."""

    id = "loop_donate"
    title = "donated arguments"
    practice = "Give the state that a step replaces away (donate_argnums of jax.jit), so that it is not copied."
    framework = "jax"
    order = 30
    turns = DONATED

    def keywords(self, program: Program) -> dict[str, str]:
        """`donate_argnums`, of `jax.jit`."""
        donation = _donation(program)
        given = donation.given.values() if donation is not None else ()
        return {name: repr(value) for each in given for name, value in each.options.items()}

    def applies(self, program: Program, /) -> Answer:
        """Where the loop replaces arguments by results, and nothing else holds the old values."""
        donation = _donation(program)
        if donation is None:
            return _unwoven(program)
        if donation.why:
            return NotApplicable(donation.why)
        said = ", ".join(name for each in donation.given.values() for name in each.said)
        return Applies(
            f"the step returns {said} in memory of its own, though the loop needs the old values no more", Risk.REORDERED
        )

    def proof(self, program: Program, runner: object) -> str | None:
        """How many arrays were gone after the call."""
        donation = _donation(program)
        if donation is None or not donation.given_away:
            return None
        return f"{counted(donation.given_away, 'array')} of the state, {humanize(donation.bytes, Unit.BYTES)}, gave their memory to the new one"

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the option. Raises Unpatchable where the call of jax.jit is not found."""
        from outpace.tune.patch.loop_edit import write_donation

        assert program.loop is not None
        write_donation(program.loop, edits_of)


class Rewoven(LoopKnob):
    """Writes the loop anew, in its source and in the process that runs it."""

    framework = "jax"

    def applies(self, program: Program, /) -> Answer:
        """Where variants can be put into the loop, and this one fits."""
        woven = _woven(program)
        return _unwoven(program) if woven is None else self.fits(program, woven)

    def fits(self, program: Program, woven: Woven) -> Answer:
        """What it says of such a loop."""
        raise NotImplementedError

    def proof(self, program: Program, runner: object) -> str | None:
        """What the loop has counted."""
        woven = _woven(program)
        return self.seen(woven) if woven is not None else None

    def seen(self, woven: Woven) -> str | None:
        """That it took effect; None where it did not."""
        raise NotImplementedError

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the loop anew. Raises Unpatchable where it is not found."""
        from outpace.tune.patch.loop_edit import write_loop

        assert program.loop is not None
        write_loop(program.loop, edits_of, self.turns)


class LoopSeveral(Rewoven):
    """Runs steps of a loop in one call, by `jax.lax.scan` over their batches, which are put together."""

    id = "loop_several"
    title = "several steps per call"
    practice = (
        "Run several steps in one call (jax.lax.scan over their batches), so that Python is not in the way of short steps."
    )
    order = 20
    turns = SEVERAL

    def fits(self, program: Program, woven: Woven) -> Answer:
        """Where steps are short, and the loop does nothing between them that could not wait."""
        if woven.body.several:
            return NotApplicable(woven.body.several)
        if program.step_seconds is not None and program.step_seconds > SHORT:
            return NotApplicable(f"a step takes {1000 * program.step_seconds:.1f} ms, of which a call is a small part")
        if woven.per_call < FEWEST:
            return NotApplicable(f"an epoch has {woven.per_call} steps")
        return Applies(
            f"every step is a call from Python; with {woven.per_call} steps per call, what follows a step comes once per call",
            Risk.REORDERED,
        )

    def seen(self, woven: Woven) -> str | None:
        """How many calls made several steps."""
        return f"{woven.groups} calls made {woven.per_call} steps each" if woven.groups else None


class LoopLater(Rewoven):
    """Keeps arrays, and reads their values later, so that Python does not wait for each step."""

    id = "loop_later"
    title = "values read later"
    practice = "Do not read values (float(loss), print) in every step, which waits for the device: keep the arrays, and read many at once."
    order = 25
    turns = LATER
    between = True

    def fits(self, program: Program, woven: Woven) -> Answer:
        """Where each step reads values that nothing in the loop depends on."""
        later = woven.later
        places = [f"{woven.place(sync.line)} {sync.said}" for sync in later.syncs if sync.each]
        if later.why:
            return NotApplicable(f"{later.why} ({', '.join(places)})" if places else later.why)
        return Applies(
            f"every step waits for the device to read a value ({', '.join(places)}); it would come {AT_ONCE} steps at a time",
            Risk.EXACT,
        )

    def seen(self, woven: Woven) -> str | None:
        """How many steps did not wait."""
        return f"the values of {woven.kept_steps} steps were kept" if woven.kept_steps else None


class LoopAhead(Rewoven):
    """Makes batches, and puts them on the device, while the steps before them run."""

    id = "loop_ahead"
    title = "batches made ahead"
    practice = "Make the next batches in a thread, and put them on the device (jax.device_put), while the device computes."
    order = 40
    turns = AHEAD
    between = True

    def fits(self, program: Program, woven: Woven) -> Answer:
        """Where batches are made in Python between the steps, and nothing in a step is needed for that."""
        if program.loop is not None and program.loop.dataset is not None:
            return NotApplicable("its batches come from tf.data, which prefetches by itself")
        why = woven.body.unmovable or woven.body.shared
        if why:
            return NotApplicable(why)
        return Applies("each batch is made in Python while the device waits for it", Risk.EXACT)

    def seen(self, woven: Woven) -> str | None:
        """How many steps read such batches."""
        return f"{woven.made_ahead} steps read batches that a thread had made" if woven.made_ahead else None


def _woven(program: Program) -> Woven | None:
    return program.loop.woven if program.loop is not None else None


def _donation(program: Program) -> Donation | None:
    return program.loop.donation if program.loop is not None else None


def _unwoven(program: Program) -> NotApplicable:
    """Why no variant can be put into the loop."""
    return NotApplicable(program.loop.unwoven if program.loop is not None else "there is no loop")


OPTIMISATIONS = (LoopGraph("loop_jit", "jax.jit", "jax"), LoopSeveral(), LoopLater(), LoopDonate(), LoopAhead())
