"""Runs training steps of one variant of a program, as `fit` would, without its callbacks."""

from __future__ import annotations

import sys
from typing import Any

from outpace.tune.data.costs import model_of
from outpace.tune.program.isolated import isolated
from outpace.tune.program.program import Program

SETTLE = 2  # calls after those that eat what the pipeline prefetched while others ran


class Stepper:
    """The compiled train function of one variant, with an iterator of its own. All variants of a program train the same variables.

    Keras reads `jit_compile` when the function is made, but `steps_per_execution` and dtype policies when it is traced, in its first call:
    make a stepper, and call `compile`, while the variant's knobs are applied.
    """

    def __init__(self, program: Program, dataset: Any | None = None) -> None:
        self.program = program
        self.per_call = program.steps_per_call
        source = program.dataset if dataset is None else dataset
        self._dataset = isolated(source).repeat()
        self._iterator: Any = None
        self._function: Any = None
        self._logs: Any = None

    def compile(self) -> None:
        """Make the train function and its iterator, and run the first call, which traces."""
        model = self.program.model
        self._iterator = iter(self._dataset)
        kept, model.train_function = model.train_function, None
        try:
            self._function = model.make_train_function(force=True) or model.train_function
            self._call()
            self.finish()
        finally:
            model.train_function = kept

    def run(self, steps: int) -> int:
        """Run at least so many steps; returns how many, a multiple of the steps per call."""
        calls = -(-steps // self.per_call)
        for _ in range(calls):
            self._call()
        return calls * self.per_call

    def drain(self) -> None:
        """Bring the pipeline's buffers from full, as they are after a rest, to what they hold while it trains: untimed steps do."""
        calls = -(-buffered(self._iterator) // self.per_call) + SETTLE
        self.run(calls * self.per_call)
        self.finish()

    def finish(self) -> None:
        """Wait until all steps are done on the device."""
        for value in sys.modules["tensorflow"].nest.flatten(self._logs):
            if hasattr(value, "numpy"):
                value.numpy()

    @property
    def iterator(self) -> Any:
        """The iterator that it reads."""
        return self._iterator

    @property
    def traced(self) -> Any:
        """The `tf.function` behind Keras' train function; None where the step runs eagerly."""
        cells = [cell.cell_contents for cell in getattr(self._function, "__closure__", None) or ()]
        return next((item for item in (self._function, *cells) if hasattr(item, "get_concrete_function")), None)

    def graph(self) -> Any:
        """The GraphDef of the traced step; None where it runs eagerly."""
        traced = self.traced
        return traced.get_concrete_function(self._iterator).graph.as_graph_def() if traced is not None else None

    def _call(self) -> None:
        self._logs = self._function(self._iterator)


def buffered(iterator: Any) -> int:
    """Batches that wait at the end of a pipeline to be read; 0 where tf.data does not tell (autotuning is off)."""
    try:
        nodes = model_of(iterator).nodes
    except Exception:
        return 0
    by_id = {node.id: node for node in nodes.values()}
    read = {number for node in nodes.values() for number in node.inputs}
    node = next((node for node in nodes.values() if node.id not in read), None)
    waiting = 0
    while node is not None and node.name in _HOLDERS + _PASSING:
        waiting += int(node.buffered_elements) if node.name in _HOLDERS else 0
        node = by_id.get(node.inputs[0]) if len(node.inputs) else None
    return waiting


_HOLDERS = ("Prefetch", "ParallelMapV2", "ParallelMap", "MapAndBatch", "ParallelBatch")
_PASSING = ("Repeat", "ForeverRepeat", "Root", "Options", "Finalize", "Model", "MaxIntraOpParallelism", "PrivateThreadPool")
