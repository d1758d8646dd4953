"""Runs training steps of one variant of a program, as `fit` would, without the user's callbacks; or only reads its input."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any

from outpace.tune.data.iterator import model_of
from outpace.tune.program.source import Feed
from outpace.tune.trial.arm import Work

if TYPE_CHECKING:
    from outpace.tune.program.program import Program

SETTLE = 1  # steps before timed ones, after those batches were taken out that the pipeline prefetched while others ran

LONGEST_REST = 2.0  # seconds
_WINDOW, _QUIET = 0.004, 0.2  # seconds of a look at the processor, and cores below which it rests


class Runner:
    """Makes steps: of training, or of reading."""

    def run(self, steps: int) -> int:
        """Make at least so many; returns how many."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait until they are complete."""

    def work(self, steps: int) -> Work:
        """Make at least so many, until they are complete, and measure that."""
        began, cpu = time.perf_counter(), time.process_time()
        done = self.run(steps)
        self.finish()
        return Work(done, time.perf_counter() - began, time.process_time() - cpu)


class Stepper(Runner):
    """The compiled train function of one variant, with an iterator of its own. All variants of a program train the same variables.

    feed: what it reads, over and over; by default the program's. What `fit` does around each call belongs to its time: Keras' own callbacks
    (history, progress bar) read the logs, which waits for the step. The bar is not drawn.

    Keras reads `jit_compile` when the function is made, but `steps_per_execution` and dtype policies when it is traced, in its first call:
    make a stepper, and call `compile`, while the variant's knobs are applied.
    """

    def __init__(self, program: Program, feed: Feed | None = None) -> None:
        self.program = program
        self.per_call = program.steps_per_call
        self.feed = feed or program.feed()
        self._iterator: Any = None
        self._function: Any = None
        self._logs: Any = None
        self._held: int | None = None
        self._callbacks = _callbacks(program)
        self._done = 0  # steps

    def compile(self) -> None:
        """Make the train function and its iterator, and run the first call, which traces."""
        model = self.program.model
        self._iterator = iter(self.feed.dataset.repeat())
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
        """Bring the pipeline's buffers from full, as they are after a rest, to what they hold while it trains.

        What they hold was seen at the end of the last block, and the rest is read without training. The first time, training does it.
        """
        waiting = buffered(self._iterator) + self.feed.queued()
        if self._held is None:
            self.run(waiting)
        else:
            for _ in range(waiting - self._held):
                next(self._iterator)
        self.run(SETTLE)
        self.finish()

    def rest(self) -> None:
        """A block is over: see what the buffers hold, and wait until they are full, so that no other variant's block pays for it."""
        self._held = buffered(self._iterator) + self.feed.queued()
        quiesce()

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
        self._callbacks.on_train_batch_begin(self._done)
        self._logs = self._function(self._iterator)
        self._done += self.per_call
        self._callbacks.on_train_batch_end(self._done - 1, self._logs)


def _callbacks(program: Program) -> Any:
    """Keras' own callbacks as `fit` makes them, without a word."""
    from keras import callbacks

    verbose = program.arguments.get("verbose", "auto")
    bar = callbacks.ProgbarLogger()
    made = callbacks.CallbackList(
        [callbacks.History(), *([bar] if verbose != 0 else [])], verbose=verbose, epochs=1, steps=program.batches
    )
    made.on_train_begin()
    made.on_epoch_begin(0)
    if bar.progbar is not None:
        bar.progbar.interval = math.inf  # seconds between two pictures: it keeps its books and draws none
    return made


class Reader(Runner):
    """Reads the batches of a data set, over and over, and does nothing with them: the input alone."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.iterator: Any = None

    def compile(self) -> None:
        """Make the iterator and read the first batch."""
        self.iterator = iter(self.feed.dataset.repeat())
        self.run(1)

    def run(self, steps: int) -> int:
        """Read so many batches; returns how many."""
        for _ in range(steps):
            next(self.iterator)
        return steps

    def drain(self) -> None:
        """Read what the pipeline prefetched during a rest."""
        self.run(buffered(self.iterator) + self.feed.queued() + SETTLE)

    def rest(self) -> None:
        """A block is over: wait until the buffers are full."""
        quiesce()


def quiesce() -> None:
    """Wait until this process hardly uses its processor any more, at most `LONGEST_REST`."""
    end = time.monotonic() + LONGEST_REST
    quiet = 0
    while quiet < 2 and time.monotonic() < end:
        began, cpu = time.perf_counter(), time.process_time()
        time.sleep(_WINDOW)
        busy = (time.process_time() - cpu) / (time.perf_counter() - began)
        quiet = quiet + 1 if busy < _QUIET else 0


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
