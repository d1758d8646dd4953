"""Larger batches: how much faster a step handles examples, up to what fits into memory. Measured, never applied: it changes the training.

Sizes are doubled until memory or the gain ends, and then raced.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import UsageError
from outpace.tune.data.size import available_memory
from outpace.tune.program.program import Program
from outpace.tune.program.source import Feed
from outpace.tune.program.state import Snapshot
from outpace.tune.program.stepper import Stepper
from outpace.tune.reason import reason_of
from outpace.tune.trial.arm import Arm, Clock, Facts, Work
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.record import Experiment, Per, Protocol

LEAST_GAIN = 0.03  # per doubling; less is not worth another training
MOST_DOUBLINGS = 6


class TooLarge(Exception):
    """A batch does not run; the sentence says why."""


@dataclass(frozen=True)
class Size:
    """A size that ran: `factor` times the program's, `batch` examples; rate: examples per second at a first look; grown: bytes that the
    process took on for it."""

    factor: int
    batch: int
    rate: float
    grown: int

    @property
    def name(self) -> str:
        """Its name in the race."""
        return f"batch {self.batch}"


@dataclass(frozen=True)
class Reached:
    """The sizes that ran, the program's own first, and why there is no larger one, as a sentence."""

    sizes: tuple[Size, ...]
    ended: str


def grow(batch: int, measure: Callable[[int], Size], room: int | None) -> Reached:
    """Double the batch as long as it pays and fits.

    measure: runs a factor, raises TooLarge where it does not run. room: bytes for all sizes together, None for unknown: then only
    `measure` says what fits. A size is expected to take twice what the one before took.
    """
    sizes = [measure(1)]
    poor = 0
    for _ in range(MOST_DOUBLINGS):
        last = sizes[-1]
        taken = sum(size.grown for size in sizes)
        if room is not None and taken + 2 * last.grown > room:
            return Reached(tuple(sizes), f"A batch of {2 * last.batch} might not fit: half of the free memory is the limit.")
        try:
            sizes.append(measure(2 * last.factor))
        except TooLarge as error:
            return Reached(tuple(sizes), str(error))
        poor = poor + 1 if sizes[-1].rate < last.rate * (1 + LEAST_GAIN) else 0
        if poor == 2:  # one alone may be the machine's noise: the first looks are short
            return Reached(tuple(sizes), f"Two doublings in a row gained less than {LEAST_GAIN:.0%} each.")
    return Reached(tuple(sizes), f"{MOST_DOUBLINGS} doublings are as many as are tried.")


LEAST = 4.0  # seconds; a race that is given less proves nothing
_QUICK = 0.1  # seconds of the first look at a size
_ADAPTIVE = ("adam", "adamw", "adamax", "nadam", "rmsprop", "adagrad", "adadelta", "lion", "lamb", "ftrl", "adafactor", "muon")


@dataclass(frozen=True, eq=False)
class BatchSizes:
    """What came of it: the sizes that ran, smallest (the program's own) first, the race per example between them, None where only one ran,
    why no larger size was tried, and what a larger batch asks of the learning rate."""

    reached: Reached
    experiment: Experiment | None
    advice: str
    left: tuple[str, ...]


def race_batch_sizes(
    program: Program, budget: float = 30.0, watch: Watch | None = None, clock: Clock = time.perf_counter
) -> BatchSizes:
    """Race the program's training step on batches of 1, 2, 4, ... times its size, held in memory, in examples per second.

    The batches repeat the program's first one. Everything of the training that steps change is put back afterwards (`left`: names of
    variables that could not be). budget: seconds. Raises UsageError where a batch cannot be repeated; KeyboardInterrupt passes through.
    """
    if program.batch_size is None:
        raise UsageError("The batches have no length that can be seen, so there is no size to change.")
    snapshot = Snapshot.of(program.model)
    trial = _Trial(program, watch or Watch(), clock)
    try:
        reached = grow(program.batch_size, trial.measure, _room())
        experiment = trial.race(reached, max(LEAST, budget)) if len(reached.sizes) > 1 else None
    finally:
        trial.steppers.clear()
        snapshot.restore()
    return BatchSizes(reached, experiment, advice(program.model.optimizer), snapshot.differences())


