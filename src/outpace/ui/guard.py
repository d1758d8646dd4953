# SPDX-License-Identifier: Apache-2.0
"""Access control of the workbench: requests must come from this machine's user, by a token, and
from the site's own pages. One guard stands before every handler.

A page of another site can send requests to this machine, and by a second name for it (DNS
rebinding) read the responses. So the requested host name, the origin of the request and the token
are checked before anything else, and a request with an effect needs a header that no form of
another site can send.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable
from urllib.parse import quote, urlencode

from outpace.ui import pages
from outpace.ui.http import Request, Response, redirect, text_response

TOKEN = "token"  # query parameter of the first address; the `Authorization` header carries the same token
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
_ACTS = "x-outpace"  # name of the header that every request with an effect must carry


class Guard:
    """Checks every request before it is served.

    token: secret in the printed address and in the `Authorization` header.
    port: part of the cookie's name, so that several workbenches on one machine do not overwrite
    each other's cookie.
    hosts: further host names under which this machine may be addressed.

    A browser that Outpace starts gets a single-use code instead of the token, because all users of
    the machine can see the browser's arguments. The cookie is a secret of its own, since browsers
    send it to every port of this machine.
    """

    def __init__(self, token: str, port: int, hosts: Iterable[str] = ()) -> None:
        self.token, self._name = token, f"outpace-{port}"
        self._hosts = frozenset(host.lower().partition(":")[0] for host in hosts)
        self._cookie = hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()
        self._codes: set[str] = set()

    @classmethod
    def new(cls, port: int, hosts: Iterable[str] = ()) -> Guard:
        """Return a guard with a random token."""
        return cls(secrets.token_urlsafe(24), port, hosts)

    def issue_code(self) -> str:
        """Return a new code that is accepted once in place of the token."""
        code = secrets.token_urlsafe(24)
        self._codes.add(code)
        return code

    def check(self, request: Request) -> Response | None:
        """Return the response that refuses the request, or that sets the cookie and redirects to
        the same address without its token; None where the request may be served.
        """
        return self._refuse_foreign(request) or self._refuse_unknown(request)

    def _refuse_foreign(self, request: Request) -> Response | None:
        """Return the refusal of a request that does not come from this machine's own pages; None
        where it does.
        """
        headers = request.headers
        host = headers.get("host", "")
        if not self._is_own(host):
            return text_response(
                421, "This workbench is not called so. Open the address that it printed, or start it with --allow-host."
            )
        if request.method not in ("GET", "HEAD", "POST"):
            return text_response(405, "There is nothing to do so here.")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_followed_link(request):
            return text_response(403, "Pages of other sites get nothing here.")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return text_response(403, "Pages of other sites get nothing here.")
        if request.method == "POST" and headers.get(_ACTS) != "1":
            return text_response(403, "Only the workbench's own pages may do something here.")
        return None

    def _refuse_unknown(self, request: Request) -> Response | None:
        """Return None for a request with the cookie or token; else the redirect that sets the
        cookie, the sign-in page, or the refusal.
        """
        headers, secret = request.headers, request.query.get(TOKEN, "")
        if _is_same_secret(_cookie(headers.get("cookie", ""), self._name), self._cookie) or _is_same_secret(
            _bearer(request), self.token
        ):
            return None
        if request.method == "GET" and secret and (_is_same_secret(secret, self.token) or self._use_code(secret)):
            rest = urlencode({key: value for key, value in request.query.items() if key != TOKEN})
            place = quote(request.path.rpartition("/")[2]) or "./"
            cookie = f"{self._name}={self._cookie}; HttpOnly; SameSite=Lax; Path=/"
            return redirect(place + (f"?{rest}" if rest else ""), {"Set-Cookie": cookie})
        if request.method == "GET" and "text/html" in headers.get("accept", ""):
            page, policy = pages.render_sign_in(f"/{request.path}")
            return Response(page.encode("utf-8", "replace"), status=401, headers={"Content-Security-Policy": policy})
        return text_response(401, "This address needs its token. Open the address that 'outpace ui' printed, token included.")

    def _use_code(self, code: str) -> bool:
        """Whether the code is a valid single-use code; it is invalid from then on."""
        try:
            self._codes.remove(code)
        except KeyError:
            return False
        return True

    def _is_own(self, host: str) -> bool:
        """Whether a `Host` header names this machine itself, with any port (a tunnel has its own),
        or one of the allowed names.
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = (match[1] or match[2]).lower()
        if name == "localhost" or name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _is_followed_link(request: Request) -> bool:
    """Whether the request is a navigation by a link: the other site cannot read what its user then
    sees.
    """
    headers = request.headers
    return request.method == "GET" and (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )


def _cookie(header: str, name: str) -> str:
    """Return the value of the cookie `name`, "" without one. Cookies of programs at other ports
    may have a syntax that standard parsers reject.
    """
    cookies = (part.strip().partition("=") for part in header.split(";"))
    return next((value for key, _, value in cookies if key == name), "")


def _is_same_secret(secret: str, expected: str) -> bool:
    """Whether two secrets are equal; takes the same time wherever they differ."""
    return hmac.compare_digest(secret.encode("utf-8", "replace"), expected.encode())


def _bearer(request: Request) -> str:
    """Return the token of the `Authorization` header, "" without one."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
