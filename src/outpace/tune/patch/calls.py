# SPDX-License-Identifier: Apache-2.0
"""The pipeline as a row of calls, and what patches make of it. Nothing here reads source.

A rewrite says its change as patches of single calls (`optimisations/optimisation.py`), which give
the row that the edited source has to hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from outpace.store.record import PipelineStage
from outpace.tune.data.tree import Pipeline
from outpace.tune.optimisations.optimisation import UNRECORDED, Patch

UNSEEN = "the call was made where the recorder does not see it"


class Unpatchable(Exception):
    """A change that cannot be written into the source; the message is the reason, for
    the recipe.
    """


@dataclass(frozen=True)
class Call:
    """One call of the pipeline.

    key: the id of the recorded call, negative for one that no record has. place: the record, None
    for a new call and for a stage that nobody recorded. text: a new call as source, `.cache()`.
    moved: it stands elsewhere than the user wrote it. first_part_of: key of the call whose function
    is divided; this one takes its first part. divided: its own function is the second part.
    options: what a new with_options sets, by attribute.
    """

    key: int
    place: PipelineStage | None = None
    text: str | None = None
    moved: bool = False
    first_part_of: int | None = None
    divided: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def new(self) -> bool:
        """Whether a patch added it."""
        return self.text is not None or self.first_part_of is not None


def row_of(pipeline: Pipeline) -> tuple[Call, ...]:
    """The stages from the source to the end, as calls; what nobody recorded gets a negative key."""
    records = [stage.record for stage in reversed(pipeline.spine())]
    return tuple(Call(record.id if record is not None else UNRECORDED - 1 - at, record) for at, record in enumerate(records))


def arranged(row: Sequence[Call], patches: Sequence[Patch]) -> tuple[Call, ...]:
    """The row after the patches of one rewrite, in order: calls that come, move and are divided.
    Raises Unpatchable with the reason.
    """
    arranging = _Arranging(row)
    for patch in patches:
        arranging.apply(patch)
    return arranging.standing([call.key for call in row])


class _Arranging:
    def __init__(self, row: Sequence[Call]) -> None:
        self.calls = list(row)
        self.last: dict[int, int] = {}  # call -> what was put behind it last

    def apply(self, patch: Patch) -> None:
        if patch.insert is not None:
            if patch.divides is not None:
                self._place(patch.call, Call(self._fresh(), first_part_of=patch.divides))
                of = self._at(patch.divides)
                self.calls[of] = replace(self.calls[of], divided=True)
            self._place(patch.call, Call(self._fresh(), text=patch.insert, options=patch.options))
        elif patch.after is not None:
            call = self.calls.pop(self._at(patch.call))
            if call.place is None:
                raise Unpatchable(UNSEEN)
            self._place(patch.after, replace(call, moved=True))
        elif not patch.keywords:
            raise Unpatchable(patch.note)

    def standing(self, written: Sequence[int]) -> tuple[Call, ...]:
        """The calls with `moved` only where the order against the calls that stay asks for it:
        moving behind what was inserted right before a call is no move.
        """
        order = {key: at for at, key in enumerate(written)}
        kept = [call for call in self.calls if not call.new and not call.moved]
        found = []
        for at, call in enumerate(self.calls):
            if call.moved:
                before = {c.key for c in self.calls[:at]}
                call = replace(call, moved=any((c.key in before) != (order[c.key] < order[call.key]) for c in kept))
                kept += [] if call.moved else [call]
            found.append(call)
        return tuple(found)

    def _at(self, key: int) -> int:
        for at, call in enumerate(self.calls):
            if call.key == key:
                return at
        raise Unpatchable(UNSEEN if key == UNRECORDED else "the call does not stand in the main line of the pipeline")

    def _place(self, behind: int, call: Call) -> None:
        at = self._at(self.last.get(behind, behind))
        self.calls.insert(at + 1, call)
        self.last[behind] = call.key

    def _fresh(self) -> int:
        return min(UNRECORDED, *(call.key for call in self.calls)) - 1
