"""Turns on in a loop of the user's own what an earlier tuning has kept, in the process that trains: nothing is tried, the loop runs once."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from outpace.capture.recording import tell
from outpace.tune.data.tree import describe
from outpace.tune.loop.clock import Clock
from outpace.tune.loop.found import Found
from outpace.tune.loop.loop import OBSERVED, Loop
from outpace.tune.loop.reads import shape_of
from outpace.tune.loop.statement import Statement
from outpace.tune.loop.step import Step
from outpace.tune.loop.stepper import Active
from outpace.tune.optimisations import all_rewrites, knobs
from outpace.tune.optimisations.knob import Knob
from outpace.tune.optimisations.rewrite import Rewritten, attempt
from outpace.tune.program.program import Program

HERE = ("loop_xla", "loop_graph", "loop_jit")  # what can be turned on while a loop runs: others change its source


class Applied:
    """recipe: the `practices` that were kept, and `reads`: what the pipeline looked like that the loop read, or nothing (`reads_of`).

    A pipeline is rewritten before its first batch is read; the step is changed after the first ones have shown which it is.
    """

    def __init__(self, recipe: Mapping[str, Any], recorder: Callable[[], Any]) -> None:
        by_id = {rewrite.id: rewrite for rewrite in all_rewrites()}
        self._rewrites = [by_id[each] for each in recipe["practices"] if each in by_id]
        self._knobs = [knob for knob in knobs() if knob.id in recipe["practices"]]
        self._reads, self._recorder = recipe["reads"], recorder
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # rewritten pipelines, by the user's own
        self._busy = False
        self._main = threading.get_ident()
        for knob in self._knobs:
            if knob.id not in HERE:
                left(knob.title, "it changes the loop's source")

    def add_tensorflow(self, tf: Any) -> None:
        """TensorFlow was imported: give the loop's iterators the rewritten pipeline."""
        if not self._rewrites:
            return
        original, applied = tf.data.Dataset.__iter__, self

        def __iter__(self: Any) -> Any:
            return original(applied.rewritten(self) if tf.executing_eagerly() else self)

        tf.data.Dataset.__iter__ = __iter__

    def rewritten(self, dataset: Any) -> Any:
        """A data set of the user's, rewritten where it is built as the loop's was; else itself."""
        if self._busy or threading.get_ident() != self._main or shape_of(dataset) != self._reads:
            return dataset
        self._busy = True  # a rewrite is verified by reading
        try:
            if dataset not in self._made:
                self._made[dataset] = self._rewrite(dataset)
        finally:
            self._busy = False
        return self._made[dataset]

    def _rewrite(self, dataset: Any) -> Any:
        for rewrite in self._rewrites:
            found = attempt(rewrite, describe(dataset, self._recorder()))
            if isinstance(found, Rewritten):
                dataset = found.dataset
                tell(f"applied to the input: {rewrite.title}")
            else:
                tell(f"not applied: {rewrite.title}: {found.sentence}")
        return dataset

    def take_over(self, found: Found, step: Step | None, statement: Statement) -> None:
        """The loop has made its first steps: change the others. `step`: the function that makes them, where nothing else shows them."""
        if self._rewrites and not self._made:
            tell(f"not applied: the loop at {statement.place} reads no pipeline that is built as the tuned one was")
        wanted = [knob for knob in self._knobs if knob.id in HERE]
        if not wanted:
            return
        loop = Loop(found, step, Running(lambda: self._turn_on(loop, wanted, statement)))
        loop.install()
        loop.observing(True)

    def _turn_on(self, loop: Loop, wanted: list[Knob], statement: Statement) -> None:
        loop.observing(False)
        program = Program.of_running(loop)
        with contextlib.ExitStack() as stack:
            for knob in wanted:
                if knob.id != "loop_xla" and loop.eager_step is None:
                    left(knob.title, f"the step stands in the loop at {statement.place} itself")
                    continue
                stack.enter_context(knob.applied(program))
                tell(f"applied to the step: {knob.title}")
            loop.active = Active(compiled=loop.compiled, graph=loop.as_graph)


class Running(Clock):
    """The clock of a loop that nobody stops. `seen`: told once, after enough steps to know what makes them."""

    def __init__(self, seen: Callable[[], object]) -> None:
        super().__init__()
        self._seen: Callable[[], object] | None = seen

    def tick(self) -> None:
        """A step begins."""
        self.ticks += 1
        if self.ticks > OBSERVED and self._seen is not None:
            seen, self._seen = self._seen, None
            seen()

    def aside(self) -> None:
        """The step is no step alone."""


def left(title: str, why: str) -> None:
    """Say what is not applied, and that its patch would."""
    tell(f"not applied here: {title}, because {why.rstrip('.')}: outpace tune --patch FILE writes the change into the source")


def reads_of(loop: Loop) -> str:
    """What the pipeline looks like that a loop reads; empty for none."""
    return shape_of(loop.dataset) if loop.dataset is not None else ""
