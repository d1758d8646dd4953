"""Who passes the workbench's guard."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import pytest

from outpace.ui.guard import Guard
from outpace.ui.http import Request

GUARD = Guard("the-token", 4321, frozenset({"lab.example"}))
LET_IN = GUARD.check(Request(query={"token": "the-token"}, headers={"host": "localhost"}))
COOKIE = LET_IN.headers["Set-Cookie"].partition(";")[0] if LET_IN is not None else ""
KNOWN = {"host": "127.0.0.1:4321", "cookie": f"a=b; {COOKIE}"}


def status(**headers: str) -> int | None:
    refusal = GUARD.check(Request("runs", headers={**KNOWN, **{k.replace("_", "-"): v for k, v in headers.items()}}))
    return None if refusal is None else refusal.status


def test_the_users_own_browser_passes() -> None:
    assert status() is None
    assert status(sec_fetch_site="same-origin", origin="http://127.0.0.1:4321") is None
    assert status(cookie="", authorization="Bearer the-token") is None


@pytest.mark.parametrize(
    "host", ["localhost:4321", "localhost", "127.0.0.1:8888", "127.8.9.1:1", "[::1]:4321", "lab.example", "lab.example:80"]
)
def test_this_machine_is_known_by_its_names_at_any_port(host: str) -> None:
    """A tunnel has a port of its own."""
    assert status(host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            "evil.example",
            "evil.example:4321",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "0.0.0.0:4321",
            "10.0.0.1:4321",
        ),
        *(
            "[::]:4321",
            "[::1",
            "127.0.0.1@evil.example",
            "xn--localhost-",
            "lab.example.evil.org",
            "169.254.1.1",
            "127.0.0.1:4321, evil.example",
        ),
    ],
)
def test_another_name_gets_nothing(host: str) -> None:
    """A page of another site may make its own name lead to this machine."""
    assert status(host=host) == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://["},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1:4321.evil.example"},
    ],
)
def test_pages_of_other_sites_get_nothing(headers: dict[str, str]) -> None:
    assert status(**headers) == 403


def test_a_link_from_another_site_may_lead_here() -> None:
    assert status(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document") is None


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "outpace-4321=",
        COOKIE[:-1],
        COOKIE + "x",
        COOKIE.replace("4321", "4322"),
        "outpace-4321=the-token",
        "the-töken",
        "\x00",
        ";;;=",
    ],
)
def test_without_the_cookie_nothing_is_shown(cookie: str) -> None:
    assert status(cookie=cookie) == 401


@pytest.mark.parametrize("foreign", ['x={"a": 1}', "w=a b", "n[é=1", "=", ",,,", "a;b;c"])
def test_cookies_of_other_programs_lock_nobody_out(foreign: str) -> None:
    """Browsers send them to every port of this machine."""
    assert status(cookie=f"{foreign}; {COOKIE}") is None and status(cookie=f"{COOKIE}; {foreign}") is None


def test_the_cookie_is_no_token() -> None:
    assert status(cookie="", authorization=f"Bearer {COOKIE.partition('=')[2]}") == 401


def test_a_browser_that_is_started_gets_a_code_that_is_good_once() -> None:
    code = GUARD.issue_code()
    first, second = (GUARD.check(Request(query={"token": code}, headers={"host": "localhost"})) for _ in range(2))
    assert first is not None and second is not None and (first.status, second.status) == (303, 401)


def test_allowed_names_are_known_however_they_are_written() -> None:
    guard = Guard("t", 1, ["MyBox.Example:8080"])
    for host in ("mybox.example", "MYBOX.example:99"):
        refusal = guard.check(Request(headers={"host": host}))
        assert refusal is not None and refusal.status == 401


def test_the_token_of_the_first_address_becomes_a_cookie_and_leaves_the_address() -> None:
    request = Request("run/0123456789ab/", query={"token": "the-token", "theme": "dark"}, headers={"host": "localhost:4321"})
    answer = GUARD.check(request)
    assert answer is not None
    assert (answer.status, answer.headers["Location"]) == (303, "./?theme=dark")
    assert answer.headers["Set-Cookie"] == f"{COOKIE}; HttpOnly; SameSite=Lax; Path=/"


def test_a_wrong_token_is_none() -> None:
    assert (answer := GUARD.check(Request(query={"token": "other"}, headers={"host": "localhost"}))) and answer.status == 401


def test_a_browser_without_the_token_is_told_what_to_do() -> None:
    request = Request("run/<b>/", headers={"host": "localhost:4321", "accept": "text/html,*/*"})
    answer, plain = (GUARD.check(each) for each in (request, replace(request, headers={"host": "localhost"})))
    assert answer is not None and answer.status == 401 and isinstance(answer.body, bytes)
    assert plain is not None and isinstance(plain.body, bytes) and b"<" not in plain.body
    page = answer.body.decode()
    assert "outpace ui" in page and "/run/&lt;b&gt;/" in page and "/?token=" in page
    policy = answer.all_headers()["Content-Security-Policy"]
    for text, ends in (("style", "</style>"), ("script", "</script>")):
        inside = page.partition(f"<{text}>")[2].partition(ends)[0]
        assert base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode() in policy


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "X"])
def test_what_is_not_asked_for_is_not_done(method: str) -> None:
    assert (answer := GUARD.check(Request(method=method, headers=KNOWN))) and answer.status == 405


def test_an_effect_takes_a_header_that_no_form_can_send() -> None:
    assert (answer := GUARD.check(Request(method="POST", headers=KNOWN))) and answer.status == 403
    assert GUARD.check(Request(method="POST", headers={**KNOWN, "x-outpace": "1"})) is None


def test_tokens_are_new_each_time() -> None:
    tokens = {Guard.new(1).token for _ in range(50)}
    assert len(tokens) == 50 and min(map(len, tokens)) >= 32
