"""Hostile clients of the workbench and the viewer, without a token or by the thousand."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.served import SOURCE, Served, logdir
from tests.support import profile_path

SECRET = b"outpace-secret-canary"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "secret").write_bytes(SECRET)
    one = Served(logdir(folder / "logs"), tmp_path_factory.mktemp("cache"))
    yield one
    one.process.terminate()
    with one.process as process:
        process.wait(30)


class Traced(Served):
    """`outpace trace` as a user starts it."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "outpace.cli", "trace", str(path), "--no-browser"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": SOURCE},
        )  # fmt: skip
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line):
                break
        assert found is not None
        self.port, self.token = int(found[1]), found[2]


@pytest.fixture(scope="module")
def traced() -> Iterator[Served]:
    one = Traced(profile_path("custom_loop"))
    yield one
    one.process.terminate()
    with one.process as process:
        process.wait(30)


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process may have as many connections open as the attack needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard != resource.RLIM_INFINITY else 4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize(
    "bytes_each", [b"", b"GET / HTTP/1.1\r\nHost: loc", b"POST /capture HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
def test_more_connections_than_are_taken_keep_nobody_out(served: Served, bytes_each: bytes) -> None:
    """1,300, of which the server takes 900: once it waited until silent ones were 15 s old."""
    held = []
    try:
        for _ in range(1300):
            connection = socket.socket()
            held.append(connection)
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", served.port))
        for connection in held:
            with contextlib.suppress(OSError):
                connection.send(bytes_each)
        before = time.monotonic()
        assert served.get("/runs", seconds=30)[0] == 200
        assert time.monotonic() - before < 12, "not only when they are 15 seconds old"
    finally:
        for connection in held:
            connection.close()


@pytest.mark.usefixtures("many_files")
def test_whoever_sends_a_byte_now_and_then_is_not_silent_and_keeps_nobody_out(served: Served) -> None:
    held = []
    try:
        for _ in range(1000):
            connection = socket.socket()
            held.append(connection)
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", served.port))
        for byte in b"GET / HT":
            for connection in held:
                with contextlib.suppress(OSError):
                    connection.send(bytes([byte]))
            assert served.get("/runs", seconds=30)[0] == 200
    finally:
        for connection in held:
            connection.close()


def test_connections_that_come_and_go_leave_nothing(served: Served) -> None:
    opened = f"/proc/{served.process.pid}/fd"
    assert served.get("/runs")[0] == 200
    before = len(os.listdir(opened))
    for at in range(200):
        with socket.create_connection(("127.0.0.1", served.port), 10) as connection:
            connection.sendall(b"GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n"[: at % 40 + 1])
    late = time.monotonic() + 60
    while len(os.listdir(opened)) > before + 5:
        assert time.monotonic() < late
        time.sleep(0.2)


PATHS = (
    *("/run/../../../../secret", "/assets/..%2f..%2f..%2fsecret", "/viewer/%2e%2e/%2e%2e/secret", "/viewer/%252e%252e/secret"),
    *("/run/000000000000/rows/..%2f..%2fsecret", "/watched/..%2f..%2f/", "/viewer/%00secret", "/run/%f0%9f%92%a9/", "//secret"),
    *("/viewer/....//....//secret", "/compare/000000000000/../../secret", "/assets/%c0%ae%c0%ae/secret", "/run/;/etc/passwd"),
)


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out(served: Served, traced: Served, path: str) -> None:
    for one in (served, traced):
        status, body = one.get(path)
        assert status in (303, 400, 404, 414) and SECRET not in body and b"root:" not in body and b"Traceback" not in body


HEADERS: tuple[dict[str, str], ...] = (
    {"Host": "127.0.0.1.nip.io"},
    {"Host": "localhost.evil.example"},
    {"Host": "evil.example", "X-Forwarded-Host": "localhost"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    {"Authorization": "Bearer "},
    {"Authorization": "Basic dG9rZW46"},
    {"Authorization": "", "Cookie": "outpace-1=x; outpace-2=y"},
    {"Authorization": "", "X-Forwarded-For": "127.0.0.1", "Referer": "http://127.0.0.1/"},
)


@pytest.mark.parametrize("at", range(len(HEADERS)))
def test_no_other_name_site_or_token_is_let_in(served: Served, traced: Served, at: int) -> None:
    for one, path in ((served, "/runs"), (traced, "/trace")):
        status, body = one.get(path, seconds=20, **HEADERS[at])
        assert status in (401, 403, 421), (status, body[:200])
        assert b"keras_fit" not in body and len(body) < 20_000


def posted(one: Served, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)) as connection:
        given = {"Authorization": f"Bearer {one.token}", "X-Outpace": "1", **headers}
        connection.request("POST", path, body, given)
        answer = connection.getresponse()
        return answer.status, answer.read()


BODIES = (
    *(b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"addresses": 1}', b'{"addresses": "@/etc/passwd"}', b'{"addresses": "file:///etc/passwd"}'),
    *(b'{"addresses": "localhost:99999"}', b'{"addresses": "x:1", "duration": "1e999s"}'),
    *(b'{"addresses": "x:1", "retries": "%s"}' % (b"9" * 5000),),
    *(b'{"addresses": "unix:/tmp/x"}', b'{"addresses": "\\u0000:1"}', b'{"addresses": "-o:1"}'),
)  # fmt: skip


@pytest.mark.parametrize("at", range(len(BODIES)))
def test_no_request_for_a_capture_does_harm(served: Served, at: int) -> None:
    status, body = posted(served, "/capture", BODIES[at])
    assert status in (400, 413) and b"root:" not in body and b"Traceback" not in body
    assert json.loads(served.get("/capture")[1])["state"] == "none", "nothing has begun"


@pytest.mark.parametrize(
    ("path", "headers", "wanted"),
    [
        ("/capture", {"X-Outpace": ""}, 403),
        ("/capture", {"Authorization": ""}, 401),
        ("/capture", {"Origin": "http://evil.example"}, 403),
        ("/runs", {}, 405),
        ("/run/000000000000/", {}, 405),
        ("/capture/stop", {"Host": "evil.example"}, 421),
    ],
)
def test_nothing_is_done_for_others(served: Served, path: str, headers: dict[str, str], wanted: int) -> None:
    assert posted(served, path, b'{"addresses": "localhost:1"}', **headers)[0] == wanted


QUERIES = (
    *("from=-1", "from=9999999999", "from=1e3", "from=%00", "steps=9:1", "steps=" + "9" * 400, "hosts=0,0,0,0", "hosts=999999"),
    *("device=../../etc", "device=%2fdevice:GPU:0", "step=" + "9" * 30, "first=1&last=" + "9" * 30, "host=%27%3B--", "a" * 20_000 + "=1"),
)  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_no_query_does_harm(served: Served, query: str) -> None:
    run = json.loads(served.get("/runs")[1])[0]["id"]
    for place in ("", "view/overview", "rows/op_stats/ops", "sight", "trace"):
        status, body = served.get(f"/run/{run}/{place}?{query}", seconds=60)
        assert status in (200, 400, 404, 414) and b"Traceback" not in body, (place, status, body[:200])


def test_a_reader_that_stops_in_the_middle_of_a_trace_keeps_nobody_waiting(served: Served, traced: Served) -> None:
    run = json.loads(served.get("/runs")[1])[0]["id"]
    held = []
    try:
        for one, path in ((served, f"/run/{run}/trace"), (traced, "/trace")):
            for _ in range(20):
                connection = socket.socket()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                connection.connect(("127.0.0.1", one.port))
                connection.sendall(
                    f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {one.token}\r\n\r\n".encode()
                )
                held.append(connection)
        assert served.get("/runs", seconds=60)[0] == 200 and traced.get("/trace", seconds=60)[0] == 200
    finally:
        for connection in held:
            connection.close()


def test_a_trace_that_is_served_is_no_way_to_files(traced: Served) -> None:
    """Ranges, methods and names of the viewer's server."""
    for headers in (
        {"Range": "bytes=0-1"},
        {"Range": "bytes=-99999999999"},
        {"If-None-Match": "*"},
        {"Accept-Encoding": "gzip"},
    ):
        status, body = traced.get("/trace", seconds=20, **headers)
        assert status in (200, 206, 304) and b"root:" not in body
    for method in ("PUT", "DELETE", "PATCH", "PROPFIND"):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", traced.port, timeout=20)) as connection:
            connection.request(method, "/trace", headers={"Authorization": f"Bearer {traced.token}"})
            assert connection.getresponse().status == 405
