"""The differential flame graph: what is wide, what is coloured, what is only there on request."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from outpace.compare.flame import COLORS, build_flame_graph
from outpace.compare.side import PartKey
from outpace.compare.verdict import Comparison, Verdict, compare
from outpace.model import Chart
from outpace.report import palette
from tests.unit.compare.sides import PYTHON, STEP, program, sides
from tests.unit.report.test_palette import VISION, lab, linear

SCREENS = {"light": "#ffffff", "dark": "#15181c"}
OPACITY = 0.45  # of a cell, as flame.css has it


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def compared(
    before: Mapping[PartKey, float], after: Mapping[PartKey, float], machine: float = 0.02, slower: float = 1.0
) -> Comparison:
    return compare(*sides(rng(4), before, after, 3, machine, slower))


def nodes(chart: Chart) -> dict[str, dict[str, Any]]:
    found = {row["id"]: row for row in chart.table.records()}
    assert len(found) == len(chart.table)
    return found


def test_a_machine_that_is_slower_paints_nothing() -> None:
    times = program(rng(3))
    found = compared(times, times, slower=1.4)
    assert found.verdict is Verdict.MACHINE
    assert {row["became"] for row in nodes(build_flame_graph(found, ())).values()} == {"as expected"}


def test_what_changed_is_coloured_from_the_top_down() -> None:
    times = program(rng(3))
    culprit = sorted((part for part in times if part[2].startswith("layer/")), key=times.__getitem__)[-6]
    drawn = nodes(build_flame_graph(compared(times, {**times, culprit: 1.6 * times[culprit]}), ()))
    coloured = {place for place, row in drawn.items() if row["became"] != "as expected"}
    assert coloured == {"Host ops", "Host ops/layer", f"Host ops/{culprit[2]}"}
    assert drawn[f"Host ops/{culprit[2]}"]["became"] == "over 25% more" and drawn["Host ops"]["became"] == "more"


def test_sizes_hold_those_of_what_is_there_and_not_of_what_is_gone() -> None:
    times = {("Host", "MatMul", f"model/{name}/MatMul"): STEP / 10 for name in ("a", "b", "c", "d", "e", "f")}
    after = {part: time for part, time in times.items() if part[2] != "model/f/MatMul"} | {
        ("Host", "MatMul", "model/wholly/other/MatMul"): STEP / 2
    }
    chart = build_flame_graph(compared(times, after), ())
    drawn = nodes(chart)
    assert (chart.aside, chart.state) == ("gone", "became")
    gone = drawn["Host ops/model/f"]
    assert gone["gone"] and gone["became"] == "gone" and gone["after_ps"] == 0
    assert gone["time_ps"] == gone["before_ps"] == pytest.approx(STEP / 10, rel=0.2)
    assert drawn["Host ops/model/wholly"]["became"] == "new" and not drawn["Host ops/model/wholly"]["gone"]
    sums: dict[str, float] = defaultdict(float)
    for row in drawn.values():
        assert row["parent"] == "" or row["parent"] in drawn
        sums[row["parent"]] += 0 if row["gone"] else row["time_ps"]
    assert sums["Host ops/model"] == pytest.approx(drawn["Host ops/model"]["time_ps"])


def test_work_that_moved_is_said_to_have() -> None:
    times = program(rng(2))
    old = max((part for part in times if part[1] == "MatMul"), key=times.__getitem__)
    after = {part: time for part, time in times.items() if part != old} | {("Host", "Conv2D", "another/one"): times[old]}
    drawn = nodes(build_flame_graph(compared(times, after), ()))
    assert drawn["Host ops/another/one"]["became"] == drawn[f"Host ops/{old[2]}"]["became"] == "moved"


def test_a_difference_comes_with_its_interval() -> None:
    times = program(rng(3))
    found = compared(times, {**times, PYTHON: times[PYTHON] + 0.1 * STEP})
    drawn = nodes(build_flame_graph(found, ()))
    (gaps,) = (each for each in found.changes if each.part == PYTHON)
    row = drawn["Python and gaps/All others"]
    assert (row["delta_ps"], row["low_ps"], row["high_ps"]) == (gaps.delta_ps, gaps.low_ps, gaps.high_ps)
    layers = [each for each in found.changes if each.part[2].startswith("layer/") and each.part[1] != "Dataset"]
    row, half = drawn["Host ops/layer"], math.hypot(*(each.high_ps - each.delta_ps for each in layers))
    assert row["delta_ps"] == pytest.approx(sum(each.delta_ps for each in layers))
    assert 0.8 * half < row["high_ps"] - row["delta_ps"] < half  # of a sum of many it is the normal one


def test_replicas_have_one_place_and_stages_their_pipeline() -> None:
    times = {("Device", "MatMul", f"{replica}model/dense/MatMul"): STEP / 4 for replica in ("", "replica_1/", "replica_2/")}
    times |= {("Input", "Dataset", "Iterator::Root::Prefetch::Map"): STEP / 8}
    drawn = nodes(build_flame_graph(compared(times, times), ()))
    assert drawn["Device ops/model/dense/MatMul"]["after_ps"] == pytest.approx(0.75 * STEP, rel=0.1)
    assert [row["name"] for row in drawn.values() if row["id"].startswith("Input")] == [
        "Input pipeline",
        "Root",
        "Prefetch",
        "Map",
    ]


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("screen", SCREENS)
def test_any_two_states_can_be_told_apart_on_any_screen(screen: str, vision: str) -> None:
    def seen(key: str) -> np.ndarray:
        colours = (palette.hex_color(key, dark=screen == "dark"), SCREENS[screen])
        cell, below = (np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) for colour in colours)
        mixed = (OPACITY * cell + (1 - OPACITY) * below).round().astype(int)
        return lab(VISION[vision] @ linear("#" + "".join(f"{each:02x}" for each in mixed)))

    distances = [float(np.linalg.norm(seen(one) - seen(two))) for one, two in combinations(set(COLORS.values()), 2)]
    assert min(distances) > 8
