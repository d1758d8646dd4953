"""Training threads whose calls are known: what a loop calls, for how long, and when."""

from __future__ import annotations

from typing import Any

from outpace.testing import LineBuilder, SpaceBuilder
from outpace.timeline import Run, Steps
from outpace.trace import read_trace

MS = 1_000_000_000


class Loop:
    """A thread on which things happen one after the other; `at` is the time, ps."""

    def __init__(self) -> None:
        self.space = SpaceBuilder()
        self.line: LineBuilder = self.space.plane("/host:CPU").line("python")
        self.at = 0

    def call(self, function: str, ms: float) -> Loop:
        """A call of a `tf.function`."""
        return self.event(function, ms, tf_function_call="notTraced-nonXla")

    def jit(self, function: str, ms: float) -> Loop:
        """A call of a jitted function."""
        return self.event(f"PjitFunction({function})", ms)

    def event(self, name: str, ms: float, **stats: Any) -> Loop:
        self.line.event(name, self.at, round(ms * MS), **stats)
        return self.wait(ms)

    def wait(self, ms: float) -> Loop:
        """Time without an event: Python."""
        self.at += round(ms * MS)
        return self

    def steps(self) -> Steps:
        """What is inferred from it."""
        return self.run.hosts[0].steps

    @property
    def run(self) -> Run:
        return Run.from_traces([read_trace(self.space.to_bytes())])


def durations(steps: Steps) -> list[float]:
    """In ms."""
    return [round(float(d) / MS, 3) for d in steps.duration]
