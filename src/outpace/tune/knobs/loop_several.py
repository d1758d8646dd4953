"""Several steps per call for the compiled step of a JAX loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.loop.options import SEVERAL
from outpace.tune.optimisations.compiled import FEWEST
from outpace.tune.optimisations.optimisation import Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program

SHORT = 0.005  # seconds of a step: what a call costs is a small part of longer ones


class LoopSeveral:
    """Runs steps of a loop in one call, by `jax.lax.scan` over their batches, which are put together."""

    id = "loop_several"
    title = "several steps per call"
    practice = (
        "Run several steps in one call (jax.lax.scan over their batches), so that Python is not in the way of short steps."
    )
    opt_in = False
    minor = False
    reads = False
    loops = True
    framework = "jax"
    order = 20

    def keywords(self, program: Program) -> dict[str, str]:
        """None: the loop is written anew."""
        return {}

    def applies(self, program: Program) -> Applies | NotApplicable:
        """Where steps are short, and the loop does nothing between them that could not wait."""
        loop = program.loop
        if loop is None or loop.woven is None:
            return NotApplicable(loop.unwoven if loop is not None else "there is no loop")
        if loop.woven.body.several:
            return NotApplicable(loop.woven.body.several)
        if program.step_seconds is not None and program.step_seconds > SHORT:
            return NotApplicable(f"a step takes {1000 * program.step_seconds:.1f} ms, of which a call is a small part")
        steps = loop.woven.per_call
        if steps < FEWEST:
            return NotApplicable(f"an epoch has {steps} steps")
        return Applies(
            f"every step is a call from Python; with {steps} steps per call, what follows a step comes once per call",
            Risk.REORDERED,
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block make several steps per call."""
        assert program.loop is not None
        return program.loop.turning(SEVERAL)

    def proof(self, program: Program, runner: object) -> str | None:
        """How many calls made several steps."""
        woven = program.loop.woven if program.loop is not None else None
        return f"{woven.groups} calls made {woven.per_call} steps each" if woven is not None and woven.groups else None

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write the loop anew. Raises Unpatchable where it is not found."""
        from outpace.tune.patch.loop_edit import write_loop

        assert program.loop is not None
        write_loop(program.loop, edits_of, SEVERAL)


KNOB = LoopSeveral()
