"""Variants as arms of races. What was compiled for one race, and the caches that were filled for it, serve the next."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.notes import usable_cpus
from outpace.model.errors import CaptureError
from outpace.tune.climb.variant import Variant
from outpace.tune.data.generators import kept_of
from outpace.tune.data.isolated import isolated
from outpace.tune.data.size import SHARE, available_memory, element_bytes
from outpace.tune.data.tree import describe
from outpace.tune.data.verify import Risk
from outpace.tune.loop.replayed import ReplayStepper
from outpace.tune.loop.stepper import CallStepper, LoopStepper
from outpace.tune.program.program import Program
from outpace.tune.program.source import Feed
from outpace.tune.program.stepper import Reader, Stepper
from outpace.tune.reason import reason_of
from outpace.tune.trial.arm import Arm, Facts, Work

CHECK_SECONDS = 10.0  # for the controls of a comparison of losses
_CACHE = "cache"
_LOOK = 0.05  # seconds between two looks at the free memory
_AT_A_TIME = 20  # steps between two looks at the clock


@dataclass(eq=False)
class Copies:
    """Data sets of the trials' own: one copy per data set, so that a cache in it is filled once, and the user's shuffles do not move on.

    fill_seconds: how long filling a cache may take. feed: makes the copy. floor: bytes of free memory that all caches together leave.
    buffer_bytes: what the copies' prefetch buffers may grow to. A variant that rests between blocks fills its buffers, and TensorFlow doubles
    a buffer that was full and ran empty: without a limit, blocks would in the end be spent on filling buffers, or on eating them up.
    """

    fill_seconds: float
    buffer_bytes: int
    feed: Callable[[Any], Feed] = lambda dataset: Feed(isolated(dataset))
    floor: float = field(default_factory=lambda: available_memory() * (1 - SHARE))
    made: dict[int, tuple[Any, Feed]] = field(default_factory=dict)
    filled: set[int] = field(default_factory=set)

    def of(self, dataset: Any) -> Feed:
        """The copy of a data set; another one at each call where a copy serves one reader only."""
        if not hasattr(dataset, "element_spec"):  # a loop's, that reads no tf.data
            return Feed(dataset)
        if id(dataset) not in self.made:
            made = self.feed(dataset)
            made = replace(made, dataset=_with_buffers(made.dataset, self.buffer_bytes))
            if made.single:
                return made
            self.made[id(dataset)] = (dataset, made)
        return self.made[id(dataset)][1]

    def fill(self, dataset: Any) -> None:
        """Read all caches once, since only full ones are as fast as in the second epoch: iterators that begin later find them whole.

        Raises CaptureError when that takes too long, or too much memory: several variants may each have a cache.
        """
        if not hasattr(dataset, "element_spec") or id(dataset) in self.filled:
            return
        for generator in kept_of(dataset):
            generator.fill(self.fill_seconds, self.floor, available_memory)
        if not describe(dataset).find(_CACHE):
            return
        end = time.monotonic() + self.fill_seconds
        caches = [cache.dataset for cache in describe(self.of(dataset).dataset).find(_CACHE)]
        try:
            for cache in reversed(caches):
                if int(cache.cardinality()) != -1:  # else it never becomes full
                    self._fill(cache, end)
        except CaptureError:
            del self.made[id(dataset)]  # with the part that was filled
            raise
        self.filled.add(id(dataset))

    def _fill(self, cache: Any, end: float) -> None:
        look = 0.0
        for done, _ in enumerate(cache, start=1):
            now = time.monotonic()
            if now > end:
                raise CaptureError(
                    f"Filling its cache takes longer than {self.fill_seconds:.0f} s (element {done}): give a larger budget."
                )
            if now < look:
                continue
            look = now + _LOOK
            if available_memory() < self.floor:
                raise CaptureError(
                    f"Its cache does not fit (element {done}): the caches of all variants get half of the memory that was free at the start."
                )

    def forget(self, kept: set[int]) -> None:
        """Let go of all data sets but those with these identities."""
        self.made = {key: value for key, value in self.made.items() if key in kept}
        self.filled &= kept


def _with_buffers(dataset: Any, limit: int) -> Any:
    """The data set with a limit on what autotuning may buffer, where the user has set none."""
    if dataset.options().autotune.ram_budget:
        return dataset
    options = sys.modules["tensorflow"].data.Options()
    options.autotune.ram_budget = limit
    return dataset.with_options(options)


def buffer_bytes(program: Program) -> int:
    """Room for a few batches more than all cores can work on."""
    return (4 + 2 * usable_cpus()) * max(element_bytes(program.spare), 1) if program.spare is not None else 0


def _stepper(program: Program, feed: Feed) -> Stepper | LoopStepper | CallStepper | ReplayStepper:
    """What makes training steps on a feed."""
    return Stepper(program, feed) if program.loop is None else program.loop.stepper(feed)


@dataclass(eq=False)
class Running:
    """A variant in races. `reading`: only its input is read, without training."""

    program: Program
    variant: Variant
    name: str
    copies: Copies
    reading: bool = False
    runner: Stepper | LoopStepper | CallStepper | ReplayStepper | Reader | None = field(default=None)
    first_seconds: float | None = field(default=None)

    def arm(self) -> Arm:
        """The variant as an arm of the trial engine; a step is a training step, or a batch that is read.

        A winner whose last change may change what is learned is only kept when its losses stay within the band that chance spans.
        """
        last = self.variant.changes[-1] if self.variant.changes else None
        new = self.runner is None  # what ran before was proven and checked before
        step = "one batch read" if self.reading else "one training step"
        return Arm(
            self.name,
            self._run,
            what=last.why if last else "the program as it is",
            risk=self.variant.risk.value,
            prepare=self._prepare,
            drain=self._drain,
            end=self._rest,
            proof=self._proof if new and last is not None else None,
            check=self._check if new and last is not None and not last.of_input and last.risk is not Risk.EXACT else None,
            facts=lambda: Facts(step, self.program.batch_size, first_seconds=self.first_seconds),
            warm=not new,
        )

    def rate(self, seconds: float) -> float:
        """Steps per second, over some seconds outside of any race. Raises CaptureError where its cache cannot be filled in time."""
        self._prepare()
        self._drain()
        steps, spent = 0, 0.0
        while spent < seconds:
            work = self._run(_AT_A_TIME)
            steps, spent = steps + work.steps, spent + work.seconds
        return steps / spent

    def _prepare(self) -> None:
        if self.runner is not None:
            return
        self.copies.fill(self.variant.dataset)
        with self.variant.applied(self.program):
            feed = self.copies.of(self.variant.dataset)
            feed.fill(self.copies.fill_seconds)
            began = time.perf_counter()
            runner = Reader(feed) if self.reading else _stepper(self.program, feed)
            runner.compile()
        self.first_seconds = time.perf_counter() - began
        self.runner = runner

    def _run(self, steps: int) -> Work:
        """Whole calls: a call of several steps may be more than was asked for."""
        assert self.runner is not None
        return self.runner.work(steps)

    def _drain(self) -> None:
        assert self.runner is not None
        self.runner.drain()

    def _rest(self) -> None:
        if self.runner is not None:
            self.runner.rest()

    def _check(self) -> str | None:
        from outpace.tune.loop.losses import loop_band
        from outpace.tune.numerics import loss_band

        knob = self.variant.changes[-1].knob
        assert knob is not None
        band = loss_band if self.program.loop is None else loop_band
        try:
            if knob.compares:
                return knob.objection(self.program)
            return band(self.program, self.variant, seconds=CHECK_SECONDS).objection
        except Exception as error:  # without a `loss` in the logs, for instance
            return f"Its losses could not be compared: {reason_of(error)}"

    def _proof(self) -> str | None:
        """Evidence for the last change; the others were proven in the races before."""
        assert self.runner is not None
        change = self.variant.changes[-1]
        if change.rewrite is not None:
            return change.rewrite.proof(self.runner.iterator, describe(self.variant.dataset))
        assert change.knob is not None
        fits = change.knob.reads or not isinstance(self.runner, Reader)
        return change.knob.proof(self.program, self.runner) if fits else None
