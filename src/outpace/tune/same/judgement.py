# SPDX-License-Identifier: Apache-2.0
"""What is known of an edited text, and the words for it."""

from __future__ import annotations

from enum import Enum

from outpace._dataclass import dataclass
from outpace.model.units import format_count

_SHOWN = 3  # of what was left out


class Standing(str, Enum):
    """What is known of an edited text that may be kept. Proven: its training was compared as a
    whole, and nothing of it was left out. Compared: all that could be was, of the passes that were
    made. Allowed: it is another program, and the user allows that.
    """

    PROVEN = "proven"
    COMPARED = "compared"
    ALLOWED = "allowed"


@dataclass(frozen=True)
class Judgement:
    """same: whether the edited text is the same program; None where that is not proven. why: in a
    sentence without its subject's name. compared: values. missed: lines of branches that did not
    run. faults: places that differ, or that could not be compared. runs: whether the edited text
    came through its passes at all. whole: whether the scripts were compared to their own end; else
    only the first passes were. sampled: arrays of which a sample and sums stand for the rest.
    allowed: it is not the same, and the user allows that. shown: the passes that were compared of a
    training that was cut, in words. omissions: what was not compared of what the runs left behind,
    each with its reason. remarks: of a training that was cut, what to read of the passes that
    were not compared, in sentences. parts: the pass behind which one rounding
    moves most of what training changes as far as training does, so that nothing is known; 0 for
    none. changeable: what compiled functions keep of a training that was compared as a whole, and
    what may change it. made: passes that were compared, of a training of `length` passes; 0 where
    that is not known. at_most: whether it may end before that. provisos: of what is proven, what it
    holds for, each in a clause.
    """

    same: bool | None
    why: str
    compared: int = 0
    passes: int = 0
    missed: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    runs: bool = True
    whole: bool = True
    sampled: int = 0
    allowed: bool = False
    shown: str = ""
    omissions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    parts: int = 0
    changeable: tuple[str, ...] = ()
    made: int = 0
    length: int = 0
    at_most: bool = False
    provisos: tuple[str, ...] = ()

    @property
    def standing(self) -> Standing | None:
        """What is known of it; None where it may not be kept."""
        if self.same is not True:
            return None
        if self.allowed:
            return Standing.ALLOWED
        return Standing.PROVEN if self.whole and not self.parts and not self.omissions else Standing.COMPARED

    @property
    def share(self) -> float | None:
        """The share of the training's passes that were compared; None where nobody knows."""
        if self.standing is Standing.PROVEN:
            return 1.0
        return min(1.0, self.made / self.length) if self.made and self.length else None

    @property
    def known_length(self) -> int:
        """Passes of the whole training; 0 where nobody knows."""
        return 0 if self.at_most else self.length

    @property
    def extent(self) -> str:
        """How many passes were compared of how many, in words: "68 of 1,000,000 passes"."""
        if not self.made:
            return "passes"
        if self.length == self.made:
            return f"all {self.length:,} passes"
        if self.length:
            return f"{self.made:,} of {'at most ' * self.at_most}{self.length:,} passes"
        return f"{format_count(self.made, 'pass', 'passes')} of a training of unknown length"

    @property
    def scope(self) -> str:
        """What was compared, as the object of a sentence: "the 68 of 1,000,000 passes that were
        compared".
        """
        if self.made and self.length == self.made:
            return self.extent
        return f"the {self.extent} that {'was' if self.made == 1 and not self.length else 'were'} compared"

    @property
    def sentence(self) -> str:
        """What was compared, or why it is not kept."""
        if self.same:
            missed = f"; {format_count(len(self.missed), 'branch', 'branches')} did not run (line {', '.join(map(str, self.missed))})"
            later = f"; these were {self.shown}" if self.shown else "" if self.whole else "; the script goes on for longer"
            if not self.whole and not self.parts:
                later += ", and what only shows in others was not compared"
            if self.parts:
                later += f"; behind step {self.parts} one rounding changes as much as training does, and nothing could be compared there"
            part = f"; of {format_count(self.sampled, 'large array')} a sample and sums" if self.sampled else ""
            more = f" and {len(self.omissions) - _SHOWN} more" if len(self.omissions) > _SHOWN else ""
            omitted = f"; not compared: {', '.join(self.omissions[:_SHOWN])}{more}" if self.omissions else ""
            compared = format_count(self.compared, "value")
            extent = f"compared to step {self.passes}" if self.whole or not self.made else f"compared in {self.extent}"
            held = "".join(f", {each}" for each in self.provisos)
            return f"{extent}, {compared}{held}{part}{omitted}{missed if self.missed else ''}{later}"
        return self.why
