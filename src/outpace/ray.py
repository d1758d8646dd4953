"""Outpace on Ray: `worker` lets a training function be captured by `outpace capture ray://auto`,
`tasks` reads many hosts on a cluster.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from outpace.capture.remote.ray_ import connect_ray, load_ray, register_worker
from outpace.capture.server import ProfilerServer, serve
from outpace.hosts.map import call_or_error
from outpace.model.errors import OutpaceError

_T = TypeVar("_T")
_R = TypeVar("_R")


@contextlib.contextmanager
def worker(run: str = "") -> Iterator[ProfilerServer]:
    """Let this process of a Ray cluster be captured while the block lasts: a profiler server on a
    free port of the node's address.

    For the function that Ray trains with, in an actor or a task. `run`: what `outpace capture
    ray://auto --run` calls it; Ray's job ID by default. Raises CaptureError where ray or grpcio is
    missing, UsageError outside of Ray's workers.
    """
    ray = load_ray()
    with serve(0, ray.util.get_node_ip_address()) as server, register_worker(ray, server.address, run):
        yield server


def tasks(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
    """A `Mapper`: one Ray task for each item, on the cluster that this program is connected to, or
    `ray://auto`.

    Every node must have this version of Outpace, and see the files. Raises CaptureError where there
    is no cluster.
    """
    with connect_ray() as ray:
        asked = ray.remote(_packed)
        found = [asked.remote(function, item) for item in items]
        return [_unpacked(ray, each) for each in found]


def _packed(function: Callable[[_T], _R], item: _T) -> bytes:
    """The answer as bytes: arrays would stay views of Ray's memory, which is gone with the
    connection.
    """
    return pickle.dumps(call_or_error(function, item))


def _unpacked(ray: Any, reference: Any) -> Any:
    try:
        return pickle.loads(ray.get(reference))
    except ray.exceptions.RayTaskError as error:  # a fault of ours
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        return OutpaceError(f"The Ray task that analysed it was lost ({type(error).__name__}), perhaps for want of memory.")
