"""What every rewrite is: a practice of the guide, when it applies, how it changes a pipeline, and how its effect is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from outpace.tune.data.tree import Pipeline, Stage
from outpace.tune.data.verify import Risk


@dataclass(frozen=True)
class Reason:
    """Why a rewrite applies: the sentence names the stage. `risk` is what this application may change, `stage` where it acts."""

    sentence: str
    risk: Risk
    stage: Stage


@dataclass(frozen=True)
class Refusal:
    """Why a rewrite does not apply, as a sentence."""

    sentence: str


@dataclass(frozen=True)
class Patch:
    """One change of the user's source, as structure. `call` is the record id of the call to change (None: not recorded).

    `keywords` are set on that call; `insert` is a call to add after it (its text), `remove` whether the call itself goes, to come again
    behind the call `after` with the arguments that the user wrote. `options` are set on the data set behind the call, by attribute of
    tf.data.Options. `divides` is a map whose function is divided: a map with its first part stands between the call and what is inserted.
    Patches of one rewrite apply in order; what they put behind the same call stands in that order. `note` says it in words.
    """

    call: int | None
    keywords: Mapping[str, str] = field(default_factory=dict)
    insert: str | None = None
    remove: bool = False
    note: str = ""
    after: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    divides: int | None = None


class Rewrite(Protocol):
    """One optimisation of an input pipeline; a module of this package makes one and calls it `REWRITE`.

    `opt_in`: only tried when the user asked for it. `minor`: usually a few per cent, so that others are raced before it. `options_change`: it
    changes the data set's options on purpose.
    """

    id: str
    title: str
    practice: str
    holds_when: str
    opt_in: bool
    minor: bool
    options_change: bool

    def applies(self, pipeline: Pipeline) -> Reason | Refusal:
        """Whether there is a stage to change. Runs nothing but, for a cache, a few elements to size it (twice where Python functions are in
        it), and the stage that decides how many there are, where TensorFlow does not know."""

    def apply(self, pipeline: Pipeline) -> Any:
        """The rewritten data set. Raises RebuildError where it cannot be built."""

    def proof(self, iterator: Any, rewritten: Pipeline) -> str | None:
        """Evidence that the change is in the iterator that runs, or None. `iterator` gave one element and is near its start: stages
        whose input has ended leave TensorFlow's model of it."""

    def patch(self, pipeline: Pipeline) -> tuple[Patch, ...]:
        """The same change in the user's source; empty where it cannot be said as source."""


def call_of(stage: Stage) -> int | None:
    """Record id of the call that built a stage."""
    return stage.record.id if stage.record is not None else None


def first_refusal(refusals: list[str], otherwise: str) -> Refusal:
    """The most telling of several refusals, or `otherwise`."""
    return Refusal(refusals[0] if refusals else otherwise)
