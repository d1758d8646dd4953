# SPDX-License-Identifier: Apache-2.0
"""`outpace.serve`: a profiler server inside the training process, open to this machine only unless
`host` says otherwise.

It implements TensorFlow's profiler service, so that `outpace capture`,
`tf.profiler.experimental.client.trace` and TensorBoard can all use it. The servers of TensorFlow
and JAX listen on all interfaces. None of the servers, this one included, authenticates its clients.
"""

from __future__ import annotations

import atexit
import ipaddress
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

from outpace._version import __version__
from outpace.capture.main_thread import wait_and_serve
from outpace.capture.messages import print_message
from outpace.capture.remote.grpc_ import load_grpc
from outpace.capture.remote.process_capture import CaptureRefused, ProcessCapture
from outpace.capture.remote.wire import DEFAULT_PORT, NOTE_KEY, PROFILE_METHOD, VERSION_METHOD, ProfileRequest
from outpace.model.errors import CaptureError, UsageError

EXIT_GRACE_S = 10.0  # seconds for a running capture to send its profile when the process ends


class ProfilerServer:
    """A running server, as a context manager; `stop`, the end of a `with` block or the end of the
    process stops it.

    address: address for `outpace capture`.
    """

    def __init__(self, server: Any, sampler: ProcessCapture, calls: _CallCounter, address: str) -> None:
        self.address = address
        self._server: Any = server
        self._sampler = sampler
        self._calls = calls
        self._pid = os.getpid()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop listening. A running capture ends early and sends what it has; a second call does
        nothing.
        """
        server, self._server = self._server, None
        # a forked child inherits the exit handler, but has no server
        if server is None or os.getpid() != self._pid:
            return
        atexit.unregister(self.stop)
        self._sampler.shut_down()
        # gRPC's own grace period needs a thread, and from Python 3.12 on none can be started when
        # the interpreter ends.
        wait_and_serve(self._calls.is_open, EXIT_GRACE_S)
        server.stop(None)

    def __enter__(self) -> ProfilerServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def serve(port: int = DEFAULT_PORT, host: str = "127.0.0.1") -> ProfilerServer:
    """Start a server, so that `outpace capture HOST:PORT` can capture this process while it trains.

    Args:
        port: port to listen on; 0 takes a free one, which `address` of the result shows.
        host: interface to listen on. `"0.0.0.0"` listens on all interfaces: anybody who reaches the
            port can then capture.

    Raises UsageError for an impossible port, CaptureError when the port is in use or grpcio is
    missing.

    Example::

        with outpace.serve() as server:
            print("outpace capture", server.address)
            train()
    """
    if not 0 <= port < 65536:
        raise _port_error(port)
    grpc = load_grpc()
    sampler = ProcessCapture(threading.current_thread())
    # Without the first option a second server on the same port would be no error, and would get
    # every other request.
    options = [("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)]
    server = grpc.server(_DaemonThreadExecutor(), options=options, maximum_concurrent_rpcs=8)
    calls = _CallCounter()
    methods = {PROFILE_METHOD: _make_profile_handler(grpc, sampler, calls), VERSION_METHOD: _handle_version}
    for name, function in methods.items():
        service, method = name.strip("/").split("/")
        handler = grpc.unary_unary_rpc_method_handler(function)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    try:
        bound_port = server.add_insecure_port(_format_address(host, port))
    except RuntimeError:
        bound_port = 0
    if not bound_port:
        raise _listen_error(host, port)
    if not is_loopback(host):
        print_message(f"the profiler server on port {bound_port} is open to the network, and asks nobody for a password")
    server.start()
    return ProfilerServer(server, sampler, calls, _format_address(_client_host(host), bound_port))


def require_port(port: int, host: str) -> None:
    """Raise what `serve` would raise, without starting a server: UsageError for an impossible port,
    CaptureError for one that is in use.
    """
    load_grpc()
    if not 0 <= port < 65536:
        raise _port_error(port)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as probe:
            # as gRPC does; a listening socket still makes the bind fail
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError:
        raise _listen_error(host, port) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _handle_version(_: bytes, context: Any) -> bytes:
    """Return Outpace's version; clients recognise Outpace's servers by this method."""
    return __version__.encode("ascii")


def _make_profile_handler(grpc: Any, sampler: ProcessCapture, calls: _CallCounter) -> Callable[[bytes, Any], bytes]:
    """Return the handler of a profile request."""

    def profile(data: bytes, context: Any) -> bytes:
        cancel = threading.Event()

        def finish() -> None:
            """The answer was sent, or the caller is gone."""
            cancel.set()
            sampler.notify()
            calls.remove()

        calls.add()
        if not context.add_callback(finish):
            finish()
        try:
            request = ProfileRequest.decode(data)
            response, note = sampler.capture(request, cancel)
        except ValueError as error:
            return _abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"The request cannot be read: {error}.")
        except CaptureRefused as refusal:
            return _abort(context, getattr(grpc.StatusCode, refusal.code), str(refusal))
        if note:
            context.set_trailing_metadata(((NOTE_KEY, note),))
        return response.encode(request.emit)

    return profile


def _abort(context: Any, code: Any, text: str) -> bytes:
    """Abort a call with a status code and text."""
    context.abort(code, text)
    return b""  # not reached: abort raises


def _port_error(port: int) -> UsageError:
    """Return the error for an impossible port."""
    return UsageError(f"{port} is no port: give 0 (any free one) to 65535.")


def _listen_error(host: str, port: int) -> CaptureError:
    """Return the error for a port that cannot be opened."""
    return CaptureError(
        f"The profiler server cannot listen on {_format_address(host, port)}: the port is taken, or the address is not this machine's. "
        "Give another port; 0 takes a free one."
    )


def _format_address(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _client_host(host: str) -> str:
    """Return a name that a client can use: 0.0.0.0 and :: mean every interface of this machine."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host


class _CallCounter:
    """Counts the calls that were accepted and are not answered yet."""

    def __init__(self) -> None:
        self._count = 0
        self._condition = threading.Condition()

    def add(self) -> None:
        """Count a call that was accepted."""
        with self._condition:
            self._count += 1

    def remove(self) -> None:
        """Count a call whose answer was sent."""
        with self._condition:
            self._count -= 1
            self._condition.notify_all()

    def is_open(self, seconds: float) -> bool:
        """Wait until no call is open, `seconds` at most, and return whether one still is."""
        with self._condition:
            return not self._condition.wait_for(lambda: self._count <= 0, seconds)


class _DaemonThreadExecutor(Executor):
    """Executor with a daemon thread per call; the thread pool of the standard library would make
    the training process wait for a capture at its end.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="outpace-server", daemon=True).start()
        return future
