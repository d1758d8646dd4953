"""Hosts that are missing, by the names of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace import api
from outpace.hosts.missing import find_missing_hosts, missing_host_warnings
from tests.unit.hosts.made import host, put


def numbered(pattern: str, *numbers: int) -> list[str]:
    return [pattern.format(number) for number in numbers]


@pytest.mark.parametrize(
    ("hosts", "missing"),
    [
        (numbered("host{}", 0, 1, 2, 3, 4, 6, 7), ("host5",)),
        (numbered("node{:02d}", 1, 2, 3, 4, 5, 6, 8, 9, 10, 12), ("node07", "node11")),
        (numbered("job-3-worker-{}", 0, 1, 3, 4), ("job-3-worker-2",)),
        (numbered("rank_{}/localhost", 0, 2, 3, 4), ("rank_1/localhost",)),
        (numbered("host{}", *range(8)), ()),
        (numbered("host{}", 1, 2, 3), ()),  # nobody knows whether there is a host0
        (numbered("host{}", 0, 2), ()),  # two numbers are no count
        (numbered("localhost_{}", 7010, 7011, 7500), ()),  # ports
        (numbered("10-0-0-{}", 3, 90, 127), ()),  # addresses
        (["vm", "vm2", "other"], ()),
        (["a1b1", "a2b2", "a4b4"], ()),
        (["alpha", "beta", "gamma"], ()),
        ([], ()),
    ],
)
def test_what_lies_between_numbers_is_missing(hosts: list[str], missing: tuple[str, ...]) -> None:
    assert find_missing_hosts(hosts) == missing


def test_many_are_counted() -> None:
    gone = set(range(10, 20))
    (sentence,) = missing_host_warnings(numbered("n{}", *(at for at in range(60) if at not in gone)))
    assert sentence.startswith("n10, n11, n12, n13, n14 and 5 others are missing")


def test_a_report_says_who_is_missing(tmp_path: Path) -> None:
    for at in (0, 1, 2, 4):
        put(host(f"host{at}"), tmp_path)
    assert any(w.startswith("host3 is missing: ") for w in api.open(tmp_path).warnings)
