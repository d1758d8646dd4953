"""What `fit` reads: one door for all that Keras accepts, through Keras' own adapters.

A trial reads a feed of its own: of a tf.data pipeline a copy, of everything else what Keras makes of it anew. Only a generator cannot be
made anew; all feeds then take turns at the one that there is, and read its first batches again when it ends.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError, UsageError
from outpace.tune.data.isolated import isolated
from outpace.tune.purity.evidence import rows, same
from outpace.tune.reason import reason_of

KEPT = 64  # batches of a generator that are held in memory, in case that it ends


@dataclass(frozen=True, eq=False)
class Feed:
    """A data set to read. queued: batches that wait for it outside of tf.data, in the queue of Keras' workers. single: only one reader at a
    time may read it, because those workers, or a generator, serve one. workers: how many there are. fill: make what it keeps in memory, in
    so many seconds."""

    dataset: Any
    queued: Callable[[], int] = lambda: 0
    single: bool = False
    workers: int = 0
    fill: Callable[[float], None] = lambda seconds: None


class Source:
    """The input of one `fit`. own: whether it is the user's own tf.data pipeline. generator: where it is one, which can be read only once.
    py_dataset: where it is one of Keras. keeping: whether feeds that are made from now on keep that one's batches in memory."""

    def __init__(self, x: Any, arguments: Mapping[str, Any]) -> None:
        tf = sys.modules.get("tensorflow")  # Keras on JAX imports it where it needs it
        self._arguments = arguments
        self.own = tf is not None and isinstance(x, tf.data.Dataset)
        self.generator = _Turns(x) if isinstance(x, types.GeneratorType) else None
        self.py_dataset = x if _is_py_dataset(x) else None
        self.keeping = False
        self._x = x

    @functools.cached_property
    def kept(self) -> Any:
        """The PyDataset with its batches in memory, one for all who read it."""
        return kept_batches(self.py_dataset)

    @property
    def x(self) -> Any:
        """What `fit` gets."""
        return self.kept if self.keeping else self._x

    @functools.cached_property
    def dataset(self) -> Any:
        """What can be described and rewritten; made once; None for a loop that reads none. Raises UsageError where Keras makes none."""
        if self.own or self._x is None:
            return self._x
        try:
            return self._adapted().dataset
        except Exception as error:
            kind = type(self._x).__name__
            raise UsageError(
                f"Keras makes no batches of this input, a {kind}: {reason_of(error)}. Does the training run without Outpace?"
            ) from error

    @property
    def batches(self) -> int | None:
        """Batches in one epoch, None where they are not known, or without end. A generator is not asked."""
        if self.own:
            found = int(self._x.cardinality())
        elif self.generator is not None:
            return None
        else:
            found = self._adapter(self._x).num_batches
        return int(found) if found is not None and found >= 0 else None

    def feed(self, dataset: Any) -> Feed:
        """What one reader of a data set reads: the source's own, one that was rewritten from it, or another one."""
        if not self.own and dataset is self.dataset:
            return self._adapted()
        copy = isolated(dataset)
        if self.own and self._arguments.get("class_weight") and dataset.element_spec == self.dataset.element_spec:
            return Feed(self._adapter(copy).get_tf_dataset())
        return Feed(copy)

    def _adapted(self) -> Feed:
        adapter = self._adapter(self.generator.reader() if self.generator is not None else self.x)
        with contextlib.suppress(AttributeError):  # Keras before 3.5
            adapter.on_epoch_begin()
        workers = getattr(adapter, "enqueuer", None)
        # Keras makes every iterator over the one generator; a PyDataset's knobs are turned where its adapter is made.
        single = workers is not None or self.generator is not None or self.py_dataset is not None
        fill = self.kept.fill if self.keeping else lambda seconds: None
        number = self.x.workers if self.py_dataset is not None and workers is not None else 0
        return Feed(adapter.get_tf_dataset(), lambda: _waiting(workers), single, number, fill)

    def _adapter(self, x: Any) -> Any:
        """Keras' adapter, as `fit` makes it."""
        from keras.src.trainers.data_adapters.array_slicing import train_validation_split
        from keras.src.trainers.epoch_iterator import EpochIterator

        given = self._arguments
        y, weights = given.get("y"), given.get("sample_weight")
        if given.get("validation_split") and given.get("validation_data") is None:
            (x, y, weights), _ = train_validation_split((x, y, weights), validation_split=given["validation_split"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fit says them again
            return EpochIterator(
                x=x,
                y=y,
                sample_weight=weights,
                batch_size=given.get("batch_size"),
                steps_per_epoch=given.get("steps_per_epoch"),
                shuffle=given.get("shuffle", True),
                class_weight=given.get("class_weight"),
            ).data_adapter


def _is_py_dataset(x: Any) -> bool:
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(x, keras.utils.PyDataset)


def _waiting(workers: Any) -> int:
    """Batches in the queues of Keras' workers, which are there while they run; after a rest all of them are ready."""
    queues = (getattr(workers, name, None) for name in ("future_queue", "ready_queue"))
    return sum(int(queue.qsize()) for queue in queues if queue is not None)


class _Turns:
    """One generator for several readers, who get its batches in turn and never find its end."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._lock = threading.Lock()
        self._kept: list[Any] = []
        self._again: Iterator[Any] | None = None

    @property
    def ended(self) -> int | None:
        """How many batches are read again and again since the generator ended; None while it goes on."""
        return len(self._kept) if self._again is not None else None

    def reader(self) -> Any:
        """A generator of its batches for one reader."""
        while True:
            with self._lock:
                batch = self._next()
            yield batch

    def _next(self) -> Any:
        if self._again is None:
            try:
                batch = next(self._generator)
            except StopIteration:
                if not self._kept:
                    raise UsageError("The generator gave no batch.") from None
                self._again = itertools.cycle(self._kept)
            else:
                if len(self._kept) < KEPT:
                    self._kept.append(batch)
                return batch
        return next(self._again)


TWICE = 2  # batches that are made twice, to see whether they are the same


def kept_batches(x: Any) -> Any:
    """A PyDataset that gives another one's batches, each made at its first use; `fill` makes all of them, `hits` counts those out of memory."""
    import keras

    class Kept(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__(x.workers, x.use_multiprocessing, x.max_queue_size)
            self.hits = 0
            self._batches: dict[int, Any] = {}

        @property
        def num_batches(self) -> Any:
            return x.num_batches

        def __getitem__(self, index: int) -> Any:
            if index in self._batches:
                self.hits += 1
                return self._batches[index]
            return self._batches.setdefault(index, x[index])

        def fill(self, seconds: float) -> None:
            """Raises CaptureError where it takes longer than `seconds`, or where the first batches are others when they are made again."""
            end = time.monotonic() + seconds
            for index in range(x.num_batches):
                if index not in self._batches:
                    batch = x[index]
                    if index < TWICE and not same(rows(batch), rows(x[index])):
                        raise CaptureError(
                            f"Batch {index} was another one when it was made a second time, so it cannot be kept_batches."
                        )
                    self._batches[index] = batch
                if time.monotonic() > end:
                    raise CaptureError(
                        f"Making all batches once takes longer than {seconds:.0f} s ({index + 1} of {x.num_batches}): give a larger budget."
                    )

    return Kept()
