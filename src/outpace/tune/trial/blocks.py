"""One block of one arm: what happens around the timed steps, and how many steps fill a block."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.reason import reason_of
from outpace.tune.trial.arm import Arm, Facts, Work
from outpace.tune.trial.protocol import Per, Protocol

Clock = Callable[[], float]
_MOST_STEPS = 10_000_000


@dataclass(eq=False)
class Lane:
    """The state of one arm in a running race; it becomes a `Trial` at the end."""

    name: str
    arm: Arm
    steps: int = 1
    step_seconds: float = 0.0
    untimed_seconds: float = 0.0  # of the last block: begin, drain, end
    racing: bool = True
    prepared: bool = False
    first_seconds: float | None = None
    warmup_seconds: float = 0.0
    warmup_steps: int = 0
    dropped: int | None = None
    failure: str | None = None
    asked: bool = False
    proof: str | None = None
    objection: str | None = None
    facts: Facts = field(default_factory=Facts)

    @property
    def cost(self) -> float:
        """Seconds that a block takes, about, with what is not timed."""
        return self.steps * self.step_seconds + self.untimed_seconds

    def fail(self, error: Exception) -> None:
        """The arm leaves the race."""
        self.racing, self.failure = False, reason_of(error)


def prepare(lane: Lane, protocol: Protocol, warmup: float, clock: Clock) -> None:
    """Bring an arm to its steady state: prepare, first step, warm-up, and how many steps fill a block.

    Raises whatever the arm raises.
    """
    arm, started = lane.arm, clock()
    lane.prepared = True
    if arm.prepare is not None:
        arm.prepare()
    run(lane, 1, clock)
    lane.first_seconds = clock() - started
    started, many, done = clock(), 1, 0
    while True:
        work = run(lane, many, clock)
        done += work.steps
        lane.step_seconds = max(work.seconds, 1e-9) / max(work.steps, 1)
        if clock() - started >= warmup and done >= protocol.block_steps:
            break
        if work.seconds < protocol.block_seconds / 2:  # a long chunk measures the step better
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
    if arm.proof is not None:
        lane.proof, lane.asked = arm.proof(), True
        lane.racing = bool(lane.proof)


def fill(lane: Lane, seconds: float, protocol: Protocol) -> None:
    """Set the steps of a block so that it takes about `seconds`."""
    wanted = math.ceil(seconds / lane.step_seconds) if lane.step_seconds > 0 else protocol.block_steps
    lane.steps = min(max(protocol.block_steps, wanted), _MOST_STEPS)


def run(lane: Lane, steps: int, clock: Clock) -> Work:
    """Run one block; returns what it did. The arm's `end` is called in any case."""
    arm, began = lane.arm, clock()
    try:
        if arm.begin is not None:
            arm.begin()
        if arm.drain is not None:
            arm.drain()
        started, cpu = clock(), time.process_time()
        told: Work | None = arm.run(steps)
        seconds, cpu = clock() - started, time.process_time() - cpu
    finally:
        if arm.end is not None:
            arm.end()
    work = told if isinstance(told, Work) else Work(steps, seconds, cpu)
    lane.untimed_seconds = max(0.0, clock() - began - work.seconds)
    return work
