"""Stragglers by their own time before the first collective, and what repairing them gives back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outpace import api
from outpace.model import Page, Paragraph
from outpace.testing import SpaceBuilder
from tests.unit.hosts.made import MS, host, put


def page_of(folder: Path, *spaces: SpaceBuilder) -> Page:
    for space in spaces:
        put(space, folder)
    return api.open(folder).pod()


def row(page: Page, worker: str) -> dict[str, Any]:
    return next(row for row in page.table("summary").records() if row["worker"] == worker)


def test_a_worker_that_is_slow_before_the_collective_is_named_though_all_steps_are_equally_long(tmp_path: Path) -> None:
    page = page_of(tmp_path, *(host(name) for name in "abc"), host("d", work=8))
    assert len({row["duration_ps"] for row in page.table("summary").records()}) == 1
    (finding,) = page.findings
    assert (finding.id, finding.host) == ("straggler", "d")
    assert "takes 2.00 ms (29%) more before the first collective of a step" in finding.sentence
    assert "its Host compute alone takes 2.00 ms more" in finding.sentence
    assert finding.saving is not None and finding.saving.high == pytest.approx(0.2)
    assert row(page, "d")["before_ps"] == 9 * MS


def test_slow_input_is_told_from_slow_work(tmp_path: Path) -> None:
    page = page_of(tmp_path, *(host(name) for name in "abc"), host("d", wait=3))
    (finding,) = page.findings
    assert "its Input alone takes 2.00 ms more" in finding.sentence
    assert "input pipeline" in finding.action


def test_repairing_one_of_two_gives_back_what_it_is_later_than_the_next(tmp_path: Path) -> None:
    page = page_of(tmp_path, *(host(name) for name in "abcd"), host("slow", work=8), host("slower", work=8.5))
    saved = {name: row(page, name)["repair_ps"] / MS for name in ("a", "slow", "slower")}
    assert saved == {"a": 0, "slow": pytest.approx(2), "slower": pytest.approx(0.5)}
    caveats = {finding.host: " ".join(finding.counter_evidence) for finding in page.findings}
    assert "it gives with slower repaired" in caveats["slow"]
    assert "repaired" not in caveats["slower"]


def test_without_collectives_workers_are_compared_by_their_steps(tmp_path: Path) -> None:
    def alone(name: str, length: float) -> SpaceBuilder:
        return host(name, collectives=False, length=length)

    page = page_of(tmp_path, alone("a", 10), alone("b", 10), alone("c", 13))
    (finding,) = page.findings
    assert finding.host == "c" and "more per step than" in finding.sentence
    assert row(page, "c")["before_ps"] is None
    assert row(page, "c")["repair_ps"] == pytest.approx(3 * MS)


def test_a_wrong_clock_is_said_and_does_not_part_the_hosts(tmp_path: Path) -> None:
    page = page_of(tmp_path, host("a"), host("b"), host("c", ahead_ns=3 * 10**9))
    told = next(s.body for s in page.sections if isinstance(s, Paragraph) and s.title == "Steps of different hosts")
    assert "The clock of c is 3.00 s ahead of that of the others, by the ends of their collectives in 10 steps" in told
    assert "train independently" not in told
    clocks = {row["host"]: row["clock_ps"] for row in page.table("clocks").records()}
    assert clocks == {"a": 0, "b": 0, "c": 3000 * MS}
