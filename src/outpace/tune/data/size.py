"""How many bytes a cache of a pipeline would hold, and how many there are."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outpace.model.errors import RebuildError

SAMPLE = 32  # elements looked at for their size
COUNTED, SECONDS = 20_000, 2.0  # how far elements are counted that TensorFlow does not know the number of
SHARE = 0.5  # of what is free: the model, its batches and other processes need the rest
_LIMITS = (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
           ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"))  # fmt: skip


@dataclass(frozen=True)
class CacheSize:
    """What a cache would hold: `elements` of on average `element_bytes` bytes (from `sampled` elements)."""

    elements: int
    element_bytes: float
    sampled: int

    @property
    def total(self) -> int:
        """Bytes of the whole cache."""
        return int(self.elements * self.element_bytes)


def cache_size(dataset: Any, sample: int = SAMPLE, clock: Callable[[], float] = time.perf_counter) -> CacheSize:
    """Measure the elements of a pipeline and multiply by its cardinality. It runs the pipeline for `sample` elements; where TensorFlow does
    not know the cardinality, to its end, within COUNTED elements and SECONDS.

    Raises RebuildError when the number of elements is infinite or not known, or there are none.
    """
    elements = int(dataset.cardinality())
    if elements == -1:
        raise RebuildError("The pipeline up to here never ends (repeat), so it cannot be cached whole: cache before repeat().")
    sizes = [element_bytes(element) for element in _taken(dataset, sample)] if elements >= 0 else _counted(dataset, clock)
    if not sizes:
        raise RebuildError("The pipeline has no elements to cache.")
    return CacheSize(max(elements, 0) or len(sizes), sum(sizes) / len(sizes), len(sizes))


def _counted(dataset: Any, clock: Callable[[], float]) -> list[int]:
    """The bytes of every element, if there are few."""
    sizes = []
    started = clock()
    for element in dataset:
        sizes.append(element_bytes(element))
        if len(sizes) > COUNTED or clock() - started > SECONDS:
            raise RebuildError(
                "TensorFlow cannot tell how many elements there are, so the size of a cache is not known "
                f"(counting stopped after {len(sizes):,}). tf.data.experimental.assert_cardinality(n) states it."
            )
    return sizes


def element_bytes(element: Any) -> int:
    """Bytes of all tensors of one element; a text counts its characters and 24 bytes of bookkeeping."""
    import tensorflow as tf

    total = 0
    for tensor in tf.nest.flatten(element, expand_composites=True):
        array = tensor.numpy() if hasattr(tensor, "numpy") else tensor
        if getattr(array, "dtype", None) is not None and array.dtype != object:
            total += int(array.nbytes)
        else:
            total += sum(24 + len(text) for text in (array.ravel().tolist() if hasattr(array, "ravel") else [array]))
    return total


def available_memory() -> int:
    """Bytes that this process may still take: the smaller of what the machine has free and what its control group allows."""
    return max(0, min([_free_memory(), *(room for limit, usage in _LIMITS if (room := _room(limit, usage)) is not None)]))


def _room(limit: str, usage: str) -> int | None:
    """What a control group has left; None where there is no such group, or it has no limit ("max")."""
    try:
        with open(limit, encoding="ascii") as most, open(usage, encoding="ascii") as used:
            return int(most.read()) - int(used.read())
    except (OSError, ValueError):
        return None


def _free_memory() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def free_disk(folder: str) -> int:
    """Free bytes of the file system that holds a folder (or the nearest one above it that exists)."""
    while not os.path.exists(folder):
        folder = os.path.dirname(os.path.abspath(folder))
    return shutil.disk_usage(folder).free


def _taken(dataset: Any, count: int) -> list[Any]:
    found = []
    for element in dataset:
        found.append(element)
        if len(found) == count:
            break
    return found
