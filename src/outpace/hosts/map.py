# SPDX-License-Identifier: Apache-2.0
"""Application of one function to many hosts, on the cores of this machine or wherever a `Mapper`
runs it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeVar

from outpace._cpus import available_cpus
from outpace.model import OutpaceError

_T = TypeVar("_T")
_R = TypeVar("_R")
_LONGEST = 600.0  # timeout for one host, s


class Mapper(Protocol):
    """Callable that runs a function for many items. It returns for each item the result, or the
    OutpaceError that was raised, in the order of the items.
    """

    def __call__(self, function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
        """Run the function for all items. Function and items are pickled: they must be importable
        or consist of importable objects.
        """
        ...


def map_hosts(function: Callable[[_T], _R], items: Sequence[_T], mapper: Mapper | None = None) -> list[_R | OutpaceError]:
    """Return for each host the function's result, or the OutpaceError that it raised: a host that
    fails does not affect the others. `mapper`: where the function runs; in local processes by
    default.
    """
    return (mapper or map_in_processes)(function, items)


def map_serially(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
    """Run the function for one item after the other in this process, and return the results in
    order.
    """
    return [call_or_error(function, item) for item in items]


def map_in_processes(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
    """Run the function in as many processes as there are cores, and return the results in order.
    The processes are separate Python interpreters, so that a program without a `__main__` guard,
    or with threads, can call this.
    """
    count = min(available_cpus(), len(items))
    if count < 2 or sys.platform == "win32":  # workers inherit the end of a pipe, as POSIX provides it
        return map_serially(function, items)
    from outpace.hosts.worker_process import WorkerProcess  # loads multiprocessing, which a run of one host needs not

    results: dict[int, _R | OutpaceError] = {}
    broken = list[Exception]()
    todo = SimpleQueue[tuple[int, _T] | None]()
    for task in (*enumerate(items), *[None] * count):  # one end marker for each thread
        todo.put(task)

    def work(worker: WorkerProcess) -> None:
        try:
            for at, item in iter(todo.get, None):
                results[at] = call_or_error(partial(worker.call, _LONGEST, function), item)
        except Exception as error:  # a defect of Outpace
            broken.append(error)

    workers = [WorkerProcess() for _ in range(count)]
    threads = [threading.Thread(target=copy_context().run, args=(work, worker), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:  # also after Ctrl-C: a closed worker answers all remaining calls
        for worker in workers:
            worker.close()
    if broken:
        raise broken[0]
    return [results[at] for at in range(len(items))]


def call_or_error(function: Callable[[_T], _R], item: _T) -> _R | OutpaceError:
    """Return the function's result for one item, or the OutpaceError that it raised."""
    try:
        return function(item)
    except OutpaceError as error:
        return error
