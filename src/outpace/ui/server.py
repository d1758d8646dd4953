# SPDX-License-Identifier: Apache-2.0
"""The workbench's own HTTP server: on this machine's loopback address, behind the guard, with a
limited number of connections.
"""

from __future__ import annotations

import math
import socket
import sys
import threading
import time
from collections.abc import Callable

from outpace.model import OutpaceError
from outpace.ui.guard import TOKEN, Guard
from outpace.ui.http import Request, Response
from outpace.ui.worker_pool import MAX_WAITING
from outpace.ui.wsgi import build_application

ADDRESS = "127.0.0.1"
_THREADS = MAX_WAITING + 8  # threads for all requests that wait for an analysis, and for others
_CONNECTIONS = 900  # maximum number of connections; more are not accepted until one ends
_OTHERS = 100  # file descriptors for everything else: profiles, the analysis processes
# fraction of the maximum number of connections above which old connections are closed
_NEARLY = 0.9
_SILENT = 15  # seconds without data after which a connection is closed
_LAST_RESPONSES = 1  # seconds that `stop` waits for responses that are being made
_LARGEST_HEAD = 1 << 15  # maximum size of a request's headers, bytes


class Server:
    """Serves requests that pass the guard with `handler`, until `stop`."""

    def __init__(self, handler: Callable[[Request], Response], port: int = 0, hosts: frozenset[str] = frozenset()) -> None:
        from waitress.server import create_server

        listening = _open_socket(port)
        self.port = listening.getsockname()[1]
        self.guard = Guard.new(self.port, hosts)
        self._answer = handler
        self._last_request = time.monotonic()
        self._max_connections = _most_connections()
        self._server = create_server(
            build_application(self._answer_guarded),
            sockets=[listening],
            threads=_THREADS,
            connection_limit=self._max_connections,
            asyncore_use_poll=True,
            channel_timeout=_SILENT,
            cleanup_interval=1,
            max_request_header_size=_LARGEST_HEAD,
            max_request_body_size=1 << 16,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
        self._thread: threading.Thread | None = None
        self._close_silent, self._server.maintenance = self._server.maintenance, self._make_room

    @property
    def address(self) -> str:
        """The site's address, with the token that grants access."""
        return f"http://{ADDRESS}:{self.port}/?{TOKEN}={self.guard.token}"

    def one_time_address(self) -> str:
        """Return an address with a single-use code, for a browser that Outpace starts."""
        return f"http://{ADDRESS}:{self.port}/?{TOKEN}={self.guard.issue_code()}"

    def start(self) -> None:
        """Start serving in the background."""
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()

    def wait(self, idle_s: float = math.inf) -> bool:
        """Block until the server ends, an exception is raised (Ctrl-C, a signal), or no request
        has passed the guard for `idle_s` seconds; return whether the last was the reason.
        """
        while self._thread is not None and self._thread.is_alive():
            if time.monotonic() - self._last_request >= idle_s:
                return True
            self._thread.join(0.5)
        return False

    def stop(self) -> None:
        """Accept no more connections, wait shortly for the responses that are being made, and close
        all.
        """
        from waitress import wasyncore

        threads = self._server.task_dispatcher
        threads.set_thread_count(0)
        deadline = time.monotonic() + _LAST_RESPONSES
        while threads.threads and time.monotonic() < deadline:
            time.sleep(0.01)
        if threads.threads:
            # A thread writes to the server's pipe when its response is ready. The pipe stays open
            # for it: its number would belong to another file.
            wasyncore.dispatcher.close(self._server)
        else:
            self._server.close()

    def _make_room(self, now: float) -> None:
        """Close connections that are silent, or, where hardly any more can be accepted, the older
        half. Their users may connect again; so must a client that occupies connections by sending
        a byte now and then.
        """
        self._close_silent(now)
        channels = list(self._server.active_channels.values())
        if len(channels) > _NEARLY * self._max_connections:
            waiting = sorted(
                (item for item in channels if not item.requests and not item.total_outbufs_len),
                key=lambda item: item.creation_time,
            )
            for channel in waiting[: len(channels) - self._max_connections // 2]:
                channel.will_close = True

    def _answer_guarded(self, request: Request) -> Response:
        """Return the guard's refusal, or else the handler's response."""
        refusal = self.guard.check(request)
        if refusal is not None:
            return refusal
        self._last_request = time.monotonic()
        return self._answer(request)


def _most_connections() -> int:
    """Return the maximum number of connections that the process's limit of file descriptors
    allows.
    """
    if sys.platform == "win32":
        return _CONNECTIONS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _CONNECTIONS + _OTHERS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(10, soft - _OTHERS)
    return _CONNECTIONS


def _open_socket(port: int) -> socket.socket:
    """Return a socket that is bound to the port on this machine's loopback address. Raises
    OutpaceError where the port cannot be used.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise OutpaceError(
            f"Port {port} of this machine cannot be used: {error.strerror or error}. Choose another one with --port, or none."
        ) from error
    return listener
