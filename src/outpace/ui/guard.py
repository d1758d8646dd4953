"""Who may ask: this machine's user, by a token, from this site's own pages. One guard stands before
every handler.

A page of another site can send requests to this machine, and by a second name for it (DNS
rebinding) read the answers: so the name that was asked for, where the request comes from and the
token are looked at before anything else, and what has an effect takes a header that no form of
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

TOKEN = "token"  # of the first address, and of the `Authorization` header
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
_ACTS = "x-outpace"  # the header that a request with an effect carries


class Guard:
    """`port` names the cookie, so that several workbenches on one machine do not forget each other;
    `hosts` are further names of this one.

    The token is for the address that is printed. A browser that is started gets a code instead,
    which is good once: its arguments are seen by all users of the machine. And the cookie is a
    secret of its own, since browsers send it to every port of this machine.
    """

    def __init__(self, token: str, port: int, hosts: Iterable[str] = ()) -> None:
        self.token, self._name = token, f"outpace-{port}"
        self._hosts = frozenset(host.lower().partition(":")[0] for host in hosts)
        self._cookie = hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()
        self._codes: set[str] = set()

    @classmethod
    def new(cls, port: int, hosts: Iterable[str] = ()) -> Guard:
        """A guard with a token that nobody can guess."""
        return cls(secrets.token_urlsafe(24), port, hosts)

    def issue_code(self) -> str:
        """What may stand once in the place of the token."""
        code = secrets.token_urlsafe(24)
        self._codes.add(code)
        return code

    def check(self, request: Request) -> Response | None:
        """The answer to a request that must not be served (or that brings the token, and goes on
        without it in its address); else None.
        """
        return self._foreign(request) or self._unknown(request)

    def _foreign(self, request: Request) -> Response | None:
        headers = request.headers
        host = headers.get("host", "")
        if not self._is_own(host):
            return text_response(
                421, "This workbench is not called so. Open the address that it printed, or start it with --allow-host."
            )
        if request.method not in ("GET", "HEAD", "POST"):
            return text_response(405, "There is nothing to do so here.")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _followed_link(request):
            return text_response(403, "Pages of other sites get nothing here.")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return text_response(403, "Pages of other sites get nothing here.")
        if request.method == "POST" and headers.get(_ACTS) != "1":
            return text_response(403, "Only the workbench's own pages may do something here.")
        return None

    def _unknown(self, request: Request) -> Response | None:
        headers, asked = request.headers, request.query.get(TOKEN, "")
        if _same(_cookie(headers.get("cookie", ""), self._name), self._cookie) or _same(_bearer(request), self.token):
            return None
        if request.method == "GET" and asked and (_same(asked, self.token) or self._once(asked)):
            rest = urlencode({key: value for key, value in request.query.items() if key != TOKEN})
            place = quote(request.path.rpartition("/")[2]) or "./"
            cookie = f"{self._name}={self._cookie}; HttpOnly; SameSite=Lax; Path=/"
            return redirect(place + (f"?{rest}" if rest else ""), {"Set-Cookie": cookie})
        if request.method == "GET" and "text/html" in headers.get("accept", ""):
            page, policy = pages.render_sign_in(f"/{request.path}")
            return Response(page.encode("utf-8", "replace"), status=401, headers={"Content-Security-Policy": policy})
        return text_response(401, "This address needs its token. Open the address that 'outpace ui' printed, token included.")

    def _once(self, code: str) -> bool:
        try:
            self._codes.remove(code)
        except KeyError:
            return False
        return True

    def _is_own(self, host: str) -> bool:
        """Whether a `Host` names this machine itself, by any port (a tunnel has its own), or is one
        of the allowed names.
        """
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found[1] or found[2]).lower()
        if name == "localhost" or name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _followed_link(request: Request) -> bool:
    """Whether the user came here by a link: the other site cannot read what its user then sees."""
    headers = request.headers
    return request.method == "GET" and (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )


def _cookie(header: str, name: str) -> str:
    """The cookie's value. Others, of programs at other ports, may be written in ways that no parser
    takes.
    """
    found = (part.strip().partition("=") for part in header.split(";"))
    return next((value for own, _, value in found if own == name), "")


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
