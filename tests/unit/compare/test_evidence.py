"""What is known of the machine from outside: loops, and what other programs used."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from outpace.compare import GateOutcome, Side, Verdict, compare, evaluate_gate
from outpace.compare.evidence import CALIBRATION_LOOPS, Machine, MachineEvidence, compare_machines
from outpace.compare.facts import find_program_difference
from outpace.compare.headline import render_headline
from outpace.compare.page import build_page
from outpace.compare.side import STEP_SIDE, CaptureTimes, PartKey
from outpace.model import UsageError
from tests.unit.compare.sides import STEP, program, side, sides
from tests.unit.compare.test_compare import rng
from tests.unit.compare.test_judged import GAPS, PLAIN, captured

GATE = 0.05


def machine(slower: float = 1.0, others: float = math.nan) -> Machine:
    return Machine(dict.fromkeys(CALIBRATION_LOOPS, slower * 1000000.0), others)


def on(capture: CaptureTimes, machine: Machine) -> CaptureTimes:
    return replace(capture, machine=machine)


def known(before: Machine, after: Machine) -> MachineEvidence:
    one = captured(1, PLAIN, {})
    return compare_machines([on(one, before)], [on(one, after)])


def pair(slower: float, before: Machine, after: Machine) -> tuple[Side, Side]:
    """All work takes so many times as long, on these machines."""
    one, two = captured(1, PLAIN, {}), captured(11, {part: slower * time for part, time in PLAIN.items()}, {})
    return side("before", [on(one, before)]), side("after", [on(two, after)])


def test_without_loops_and_others_nothing_is_explained() -> None:
    assert not MachineEvidence().explains(0.0) and not known(Machine(), machine()).available


def test_loops_explain_what_follows_them_and_no_more() -> None:
    found = known(machine(), machine(2.0))
    assert found.explains(math.log(2.0)) and found.explains(math.log(1.8)) and found.median_log == pytest.approx(math.log(2))
    assert not found.explains(0.0) and not found.explains(math.log(2.6)) and not found.explains(-math.log(2))


def test_others_explain_no_more_than_twice_what_they_take() -> None:
    found = known(machine(others=0.0), machine(others=0.5))
    assert found.explains(math.log(2)) and found.explains(math.log(3.9)) and not found.explains(math.log(10))
    assert found.class_log_sd == pytest.approx(math.hypot(math.log(2), 0.25)) and not found.explains(-math.log(2))
    back = known(machine(others=0.5), machine(others=0.0))
    assert back.explains(-math.log(2)) and not back.explains(math.log(2))


@pytest.mark.parametrize(
    ("before", "after", "verdict", "outcome"),
    [
        (Machine(), Machine(), Verdict.OPEN, GateOutcome.OPEN),  # nothing is known
        (machine(), machine(), Verdict.OPEN, GateOutcome.OPEN),  # the machine is as fast as it was
        (machine(), machine(1.5), Verdict.MACHINE, GateOutcome.PASSED),
        (machine(), machine(3.0), Verdict.OPEN, GateOutcome.OPEN),  # slower by far more than the program is
        (machine(1.5), machine(), Verdict.OPEN, GateOutcome.OPEN),  # faster, and the program takes longer
        (machine(others=0.05), machine(others=0.45), Verdict.MACHINE, GateOutcome.OPEN),  # what it hides is too much for a gate
    ],
)
def test_the_machine_is_named_and_passes_where_it_is_known(
    before: Machine, after: Machine, verdict: Verdict, outcome: GateOutcome
) -> None:
    found = compare(*pair(1.5, before, after), GATE)
    assert (found.verdict, evaluate_gate(found, GATE).outcome) == (verdict, outcome)
    assert ("machine" in {table.name for table in build_page(found).tables()}) == found.evidence.available


def test_a_neighbour_on_one_side_makes_a_class_of_few_parts_say_less() -> None:
    """Python and gaps take half a step more: the program, unless others took half of the machine
    meanwhile.
    """
    plain = {part: time for part, time in PLAIN.items() if part[1] == "MatMul"}
    before, after = ({**plain, GAPS: share * STEP} for share in (0.5, 0.9))
    quiet, busy = (
        compare(
            side("before", [on(captured(1, before, {}), machine(others=0.02))]),
            side("after", [on(captured(11, after, {}), machine(others=others))]),
            GATE,
        )
        for others in (0.02, 0.5)
    )
    assert quiet.verdict is Verdict.SLOWER and busy.verdict is Verdict.OPEN
    assert "may be Python and gaps" in render_headline(busy)


def test_what_parts_seem_to_save_buys_nothing() -> None:
    """An op that the base's machine slowed gives back more than the program takes: it is slower,
    and no gate of less passes.
    """
    slow, culprit = ("Host", "AddV2", "a0"), ("Host", "MatMul", "m0")
    for captures in (1, 3):
        one = [captured(at, {**PLAIN, slow: 1.1 * PLAIN[slow]}, {}) for at in range(captures)]
        two = [captured(10 + at, {**PLAIN, culprit: PLAIN[culprit] + 0.08 * STEP}, {}) for at in range(captures)]
        found = compare(side("before", one), side("after", two), GATE)
        assert found.verdict is Verdict.SLOWER and found.bound_share.high >= found.program_share.high > 0.05
        assert evaluate_gate(found, GATE).outcome is not GateOutcome.PASSED


def test_a_share_is_never_less_than_minus_a_step() -> None:
    gone: PartKey = (STEP_SIDE, "All others", "All others")
    one, two = captured(1, {**PLAIN, gone: 50 * STEP}, {}), captured(11, PLAIN, {})
    found = compare(side("before", [one]), side("after", [two]), GATE)
    assert found.verdict is Verdict.FASTER and -1 <= found.program_share.low <= found.program_share.value < -0.9


def test_programs_that_share_little_are_not_compared_nor_saved_together() -> None:
    times, other = program(rng(1)), {("Host", "Fusion", f"fused_{at}"): STEP / 20 for at in range(20)}
    one, two = sides(rng(2), times, {**other, GAPS: 0.02 * STEP}, 3)
    apart = compare(side("a", one.captures, script="train.py"), side("b", two.captures, script="other.py"))
    assert not apart.is_comparable and "the runs differ in what they run" in render_headline(apart)
    assert evaluate_gate(apart, GATE).outcome is GateOutcome.OPEN
    same = compare(side("a", one.captures, script="base/train.py"), side("b", two.captures, script="change/train.py"))
    assert same.is_comparable  # a script that was changed in most of what it does
    with pytest.raises(UsageError, match="no captures of one side: they differ in what they run"):
        Side.merge("both", [side("a", one.captures, script="train.py"), side("b", two.captures, script="other.py")])


@pytest.mark.parametrize(
    ("one", "two", "differ"),
    [
        ({"script": "a.py"}, {"script": "b.py"}, True),
        ({"script": "x/a.py"}, {"script": "y/a.py"}, False),
        ({"program": "Keras fit"}, {"program": "hand-written loop"}, True),
        ({"program": "Keras fit"}, {"script": "a.py"}, False),
        ({"script": "a.py", "program": "Keras fit"}, {"program": "JAX"}, True),
        ({"script": "a.py", "program": "Keras fit"}, {"script": "a.py", "program": "JAX"}, False),
    ],
)
def test_other_programs(one: dict[str, str], two: dict[str, str], differ: bool) -> None:
    assert bool(find_program_difference(one, two, 0.3)) is differ and not find_program_difference(one, two, 0.6)


def test_loops_that_agree_hold_a_class_of_few_parts_near_the_others() -> None:
    """Three parts of Python take a fifth more, on a machine that is known to be the same: the
    program, and no class of work.
    """
    parts = {("Step", name, name): 0.1 * STEP for name in ("calls into the framework", "waiting for results", "All others")}
    before, after = {**PLAIN, **parts}, {**PLAIN, **{part: 1.18 * time for part, time in parts.items()}}
    sides_of = []
    for loops in (machine(), Machine()):
        one, two = (
            side(name, [on(captured(seed + at, times, {}), loops) for at in range(3)])
            for name, times, seed in (("before", before, 1), ("after", after, 11))
        )
        sides_of.append(compare(one, two, GATE))
    known, unknown = (found.factors["Python and gaps"].log_factor for found in sides_of)
    assert known == pytest.approx(math.log(1.05), abs=0.03) and unknown == pytest.approx(math.log(1.18), abs=0.03)
