"""One function of many hosts: on this machine's cores, or wherever a `Mapper` takes it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeVar

from outpace._cpus import available_cpus
from outpace.hosts.worker_process import WorkerProcess
from outpace.model import OutpaceError

_T = TypeVar("_T")
_R = TypeVar("_R")
_LONGEST = 600.0  # seconds for one host


class Mapper(Protocol):
    """Where a function runs: for each item what it returns, or the OutpaceError that it raised, in
    the order of the items.
    """

    def __call__(self, function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
        """Run it for all items. Function and items are sent: both must be importable, or made of
        what is.
        """
        ...


def map_hosts(function: Callable[[_T], _R], items: Sequence[_T], mapper: Mapper | None = None) -> list[_R | OutpaceError]:
    """What a function says of each host, or why it says nothing: one host that fails loses no
    other. `mapper`: where; processes by default.
    """
    return (mapper or map_in_processes)(function, items)


def map_serially(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
    """One after the other, in this process."""
    return [call_or_error(function, item) for item in items]


def map_in_processes(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
    """In as many processes as there are cores: Python of their own, so that a program without
    `__main__` guard, or with threads, may ask.
    """
    count = min(available_cpus(), len(items))
    if count < 2 or sys.platform == "win32":  # workers inherit a pipe's end, as POSIX has it
        return map_serially(function, items)
    found: dict[int, _R | OutpaceError] = {}
    broken = list[Exception]()
    todo = SimpleQueue[tuple[int, _T] | None]()
    for each in (*enumerate(items), *[None] * count):  # an end for each thread
        todo.put(each)

    def work(worker: WorkerProcess) -> None:
        try:
            for at, item in iter(todo.get, None):
                found[at] = call_or_error(partial(worker.call, _LONGEST, function), item)
        except Exception as error:  # a fault of ours
            broken.append(error)

    workers = [WorkerProcess() for _ in range(count)]
    threads = [threading.Thread(target=copy_context().run, args=(work, worker), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:  # also where Ctrl-C ends it: a closed one answers all that is left
        for worker in workers:
            worker.close()
    if broken:
        raise broken[0]
    return [found[at] for at in range(len(items))]


def call_or_error(function: Callable[[_T], _R], item: _T) -> _R | OutpaceError:
    """What a function says of one item: what it returns, or the OutpaceError that it raised."""
    try:
        return function(item)
    except OutpaceError as error:
        return error
