# SPDX-License-Identifier: Apache-2.0
"""`Optimisation`: one practice of the guides, whatever it changes, and what it answers to a
program.

Rewrites of the input, options of the training step, settings of the environment and advice are its
kinds: each is asked about something else (`Subject`), and all give one of four answers. A `Rewrite`
also says how it changes the calls of a pipeline in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Protocol, TypeVar

from outpace._dataclass import dataclass
from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.risk import Risk

Subject = TypeVar("Subject", contravariant=True)


@dataclass(frozen=True)
class Answer:
    """What an optimisation says of a program, as a sentence. word: the outcome where it goes no
    further than that.
    """

    sentence: str
    word: ClassVar[str] = ""


CALL_SECONDS = 1.5e-3  # that a call of a compiled step costs in Python, about
UNKNOWN_INPUT = 0.3  # share of a step that waits for its input, where nobody knows
_MOST = 0.98


@dataclass(frozen=True)
class Reach:
    """The share of a part of a step that a change can take away, in round figures of what such
    changes have gained on the programs of `bench/net`. It orders races, and decides nothing.

    of_input: of the wait for input. of_step: of the rest. of_call: of a call's cost in Python.
    """

    of_input: float = 0.0
    of_step: float = 0.0
    of_call: float = 0.0

    def expected_ratio(self, step_seconds: float | None, input_share: float | None, share: float | None = None) -> float:
        """Return how many times as fast a step would be. step_seconds: of a step; None where not
        known. input_share: the share of it that waits for input, likewise; input that takes cores
        from a model is not waited for, so that it is taken for no less than an unknown one. share:
        of a step, that the change is about, as it was measured; None for all but the wait.
        """
        waits = max(input_share or 0.0, UNKNOWN_INPUT)
        calls = min(1.0, CALL_SECONDS / step_seconds) if step_seconds else 0.5
        return 1 / (
            1
            - min(self.of_input * waits + self.of_step * (1 - waits if share is None else share) + self.of_call * calls, _MOST)
        )


@dataclass(frozen=True)
class Applies(Answer):
    """It may help here; the sentence says why. risk: what it may change. stage: of a pipeline,
    where it acts.
    """

    risk: Risk
    stage: Stage | None = None


@dataclass(frozen=True)
class NotApplicable(Answer):
    """It is not for this program; the sentence says why."""

    word = "not applicable"


@dataclass(frozen=True)
class Explained(Answer):
    """It is for this program and is not tried by Outpace: the sentence says what it would mean
    here, `reason` why it is not tried.
    """

    reason: str = ""
    word = "explained"


class Optimisation(Protocol[Subject]):
    """One practice. id: its name in files and options. title: its name for people. practice: what
    the guides recommend, in a sentence.

    reach: what it can take away of a step. order: among others of its kind. instead_of: id of what
    changes less to the same end: where that can be written, this one is not raced.
    """

    id: str
    title: str
    practice: str
    reach: Reach
    order: int = 0
    instead_of: str = ""

    def applies(self, subject: Subject, /) -> Answer:
        """What it says of a program's part; trains nothing."""

    def at_once(self, subject: Subject, /) -> int:
        """Steps whose effects come together where it is written: between them the program holds
        what it held before.
        """
        return 1


@dataclass(frozen=True)
class Patch:
    """One change of the user's source, as structure. `call` is the record id of the call to change.

    `keywords` are set on that call; `insert` is a call to add after it (its text). With `after`,
    the call itself goes, to come again behind that one with the arguments that the user wrote.
    `options` are what the inserted call takes, by attribute of tf.data.Options. `divides` is a map
    whose function is divided: a map with its first part stands between the call and what is
    inserted. Patches of one rewrite apply in order; what they put behind the same call stands in
    that order. `note` says it in words.
    """

    call: int
    keywords: Mapping[str, str] = field(default_factory=dict)
    insert: str | None = None
    note: str = ""
    after: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    divides: int | None = None


class Rewrite(Optimisation[Pipeline], Protocol):
    """One optimisation of an input pipeline.

    minor: usually a few per cent, so that others are raced before it. fills: it is at its speed
    once an epoch is over.
    """

    minor: bool = False
    fills: bool = False

    def applies(self, pipeline: Pipeline, /) -> Answer:
        """Whether there is a stage to change. Runs nothing but a few elements: to size a cache
        (twice where Python functions are in it; where TensorFlow does not know how many there are,
        the stage that decides that), and to see whether a function takes batches.
        """

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The same change in the user's source; empty where it cannot be said as source."""


UNRECORDED = -1


def call_of(stage: Stage) -> int:
    """Record id of the call that built a stage."""
    return stage.record.id if stage.record is not None else UNRECORDED


def first_refusal(refusals: list[str], otherwise: str) -> NotApplicable:
    """The most telling of several refusals, or `otherwise`."""
    return NotApplicable(refusals[0] if refusals else otherwise)
