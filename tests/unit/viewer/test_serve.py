"""The viewer's server: this machine's browser gets the viewer and the trace, everybody else nothing."""

from __future__ import annotations

import http.client
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outpace.model import OutpaceError
from outpace.viewer import serve
from outpace.viewer.serve import Server

TRACE = b"trace" * 1_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "web"
    (folder / "v1").mkdir(parents=True)
    (folder / "index.html").write_text("<title>viewer</title>")
    (folder / "v1" / "engine.wasm").write_bytes(b"\0asm")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    trace = tmp_path / "trace"
    trace.write_bytes(TRACE)
    with trace.open("rb") as file, Server(folder, file) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_gives_the_viewer_and_the_trace(server: Server) -> None:
    assert get(server, "/")[1] == b"<title>viewer</title>"
    assert get(server, "/v1/engine.wasm")[0].getheader("Content-Type") == "application/wasm"
    assert get(server, "/localtrace")[1] == TRACE
    assert get(server, "/vizviewer_info")[0].status == 200
    assert get(server, "/localtrace", "HEAD")[1] == b""


def test_the_address_leads_to_the_viewer_with_open_sections(server: Server) -> None:
    answer, _ = get(server, server.address.split("/", 3)[3].join(("/", "")))
    assert answer.status == 302
    assert (answer.getheader("Location") or "").startswith("/#!/?startupCommands=")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", ""])
def test_a_request_to_another_host_gets_nothing(server: Server, host: str) -> None:
    answer, body = get(server, "/localtrace", Host=host)
    assert (answer.status, body) == (421, b"")


def test_a_request_from_another_site_gets_nothing(server: Server) -> None:
    for site in ("cross-site", "same-site"):
        assert get(server, "/localtrace", Sec_Fetch_Site=site)[0].status == 403
    assert get(server, "/localtrace", Sec_Fetch_Site="same-origin")[0].status == 200
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert get(server, "/view", **link)[0].status == 302


@pytest.mark.parametrize(
    "path", ["/../secret", "/%2e%2e/secret", "/v1/../../secret", "//etc/passwd", "/link", "/v1", "/none", "/%00"]
)
def test_nothing_outside_the_viewer_is_given(server: Server, path: str) -> None:
    assert get(server, path)[0].status == 404


def test_it_only_reads(server: Server) -> None:
    assert get(server, "/localtrace", "POST")[0].status == 501


def test_the_page_may_not_reach_out(server: Server) -> None:
    answer, _ = get(server, "/")
    policy = answer.getheader("Content-Security-Policy") or ""
    assert "default-src 'self'" in policy
    assert "http:" not in policy
    assert "*" not in policy
    assert answer.getheader("Access-Control-Allow-Origin") is None


def test_a_port_in_use_is_told(server: Server) -> None:
    with pytest.raises(OutpaceError, match="--port"):
        Server(server.folder, server.trace, server.server_port)


def test_without_the_viewer_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OutpaceError, match=r"outpace\[trace\].*--out FILE"):
        serve.interface()
