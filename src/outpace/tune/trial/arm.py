# SPDX-License-Identifier: Apache-2.0
"""`Arm`: one variant in a race, as functions that the engine calls; and one block of it: what
happens around the timed steps, how many steps fill it, and the wait for what a step returned, since
a step that a device still works on is not over.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.reason import reason_of
from outpace.tune.trial.record import Per, Protocol, Trial


@dataclass(frozen=True)
class Work:
    """What a block did, where the arm knows better than the engine's clock: training steps done,
    seconds that they took, processor seconds of all threads (None: not known), seconds between the
    steps, and how many ends of epochs and validations lay there.
    """

    steps: int
    seconds: float
    cpu: float | None = None
    between: float = 0.0
    ends: int = 0


@dataclass(frozen=True)
class Facts:
    """What an arm can say of itself once it runs.

    step: what one step is, in words. examples: examples per step, None where that cannot be seen.
    versions: of what it runs on, by name. first_seconds: of building, tracing and the first steps,
    where that happened before this race. first_steps: how many these were.
    """

    step: str = "one call"
    examples: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    first_seconds: float | None = None
    first_steps: int = 1


@dataclass(frozen=True, eq=False)
class Arm:
    """One variant.

    run: does that many steps and returns when they are complete (work of a device included). It may
    return the `Work` that it measured
        itself; otherwise the engine's clock counts.
    start: may be called before that, and does not wait: others are prepared meanwhile. prepare:
    called once, before
        the first step. undo: called once after the last block, also when the race ends early.
    end: called after each block, untimed, whatever happened in it. facts: asked after the
    warm-up. warm: it ran before, so that a third of the warm-up does. another: makes a further
    instance (a new process of the same text) under a name.
    """

    name: str
    run: Callable[[int], Work | None]
    start: Callable[[], object] | None = None
    prepare: Callable[[], object] | None = None
    undo: Callable[[], object] | None = None
    end: Callable[[], object] | None = None
    facts: Callable[[], Facts] | None = None
    warm: bool = False
    another: Callable[[str], Arm] | None = None


Clock = Callable[[], float]
_MOST_STEPS = 10_000_000
LONGEST = 4.0  # times a block's seconds: where the fewest steps take longer, there are fewer


@dataclass(eq=False)
class Lane:
    """The state of one arm in a running race; it becomes a `Trial` at the end."""

    name: str
    arm: Arm
    treatment: str  # its own name where it is the only instance, or the first
    steps: int = 1
    step_seconds: float = 0.0
    untimed_seconds: float = 0.0  # of the last block: its end, and what the arm does not count
    uncounted_seconds: float = 0.0  # of these, what the arm does not count: a loop's evaluations between its steps
    stretch: float = 1.0  # how much longer steps take with it
    racing: bool = True
    prepared: bool = False
    first_seconds: float | None = None
    warmup_seconds: float = 0.0
    warmup_steps: int = 0
    dropped: int | None = None
    failure: str | None = None
    facts: Facts = field(default_factory=Facts)

    @property
    def cost(self) -> float:
        """Seconds that a block takes, about, with what is not timed."""
        return self.steps * self.step_seconds + self.untimed_seconds

    @property
    def trial(self) -> Trial:
        """What is kept of it."""
        return Trial(
            arm=self.name,
            step=self.facts.step,
            examples=self.facts.examples,
            first_seconds=self.first_seconds,
            first_steps=self.facts.first_steps,
            warmup_seconds=self.warmup_seconds,
            warmup_steps=self.warmup_steps,
            dropped=self.dropped,
            failure=self.failure,
            treatment=self.treatment,
        )

    def fail(self, error: Exception) -> None:
        """The arm leaves the race."""
        self.racing, self.failure = False, reason_of(error)


def prepare(lane: Lane, protocol: Protocol, warmup: float, clock: Clock) -> None:
    """Bring an arm to its steady state: prepare, first step, warm-up, and how many steps fill a
    block.

    Raises whatever the arm raises.
    """
    arm, started = lane.arm, clock()
    lane.prepared = True
    if arm.prepare is not None:
        arm.prepare()
    run(lane, 1, clock)
    lane.first_seconds = clock() - started
    started, many, done = clock(), 1, 0
    counted, uncounted = 1e-9, 0.0
    while True:
        work = run(lane, many, clock)
        done, counted, uncounted = done + work.steps, counted + work.seconds, uncounted + lane.uncounted_seconds
        lane.step_seconds = max(work.seconds, 1e-9) / max(work.steps, 1)
        lane.stretch = 1 + uncounted / counted
        if clock() - started >= warmup and done >= _fewest(lane, protocol):
            break
        if work.seconds < min(1, LONGEST / lane.stretch) * protocol.block_seconds / 2:  # a long chunk measures the step better
            many = min(2 * many, _MOST_STEPS)
    lane.warmup_seconds, lane.warmup_steps = clock() - started, done
    if arm.facts is not None:
        lane.facts = arm.facts()
        if lane.facts.first_seconds is not None:
            lane.first_seconds = lane.facts.first_seconds
    if protocol.per is Per.EXAMPLE and lane.facts.examples is None:
        raise CaptureError(
            "How many examples a step has cannot be seen here, so rates per example are not possible; compare steps."
        )


def fill(lane: Lane, protocol: Protocol) -> None:
    """Set the steps of a block so that it takes about as long as asked, and with what is not
    counted not much longer.
    """
    seconds = protocol.block_seconds * min(1, LONGEST / lane.stretch)
    wanted = math.ceil(seconds / lane.step_seconds) if lane.step_seconds > 0 else protocol.block_steps
    lane.steps = min(max(_fewest(lane, protocol), wanted), _MOST_STEPS)


def _fewest(lane: Lane, protocol: Protocol) -> int:
    """Steps of a block at least: slow ones are a block each, as their number is what a race cannot
    pay for.
    """
    slow = LONGEST * protocol.block_seconds
    return (
        max(1, min(protocol.block_steps, math.floor(slow / lane.step_seconds)))
        if lane.step_seconds > 0
        else protocol.block_steps
    )


def run(lane: Lane, steps: int, clock: Clock) -> Work:
    """Run one block; returns what it did. The arm's `end` is called in any case."""
    arm, began = lane.arm, clock()
    try:
        started, cpu = clock(), time.process_time()
        told: Work | None = arm.run(steps)
        seconds, cpu = clock() - started, time.process_time() - cpu
    finally:
        if arm.end is not None:
            arm.end()
    work = told if isinstance(told, Work) else Work(steps, seconds, cpu)
    lane.untimed_seconds, lane.uncounted_seconds = max(0.0, clock() - began - work.seconds), max(0.0, seconds - work.seconds)
    return work


def steps_of(step: Callable[[], object]) -> Callable[[int], Work | None]:
    """`run` of an arm whose steps are calls of a function; the last result is waited for."""

    def run(steps: int) -> None:
        result: object = None
        for _ in range(steps):
            result = step()
        wait_for(result)

    return run


def wait_for(result: object) -> None:
    """Wait until the arrays in a step's result are computed, and TensorFlow's devices are idle
    where they run behind.

    Knows JAX arrays, TensorFlow tensors, and mappings and sequences of them; everything else is
    complete when it is returned.
    """
    _leaves(result)
    tf: Any = sys.modules.get("tensorflow")
    if tf is not None:
        with contextlib.suppress(AttributeError):  # a TensorFlow without it
            tf.test.experimental.sync_devices()


def _leaves(result: Any) -> None:
    wait = getattr(result, "block_until_ready", None)
    if callable(wait):
        wait()
    elif isinstance(result, Mapping):
        for item in result.values():
            _leaves(item)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _leaves(item)
