# SPDX-License-Identifier: Apache-2.0
"""Workers of a Ray cluster: each registers the address of its profiler server, and a capture looks
them up.

The addresses are stored in the key-value store of the cluster's control service: no actor, process
or CPU of the cluster is needed, and they survive the death of a node.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from outpace.model.errors import CaptureError, NotFoundError, UsageError

SCHEME = "ray://"
CLIENT_PORT = 10001  # default port of a head node's Ray client server
_NAMESPACE = b"outpace"
_CONNECT_TIMEOUT_S = 10.0  # time limit of a connection in seconds


def load_ray() -> Any:
    """Return the module `ray`. Raises CaptureError when it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise CaptureError(f"Ray cannot be imported here ({error}). Install it: pip install 'outpace[ray]'") from None


@contextlib.contextmanager
def connect_ray(address: str = "auto") -> Iterator[Any]:
    """Yield the module `ray`, connected to a cluster.

    address: `auto` is the cluster that runs on this machine or that RAY_ADDRESS names; `HOST:PORT`
        is a head node's Ray client server.

    A program that is connected already stays so. Raises CaptureError where there is no Ray or no
    cluster.
    """
    ray = load_ray()
    if address == "auto" and ray.is_initialized():
        yield ray
        return
    server = (os.environ.get("RAY_ADDRESS", "") if address == "auto" else address).removeprefix(SCHEME)
    try:
        if ":" in server:
            _require_listener(server)
        _connect(ray, address if address == "auto" else SCHEME + address)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        # the last line, because a server's own errors are tracebacks
        lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
        message = lines[-1] if lines else type(error).__name__
        raise CaptureError(
            f"No Ray cluster is to be reached{server and f' at {server}'}: {message.rstrip('.')}. Give ray://auto on a node of the cluster, or "
            f"ray://HOST:PORT of its Ray client server, which is port {CLIENT_PORT} of the head node by default."
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def register_worker(ray: Any, address: str, run: str) -> Iterator[None]:
    """Register this worker with its cluster inside this context, so that captures find it.

    run: run that it belongs to; Ray's job by default.

    Raises UsageError where this process is no worker of Ray.
    """
    if not ray.is_initialized() or (context := ray.get_runtime_context()).worker.mode != ray.WORKER_MODE:
        raise UsageError("This process is no worker of Ray. Call outpace.ray.worker() in the function that Ray trains with.")
    store = ray.experimental.internal_kv
    key = f"{context.get_worker_id()}/{address}".encode()
    entry = {"address": address, "run": run or context.get_job_id(), "node": context.get_node_id()}
    store._internal_kv_put(key, json.dumps(entry), namespace=_NAMESPACE)
    try:
        yield
    finally:
        # the cluster may have ended, which is no error of the training
        with contextlib.suppress(Exception):
            store._internal_kv_del(key, namespace=_NAMESPACE)


def find_workers(address: str, run: str = "") -> list[str]:
    """Return the addresses of a cluster's registered workers.

    run: run of the workers; by default the only one.

    Raises CaptureError where there is no cluster, NotFoundError where no worker is registered,
    UsageError where there are several runs.
    """
    with connect_ray(address) as ray:
        entries = _run_on_cluster(ray, _read_entries)
    runs = sorted({entry["run"] for entry in entries})
    if not runs:
        raise NotFoundError(
            "No worker of that Ray cluster can be captured: call outpace.ray.worker() in the function that it trains with."
        )
    registered = f"Workers of {', '.join(runs)} are registered in that Ray cluster"
    if run and run not in runs:
        raise NotFoundError(f"{registered}, none of {run}.")
    if not run and len(runs) > 1:
        raise UsageError(f"{registered}. Choose one: --run {runs[-1]}")
    return sorted(entry["address"] for entry in entries if entry["run"] == (run or runs[0]))


def _read_entries() -> list[dict[str, str]]:
    """Return the entries of living workers, and delete those of workers that were killed and could
    not do it themselves.
    """
    ray = load_ray()
    store, processes = ray.experimental.internal_kv, ray._private.state.workers()
    nodes = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    entries = []
    for key in store._internal_kv_list(b"", namespace=_NAMESPACE):
        value = store._internal_kv_get(key, namespace=_NAMESPACE)
        entry = json.loads(value or b"{}")
        if entry and entry["node"] in nodes and key.decode().partition("/")[0] in processes:
            entries.append(entry)
        else:
            store._internal_kv_del(key, namespace=_NAMESPACE)
    return entries


def _run_on_cluster(ray: Any, function: Callable[[], Any]) -> Any:
    """Return what a function returns on the cluster. Ray's client is no part of the cluster, and
    sends the function there.
    """
    return ray.get(ray.remote(num_cpus=0)(function).remote()) if ray.util.client.ray.is_connected() else function()


def _connect(ray: Any, address: str) -> None:
    """Connect to a cluster; a failed connection through a Ray client server is tried a second time.

    The server starts a process for each client, which may die at its start on a busy node, and this
    shows in several exceptions.
    """
    try:
        ray.init(address, log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError):
        if not address.startswith(SCHEME):
            raise
        ray.init(address, log_to_driver=False, configure_logging=False)


def _require_listener(server: str) -> None:
    """Raise OSError at once where nothing listens: Ray itself tries it for half a minute, and
    longer.
    """
    host, _, port = server.rpartition(":")
    socket.create_connection((host.strip("[]"), port), _CONNECT_TIMEOUT_S).close()
