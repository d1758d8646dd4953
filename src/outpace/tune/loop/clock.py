"""The turns of two threads: the script's, which runs its loop, and the tuning's, which decides what the loop runs with. Never both at once.

The script stands still at the begin of a step until it is given some steps; the tuning stands still while these run. Standard library only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NoReturn

from outpace.model.errors import CaptureError
from outpace.tune.trial.arm import Work


class Left(BaseException):
    """The loop is left: nothing is tuned any more. No exception of the user's, so that none of their handlers takes it."""


class Clock:
    """Steps of a loop, counted and timed at their begin. The script calls `tick`, `aside` and `stop`, the tuning `advance` and `perform`."""

    def __init__(self, finish: Callable[[], None] = lambda: None) -> None:
        """`finish` waits until the steps so far are complete, on devices too; it is called in the script's thread."""
        self.steps = self.ticks = 0  # steps that were complete, and begins of steps
        self.size = 1  # steps that are made at once until the next begin
        self.ended = ""  # why the loop runs no more
        self.begun = threading.Event()  # its first step, or its end
        self._finish = finish
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._left = 0
        self._made = 0
        self._began = self._cpu = self._step = 0.0
        self._work = Work(0, 0.0)
        self._running = self._aside = self._leaving = False
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
            else:
                self._made += self.size
            self._step, self._aside, self.size = now, False, 1
            if self._made < self._left:
                return
            self._pause()
        self._wait()
        while self._job is not None:
            self._do()
            self._wait()
        self._running, self._made, self._aside = True, 0, False
        self._cpu = time.process_time()
        self._began = self._step = time.perf_counter()

    def aside(self) -> None:
        """The step that runs holds something that is no part of a step: an evaluation, the end of an epoch."""
        self._aside = True

    def stop(self, why: str) -> NoReturn:
        """The loop runs no more. The tuning is told, and the script's thread waits for the end of the process."""
        self.end(why)
        while True:
            threading.Event().wait()

    def end(self, why: str) -> None:
        """The same, where the script's thread goes on by itself."""
        self.ended = why
        self.begun.set()
        self._done.release()

    def leave(self) -> None:
        """Let the script's thread leave the loop: its next `tick` raises Left. The tuning is over."""
        self._leaving = True
        self._go.release()

    def _wait(self) -> None:
        self._go.acquire()
        if self._leaving:
            raise Left

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
