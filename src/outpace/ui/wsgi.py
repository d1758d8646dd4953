# SPDX-License-Identifier: Apache-2.0
"""The site as a WSGI application, for the workbench's own server and for other WSGI hosts."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import parse_qsl

from outpace.ui.http import BYTES, Request, Response, text_response

_LARGEST_BODY = 1 << 16  # maximum size of a request's body, bytes; requests upload no data
_WORTH_PACKING = 1 << 10
_BLOCK = 1 << 18

Environment = dict[str, Any]
Start = Callable[[str, list[tuple[str, str]]], Any]


def build_application(handler: Callable[[Request], Response]) -> Callable[[Environment, Start], Iterable[bytes]]:
    """Return a WSGI application that responds with the results of `handler`."""

    def serve(environment: Environment, start: Start) -> Iterable[bytes]:
        request = _request(environment)
        response = text_response(413, "That is too much.") if request is None else handler(request)
        return _send(environment, start, response)

    return serve


def _request(environment: Environment) -> Request | None:
    """Return the request; None where its body or its query exceeds the limit."""
    try:
        size = int(environment.get("CONTENT_LENGTH") or 0)
    except ValueError:
        size = _LARGEST_BODY + 1
    if not 0 <= size <= _LARGEST_BODY:
        return None
    try:
        query = dict(parse_qsl(environment.get("QUERY_STRING", ""), keep_blank_values=True, max_num_fields=100))
    except ValueError:
        return None
    headers = {
        name[5:].replace("_", "-").lower(): str(value) for name, value in environment.items() if name.startswith("HTTP_")
    }
    return Request(
        path=environment.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace").removeprefix("/"),
        method=environment["REQUEST_METHOD"],
        query=query,
        headers=headers,
        body=environment["wsgi.input"].read(size) if size else b"",
    )


def _send(environment: Environment, start: Start, response: Response) -> Iterable[bytes]:
    """Send a response: compressed where possible, with an ETag, and empty where the client has it
    already.
    """
    headers = response.all_headers()
    status, body = response.status, response.body
    if isinstance(body, bytes):
        body = _pack(environment, headers, body, response.content_type)
        if status == HTTPStatus.OK:
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            if headers["ETag"] in environment.get("HTTP_IF_NONE_MATCH", ""):
                status, body = HTTPStatus.NOT_MODIFIED, b""
        size = len(body)
    else:
        size = body.seek(0, 2)
        body.seek(0)
    if status == HTTPStatus.NOT_MODIFIED:
        del headers["Content-Type"]
    else:
        headers["Content-Length"] = str(size)
    start(f"{int(status)} {HTTPStatus(status).phrase}", list(headers.items()))
    if isinstance(body, bytes):
        return (body,) if environment["REQUEST_METHOD"] != "HEAD" else ()
    if environment["REQUEST_METHOD"] == "HEAD":
        body.close()
        return ()
    wrapper = environment.get("wsgi.file_wrapper")
    return wrapper(body, _BLOCK) if wrapper is not None else _blocks(body)


def _pack(environment: Environment, headers: dict[str, str], body: bytes, kind: str) -> bytes:
    """Return the body, gzip-compressed where it is large enough and the client accepts that."""
    if kind == BYTES or len(body) < _WORTH_PACKING or "gzip" not in environment.get("HTTP_ACCEPT_ENCODING", ""):
        return body
    headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return gzip.compress(body, 5, mtime=0)


def _blocks(file: IO[bytes]) -> Iterable[bytes]:
    """Yield the blocks of a file, and close it."""
    with file:
        while block := file.read(_BLOCK):
            yield block
