"""Sees that a script trains in a loop of its own, without any `fit`, within its first steps."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from outpace.capture.options import CaptureOptions
from outpace.capture.session import Session
from outpace.capture.steps_tf import LoopSteps, hook_marks
from outpace.capture.window import Candidate, StepWindow
from outpace.tune.loop.takeover import Found

STEPS = 10  # of one kind, after which it is a loop that trains; preparations that look like one take no gradients


class Loops(Session):
    """Stands in for a capture's session: where that would open its window, the script has a loop of its own."""

    def __init__(self, tf: Any, found: Callable[[Found], object]) -> None:
        """`found` is called in the loop's own thread, inside of a step; it may end the process."""
        options = CaptureOptions(warmup=STEPS, steps=1, stop=False)
        super().__init__(options, "", "", lambda *_: None, lambda *_: None, lambda: None)
        self.window = StepWindow(options, self)
        self._found = found
        os.register_at_fork(after_in_child=self.window.disable)
        self.add_framework("tensorflow", tf)
        self._steps = LoopSteps(self, tf)
        self._steps.install(tf)
        hook_marks(self, self._steps, tf.profiler.experimental, "Trace", "tensorflow")

    def open(self, candidate: Candidate | None) -> bool:
        """Enough steps of one kind were seen."""
        if candidate is not None and (self._steps.trains or candidate.framework == "jax"):
            self.rest()
            self._found(Found(*self._steps.what(candidate)))
        return False

    def rest(self) -> None:
        """See nothing more."""
        self.window.disable()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """See nothing inside the block."""
        busy, trains, self._steps.busy = self._steps.busy, self._steps.trains, True
        try:
            yield
        finally:
            self._steps.busy, self._steps.trains = busy, trains
