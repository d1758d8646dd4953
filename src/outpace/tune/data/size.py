# SPDX-License-Identifier: Apache-2.0
"""How many bytes a cache of a pipeline would hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from outpace.model.errors import RebuildError
from outpace.tune.data.tree import describe

SAMPLE = 32  # elements looked at for their size
COUNTED, SECONDS = 200_000, 5.0  # how far elements are counted that TensorFlow does not know the number of
_ONE_FOR_ONE = ("map", "prefetch", "shuffle", "cache", "with_options", "enumerate")
SHARE = 0.5  # of what is free: the model, its batches and other processes need the rest


@dataclass(frozen=True)
class CacheSize:
    """What a cache would hold: `elements` of on average `element_bytes` bytes."""

    elements: int
    element_bytes: float

    @property
    def total(self) -> int:
        """Bytes of the whole cache."""
        return int(self.elements * self.element_bytes)


def cache_size(dataset: Any, sample: int = SAMPLE, clock: Callable[[], float] = time.perf_counter) -> CacheSize:
    """Measure the elements of a pipeline and multiply by its cardinality. It runs the pipeline for
    `sample` elements; where TensorFlow does not know the cardinality, the stage that decides it is
    run to its end, within COUNTED elements and SECONDS.

    Raises RebuildError when the number of elements is infinite or not known, or there are none.
    """
    elements = int(dataset.cardinality())
    if elements == -1:
        raise RebuildError("The pipeline up to here never ends (repeat), so it cannot be cached whole: cache before repeat().")
    if elements < 0:
        elements = _counted(_deciding(dataset), clock)
    sizes = [element_bytes(element) for element in _taken(dataset, sample)]
    if not sizes:
        raise RebuildError("The pipeline has no elements to cache.")
    return CacheSize(elements, sum(sizes) / len(sizes))


def _deciding(dataset: Any) -> Any:
    """The data set whose elements a pipeline hands on one for one: its expensive maps need not run
    only to be counted.
    """
    for stage in describe(dataset).spine():
        if stage.op not in _ONE_FOR_ONE:
            return stage.dataset
    return dataset


def _counted(dataset: Iterable[Any], clock: Callable[[], float]) -> int:
    """The number of elements, if there are few."""
    number = 0
    started = clock()
    for number, _ in enumerate(dataset, start=1):
        if number > COUNTED or clock() - started > SECONDS:
            raise RebuildError(
                "TensorFlow cannot tell how many elements there are, so the size of a cache is not known "
                f"(counting stopped after {number:,}). tf.data.experimental.assert_cardinality(n) states it."
            )
    return number


def element_bytes(element: Any) -> int:
    """Bytes of all tensors of one element; a text counts its characters and 24 bytes of
    bookkeeping.
    """
    import tensorflow as tf

    total = 0
    for tensor in tf.nest.flatten(element, expand_composites=True):
        array = tensor.numpy() if hasattr(tensor, "numpy") else tensor
        if getattr(array, "dtype", None) is not None and array.dtype != object:
            total += int(array.nbytes)
        else:
            total += sum(24 + len(text) for text in (array.ravel().tolist() if hasattr(array, "ravel") else [array]))
    return total


def _taken(dataset: Any, count: int) -> list[Any]:
    found = []
    for element in dataset:
        found.append(element)
        if len(found) == count:
            break
    return found
