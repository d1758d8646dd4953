# SPDX-License-Identifier: Apache-2.0
"""Inside a variant's process: steps that go on when the race says so, and rest in between; and what
the process tells of itself. Standard library only.

The steps are found by the hooks of `outpace profile`; the window that they feed is replaced by one
that pauses the training thread between blocks. A step counts from its own begin to its end; what
lies between steps, ends of epochs and validations, is told beside it.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from outpace.capture.options import CaptureOptions
from outpace.capture.process_exit import remove_graph_sources
from outpace.capture.profilers import framework_versions
from outpace.capture.session import CaptureSession
from outpace.capture.window import StepCandidate, StepWindow, format_candidate

WARMUP = 5  # steps of one kind after which it is the step: preparations that look like one repeat less often
_A_YEAR = 365 * 86400


class Turns:
    """Counts the steps of the block that was asked for; at its end the thread waits here for the
    next.
    """

    def __init__(self, channel: Connection, sync: Callable[[], object]) -> None:
        """`sync` waits until the devices are idle."""
        self._channel, self._sync = channel, sync
        self._settle = self._wanted = self._done = self._interrupted = self._ends = 0
        self._seconds = 0.0
        self._began = 0.0, 0.0

    def ready(self, step: str, examples: float | None, made: int, writers: Sequence[str] = (), whole: bool = True) -> None:
        """Say that the warm-up is over, with so many steps made (`made`), which callbacks were
        switched off, and whether an epoch is over (`whole`), and wait for the first block.
        """
        told = {"step": step, "examples": examples, "versions": framework_versions(), "made": made, "at": time.monotonic()}
        self._channel.send({"ready": {**told, "writers": list(writers), "whole": whole}})
        self._wait()

    def step(self, seconds: float, steps: int) -> None:
        """A call of `steps` steps took that long; its device may still work."""
        if self._settle > 0:
            self._settle -= steps
            if self._settle <= 0:
                self._sync()
                self._began = time.perf_counter(), time.process_time()
            return
        self._done += steps
        self._seconds += seconds
        if self._done >= self._wanted:
            started = time.perf_counter()
            self._sync()
            self._seconds += time.perf_counter() - started
            wall, cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
            share = min(1.0, self._seconds / wall) if wall > 0 else 1.0  # the rest lies between steps
            made = 1 + self._interrupted / self._done  # times the steps that are counted
            between = max(0.0, wall / made - self._seconds)
            self._channel.send(
                {"steps": self._done, "seconds": self._seconds, "cpu": cpu * share, "between": between, "ends": self._ends}
            )
            self._wait()

    def skip(self, steps: int) -> None:
        """A call of `steps` steps in which an epoch ended, or a validation ran: its time is not
        that of its steps.
        """
        if self._settle <= 0:
            self._interrupted += steps
            self._ends += 1

    def _wait(self) -> None:
        try:
            order = self._channel.recv()
        except (EOFError, OSError):
            remove_graph_sources()
            os._exit(0)  # the race is over; a pipeline of this process might hang at the interpreter's own end
        self._wanted, self._settle = order["steps"], order["settle"]
        self._done, self._interrupted, self._ends, self._seconds = 0, 0, 0, 0.0
        self._began = time.perf_counter(), time.process_time()


class PausingWindow(StepWindow):
    """A window that never closes: after its warm-up it hands each whole step to the turns."""

    turns: Turns

    def end(self, step: StepCandidate) -> None:
        """A step ended: the thread may wait in here until it is this variant's turn again."""
        before, interrupted = len(self.during_ns), step.interrupted
        super().end(step)
        if len(self.during_ns) > before:
            seconds = self.during_ns.pop() / 1e9
            self.interrupted.clear()
            if interrupted:
                self.turns.skip(step.steps_per_execution)
            else:
                self.turns.step(seconds, step.steps_per_execution)


class RaceSession(CaptureSession):
    """Stands in for a capture's session: opening the window means that the variant is ready, and no
    profiler runs.
    """

    def __init__(self, channel: Connection, first_epoch: float) -> None:
        """first_epoch: seconds that a `fit` gets to end its first epoch: caches fill in it, and
        later ones are what training is made of.
        """
        options = CaptureOptions(warmup=WARMUP, steps=None, seconds=_A_YEAR, stop=False)
        super().__init__(options, "", "", lambda *_: None, lambda *_: None, lambda: None)
        self.window = PausingWindow(options, self)
        self.window.turns = self.turns = Turns(channel, self.sync)
        self.examples: Callable[[], float | None] = lambda: None
        self.writers: list[str] = []  # callbacks that were switched off
        self._first_epoch, self._began, self._epochs = first_epoch, math.nan, 0
        self.rests = False  # what is repeated now is not what is raced

    def open(self, candidate: StepCandidate | None) -> bool:
        """The warm-up of a kind of step is over: it is the step, unless it trains nothing."""
        if (
            self.rests
            or candidate is None
            or candidate.predicts
            or candidate.mode == "seconds"
            or (candidate.mode == "keras fit" and not self._steady())
        ):
            return False
        examples = self.examples() if candidate.mode == "keras fit" else None
        size = f", {examples:g} examples" if examples else ""
        self.turns.ready(
            f"{format_candidate(candidate)}{size}",
            examples,
            candidate.count * candidate.steps_per_execution,
            self.writers,
            candidate.mode != "keras fit" or self._epochs > 0,
        )
        return True

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """What trains inside is not what is raced."""
        before, self.rests = self.rests, True
        try:
            yield
        finally:
            self.rests = before

    def epoch_ended(self, callbacks: object) -> None:
        """An epoch of `fit` is over."""
        self._epochs += 1

    def _steady(self) -> bool:
        """Whether the first epoch is over, or took longer than it may."""
        if math.isnan(self._began):
            self._began = time.monotonic()
        return self._epochs > 0 or time.monotonic() - self._began >= self._first_epoch

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Steps need no marks here."""
        return lambda: None

    def sync(self) -> None:
        """Wait until every framework's devices are idle."""
        for profiler in self.profilers.values():
            profiler.sync()

    @property
    def steps_seen(self) -> Mapping[str, int]:
        """Steps of the kind that was seen most, by its name; for messages."""
        most = self.window.top_candidate
        return {format_candidate(most): most.count} if most is not None else {}


def run_hook(hook: Callable[[], Any], channel: Connection) -> None:
    """Race the step that a script's `outpace_race` returns: a callable, or a callable and the
    number of examples per step.
    """
    from outpace.tune.trial.arm import wait_for

    made = hook()
    step, examples = made if isinstance(made, tuple) else (made, None)
    if not callable(step):
        raise TypeError(f"outpace_race() must return a function that runs one step, not {type(step).__name__}")
    result: object = None
    turns = Turns(channel, lambda: wait_for(result))
    for _ in range(2):
        result = step()
    wait_for(result)
    turns.ready("step of outpace_race()" + (f", {examples:g} examples" if examples else ""), examples, 2)
    while True:
        started = time.perf_counter()
        result = step()
        turns.step(time.perf_counter() - started, 1)
