"""A request and its answer as plain values: what the workbench's handlers take and give, whatever
server carries them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import IO

from outpace._dataclass import dataclass

HTML, JSON, TEXT, BYTES = (
    "text/html; charset=utf-8",
    "application/json",
    "text/plain; charset=utf-8",
    "application/octet-stream",
)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""What a page of the workbench may load: its own server's files, and nothing that stands inside the
page.
"""

_PROTECTION = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class Request:
    """`path`: below the site's root, decoded, without a leading slash; `headers` by names in lower
    case.
    """

    path: str = ""
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """`body`: all bytes, or a file to send from its beginning, which is closed afterwards."""

    body: bytes | IO[bytes] = b""
    content_type: str = HTML
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        """The headers with what keeps the page from reaching out, and others from reaching in;
        those of the response come last.
        """
        return {
            "Content-Type": self.content_type,
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            **_PROTECTION,
            **self.headers,
        }


def text_response(status: int, sentence: str) -> Response:
    """A sentence in the place of a page."""
    return Response(f"{sentence}\n".encode("utf-8", "replace"), TEXT, status)


def redirect(location: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that leads to another address."""
    return Response(status=303, content_type=TEXT, headers={"Location": location, **(headers or {})})
