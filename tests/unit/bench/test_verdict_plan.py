"""What `bench/verdicts` captures and compares, on programs that nobody runs here."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("scipy")
FOLDER = Path(__file__).parents[3] / "bench" / "verdicts"


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The bench's scripts, which import each other by their plain names."""
    names = {"truths", *(file.stem for file in FOLDER.glob("*.py"))}
    known = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield {name: importlib.import_module(name) for name in ("capture", "peers")}
    sys.path[:] = known
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    changes = {
        "slow_map": {"percent": 10, "where": "the map", "match": "Map"},
        "callback": {"percent": 5, "where": "a line", "match": "x"},
    }
    for name in ("one", "two", "three"):
        shifts = {"renamed": {"where": "an op"}} if name == "one" else {}
        (tmp_path / f"{name}.json").write_text(json.dumps({"changes": changes, "shifts": shifts}))
    return tmp_path


def test_a_third_of_equal_captures_has_a_neighbour_and_each_kind_comes(scripts: dict[str, ModuleType], programs: Path) -> None:
    shots = list(scripts["capture"].planned(["one", "two", "three"], "aa", programs))
    for name in ("one", "two", "three"):
        neighbours = [shot.neighbour for shot in shots if shot.program == name]
        assert len(neighbours) == 12 and neighbours.count("") == 8
        assert set(neighbours) == {"", "cpu", "memory", "disk"}
    assert Counter(shot.neighbour for shot in shots if shot.neighbour) == {"cpu": 4, "memory": 4, "disk": 4}


def test_each_round_holds_the_program_and_every_change_once(scripts: dict[str, ModuleType], programs: Path) -> None:
    shots = list(scripts["capture"].planned(["one", "two", "three"], "changes", programs))
    rounds = Counter((shot.program, shot.round, shot.change) for shot in shots)
    assert len(rounds) == 3 * 8 * 3 and set(rounds.values()) == {1}
    orders = {tuple(shot.change for shot in shots if (shot.program, shot.round) == ("one", number)) for number in range(8)}
    assert len(orders) > 1  # drawn anew
    shifted = list(scripts["capture"].planned(["one", "two", "three"], "shifts", programs))
    assert {shot.program for shot in shifted} == {"one"} and len(shifted) == 16
    assert len({shot.folder(programs) for shot in (*shots, *shifted)}) == len(shots) + len(shifted)


def test_a_rule_is_asked_again_at_our_false_rate(scripts: dict[str, ModuleType]) -> None:
    equal, more = [0.01, 0.2, -0.3, 0.0], [0.1, 0.25, 0.4, -0.5]
    assert scripts["peers"].at_rate(equal, more, 0.25) == 0.5  # one may be wrong: from 0.2 on, upwards
    assert scripts["peers"].at_rate(equal, more, 0.0) == 0.25
    assert scripts["peers"].at_rate(equal, more, 1.0) == 0.75
