"""Values that each step of a TensorFlow loop prints or appends, read for many steps at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from outpace.tune.data.verify import Risk
from outpace.tune.loop.syncs import AT_ONCE
from outpace.tune.optimisations.optimisation import Applies, NotApplicable

if TYPE_CHECKING:
    from outpace.tune.patch.written import Edits
    from outpace.tune.program.program import Program


class LoopReads:
    """Keeps tensors, and prints or appends their values later."""

    id = "loop_reads"
    title = "values read later"
    practice = "Do not read values (float(loss), .numpy(), print) in every step, which waits for it: keep the tensors, and read many at once."
    opt_in = False
    minor = True
    reads = False
    loops = True
    framework = "tensorflow"
    order = 25

    def keywords(self, program: Program) -> dict[str, str]:
        """None: statements come later."""
        return {}

    def applies(self, program: Program) -> Applies | NotApplicable:
        """Where each step prints or appends values of tensors that nothing in the loop depends on."""
        syncs = program.loop.syncs if program.loop is not None else None
        if syncs is None or not syncs.found:
            return NotApplicable("no statement beside the step reads the value of a tensor in every step")
        file = os.path.basename(syncs.file)
        places = ", ".join(f"{file}:{each.line} {each.said}" for each in syncs.found)
        stay = "; ".join(f"line {line} stays: {why}" for line, why in syncs.kept)
        if not syncs.movable:
            return NotApplicable(f"every step waits to read values ({places}), which cannot come later: {stay}")
        return Applies(
            f"every step waits to read values ({places}); they would come {AT_ONCE} steps at a time{f'; {stay}' if stay else ''}",
            Risk.EXACT,
        )

    def applied(self, program: Program) -> AbstractContextManager[None]:
        """Steppers that are made inside the block read values later."""
        assert program.loop is not None
        return program.loop.turning(self.id)

    def proof(self, program: Program, runner: object) -> str | None:
        """How often a statement came later."""
        steps = program.loop.kept.steps if program.loop is not None else 0
        return f"{steps} times a statement that reads values came later" if steps else None

    def edit(self, program: Program, edits_of: Callable[[str], Edits]) -> None:
        """Write a function that reads what was kept. Raises Unpatchable where a statement is not found."""
        from outpace.tune.patch.reads_edit import write_reads

        assert program.loop is not None and program.loop.syncs is not None
        write_reads(program.loop.syncs, edits_of)


KNOB = LoopReads()
