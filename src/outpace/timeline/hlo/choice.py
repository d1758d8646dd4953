# SPDX-License-Identifier: Apache-2.0
"""The compiled program that a user means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from outpace.model import UsageError
from outpace.model.text import format_suggestion

if TYPE_CHECKING:
    from outpace.timeline.hlo.module import HloModule


def choose_program(programs: Mapping[str, HloModule], program: str | None = None, op: str | None = None) -> str:
    """Return the name of the program that is called `program` (with its number or without) and has
    an instruction `op`; of several the one with most instructions. Raises UsageError where there is
    none.
    """
    found = [name for name in programs if program in (None, name, name.rpartition("(")[0])]
    if not found:
        suggestion = format_suggestion(str(program), list(programs)) or f" The largest one is {choose_program(programs)}."
        raise UsageError(f"There is no program {program!r}.{suggestion}")
    holding = [name for name in found if op is None or op in programs[name]]
    if not holding:
        names = [each for name in found for each in programs[name]]
        raise UsageError(f"No program has an instruction {op!r}.{format_suggestion(str(op), names)}")
    return max(holding, key=lambda name: len(programs[name].graph.instructions))
