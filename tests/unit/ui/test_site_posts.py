"""What the workbench's addresses answer to whatever is posted to them: never that the server
failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.ui.capture_job import CaptureJob
from outpace.ui.http import Request
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.site import Site

DEEP = 200_000
HOSTILE = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"{",
    b"null",
    b"NaN",
    b"7",
    b"9" * 100_000,
    b"[]",
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"addresses":' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"addresses": null}',
    b'{"addresses": "\\ud800"}',
    b'{"addresses": "localhost:1", "retries": "' + b"9" * 100_000 + b'"}',
    b'{"addresses": "localhost:1", "duration": "' + b"9" * 100_000 + b's"}',
    b'{"addresses": "localhost:1", "duration": "1e999s"}',
    b'{"addresses": "localhost:1", "delay": "nan"}',
    b'{"addresses": "localhost:1", "delay": "-1s"}',
    b'{"addresses": "' + b"a b," * 100_000 + b'"}',
    b'{"addresses": "' + b"[" * 100_000 + b'"}',
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("posts")
    made = Site([str(folder)], SummaryCache(folder / "cache"))
    yield made
    made.close()


def addresses(site: Site) -> list[str]:
    """One of each kind."""
    samples = (
        (r"([0-9a-f]{12})", "0" * 12),
        (r"([\w-]+/[\w-]+)", "a/b"),
        (r"([\w-]+)", "a"),
        (r"(\w+\.\w+)", "a.js"),
        ("(.*)", "a"),
    )
    found = []
    for pattern, _ in site._routes:
        address = pattern.pattern
        for group, sample in samples:
            address = address.replace(group, sample)
        address = address.replace("\\", "")
        assert pattern.fullmatch(address), address
        found.append(address)
    return found


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: re.sub(r"\W+", " ", repr(body[:30])))
def test_no_body_makes_the_server_fail(site: Site, body: bytes) -> None:
    for address in addresses(site):
        status = site.answer(Request(address, "POST", body=body)).status
        assert status == (400 if address == "capture" else 200 if address == "capture/stop" else 405), address


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
    | st.dictionaries(
        st.sampled_from(["duration", "delay", "retries", "host_level", "device_level", "python_level", "addresses"]), st.text()
    )
)
def test_what_names_no_worker_is_refused(tmp_path_factory: pytest.TempPathFactory, asked: object) -> None:
    from outpace.model import UsageError

    if isinstance(asked, dict):
        asked["addresses"] = "nobody:port," + str(asked.get("addresses", ""))
    with pytest.raises(UsageError):
        CaptureJob("logs").begin(json.dumps(asked).encode())
