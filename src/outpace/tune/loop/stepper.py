"""Runs steps of a loop with one variant's input and functions, by the loop's own clock."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.program.stepper import SETTLE, Runner, buffered, quiesce
from outpace.tune.trial.arm import Work

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop
    from outpace.tune.program.source import Feed


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the function that makes the steps."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    gives_away: bool = False

    def copied(self) -> Call:
        """The same with copies of its arrays of JAX, since the call gives some of them away."""
        args, kwargs = sys.modules["jax"].tree.map(
            lambda leaf: leaf.copy() if hasattr(leaf, "is_deleted") else leaf, (self.args, self.kwargs)
        )
        return Call(self.function, args, kwargs, True)

    def make(self, function: Any) -> Any:
        """Call a function in the same way, as often as wanted."""
        call = self.copied() if self.gives_away else self
        return function(*call.args, **call.kwargs)


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls that the loop has made, which stand for its model alone where its batches are none of tf.data."""

    made: tuple[Call, ...]


@dataclass(eq=False)
class Active:
    """What the loop runs with. iterator: gives its batches; None leaves them to the loop. compiled: its functions are compiled by XLA.
    graph: its eager step runs as a graph. turned: what else is on, by name. calls: of such functions. failure: why that is not possible
    here."""

    iterator: Any = None
    compiled: bool = False
    graph: bool = False
    turned: frozenset[str] = frozenset()
    calls: int = 0
    failure: str = ""


class LoopStepper(Runner):
    """Steps of the user's loop: what `Stepper` is for a `fit`. Make it, and call `compile`, while the variant's knobs are applied."""

    def __init__(self, loop: Loop, feed: Feed) -> None:
        self.loop, self.feed = loop, feed
        self.active = loop.prepared()
        self.iterator: Any = None
        self._held: int | None = None

    def compile(self) -> None:
        """Make the iterator, and run the first step, which traces."""
        if self.loop.dataset is not None:
            self.iterator = self.active.iterator = iter(self.feed.dataset.repeat())
        self.run(1)

    def work(self, steps: int) -> Work:
        """Run so many steps; what the loop's own clock says of them. Raises CaptureError where they cannot run in this way."""
        self.loop.active, size = self.active, self.loop.per_call(self.active)
        done = self.loop.clock.advance(math.ceil(steps / size) * size)
        if self.active.failure:
            raise CaptureError(self.active.failure)
        return done

    def run(self, steps: int) -> int:
        """Run so many steps, until they are complete."""
        return self.work(steps).steps

    def drain(self) -> None:
        """Bring the pipeline's buffers from full, as they are after a rest, to what they hold while it trains."""
        early = self.loop.early(self.active)
        if self.iterator is not None:
            waiting = buffered(self.iterator)
            if self._held is None:
                self.run(max(waiting, 1))
            else:
                for _ in range(waiting - self._held):
                    next(self.iterator)
        self.run(SETTLE + early)

    def rest(self) -> None:
        """A block is over: see what the buffers hold, and wait until they are full."""
        self._held = buffered(self.iterator) if self.iterator is not None else 0
        quiesce()


class CallStepper(Runner):
    """Makes calls of the step's function again, with the arguments that it had: the step without what the loop does around it."""

    def __init__(self, loop: Loop, calls: Calls) -> None:
        self.loop, self.calls = loop, calls
        self.active, self.iterator = Active(), None
        self._function = loop.as_prepared(calls.made[0].function)

    def compile(self) -> None:
        """Make the first call, which traces."""
        self.run(1)

    def run(self, steps: int) -> int:
        """Make so many calls, until they are complete."""
        jax = self.loop.jax.jax if self.loop.jax is not None else None

        def made() -> None:
            for at in range(steps):
                call = self.calls.made[at % len(self.calls.made)]
                result = call.make(self._function)
                if jax is not None:  # else calls with the same arguments run side by side, as steps never do
                    jax.block_until_ready(result)
            finished()

        self.loop.clock.perform(self.loop.inside(made))
        return steps

    def drain(self) -> None:
        """Nothing is read ahead."""
        self.run(SETTLE)

    def rest(self) -> None:
        """A block is over."""
        quiesce()


