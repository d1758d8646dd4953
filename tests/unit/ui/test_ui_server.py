"""The server's own end."""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from outpace.ui.http import Response
from outpace.ui.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server(lambda request: Response(b"here"))
    found.start()
    yield found
    found.stop()


def test_it_ends_where_nobody_looks(server: Server) -> None:
    assert server.wait(idle_s=0.0) is True


def test_whoever_may_look_keeps_it(server: Server) -> None:
    """A look is one that the guard lets through."""
    before = server._last_request
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=10)
    assert server._last_request == before
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/", headers={"Authorization": f"Bearer {server.guard.token}"}
    )
    assert urllib.request.urlopen(request, timeout=10).read() == b"here"
    assert before < server._last_request <= time.monotonic()


def test_one_that_was_stopped_is_no_idle_one(server: Server) -> None:
    server.stop()
    assert server.wait(idle_s=1e9) is False


@pytest.mark.parametrize("seconds", [0.3, 1.5])
def test_a_response_that_is_made_while_it_stops_is_no_error(caplog: pytest.LogCaptureFixture, seconds: float) -> None:
    """A thread whose response is ready wakes the server up, through a pipe that has to be open."""
    begun, ended = threading.Event(), threading.Event()

    def answer(_: object) -> Response:
        begun.set()
        time.sleep(seconds)
        return Response(b"here")

    def ask() -> None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(request, timeout=10)
        ended.set()

    server = Server(answer)
    server.start()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/", headers={"Authorization": f"Bearer {server.guard.token}"}
    )
    threading.Thread(target=ask, daemon=True).start()
    assert begun.wait(10)
    server.stop()
    ended.wait(seconds)
    time.sleep(0.2)
    assert not caplog.records
    with pytest.raises(OSError):
        urllib.request.urlopen(request, timeout=10)