def advice(optimizer: Any) -> str:
    """What a batch of k times the size asks of the learning rate, by the kind of optimizer."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    name = type(inner).__name__
    end = "Only a full training can tell whether it learns as well in as many epochs."
    if name.lower() in _ADAPTIVE:
        return f"With {name}, a batch k times as large usually wants a learning rate about the square root of k times as large. {end}"
    if name.lower() == "sgd":
        return f"With SGD, a batch k times as large usually wants a learning rate k times as large, reached over some epochs of warm-up. {end}"
    return f"There is no common rule for the learning rate of {name}: look for it again with a larger batch. {end}"


class _Trial:
    """Steppers by factor, each of which reads its own enlarged batch, and their race."""

    def __init__(self, program: Program, watch: Watch, clock: Clock) -> None:
        self.program, self.watch, self.clock = program, watch, clock
        self.steppers: dict[int, Stepper] = {}

    def measure(self, factor: int) -> Size:
        """Run a size for a moment. Raises TooLarge where it does not run; what the program's own batch raises comes out."""
        tf: Any = sys.modules["tensorflow"]
        size = factor * (self.program.batch_size or 0)
        self.watch.preparing(f"batch {size}")
        before = _used()
        try:
            stepper = Stepper(self.program, Feed(tf.data.Dataset.from_tensors(repeated(self.program.spare, factor))))
            stepper.compile()
            rate = self._quick(stepper, size)
        except (tf.errors.ResourceExhaustedError, MemoryError) as error:
            raise TooLarge(f"A batch of {size} does not fit into memory.") from error
        except Exception as error:  # a model may ask for one size
            if factor == 1:
                raise
            raise TooLarge(f"A batch of {size} does not run ({reason_of(error)}).") from error
        self.steppers[factor] = stepper
        return Size(factor, size, rate, max(0, _used() - before))

    def race(self, reached: Reached, budget: float) -> Experiment:
        """All sizes against the program's own, per example."""
        arms = [self._arm(size) for size in reached.sizes]
        experiment = run_experiment(arms, budget=budget, protocol=Protocol(per=Per.EXAMPLE), clock=self.clock, watch=self.watch)
        if experiment.interrupted:
            raise KeyboardInterrupt
        return experiment

    def _arm(self, size: Size) -> Arm:
        stepper = self.steppers[size.factor]

        def run(steps: int) -> Work:
            began = self.clock()
            done = stepper.run(steps)  # whole calls, which may be several steps each
            stepper.finish()
            return Work(done, self.clock() - began)

        facts = Facts("one training step on a batch in memory", float(size.batch))
        return Arm(size.name, run, what=f"{size.factor} times the batch", risk="statistical", facts=lambda: facts)

    def _quick(self, stepper: Stepper, size: int) -> float:
        """Examples per second at a first look."""
        stepper.run(1)
        stepper.finish()
        began, steps = self.clock(), 0
        while steps == 0 or self.clock() - began < _QUICK:
            steps += stepper.run(1)
            stepper.finish()
        return steps * size / max(self.clock() - began, 1e-9)


def repeated(batch: Any, factor: int) -> Any:
    """A batch with its examples `factor` times over. Raises UsageError for parts that cannot be repeated."""
    tf: Any = sys.modules["tensorflow"]

    def enlarge(part: Any) -> Any:
        if isinstance(part, tf.SparseTensor):
            return tf.sparse.concat(0, [part] * factor)
        if getattr(part, "shape", None) is None or part.shape.rank == 0:
            raise UsageError(f"A part of the batch has no examples to repeat ({type(part).__name__}).")
        return tf.concat([part] * factor, axis=0)

    return tf.nest.map_structure(enlarge, batch)


def _room() -> int | None:
    """Bytes that all sizes together may take: half of what is free. None on a GPU, whose own allocator says when it is full."""
    tf: Any = sys.modules["tensorflow"]
    return None if tf.config.list_logical_devices("GPU") else available_memory() // 2


def _used() -> int:
    """Bytes of the device's memory in use at most so far; of this process, on a CPU."""
    tf: Any = sys.modules["tensorflow"]
    if tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