def finished() -> None:
    """Wait until everything that was handed to devices is done."""
    tf, jax = sys.modules.get("tensorflow"), sys.modules.get("jax")
    synced = getattr(getattr(getattr(tf, "test", None), "experimental", None), "sync_devices", None)
    if synced is not None and tf is not None and tf.config.list_physical_devices("GPU"):
        synced()
    for array in jax.live_arrays() if jax is not None and hasattr(jax, "live_arrays") else ():
        if not array.is_deleted():
            array.block_until_ready()


_MOST_APART = 10_000


class Clock:
    """Steps of a loop, counted and timed at their begin. The script calls `tick`, `aside`, `between` and `stop`, the tuning `advance` and
    `perform`. apart: from when to when what ran last was no part of a step, by `time.perf_counter`."""

    def __init__(self, finish: Callable[[], None] = lambda: None) -> None:
        """`finish` waits until the steps so far are complete, on devices too; it is called in the script's thread."""
        self.steps = self.ticks = 0  # steps that were complete, and begins of steps
        self.size = 1  # steps that are made at once until the next begin
        self.ended = ""  # why the loop runs no more
        self.begun = threading.Event()  # its first step, or its end
        self.apart: deque[tuple[float, float]] = deque(maxlen=_MOST_APART)
        self._finish = finish
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._left = 0
        self._made = 0
        self._began = self._cpu = self._apart_cpu = self._step = 0.0
        self._work = Work(0, 0.0)
        self._running = self._aside = False
        self._job: Callable[[], None] | None = None
        self._failure: Exception | None = None

    def advance(self, steps: int) -> Work:
        """Let the loop run so many steps; what that took, without what was set aside. Raises CaptureError where the loop has ended."""
        if not self.ended:
            self._left = steps
            self._go.release()
            self._done.acquire()
        if self.ended:
            raise CaptureError(self.ended)
        return self._work

    def perform(self, job: Callable[[], None]) -> None:
        """Let the script's thread do something else than a step, in the contexts that its steps have. Raises what that raises, and CaptureError
        where the loop has ended."""
        if not self.ended:
            self._job, self._failure = job, None
            self._go.release()
            self._done.acquire()
        if self.ended:
            raise CaptureError(self.ended)
        if self._failure is not None:
            raise self._failure

    def tick(self) -> None:
        """A step begins, and the one before it is over. Comes back when there is a step to run."""
        now = time.perf_counter()
        self.ticks += 1
        self.begun.set()
        if self._running:
            if self._aside:  # the steps' time does not hold this one
                self._began += now - self._step
                self._cpu += time.process_time() - self._apart_cpu
                self.apart.append((self._step, now))
            else:
                self._made += self.size
            self._step, self._aside, self.size = now, False, 1
            if self._made < self._left:
                return
            self._pause()
        self._go.acquire()
        while self._job is not None:
            self._do()
            self._go.acquire()
        self._running, self._made, self._aside = True, 0, False
        self._cpu = time.process_time()
        self._began = self._step = time.perf_counter()

    def aside(self) -> None:
        """The step that runs holds something that is no part of a step: an evaluation, the end of an epoch."""
        if not self._aside:
            self._aside, self._apart_cpu = True, time.process_time()

    def between(self) -> None:
        """A pass over the data is over: what runs until the next step begins is no part of one. What steps have handed to devices is."""
        if self._running and not self._aside:
            self._finish()
            self._step = time.perf_counter()
        self.aside()

    def stop(self, why: str) -> NoReturn:
        """The loop runs no more. The tuning is told, and the script's thread waits for the end of the process."""
        self.ended = why
        self.begun.set()
        self._done.release()
        while True:
            threading.Event().wait()

    def _do(self) -> None:
        job, self._job = self._job, None
        try:
            if job is not None:
                job()
        except Exception as error:  # the loop must not meet it
            self._failure = error
        self._done.release()

    def _pause(self) -> None:
        self._finish()
        self._work = Work(self._made, time.perf_counter() - self._began, time.process_time() - self._cpu)
        self.steps += self._made
        self._running = False
        self._done.release()
