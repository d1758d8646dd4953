"""`outpace.serve`: a profiler server inside the training process, on this machine only unless it is
told otherwise.

It speaks TensorFlow's profiler service, so `outpace capture`,
`tf.profiler.experimental.client.trace` and TensorBoard can all ask it. The servers of TensorFlow
and JAX listen on all interfaces, and none of them, this one included, asks who is calling.
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

EXIT_GRACE_S = 10.0  # seconds for a running capture to hand over its profile when the process ends


class ProfilerServer:
    """A running server; `address` is what `outpace capture` takes. Ends with `stop`, at the end of
    a `with` block, or with the process.
    """

    def __init__(self, server: Any, sampler: ProcessCapture, calls: _Calls, address: str) -> None:
        self.address = address
        self._server: Any = server
        self._sampler = sampler
        self._calls = calls
        self._pid = os.getpid()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop listening. A capture that is running ends early and sends what it has; a second call
        does nothing.
        """
        server, self._server = self._server, None
        if server is None or os.getpid() != self._pid:  # a forked child has no server, though it inherits the handler
            return
        atexit.unregister(self.stop)
        self._sampler.shut_down()
        # gRPC's own grace needs a thread, and from Python 3.12 on none can be started when the
        # interpreter ends.
        wait_and_serve(self._calls.open, EXIT_GRACE_S)
        server.stop(None)

    def __enter__(self) -> ProfilerServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def serve(port: int = DEFAULT_PORT, host: str = "127.0.0.1") -> ProfilerServer:
    """Let this process be captured from outside, by `outpace capture HOST:PORT`, while it trains.

    Port 0 takes a free one, see the answer's `address`. `host="0.0.0.0"` listens on all interfaces:
    anybody who reaches the port can then capture. Raises UsageError for an impossible port,
    CaptureError when the port is taken or grpcio is missing.
    """
    if not 0 <= port < 65536:
        raise _no_port(port)
    grpc = load_grpc()
    sampler = ProcessCapture(threading.current_thread())
    # Without the first option a second server on the same port would be no error, and get every
    # other request.
    options = [("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)]
    server = grpc.server(_Threads(), options=options, maximum_concurrent_rpcs=8)
    calls = _Calls()
    methods = {PROFILE_METHOD: _profile_method(grpc, sampler, calls), VERSION_METHOD: _version}
    for name, function in methods.items():
        service, method = name.strip("/").split("/")
        handler = grpc.unary_unary_rpc_method_handler(function)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    try:
        bound = server.add_insecure_port(_join(host, port))
    except RuntimeError:
        bound = 0
    if not bound:
        raise _cannot_listen(host, port)
    if not is_loopback(host):
        print_message(f"the profiler server on port {bound} is open to the network, and asks nobody for a password")
    server.start()
    return ProfilerServer(server, sampler, calls, _join(_reachable(host), bound))


def require_port(port: int, host: str) -> None:
    """Raise what `serve` would raise, without a server: UsageError for an impossible port,
    CaptureError for one that is taken.
    """
    load_grpc()
    if not 0 <= port < 65536:
        raise _no_port(port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does; a listener still is in the way
            probe.bind(place)
    except OSError:
        raise _cannot_listen(host, port) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _version(_: bytes, context: Any) -> bytes:
    """By which a client knows that the server is ours."""
    return __version__.encode("ascii")


def _profile_method(grpc: Any, sampler: ProcessCapture, calls: _Calls) -> Callable[[bytes, Any], bytes]:
    def profile(data: bytes, context: Any) -> bytes:
        cancel = threading.Event()

        def over() -> None:
            """The answer was sent, or the caller is gone."""
            cancel.set()
            sampler.notify()
            calls.ended()

        calls.began()
        if not context.add_callback(over):
            over()
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
    context.abort(code, text)
    return b""  # not reached: abort raises


def _no_port(port: int) -> UsageError:
    return UsageError(f"{port} is no port: give 0 (any free one) to 65535.")


def _cannot_listen(host: str, port: int) -> CaptureError:
    return CaptureError(
        f"The profiler server cannot listen on {_join(host, port)}: the port is taken, or the address is not this machine's. "
        "Give another port; 0 takes a free one."
    )


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reachable(host: str) -> str:
    """A name that a client can use: 0.0.0.0 and :: mean every interface of this machine."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host


class _Calls:
    """How many calls have been taken and not answered yet."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def began(self) -> None:
        """A call was taken."""
        with self._changed:
            self._count += 1

    def ended(self) -> None:
        """A call is over, its answer sent."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def open(self, seconds: float) -> bool:
        """Whether a call is open still, after so many seconds at most."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._count <= 0, seconds)


class _Threads(Executor):
    """A daemon thread per call: the pool of the standard library would make the training process
    wait for a capture at its end.
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
