# SPDX-License-Identifier: Apache-2.0
"""Candidates: the optimisations that fit a program, each as an edit of the user's source; what is
not for it, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from outpace._dataclass import dataclass
from outpace.capture.frames import CallSite
from outpace.capture.pipeline import PipelineRecorder
from outpace.tune.climb.outcome import ADVICE, Tried
from outpace.tune.data.tree import describe
from outpace.tune.optimisations import all_rewrites, knobs
from outpace.tune.optimisations.knob import LoopKnob, is_knob, serves
from outpace.tune.optimisations.loops_tensorflow import LoopSeveral
from outpace.tune.optimisations.optimisation import Applies, Explained, NotApplicable, Optimisation, Reach, Rewrite
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.make import FileChange, edited, recipe
from outpace.tune.program.program import Program
from outpace.tune.risk import Risk


@dataclass(frozen=True)
class Candidate:
    """A change of the program as an edit of its source.

    why: what it answers, in a sentence. of_input: it changes what is read, and not the step. minor:
    it usually adds little. fills: it is at its speed once an epoch is over. recipe: how to make it
    by hand. grouped: an item of the edited loop begins with a list of the original's items. every:
    steps whose effects come together. consent: what the user has to allow before it is kept, since
    it changes what comes out by more than rounding; empty for nothing. reach: what it can take
    away of a step. share: of a step's time, that the lines take which it is about; None where
    nobody measured that.
    """

    id: str
    title: str
    why: str
    risk: Risk
    files: tuple[FileChange, ...]
    recipe: tuple[str, ...]
    of_input: bool = False
    minor: bool = False
    fills: bool = False
    grouped: bool = False
    every: int = 1
    consent: str = ""
    reach: Reach = Reach()
    share: float | None = None

    @property
    def texts(self) -> dict[str, str]:
        """The edited texts, by the files that they stand in for."""
        return {change.path: change.new for change in self.files}


def candidates_of(
    program: Program,
    recorder: PipelineRecorder | None,
    called: CallSite | None,
    share_of: Callable[[Sequence[str]], float | None] = lambda places: None,
) -> tuple[tuple[Candidate, ...], tuple[Tried, ...]]:
    """What may be raced, and what not, with the reason. called: the line that calls fit. share_of:
    what of a step's time some places of the source take.
    """
    found, others = list[Candidate](), list[Tried]()
    for each, subject in sorted(_asked(program, recorder), key=lambda pair: bool(pair[0].instead_of)):
        if less := next((other for other in found if other.id == each.instead_of), None):
            others.append(Tried(each.id, each.title, NotApplicable.word, f"{less.title} is for the same, and changes less."))
            continue
        answer = each.applies(subject)
        if not isinstance(answer, Applies):
            why = f"{answer.sentence.rstrip('.')}: {answer.reason}" if isinstance(answer, Explained) else answer.sentence
            others.append(Tried(each.id, each.title, answer.word, why))
            continue
        said = recipe(program, each, subject, recorder)
        try:
            files = edited(program, each, subject, recorder, called)
        except Unpatchable as reason:
            by_hand = f" By hand: {'; '.join(said).rstrip('.')}." if said else ""
            others.append(
                Tried(each.id, each.title, ADVICE, f"{answer.sentence.rstrip('.')}. No edit makes it: {reason}.{by_hand}")
            )
            continue
        if files:
            share = share_of(cast("LoopKnob", each).timed(program)) if is_knob(each) and each.loops else None
            found.append(replace(_candidate(program, each, subject, answer, files, said), share=share))
    return tuple(found), tuple(others)


def _asked(program: Program, recorder: PipelineRecorder | None) -> Iterator[tuple[Optimisation[Any], Any]]:
    """Optimisations, with what they are asked about."""
    if program.own_pipeline:
        pipeline = describe(program.dataset, recorder)
        yield from ((rewrite, pipeline) for rewrite in all_rewrites())
    yield from ((knob, program) for knob in knobs() if serves(knob, program))


def _candidate(
    program: Program,
    each: Optimisation[Any],
    subject: Any,
    answer: Applies,
    files: tuple[FileChange, ...],
    said: tuple[str, ...],
) -> Candidate:
    minor = cast("Rewrite", each).minor
    loop = program.loop
    grouped = loop is not None and isinstance(each, LoopSeveral)
    of_input = not is_knob(each) or each.reads
    return Candidate(
        each.id, each.title, answer.sentence, answer.risk, files, said, of_input, minor, getattr(each, "fills", False), grouped,
        each.at_once(subject), answer.risk.consent, each.reach,
    )  # fmt: skip
