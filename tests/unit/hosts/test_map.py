"""One function of many hosts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from outpace.hosts import map as mapping
from outpace.hosts.map import map_hosts, map_in_processes, map_serially
from outpace.model import OutpaceError, ProfileError

ITEMS = list(range(7))


def square(item: int) -> int:
    if item == 3:
        raise ProfileError("3 is no profile.")
    return item * item


def where(item: int) -> int:
    return os.getpid()


def dies(item: int) -> int:
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def faulty(item: int) -> int:
    raise KeyError(item)


@pytest.mark.parametrize("on", [None, map_serially, map_in_processes])
def test_answers_come_in_order_and_a_failure_is_one_of_them(on: Any) -> None:
    found = map_hosts(square, ITEMS, on)
    assert [each for each in found if not isinstance(each, OutpaceError)] == [0, 1, 4, 16, 25, 36]
    assert isinstance(found[3], ProfileError) and str(found[3]) == "3 is no profile."


def test_processes_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "available_cpus", lambda: 2)
    pids = set(map_in_processes(where, ITEMS))
    assert os.getpid() not in pids and 1 <= len(pids) <= 2


def test_a_host_that_ends_its_process_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "available_cpus", lambda: 2)
    found = map_in_processes(dies, ITEMS)
    assert [each for each in found if isinstance(each, int)] == [0, 1, 3, 4, 5, 6]
    assert "want of memory" in str(found[2])


@pytest.mark.parametrize("on", [map_serially, map_in_processes])
def test_a_fault_of_ours_is_raised(on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "available_cpus", lambda: 2)
    with pytest.raises(KeyError):
        map_hosts(faulty, ITEMS, on)


def test_the_seam_takes_any_mapper() -> None:
    asked = []

    def on(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        asked.append(list(items))
        return map_serially(function, items)

    assert map_hosts(where, ITEMS, on) == [os.getpid()] * len(ITEMS)
    assert asked == [ITEMS]
