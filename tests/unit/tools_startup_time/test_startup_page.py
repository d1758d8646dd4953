"""The page about the start-up, from a capture's record."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from outpace import api
from outpace.model import Page
from outpace.store.startup import Startup, StartupKind, StartupPart
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.tools.startup_time.compute import describe_change
from outpace.trace import read_trace

SECOND = 10**9


def page(*parts: StartupPart, end: str = "steps", **startup: Any) -> Page:
    """The page about a start with these parts."""
    space = SpaceBuilder("vm")
    space.plane("/host:CPU").line("python").event("train", 0, 1000)
    record = Startup(sum(part.duration_ns for part in parts), end, parts, **startup)
    run = Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": {"startup": dataclasses.asdict(record)}})
    return api.Profile(run).startup_time()


def part(kind: StartupKind, seconds: float, name: str = "", **more: Any) -> StartupPart:
    return StartupPart(kind.value, name, round(seconds * SECOND), **more)


START = (
    part(StartupKind.INTERPRETER, 0.1),
    part(StartupKind.OUTPACE, 0.5),
    part(StartupKind.IMPORT, 1.0, "jax", file="/a/train.py", line=1),
    part(StartupKind.CODE, 0.9, "read_csv", file="/a/train.py", line=5, library="pandas"),
    part(StartupKind.COMPILE, 2.0, "update", count=2, hits=1, before={"x": "f32[2]"}, arguments={"x": "f32[3]"}),
)


def test_parts_add_up_without_outpaces_own() -> None:
    found = page(*START)
    assert (
        found.headline == "The first steady step began 4.00 s after the command: compile 2.00 s, import 1.00 s and code 900 ms."
    )
    kinds = {row["kind"]: row for row in found.table("startup_kinds").records()}
    assert list(kinds) == ["interpreter", "import", "code", "compile"]
    assert sum(row["duration_ps"] for row in kinds.values()) == 4e12 and sum(
        row["share"] for row in kinds.values()
    ) == pytest.approx(1)
    rows = list(found.table("startup_parts").records())
    assert [row["kind"] for row in rows] == ["compile", "import", "code", "Outpace", "interpreter"]
    assert (rows[0]["count"], rows[0]["cache_hits"], rows[0]["cause"]) == (2, 1, "x: f32[2] → f32[3]")
    assert (rows[2]["name"], rows[2]["source"]) == ("pandas: read_csv", "train.py:5")


def test_where_steps_were_not_seen_it_says_what_ends_it() -> None:
    assert page(*START, end="compilation").headline.startswith("The last compilation ended 4.00 s after the command")


def test_a_capture_that_began_later_has_no_page() -> None:
    space = SpaceBuilder("vm")
    space.plane("/host:CPU").line("python").event("train", 0, 1000)
    found = api.Profile(Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": {"startup": None}})).startup_time()
    assert found.unavailable is not None and "did not begin with the script" in found.unavailable.reason


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (None, None, ""),
        ({}, None, ""),
        ({"x": "f32[2]"}, {"x": "f32[3]"}, "x: f32[2] → f32[3]"),
        ({}, {"n": "Literal[3]"}, "n: nothing → Literal[3]"),
        ({}, {}, "the same arguments"),
    ],
)
def test_what_a_compilation_differed_in(before: Any, now: Any, said: str) -> None:
    assert describe_change(before, now) == said
