"""Captures in turns: what falls on both sides alike is told from what the program changed, even
where it changed whole classes of work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from outpace.compare import GateOutcome, Side, Verdict, build_report, compare, evaluate_gate
from outpace.compare.evidence import CALIBRATION_LOOPS, Machine
from outpace.compare.headline import render_headline
from outpace.compare.side import PartKey
from outpace.compare.verdict import VerdictBasis
from outpace.report import terminal
from outpace.stats.means import log_ratio_half_width
from tests.unit.compare.sides import PYTHON, STEP, program, sides
from tests.unit.compare.test_compare import rng

RUNS = 60


def slowed(times: Mapping[PartKey, float], factor: float) -> dict[PartKey, float]:
    """All of a program, but for its Python."""
    return {part: time * (factor if part != PYTHON else 1.0) for part, time in times.items()}


def pair(seed: int, factor: float, captures: int, machine: float) -> tuple[Side, Side]:
    times = program(rng(seed))
    return sides(rng(500 + seed), times, slowed(times, factor), captures, machine)


def test_their_interval_is_students() -> None:
    one, two = [1.0, 1.2, 0.9], [1.5, 1.4, 1.6, 1.7]
    found = stats.ttest_ind(np.log(two), np.log(one)).confidence_interval(0.95)
    assert log_ratio_half_width(one, two) == pytest.approx((found.high - found.low) / 2, rel=0.01)
    assert log_ratio_half_width([1.0], two) == math.inf  # one says nothing of how far captures differ


def test_whole_classes_that_the_program_slows_are_its_own() -> None:
    one, two = pair(1, 1.3, 4, 0.03)
    alone, turns = compare(one, two), compare(one, two, in_turns=True)
    assert alone.verdict is Verdict.OPEN and alone.basis is not VerdictBasis.IN_TURNS
    assert (
        turns.verdict is Verdict.SLOWER
        and turns.basis is VerdictBasis.IN_TURNS
        and turns.step_expected_ps == turns.step_before.value
    )
    assert turns.ratio_low < 1.3 < turns.ratio_high and turns.ratio_low - 1 == pytest.approx(turns.program_share.low)
    assert "captures in turns rule the machine out" in render_headline(turns) and "other ops 1.3" in render_headline(turns)
    page = " ".join(terminal.render(build_report(turns), width=80, tools=["compare"]).split())
    assert "the program changed whole classes" in page and "The machine, by class" not in page
    back = compare(two, one, in_turns=True)
    assert back.verdict is Verdict.FASTER and back.basis is VerdictBasis.IN_TURNS


@pytest.mark.parametrize(("loops", "left_out"), [(0.97, 1.0), (1.04, 1.0), (0.8, 0.8), (1.15, 1.15)])
def test_the_step_leaves_out_what_loops_say_beyond_what_those_of_one_machine_differ_by(loops: float, left_out: float) -> None:
    one, two = pair(1, 1.3, 4, 0.0)
    one, two = (
        replace(
            side,
            captures=tuple(replace(each, machine=Machine(dict.fromkeys(CALIBRATION_LOOPS, time))) for each in side.captures),
        )
        for side, time in ((one, 1e6), (two, loops * 1e6))
    )
    found = compare(one, two, in_turns=True)
    assert found.basis is VerdictBasis.IN_TURNS and found.step_expected_ps == pytest.approx(found.step_before.value * left_out)
    assert found.program_share.value == pytest.approx(found.ratio / left_out - 1)
    assert (f"the machine alone makes {loops:.2f}" in render_headline(found)) == (left_out != 1.0)


def test_a_gate_fails_for_it() -> None:
    one, two = pair(1, 1.3, 4, 0.03)
    assert evaluate_gate(compare(one, two, 0.05), 0.05).outcome is GateOutcome.OPEN  # nothing says whose it is
    assert evaluate_gate(compare(one, two, 0.05, in_turns=True), 0.05).outcome is GateOutcome.FAILED


@pytest.mark.parametrize("captures", [2, 4])
def test_a_program_against_itself_is_seldom_called_changed(captures: int) -> None:
    """Captures of one program differ by a fifth."""
    called = []
    for seed in range(RUNS):
        found = compare(*pair(seed, 1.0, captures, 0.2), in_turns=True)
        called.append(found.verdict in (Verdict.FASTER, Verdict.SLOWER))
    assert sum(called) <= RUNS * 0.05 + NormalDist().inv_cdf(0.975) * math.sqrt(RUNS * 0.05 * 0.95)


def test_what_captures_of_one_side_differ_by_is_not_ruled_out() -> None:
    one, two = pair(3, 1.05, 3, 0.2)
    found = compare(one, two, in_turns=True)
    assert found.basis is not VerdictBasis.IN_TURNS and found.verdict is not Verdict.SLOWER


def test_single_captures_in_turns_are_judged_as_others() -> None:
    one, two = pair(1, 1.3, 1, 0.03)
    plain, turns = compare(one, two), compare(one, two, in_turns=True)
    assert (plain.verdict, plain.ratio_low, plain.ratio_high) == (turns.verdict, turns.ratio_low, turns.ratio_high)


def test_programs_that_share_few_ops_are_told_by_the_step_and_by_what_each_has() -> None:
    """Where little is known of the machine, nothing is expected of it: what is gone took what it
    took.
    """
    times = {("Host", "MatMul", f"layer/{name}"): STEP / 12 for name in "abcdefghijkl"}
    other = {("Host", "Fusion", f"fused_{name}"): STEP / 6 for name in "abcdefghijkl"}
    one, two = sides(rng(4), {**times, PYTHON: 0.02 * STEP}, {**other, PYTHON: 0.4 * STEP}, 4, 0.02)
    plain, turns = compare(one, two), compare(one, two, in_turns=True)
    assert (
        plain.basis is VerdictBasis.FEW_SHARED
        and turns.basis is VerdictBasis.IN_TURNS
        and turns.verdict is plain.verdict is Verdict.SLOWER
    )
    assert all(factor.log_factor == plain.evidence.log_shift for factor in plain.factors.values())
    gone = [each for each in plain.changes if each.after.value == 0]
    assert len(gone) == 12 and all(each.delta_ps == pytest.approx(-each.before.value, rel=0.01) for each in gone)
    assert evaluate_gate(plain, 0.05).outcome is GateOutcome.FAILED and evaluate_gate(turns, 0.05).outcome is GateOutcome.FAILED
    unknown = [replace(side, captures=tuple(replace(each, machine=Machine()) for each in side.captures)) for side in (one, two)]
    assert evaluate_gate(compare(unknown[0], unknown[1]), 0.05).outcome is GateOutcome.OPEN  # nobody knows the machine
    assert turns.main_change.part == PYTHON  # which both have, so that without turns nobody knows whose it is
    assert "captures in turns rule the machine out; Python and gaps (All others) takes" in render_headline(turns)
