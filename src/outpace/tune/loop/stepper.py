"""Runs steps of a loop with one variant's input and functions."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.data.isolated import watched
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
            self.iterator = self.active.iterator = watched(iter(self.feed.dataset.repeat()))
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
        if self.iterator is not None:
            waiting = buffered(self.iterator)
            if self._held is None:
                self.run(max(waiting, 1))
            else:
                for _ in range(waiting - self._held):
                    next(self.iterator)
        self.run(SETTLE + self.loop.early)

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
