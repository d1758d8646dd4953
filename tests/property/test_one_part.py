"""Whatever part of whatever program takes longer, and by how much: the verdict has the right sign,
and no gate passes above its limit.

A sample of the cases runs in `make fast`; `make verify` runs them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from outpace.compare import Comparison, GateOutcome, Side, Verdict, compare, evaluate_gate
from outpace.compare.changes import ChangeKind
from outpace.compare.evidence import Machine
from outpace.compare.side import classify_part
from tests.property.one_part import NAMES, PARTS, Planted, grown, planted, side_of, sides

pytestmark = pytest.mark.slow

GATE = 0.05
MORE = (0.1, 0.25, 1.0, 3.0, 10.0, 100.0)
WAYS = [(captures, in_turns) for captures in (1, 3) for in_turns in (False, True)]
SAMPLE = (6, 3)  # profiles, and parts of each
OPPOSITE = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
Judge = tuple[Planted, Comparison, GateOutcome]


def cases(captures: int, in_turns: bool, more: tuple[float, ...], whole: bool) -> Iterator[Judge]:
    """Each planted change with what is said of it; of a sample, unless all are wanted."""
    names = NAMES if whole else random.Random(10 * captures + in_turns).sample(NAMES, SAMPLE[0])
    for name in names:
        for steps in more:
            for case in planted(name, steps, captures, PARTS if whole else SAMPLE[1]):
                found = compare(case.before, case.after, GATE, in_turns=in_turns)
                yield case, found, evaluate_gate(found, GATE).outcome


def never_wrong(found: list[Judge]) -> None:
    """No sign is wrong, no gate passes, and nothing that the program takes is less than minus a
    step.
    """
    wrong = [
        (case.part, case.more)
        for case, verdict, outcome in found
        if verdict.verdict is Verdict.FASTER or outcome is GateOutcome.PASSED or verdict.program_share.low < -1
    ]
    assert found and not wrong, wrong


def share(found: list[Judge], holds: Callable[[Judge], bool]) -> float:
    return sum(map(holds, found)) / len(found)


def called(judge: Judge) -> bool:
    """Slower, and the gate fails."""
    return judge[1].verdict is Verdict.SLOWER and judge[2] is GateOutcome.FAILED


def named(judge: Judge) -> bool:
    """The part that takes longer stands first."""
    return bool(judge[1].own_changes) and judge[1].own_changes[0].part == judge[0].part


@pytest.mark.parametrize(("captures", "in_turns"), WAYS)
def test_a_part_that_takes_longer_is_never_faster_nor_passed(captures: int, in_turns: bool) -> None:
    never_wrong(list(cases(captures, in_turns, MORE, whole=False)))


@pytest.mark.verify
@pytest.mark.parametrize(("captures", "in_turns"), WAYS)
def test_no_part_of_any_profile_that_takes_longer_is_faster_or_passes(captures: int, in_turns: bool) -> None:
    """All profiles, all parts: never wrong, and large changes are seen: with one capture a side
    from one step on, with three from a quarter.
    """
    found = list(cases(captures, in_turns, MORE, whole=True))
    never_wrong(found)
    from_, least = (1.0, 0.95) if captures == 1 else (0.25, 0.97)
    large = [each for each in found if each[0].more >= from_]
    assert share(large, called) >= least
    assert captures == 1 or share(large, named) >= 0.95


@pytest.mark.parametrize("captures", [1, 3])
def test_large_changes_are_seen(captures: int) -> None:
    """Of the sample nine of ten; the bounds themselves are those of all cases, in `make verify`."""
    found = list(cases(captures, False, (1.0, 10.0), whole=False))
    assert share(found, called) >= 0.9 and share(found, named) >= 0.9


def slowed(name: str, slower: float, captures: int) -> tuple[Side, Side]:
    return sides(name, round(10 * slower), captures, slower)


def on_machines(side: Side, slower: float) -> Side:
    """The side with loops that took so many times as long as on the other."""
    machine = Machine(dict.fromkeys(("arithmetic", "memory", "Python"), slower * 1000000.0), 0.1)
    return replace(side, captures=tuple(replace(each, machine=machine) for each in side.captures))


def all_work_is_slower(name: str) -> None:
    for slower in (2.0, 10.0):
        for captures in (1, 3):
            before, after = slowed(name, slower, captures)
            found = compare(before, after, GATE)
            assert found.verdict in (Verdict.OPEN, Verdict.SLOWER), (name, slower, captures)
            assert evaluate_gate(found, GATE).outcome is not GateOutcome.PASSED, (name, slower, captures)
            same = compare(on_machines(before, 1.0), on_machines(after, 1.0), GATE)
            assert evaluate_gate(same, GATE).outcome is not GateOutcome.PASSED, (name, slower, captures)
            known = compare(on_machines(before, 1.0), on_machines(after, slower), GATE)
            assert (
                known.verdict in (Verdict.MACHINE, Verdict.OPEN)
                and evaluate_gate(known, GATE).outcome is not GateOutcome.FAILED
            )
            if known.bound_share.high <= GATE and 1 + known.unexplained_share <= slower * (
                1 + GATE
            ):  # few parts may hide more, and captures jitter
                assert evaluate_gate(known, GATE).outcome is GateOutcome.PASSED, (name, slower, captures)


@pytest.mark.parametrize("name", random.Random(1).sample(NAMES, 8))
def test_all_work_that_is_slower_passes_only_where_the_machine_is_known_to_be(name: str) -> None:
    all_work_is_slower(name)


@pytest.mark.verify
@pytest.mark.parametrize("name", NAMES)
def test_all_work_of_any_profile_passes_only_where_the_machine_is_known_to_be_slower(name: str) -> None:
    all_work_is_slower(name)


def exchanged(name: str, captures: int) -> None:
    for steps in (0.25, 1.0, 10.0):
        for case in planted(name, steps, captures, 5):
            there = compare(case.before, case.after, GATE).verdict
            back = compare(case.after, case.before, GATE).verdict
            assert there is not back or there not in OPPOSITE, (case.part, steps)
            if steps >= 1:
                assert Verdict.OPEN in (there, back) or back is OPPOSITE.get(there), (case.part, steps, there, back)


@pytest.mark.parametrize("name", random.Random(2).sample(NAMES, 5))
def test_exchanged_sides_have_the_opposite_verdict(name: str) -> None:
    exchanged(name, 3)


@pytest.mark.verify
@pytest.mark.parametrize("captures", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_exchanged_sides_of_any_profile_have_the_opposite_verdict(name: str, captures: int) -> None:
    exchanged(name, captures)


def renamed(name: str, captures: int) -> None:
    side = side_of(name)
    for at, part in enumerate(each for each in side.parts if each[0] == "Host" and "/" in each[2]):
        if at == 5:
            break
        before, after = sides(name, at, captures)
        other = (part[0], part[1], f"{part[2]}x")
        other_side = replace(
            after,
            captures=tuple(
                replace(each, part_ps={other if key == part else key: times for key, times in each.part_ps.items()})
                for each in after.captures
            ),
        )
        found = compare(before, other_side, GATE)
        kinds = {each.kind for each in found.changes if part in (each.part, (*each.part[:2], each.name_after))}
        assert found.verdict not in OPPOSITE and not kinds & {ChangeKind.NEW, ChangeKind.GONE, ChangeKind.CHANGED}, (
            part,
            kinds,
        )


@pytest.mark.parametrize("name", random.Random(3).sample(NAMES, 8))
def test_a_part_that_has_another_name_is_no_change(name: str) -> None:
    renamed(name, 3)


@pytest.mark.verify
@pytest.mark.parametrize("captures", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_any_profile_that_has_another_name_is_no_change(name: str, captures: int) -> None:
    renamed(name, captures)


def several(name: str, captures: int) -> None:
    """The smallest ops of a class grow together, so that they are half of what is left of it."""
    side = side_of(name)
    for work in sorted({classify_part(part) for part in side.parts}):
        mine = sorted(
            (part for part in side.parts if classify_part(part) == work),
            key=lambda part: float(side.part_times(part)[0].mean()),
        )
        for count in (each for each in (3, 5, 8) if 2 * each <= len(mine)):
            for steps in (0.1, 0.5, 2.0):
                before, after = sides(name, 10 * count, captures)
                slow = list(after.captures)
                for part in mine[:count]:
                    slow = [grown(each, part, steps / count * float(side.captures[0].step_ps.mean())) for each in slow]
                found = compare(before, replace(after, captures=tuple(slow)), GATE)
                assert found.verdict is not Verdict.FASTER, (work, count, steps)
                assert evaluate_gate(found, GATE).outcome is not GateOutcome.PASSED, (work, count, steps)


@pytest.mark.parametrize("name", random.Random(4).sample(NAMES, 6))
def test_small_ops_that_grow_together_do_not_become_their_class(name: str) -> None:
    several(name, 3)


@pytest.mark.verify
@pytest.mark.parametrize("captures", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_small_ops_of_any_profile_that_grow_together_do_not_become_their_class(name: str, captures: int) -> None:
    several(name, captures)


def beside(name: str) -> None:
    """All work takes longer, and the machine is known to be slower or faster by something else:
    nothing passes that the program adds.
    """
    for machine, program in ((0.5, 1.5), (0.8, 1.25), (1.5, 1.2), (2.0, 1.2), (10.0, 1.3)):
        before, after = sides(name, round(100 * machine), 3, machine * program)
        found = compare(on_machines(before, 1.0), on_machines(after, machine), GATE)
        assert evaluate_gate(found, GATE).outcome is not GateOutcome.PASSED, (machine, program, found.unexplained_share)


@pytest.mark.parametrize("name", random.Random(5).sample(NAMES, 6))
def test_what_the_program_adds_beside_another_machine_does_not_pass(name: str) -> None:
    beside(name)


@pytest.mark.verify
@pytest.mark.parametrize("name", NAMES)
def test_what_any_program_adds_beside_another_machine_does_not_pass(name: str) -> None:
    beside(name)


@pytest.mark.parametrize("loop", ["arithmetic", "memory", "Python"])
def test_one_loop_excuses_nothing(loop: str) -> None:
    """One of three takes as much longer as the program, or 30 times as long in one capture of
    three.
    """
    for name in random.Random(6).sample(NAMES, 4):
        before, after = (on_machines(each, 1.0) for each in sides(name, 16, 3, 1.6))
        odd = [Machine({**each.machine.loop_ns, loop: 1.6e6}, 0.1) for each in after.captures]
        hiccup = [
            Machine({**each.machine.loop_ns, loop: 3e7 if at == 0 else 1e6}, 0.1) for at, each in enumerate(after.captures)
        ]
        for machines in (odd, hiccup):
            slow = replace(after, captures=tuple(replace(c, machine=m) for c, m in zip(after.captures, machines, strict=True)))
            found = compare(before, slow, GATE)
            assert found.verdict is not Verdict.MACHINE and evaluate_gate(found, GATE).outcome is not GateOutcome.PASSED, name
