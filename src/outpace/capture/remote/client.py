# SPDX-License-Identifier: Apache-2.0
"""gRPC client of one worker: connects, sends the request, and interprets the answer or the
refusal.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.remote.addresses import Address
from outpace.capture.remote.grpc_ import load_grpc
from outpace.capture.remote.wire import NOTE_KEY, PROFILE_METHOD, VERSION_METHOD, ProfileResponse, has_events
from outpace.model.text import clean

CONNECT_TIMEOUT_S = 10.0  # seconds; a running worker accepts at once, even when it is busy
_VERSION_TIMEOUT_S = 2.0  # seconds for the question whether the server is Outpace's
_BUSY_TEXTS = ("another profiling session", "another profiler", "another capture")
_OPTIONS = (
    # no limit: a profile has many megabytes, and the default limit is four
    ("grpc.max_receive_message_length", -1),
    # workers are inside the network, where a web proxy does not lead
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True)
class Failure:
    """Reason why a worker gave no profile.

    reason: end of a sentence that begins with the address.
    retryable: whether a second request may help.
    """

    reason: str
    retryable: bool = False


@dataclass(frozen=True)
class WorkerProfile:
    """Answer of a worker.

    xspace: the profile; None where the worker says that it wrote it to its disk.
    note: remark of the worker.
    record: record of the capture, as bytes of its JSON.
    """

    xspace: memoryview | bytes | None
    note: str = ""
    record: memoryview | bytes = b""


class WorkerConnection:
    """Connection to one worker's profiler server.

    address: address of the server.
    is_outpace: whether the server is Outpace's.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._grpc = load_grpc()
        self.is_outpace = True
        self._channel: Any = None
        self._call: Any = None

    def connect(self, timeout: float) -> Failure | None:
        """Connect within `timeout` seconds; return the failure, or None."""
        self.close()
        try:
            socket.create_connection((self.address.host, self.address.port), timeout).close()
        except socket.gaierror:
            return Failure("the name of the host is unknown here")
        except TimeoutError:
            return Failure(f"nothing answers within {timeout:g} s: a wrong address, or a firewall", retryable=True)
        except OSError as error:
            return Failure(
                f"no connection ({error.strerror or error}): no profiler server runs on that port (outpace serve SCRIPT starts one)",
                retryable=True,
            )
        channel = self._grpc.insecure_channel(str(self.address), options=_OPTIONS)
        ready = self._grpc.channel_ready_future(channel)
        try:
            ready.result(timeout=timeout)
        except self._grpc.FutureTimeoutError:
            ready.cancel()
            channel.close()
            return Failure(f"the connection is accepted, but within {timeout:g} s no profiler server answers on it")
        self._channel = channel
        self.is_outpace = self._is_outpace_server(min(timeout, _VERSION_TIMEOUT_S))
        return None

    def _is_outpace_server(self, timeout: float) -> bool:
        """Whether the server is Outpace's."""
        try:
            self._channel.unary_unary(VERSION_METHOD)(b"", timeout=timeout)
        except self._grpc.RpcError:
            return False
        return True

    def request(self, data: bytes, deadline: float, on_done: Callable[[], object]) -> None:
        """Send a request and return at once. `on_done` is called on another thread when the answer
        or a failure has arrived.
        """
        self._call = self._channel.unary_unary(PROFILE_METHOD).future(data, timeout=deadline)
        self._call.add_done_callback(lambda _: on_done())

    def receive(self) -> WorkerProfile | Failure:
        """Return the answer to the request; valid only after `on_done` was called."""
        try:
            data = self._call.result()
        except self._grpc.FutureCancelledError:
            return Failure("the capture was given up")
        except self._grpc.RpcError as error:
            return self._build_failure(error.code(), clean(str(error.details() or "")))
        try:
            response = ProfileResponse.decode(data)
            is_empty = response.empty or (response.xspace is not None and not has_events(response.xspace))
        except ValueError as error:
            return Failure(f"the answer cannot be read: {error}")
        if is_empty:
            return Failure("no event was recorded: the process did nothing that is traced", retryable=True)
        notes = [str(value) for key, value in self._call.trailing_metadata() or () if key == NOTE_KEY]
        return WorkerProfile(response.xspace, "; ".join(notes), response.record)

    def close(self) -> None:
        """Cancel a running request and disconnect."""
        call, channel, self._call, self._channel = self._call, self._channel, None, None
        with contextlib.suppress(Exception):
            if call is not None:
                call.cancel()
        if channel is not None:
            channel.close()

    def _build_failure(self, code: Any, details: str) -> Failure:
        """Return the failure that a gRPC status code stands for."""
        codes = self._grpc.StatusCode
        if code is codes.ALREADY_EXISTS or any(text in details.lower() for text in _BUSY_TEXTS):
            return Failure("another profiler is running in that process", retryable=True)
        if code is codes.FAILED_PRECONDITION:
            return Failure(f"not ready: {_end_sentence(details)}", retryable=True)
        reasons = {
            codes.UNAVAILABLE: "the connection broke during the capture: the worker ended, or the network did",
            codes.DEADLINE_EXCEEDED: "the worker did not answer in time: it hangs, or needs more time than --timeout to send its profile",
            codes.UNIMPLEMENTED: "the server there has no profiler service: give the profiler's port, not that of the training cluster",
        }
        return Failure(reasons.get(code) or f"the worker refuses, {code.name}: {_end_sentence(details)}")


def _end_sentence(text: str) -> str:
    """Return a worker's text as the end of a sentence."""
    return text.strip().rstrip(".") or "no reason given"
