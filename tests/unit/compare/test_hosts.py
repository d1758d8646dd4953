"""Hosts are compared with hosts: one that takes longer makes the others wait, and is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from outpace.compare import Outcome, Side, Verdict, baseline, compare, judged, report_of
from outpace.compare.side import BESIDE, Part
from outpace.metrics.program.host_time import PYTHON, WAITING
from tests.property.one_part import jittered, side_of

MORE = 15e9  # ps
CALLS: Part = (BESIDE, PYTHON, PYTHON)
WAITS: Part = (BESIDE, WAITING, WAITING)


def pair(captures: int, late: int | None) -> tuple[Side, Side]:
    """A run of two workers with itself, in which the Python of one takes longer, for which the other waits; or none does."""
    side, rng = side_of("multi_worker_strategy"), np.random.default_rng(7)
    before, after = ([jittered(rng, side.captures[0]) for _ in range(captures)] for _ in range(2))
    if late is not None:
        mine = np.array(side.captures[0].hosts) == side.hosts[late]
        after = [
            replace(
                each,
                parts={**each.parts, CALLS: each.parts[CALLS] + MORE * mine, WAITS: each.parts[WAITS] + MORE * ~mine},
                steps=each.steps + MORE,
            )
            for each in after
        ]
    return replace(side, name="before", captures=tuple(before)), replace(side, name="after", captures=tuple(after))


@pytest.mark.parametrize("captures", [1, 3])
@pytest.mark.parametrize("late", [0, 1])
def test_the_host_that_others_wait_for_is_named(captures: int, late: int) -> None:
    found = compare(*pair(captures, late))
    assert found.verdict is Verdict.SLOWER and judged(found, 0.05).outcome is Outcome.FAILED
    says = report_of(found).headline
    assert f"On worker{late} Python and gaps ({PYTHON}) takes" in says and "the other host waits for it" in says
    assert [each.after.name for each in found.hosts] == ["worker0", "worker1"]


def test_hosts_that_change_alike_are_not_named() -> None:
    found = compare(*pair(3, None))
    assert found.verdict is Verdict.SAME or found.verdict is Verdict.OPEN
    assert "waits for it" not in report_of(found).headline and len(found.hosts) == 2


def test_a_baseline_keeps_the_hosts(tmp_path_factory: pytest.TempPathFactory) -> None:
    before, after = pair(3, 1)
    path = tmp_path_factory.mktemp("baselines") / "main.json"
    baseline.save(before, path)
    assert compare(baseline.load(path), after).hosts[1].verdict is compare(before, after).hosts[1].verdict is Verdict.SLOWER


def test_one_host_has_no_hosts() -> None:
    assert side_of("keras_fit").hosts == () and not compare(side_of("keras_fit"), side_of("keras_fit_multi_step")).hosts
