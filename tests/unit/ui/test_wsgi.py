"""Requests and answers in WSGI's form."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

from outpace.ui.http import BYTES, JSON, Request, Response
from outpace.ui.wsgi import build_application


class Asked:
    """One request to an application that `wsgiref` checks; `seen` is what the handler got."""

    def __init__(self, answer: Response, method: str = "GET", body: bytes = b"", **environment: str) -> None:
        self.seen: Request | None = None

        def handler(request: Request) -> Response:
            self.seen = request
            return answer

        given: dict[str, Any] = {
            **{"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": "/", "QUERY_STRING": "", "SERVER_NAME": "x"},
            **{"SERVER_PORT": "1", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.version": (1, 0), "wsgi.url_scheme": "http"},
            **{"wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(), "wsgi.multithread": True},
            **{"wsgi.multiprocess": False, "wsgi.run_once": False, "CONTENT_LENGTH": str(len(body)), **environment},
        }

        def start(status: str, headers: list[tuple[str, str]], error: Any = None) -> Any:
            self.status, self.headers = status, dict(headers)

        blocks = validator(build_application(handler))(given, start)
        self.body = b"".join(blocks)
        blocks.close()  # type: ignore[attr-defined]  # the validator's iterator has one


def test_a_request_arrives_as_plain_values() -> None:
    asked = Asked(Response(b"x"), "POST", b"body", PATH_INFO="/run/\u00c3\u00a9", QUERY_STRING="a=1&b=%20", HTTP_X_OUTPACE="1")
    assert asked.seen == Request("run/é", "POST", {"a": "1", "b": " "}, {"x-outpace": "1"}, b"body")


def test_every_answer_carries_its_protection() -> None:
    headers = Asked(Response(b"<p>")).headers
    assert (
        "default-src 'none'" in headers["Content-Security-Policy"]
        and "frame-ancestors 'self'" in headers["Content-Security-Policy"]
    )
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_large_texts_are_packed_and_what_is_known_is_not_sent_again() -> None:
    answer = Response(json.dumps(list(range(5000))).encode(), JSON)
    plain, packed = Asked(answer), Asked(answer, HTTP_ACCEPT_ENCODING="gzip, br")
    assert plain.body == answer.body == gzip.decompress(packed.body)
    assert len(packed.body) < len(plain.body) / 2
    again = Asked(answer, HTTP_ACCEPT_ENCODING="gzip", HTTP_IF_NONE_MATCH=packed.headers["ETag"])
    assert (again.status, again.body) == ("304 Not Modified", b"")


def test_a_file_is_sent_whole_and_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 4096)
    file = (tmp_path / "file").open("rb")
    asked = Asked(Response(file, BYTES))
    assert asked.body == bytes(range(256)) * 4096 and asked.headers["Content-Length"] == str(1 << 20)
    assert file.closed


def test_a_head_has_no_body() -> None:
    asked = Asked(Response(b"abc"), "HEAD")
    assert (asked.body, asked.headers["Content-Length"]) == (b"", "3")


def test_the_file_of_a_head_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    file = (tmp_path / "file").open("rb")
    asked = Asked(Response(file, BYTES), "HEAD")
    assert (asked.body, asked.headers["Content-Length"], file.closed) == (b"", "3", True)


def test_too_much_is_refused_unread() -> None:
    asked = Asked(Response(b"x"), "POST", b"x" * 70_000)
    assert asked.seen is None and asked.status.startswith("413")
