"""`Arm`: one variant in a race, as functions that the engine calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from outpace._dataclass import dataclass


@dataclass(frozen=True)
class Work:
    """What a block did, where the arm knows better than the engine's clock: training steps done, seconds that they took, and processor
    seconds of all threads (None: not known)."""

    steps: int
    seconds: float
    cpu: float | None = None


@dataclass(frozen=True)
class Facts:
    """What an arm can say of itself once it runs.

    step: what one step is, in words. examples: examples per step, None where that cannot be seen. versions: of what it runs on, by name.
    first_seconds: of building, tracing and the first step, where that happened before this race.
    """

    step: str = "one call"
    examples: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    first_seconds: float | None = None


@dataclass(frozen=True, eq=False)
class Arm:
    """One variant.

    run: does that many steps and returns when they are complete (work of a device included). It may return the `Work` that it measured
        itself; otherwise the engine's clock counts.
    what: the change in words. risk: what it may change in the training's results ("exact", "reordered", "statistical", "architecture").
    prepare: called once, before the first step. undo: called once after the last block, also when the race ends early.
    begin, end: called before and after each block, untimed; `end` is called whatever happened in between.
    drain: called before each block, after `begin`, untimed: takes out what buffers collected while the arm was idle.
    proof: asked after the warm-up for evidence that the change took effect; None means that there is none.
    check: asked after the last block, when the arm is faster, for what speaks against using this variant; None means nothing.
    facts: asked after the warm-up. warm: it ran before, so that a third of the warm-up does.
    """

    name: str
    run: Callable[[int], Work | None]
    what: str = ""
    risk: str = "exact"
    prepare: Callable[[], object] | None = None
    undo: Callable[[], object] | None = None
    begin: Callable[[], object] | None = None
    end: Callable[[], object] | None = None
    drain: Callable[[], object] | None = None
    proof: Callable[[], str | None] | None = None
    check: Callable[[], str | None] | None = None
    facts: Callable[[], Facts] | None = None
    warm: bool = False
