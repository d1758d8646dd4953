"""A comparison as a gate, on simulated machines whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import junitparser
import pytest

from outpace.compare import Comparison, Gate, GateOutcome, Verdict, build_report, compare, evaluate_gate, junit
from outpace.compare.facts import VERSION_FACT
from outpace.compare.machine_model import CLASS_LOG_SD, MIN_PARTS
from outpace.model.errors import InconclusiveError, RegressionError
from outpace.report import markdown
from tests.unit.compare.sides import PYTHON, STEP, capture, program, side, sides
from tests.unit.compare.test_compare import rng

ALLOWED = 0.05
RUNS = 30


def compared(seed: int, change: float, captures: int = 3, machine: float = 0.2) -> Comparison:
    """One part takes so much of a step more on the second side; change: 0.1 is a tenth
    of a step.
    """
    times = program(rng(seed))
    part = sorted(times, key=times.__getitem__)[-1 - seed % 8]
    after = {**times, part: max(times[part] + change * STEP, 0.0)}
    return compare(*sides(rng(7000 + seed), times, after, captures, machine), ALLOWED)


def classes_apart(found: Comparison) -> float:
    """How far the factors of classes that speak lie from each other, as a log."""
    logs = [factor.log_factor for factor in found.factors.values() if factor.part_count >= MIN_PARTS]
    return max(logs) - min(logs)


def outcomes(change: float, captures: int = 3, machine: float = 0.2) -> list[GateOutcome]:
    return [evaluate_gate(compared(seed, change, captures, machine), ALLOWED).outcome for seed in range(RUNS)]


@pytest.mark.parametrize("captures", [1, 3])
@pytest.mark.parametrize("machine", [0.02, 0.3])
def test_it_does_not_fail_for_the_machine(captures: int, machine: float) -> None:
    """The same program on a machine that is slower by a third in one capture and not in the next;
    where it changes classes of work by far more than each other, nobody knows that the program did
    not change a class, and nothing passes for that alone.
    """
    every = [compared(seed, 0.0, captures, machine) for seed in range(RUNS)]
    assert not any(evaluate_gate(found, ALLOWED).outcome is GateOutcome.FAILED for found in every)
    alike = [found for found in every if classes_apart(found) <= 1.96 * CLASS_LOG_SD]
    passed = [evaluate_gate(found, ALLOWED).outcome is GateOutcome.PASSED for found in alike]
    assert len(alike) >= 0.2 * RUNS and sum(passed) >= 0.7 * len(alike)


@pytest.mark.parametrize(("captures", "least"), [(1, 0.7), (3, 0.95)])
def test_it_fails_for_what_takes_twice_what_is_allowed(captures: int, least: float) -> None:
    found = outcomes(2 * ALLOWED, captures)
    assert GateOutcome.PASSED not in found and found.count(GateOutcome.FAILED) >= least * RUNS


def test_it_passes_what_is_faster_and_what_takes_less_than_is_allowed() -> None:
    assert set(outcomes(-0.1)) == {GateOutcome.PASSED}
    found = compared(0, 0.02)
    assert found.verdict is Verdict.SLOWER and evaluate_gate(found, ALLOWED).outcome is GateOutcome.PASSED


def test_what_lies_about_the_limit_is_open() -> None:
    found = compared(3, 0.1)
    assert found.program_share.low < found.program_share.value < found.max_program_share
    for allowed, outcome in (
        (found.program_share.low - 1e-6, GateOutcome.FAILED),
        (found.program_share.low + 1e-6, GateOutcome.OPEN),
        (found.max_program_share - 1e-6, GateOutcome.OPEN),
        (found.max_program_share + 1e-6, GateOutcome.PASSED),
    ):
        assert evaluate_gate(found, allowed).outcome is outcome


def test_a_slower_machine_passes_only_where_what_is_allowed_would_have_been_seen() -> None:
    times = program(rng(3))
    found = compare(*sides(rng(4), times, times, 3, machine=0.02, slower=1.3), ALLOWED)
    assert found.verdict is Verdict.MACHINE and found.max_program_share < ALLOWED
    passed = evaluate_gate(found, ALLOWED)
    assert passed.outcome is GateOutcome.PASSED and "the machine's" in passed.sentence
    assert evaluate_gate(found, found.max_program_share / 2).outcome is GateOutcome.OPEN


def test_steps_alone_do_not_fail_it() -> None:
    """Where no part is known, nobody knows that it was not the machine."""
    found = compare(*sides(rng(7), {PYTHON: STEP}, {PYTHON: 2 * STEP}, 3, machine=0.02), ALLOWED)
    assert found.verdict is Verdict.OPEN
    says = evaluate_gate(found, ALLOWED)
    assert says.outcome is GateOutcome.OPEN and "more captures would tell" in says.sentence
    same = compare(*sides(rng(8), {PYTHON: STEP}, {PYTHON: STEP}, 5, machine=0.001), ALLOWED)
    assert evaluate_gate(same, 0.2).outcome is GateOutcome.PASSED


def test_runs_that_cannot_be_compared_are_open() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times, 3)
    apart = compare(side("a", one.captures, cores="2"), side("b", two.captures, cores="1"), ALLOWED)
    says = evaluate_gate(apart, ALLOWED)
    assert says.outcome is GateOutcome.OPEN and "differ in cores" in says.sentence
    assert "What would decide" not in markdown.render(build_report(apart, says))


def test_another_version_of_outpace_is_said_and_forbids_nothing() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times, 3)
    found = compare(
        side("a", one.captures, **{VERSION_FACT: "0.1.0"}), side("b", two.captures, **{VERSION_FACT: "0.2.0"}), ALLOWED
    )
    assert found.is_comparable and evaluate_gate(found, ALLOWED).outcome is GateOutcome.PASSED
    assert build_report(found).warnings[0].startswith("Outpace differs: 0.1.0 and 0.2.0.")


@pytest.mark.parametrize(("outcome", "error"), [(GateOutcome.FAILED, RegressionError), (GateOutcome.OPEN, InconclusiveError)])
def test_what_does_not_pass_is_an_error(outcome: GateOutcome, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"Gate of 2.5% {outcome.value}: so it is."):
        Gate(0.025, outcome, "so it is").enforce()
    Gate(0.025, GateOutcome.PASSED, "so it is").enforce()


def test_every_form_begins_with_it() -> None:
    found = compared(1, 0.1)
    says = evaluate_gate(found, ALLOWED)
    report = build_report(found, says)
    assert report.headline.startswith("Gate of 5% failed: the program adds ")
    assert "**Gate of 5% failed" in markdown.render(report)


def cases(found: Comparison, path: Path) -> list[junitparser.TestCase]:
    junit.write(found, evaluate_gate(found, ALLOWED), path)
    (suite,) = junitparser.JUnitXml.fromfile(str(path))
    read = list(suite)
    assert suite.tests == len(read) and suite.errors == 0
    assert (suite.failures, suite.skipped) == (sum(c.is_failure for c in read), sum(c.is_skipped for c in read))
    return read


def test_junit_has_a_case_for_the_step_and_for_each_part(tmp_path: Path) -> None:
    found = compared(1, 0.1)
    step, *parts = cases(found, tmp_path / "new" / "gate.xml")
    assert step.classname == "step" and step.is_failure and "Gate of 5% failed" in step.result[0].message
    assert step.time == pytest.approx(found.step_after.value / 1e12, rel=1e-6)
    assert [each.name for each in parts] == [each.label for each in found.own_changes]
    assert [each.is_failure for each in parts] == [each.delta_ps > 0 for each in found.own_changes] and parts[0].is_failure
    assert (tmp_path / "new" / "gate.xml").read_bytes().count(b"<testcase") == 1 + len(parts)


def test_junit_skips_what_is_open_and_passes_what_is_faster(tmp_path: Path) -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times)
    apart = compare(side("a", one.captures, cores="2"), side("b", two.captures, cores="1"), ALLOWED)
    assert all(each.is_skipped for each in cases(apart, tmp_path / "open.xml")[:1])
    faster = cases(compared(1, -0.1), tmp_path / "faster.xml")
    assert len(faster) > 1 and all(each.is_passed for each in faster)


def test_junit_holds_names_that_xml_has_no_characters_for(tmp_path: Path) -> None:
    hostile = 'a\x00b\x1b[31m<&"]]>\ud800\ufffe'
    times = program(rng(1))
    new = {**times, ("Host", hostile, hostile): 0.3 * STEP}
    before, after = (
        side(name, [capture(rng(at + k), those, 0.02) for k in range(3)])
        for name, those, at in (("a\x07", times, 20), ("b", new, 40))
    )
    step, first, *_ = cases(compare(before, after, ALLOWED), tmp_path / "gate.xml")
    assert first.is_failure and "<&" in first.name and "\x00" not in first.name and step.name == "a\\x07 → b"


def test_open_gates_say_what_would_decide() -> None:
    found = compared(3, 0.1)
    found = replace(found, bound_share=found.bound_share._replace(high=0.5))
    says = evaluate_gate(found, found.program_share.low + 1e-6)
    assert any(getattr(section, "title", "") == "What would decide" for section in build_report(found, says).pages[0].sections)
