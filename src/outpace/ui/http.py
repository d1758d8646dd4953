# SPDX-License-Identifier: Apache-2.0
"""HTTP requests and responses as plain values, independent of the server in front of the
workbench's handlers.
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
"""Content-Security-Policy of the workbench's pages: they may load files of their own server only,
and nothing that is inline in the page.
"""

_PROTECTION = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class Request:
    """An HTTP request.

    path: below the site's root, decoded, without a leading slash.
    headers: values by header name in lower case.
    """

    path: str = ""
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """An HTTP response.

    body: all bytes, or a file that is sent from its beginning and closed afterwards.
    """

    body: bytes | IO[bytes] = b""
    content_type: str = HTML
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        """Return the headers to send: first those that keep the page from loading from elsewhere
        and other sites from embedding it, then the response's own, which take precedence.
        """
        return {
            "Content-Type": self.content_type,
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            **_PROTECTION,
            **self.headers,
        }


def text_response(status: int, sentence: str) -> Response:
    """Return a plain-text response with one sentence."""
    return Response(f"{sentence}\n".encode("utf-8", "replace"), TEXT, status)


def redirect(location: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response that redirects to another address."""
    return Response(status=303, content_type=TEXT, headers={"Location": location, **(headers or {})})
