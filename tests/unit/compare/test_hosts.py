"""Hosts are compared with hosts: one that takes longer makes the others wait, and is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from outpace.compare import GateOutcome, Side, Verdict, baseline, build_report, compare, evaluate_gate
from outpace.compare.side import STEP_SIDE, PartKey
from outpace.metrics.views.host_time import PYTHON, WAITING
from tests.property.one_part import jittered, side_of

MORE = 15e9  # ps
CALLS: PartKey = (STEP_SIDE, PYTHON, PYTHON)
WAITS: PartKey = (STEP_SIDE, WAITING, WAITING)


def pair(captures: int, late: int | None) -> tuple[Side, Side]:
    """A run of two workers with itself, in which the Python of one takes longer, for which the
    other waits; or none does.
    """
    side, rng = side_of("multi_worker_strategy"), np.random.default_rng(7)
    before, after = ([jittered(rng, side.captures[0]) for _ in range(captures)] for _ in range(2))
    if late is not None:
        mine = np.array(side.captures[0].hosts) == side.hosts[late]
        after = [
            replace(
                each,
                part_ps={**each.part_ps, CALLS: each.part_ps[CALLS] + MORE * mine, WAITS: each.part_ps[WAITS] + MORE * ~mine},
                step_ps=each.step_ps + MORE,
            )
            for each in after
        ]
    return replace(side, name="before", captures=tuple(before)), replace(side, name="after", captures=tuple(after))


@pytest.mark.parametrize("captures", [1, 3])
@pytest.mark.parametrize("late", [0, 1])
def test_the_host_that_others_wait_for_is_named(captures: int, late: int) -> None:
    found = compare(*pair(captures, late))
    assert found.verdict is Verdict.SLOWER and evaluate_gate(found, 0.05).outcome is GateOutcome.FAILED
    says = build_report(found).headline
    assert f"On worker{late} Python and gaps ({PYTHON}) takes" in says and "the other host waits for it" in says
    assert [each.after.name for each in found.host_comparisons] == ["worker0", "worker1"]


def test_hosts_that_change_alike_are_not_named() -> None:
    found = compare(*pair(3, None))
    assert found.verdict is Verdict.SAME or found.verdict is Verdict.OPEN
    assert "waits for it" not in build_report(found).headline and len(found.host_comparisons) == 2


def test_a_baseline_keeps_the_hosts(tmp_path_factory: pytest.TempPathFactory) -> None:
    before, after = pair(3, 1)
    path = tmp_path_factory.mktemp("baselines") / "main.json"
    baseline.write_baseline(before, path)
    assert (
        compare(baseline.read_baseline(path), after).host_comparisons[1].verdict
        is compare(before, after).host_comparisons[1].verdict
        is Verdict.SLOWER
    )


def test_one_host_has_no_hosts() -> None:
    assert (
        side_of("keras_fit").hosts == () and not compare(side_of("keras_fit"), side_of("keras_fit_multi_step")).host_comparisons
    )
