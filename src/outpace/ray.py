# SPDX-License-Identifier: Apache-2.0
"""Outpace on Ray: `worker` makes a training process available to `outpace capture ray://auto`, and
`tasks` reads the profiles of many hosts on a cluster.
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
    """Run a profiler server in this process while the block lasts, so that `outpace capture
    ray://auto` can capture it; yields the server, on a free port of the node's address.

    Use it in the function that Ray trains with, in an actor or a task. `run`: name of the run for
    `outpace capture ray://auto --run`; Ray's job ID by default. Raises CaptureError where ray or
    grpcio is missing, UsageError outside of Ray's workers.

    >>> def train(config):
    ...     with outpace.ray.worker("mnist"):
    ...         model.fit(data)
    """
    ray = load_ray()
    with serve(0, ray.util.get_node_ip_address()) as server, register_worker(ray, server.address, run):
        yield server


def tasks(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R | OutpaceError]:
    """Return the results of `function` for all items, computed by one Ray task per item. It is a
    `Mapper` for `outpace.open(..., on=outpace.ray.tasks)`.

    The tasks run on the cluster that this program is connected to, or on `ray://auto`. Every node
    must have this version of Outpace, and must be able to read the files. Raises CaptureError where
    there is no cluster.
    """
    with connect_ray() as ray:
        task = ray.remote(_call_pickled)
        references = [task.remote(function, item) for item in items]
        return [_fetch_result(ray, reference) for reference in references]


def _call_pickled(function: Callable[[_T], _R], item: _T) -> bytes:
    """Return the pickled result of `function(item)`, or the pickled error.

    Without pickling, arrays would be views of Ray's memory, which is freed with the connection.
    """
    return pickle.dumps(call_or_error(function, item))


def _fetch_result(ray: Any, reference: Any) -> Any:
    try:
        return pickle.loads(ray.get(reference))
    except ray.exceptions.RayTaskError as error:  # `function` raised something that is no OutpaceError: a defect of Outpace
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        return OutpaceError(f"The Ray task that analysed it was lost ({type(error).__name__}), perhaps for want of memory.")
