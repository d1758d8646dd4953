"""Runs steps of a loop with one variant's input and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.program.disposal import watched
from outpace.tune.program.stepper import SETTLE, Runner, buffered, quiesce
from outpace.tune.trial.arm import Work

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop
    from outpace.tune.program.source import Feed


@dataclass(eq=False)
class Active:
    """What the loop runs with. iterator: gives its batches; None leaves them to the loop. compiled: its functions are compiled by XLA.
    graph: its eager step runs as a graph. calls: of such functions. failure: why that is not possible here."""

    iterator: Any = None
    compiled: bool = False
    graph: bool = False
    calls: int = 0
    failure: str = ""


class LoopStepper(Runner):
    """Steps of the user's loop: what `Stepper` is for a `fit`. Make it, and call `compile`, while the variant's knobs are applied."""

    def __init__(self, loop: Loop, feed: Feed) -> None:
        self.loop, self.feed = loop, feed
        self.active = Active(compiled=loop.compiled, graph=loop.as_graph)
        self.iterator: Any = None
        self._held: int | None = None

    def compile(self) -> None:
        """Make the iterator, and run the first step, which traces."""
        if self.loop.dataset is not None:
            self.iterator = self.active.iterator = watched(iter(self.feed.dataset.repeat()))
        self.run(1)

    def work(self, steps: int) -> Work:
        """Run so many steps; what the loop's own clock says of them. Raises CaptureError where they cannot run in this way."""
        self.loop.active = self.active
        done = self.loop.clock.advance(steps)
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
        self.run(SETTLE)

    def rest(self) -> None:
        """A block is over: see what the buffers hold, and wait until they are full."""
        self._held = buffered(self.iterator) if self.iterator is not None else 0
        quiesce()
