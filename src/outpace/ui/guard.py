"""Who may ask: this machine's user, by a token, from this site's own pages. One guard stands before every handler.

A page of another site can send requests to this machine, and by a second name for it (DNS rebinding) read the answers: so the name that was
asked for, where the request comes from and the token are looked at before anything else, and what has an effect takes a header that no form
of another site can send.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlencode, urlsplit

from outpace._dataclass import dataclass
from outpace.ui.http import Request, Response, elsewhere, text

TOKEN = "token"  # of the first address, and of the `Authorization` header
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
_ACTS = "x-outpace"  # the header that a request with an effect carries


@dataclass(frozen=True)
class Guard:
    """`port` names the cookie, so that several workbenches on one machine do not forget each other; `hosts` are further names of this one."""

    token: str
    port: int
    hosts: frozenset[str] = frozenset()

    @classmethod
    def new(cls, port: int, hosts: frozenset[str] = frozenset()) -> Guard:
        """A guard with a token that nobody can guess."""
        return cls(secrets.token_urlsafe(24), port, hosts)

    def refusal(self, request: Request) -> Response | None:
        """The answer to a request that must not be served (or that brings the token, and goes on without it in its address); else None."""
        return self._foreign(request) or self._unknown(request)

    def _foreign(self, request: Request) -> Response | None:
        headers = request.headers
        host = headers.get("host", "")
        if not self._is_own(host):
            return text(
                421, "This workbench is not called so. Open the address that it printed, or start it with --allow-host."
            )
        if request.method not in ("GET", "HEAD", "POST"):
            return text(405, "There is nothing to do so here.")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _followed_link(request):
            return text(403, "Pages of other sites get nothing here.")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return text(403, "Pages of other sites get nothing here.")
        if request.method == "POST" and headers.get(_ACTS) != "1":
            return text(403, "Only the workbench's own pages may do something here.")
        return None

    def _unknown(self, request: Request) -> Response | None:
        name = f"outpace-{self.port}"
        if self._matches(_cookie(request.headers.get("cookie", ""), name)) or self._matches(_bearer(request)):
            return None
        if request.method == "GET" and self._matches(request.query.get(TOKEN, "")):
            rest = urlencode({key: value for key, value in request.query.items() if key != TOKEN})
            place = quote(request.path.rpartition("/")[2]) or "./"
            cookie = f"{name}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return elsewhere(place + (f"?{rest}" if rest else ""), {"Set-Cookie": cookie})
        return text(401, "This address needs its token. Open the address that 'outpace ui' printed, token included.")

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _is_own(self, host: str) -> bool:
        """Whether a `Host` names this machine itself, by any port (a tunnel has its own), or is one of the allowed names."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = (found[1] or found[2]).lower()
        if name == "localhost" or name in self.hosts:
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
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
