"""Two sides, one verdict: on simulated machines whose truth is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from outpace.compare.changes import ChangeKind
from outpace.compare.gate import GateOutcome, evaluate_gate
from outpace.compare.headline import render_headline
from outpace.compare.page import build_page, build_report
from outpace.compare.pairs import pair_parts
from outpace.compare.side import COPIES, DENSE, ELEMENTWISE, INPUT, ON_DEVICE, PYTHON, PartKey, Side, classify_part
from outpace.compare.verdict import Comparison, Verdict, compare
from outpace.model import UsageError
from outpace.report import html, json_, json_reader, markdown, terminal
from outpace.stats.discoveries import benjamini_hochberg, two_sided_p_value
from outpace.stats.intervals import TRIMMED
from outpace.stats.means import combine_means, mean_with_error
from tests.unit.compare.sides import PYTHON as GAPS
from tests.unit.compare.sides import STEP, program, side, sides

RUNS = 40


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("captures", [1, 3])
def test_a_program_against_itself_changes_in_no_part(captures: int) -> None:
    """The machine changes by a fifth from capture to capture, as a whole and by class."""
    called = []
    for seed in range(RUNS):
        times = program(rng(seed))
        found = compare(*sides(rng(1000 + seed), times, times, captures))
        called.append(bool(found.own_changes))
        assert found.own_changes or found.verdict in (Verdict.SAME, Verdict.MACHINE, Verdict.OPEN)
    assert sum(called) <= 2


@pytest.mark.parametrize(("captures", "change", "least"), [(1, 0.1, 0.9), (1, 0.05, 0.75), (3, 0.05, 0.9)])
def test_what_takes_longer_is_named_first(captures: int, change: float, least: float) -> None:
    """One part takes 5 or 10 % of a step more, whatever the machine does, and less is asked for:
    single captures tell no less than `effect`.
    """
    right = 0
    for seed in range(RUNS):
        times = program(rng(seed))
        culprit = sorted(times, key=times.__getitem__)[-1 - seed % 8]
        found = compare(
            *sides(rng(2000 + seed), times, {**times, culprit: times[culprit] + change * STEP}, captures), 0.4 * change
        )
        right += found.verdict is Verdict.SLOWER and found.own_changes[0].part == culprit
    assert right >= least * RUNS


def test_a_line_of_python_is_a_part_too() -> None:
    times = program(rng(1))
    found = compare(*sides(rng(2), times, {**times, GAPS: times[GAPS] + 0.1 * STEP}, 3))
    assert found.verdict is Verdict.SLOWER and found.own_changes[0].part == GAPS
    assert 0.07 < found.program_share.value < 0.14


def test_a_machine_that_is_slower_as_a_whole_is_said() -> None:
    times = program(rng(3))
    found = compare(*sides(rng(4), times, times, 3, machine=0.02, slower=1.3))
    assert found.verdict is Verdict.MACHINE and render_headline(found).startswith(
        "The machine is slower (loops take arithmetic 1."
    )


def test_work_that_takes_longer_alike_is_nobody_s_where_the_machine_is_as_fast() -> None:
    """As with one thread instead of many, or in 64 bits."""
    times = program(rng(3))
    found = compare(*sides(rng(4), times, {part: 10 * time for part, time in times.items()}, 3, machine=0.02))
    assert found.verdict is Verdict.OPEN
    assert "nothing says that the machine is slower: threads, precision, debug options?" in render_headline(found)


@pytest.mark.parametrize(("captures", "verdict"), [(1, Verdict.OPEN), (3, Verdict.FASTER)])
def test_one_process_whose_work_is_all_faster_for_no_known_reason_says_nothing_of_its_parts(
    captures: int, verdict: Verdict
) -> None:
    """As where its memory lies in another place: with captures of several processes their own
    spread tells.
    """
    times = program(rng(5))
    large = sorted(times, key=lambda part: -times[part])[:3]
    less = {part: time * (0.5 if part in large else 0.75) for part, time in times.items()}
    found = compare(*sides(rng(6), times, less, captures, machine=0.02))
    assert found.verdict is verdict, render_headline(found)


def test_work_that_only_changes_places_has_moved() -> None:
    """An op of one name goes, and one of the same class and time comes."""
    moved = 0
    for seed in range(20):
        times = program(rng(seed))
        old = next(part for part in sorted(times, key=times.__getitem__)[::-1] if part[1] == "MatMul")
        after = {part: time for part, time in times.items() if part != old} | {("Host", "Conv2D", "another"): times[old]}
        found = compare(*sides(rng(500 + seed), times, after, 3, machine=0.05))
        moved += not found.own_changes and sum(each.kind is ChangeKind.MOVED for each in found.changes) == 2
    assert moved >= 18


def test_what_is_numbered_anew_is_the_same_part() -> None:
    times = {("Host", "MatMul", f"dense_{at}/MatMul"): STEP / 10 for at in range(1, 9)}
    after = {("Host", "MatMul", f"dense_{at + 8}/MatMul"): STEP / 10 for at in range(1, 9)}
    found = compare(*sides(rng(1), times, after, 3, machine=0.02))
    assert not found.own_changes and len(found.changes) == 8
    assert {each.name_after for each in found.changes} == {name for *_, name in after}


def test_ops_of_two_versions_of_a_framework_are_the_same_parts() -> None:
    """As Keras 2 and 3 name them: inlined calls, counters, other words within a layer."""
    kinds = ("_FusedConv2D", "Conv2DBackpropFilter", "FusedBatchNormV3")
    old = ("net/conv/Relu", "gradient_tape/net/conv/Conv2D/Conv2DBackpropFilter", "net/norm/FusedBatchNormV3")
    new = (
        "StatefulPartitionedCall/net_1/conv_1/Relu",
        "StatefulPartitionedCall/gradient_tape/net_1/conv_1/convolution/Conv2DBackpropFilter",
        "StatefulPartitionedCall/net_1/norm_1/moments/mean",
    )
    before: list[PartKey] = [("Host", kind, name) for kind, name in zip(kinds, old, strict=True)]
    after: list[PartKey] = [("Host", kind, name) for kind, name in zip((*kinds[:2], "Mean"), new, strict=True)]
    found = dict(pair_parts(before, after))
    assert found[before[0]] == after[0] and found[before[1]] == after[1]
    assert found[before[2]] == before[2] and found[after[2]] == after[2] and len(found) == 4
    twice: PartKey = ("Host", kinds[1], "gradient_tape/net/conv/other/Conv2DBackpropFilter")
    assert dict(pair_parts([*before, twice], after))[before[1]] == before[1]  # two for one: nobody knows which


def test_new_and_gone_parts() -> None:
    times = program(rng(8))
    more = {**times, ("Host", "Decode", "decode"): 0.2 * STEP}
    found = compare(*sides(rng(9), times, more, 3))
    assert [each.kind for each in found.own_changes] == [ChangeKind.NEW] and found.verdict is Verdict.SLOWER
    back = compare(*sides(rng(9), more, times, 3))
    assert [each.kind for each in back.own_changes] == [ChangeKind.GONE] and back.verdict is Verdict.FASTER


def test_what_forbids_a_comparison_is_said() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times)
    apart = compare(
        side("before", one.captures, cores="2", tensorflow="2.20"), side("after", two.captures, cores="1", tensorflow="2.21")
    )
    assert not apart.is_comparable and render_headline(apart).startswith(
        "Not to be compared by the step: the runs differ in cores."
    )
    assert [row[0] for row in apart.differences] == ["cores", "tensorflow"]


def test_where_one_part_is_all_of_the_step_nobody_knows_whose_it_is() -> None:
    found = compare(*sides(rng(7), {GAPS: STEP}, {GAPS: 2 * STEP}, 3, machine=0.02))
    assert found.verdict is Verdict.OPEN and "nothing says that the machine is slower" in render_headline(found)
    turns = compare(*sides(rng(7), {GAPS: STEP}, {GAPS: 2 * STEP}, 3, machine=0.02), in_turns=True)
    assert turns.verdict is Verdict.SLOWER


@pytest.mark.parametrize("captures", [1, 3])
def test_a_run_against_itself_is_the_same_run(captures: int) -> None:
    one, two = sides(rng(7), program(rng(1)), program(rng(1)), captures)
    found = compare(one, replace(one, name="again"))
    assert found.verdict is Verdict.IDENTICAL and render_headline(found).startswith("The same run: both sides are ")
    assert evaluate_gate(found, 0.05).outcome is GateOutcome.OPEN
    with pytest.raises(UsageError, match="A capture stands on both sides"):
        compare(one, Side("both", (*one.captures, *two.captures), {}))


def comparison() -> Comparison:
    times = program(rng(10))
    culprit = max(times, key=times.__getitem__)
    return compare(*sides(rng(11), times, {**times, culprit: times[culprit] + 0.2 * STEP}, 3))


def test_every_form_says_the_same() -> None:
    found = comparison()
    report = build_report(found)
    assert report.headline == render_headline(found) and "after is slower" in report.headline
    for text in (terminal.render(report, width=80, details=True), markdown.render(report), json_.render(report)):
        assert found.own_changes[0].part[2].split("/")[-1] in text
    assert {table.name for table in build_page(found).tables()} >= {"own_changes", "changes", "classes", "categories"}


def test_keys_name_the_rows_of_all_tables() -> None:
    one, two = sides(rng(12), program(rng(10)), {**program(rng(10)), ("Host", "MatMul", "layer/new"): STEP / 5}, 3)
    for table in build_page(compare(one, two)).tables():
        keys = list(zip(*(table[name].tolist() for name in table.key), strict=True))
        assert table.key and len(set(keys)) == len(keys), table.name


def test_what_the_program_saves_is_no_more_than_a_step() -> None:
    """Also where the second machine is slower: it is a share of what the first program would take
    there.
    """
    times = program(rng(13))
    less = {part: time for part, time in times.items() if time < 0.06 * STEP}
    found = compare(*sides(rng(14), times, less, 3, machine=0.02, slower=1.4))
    assert found.verdict is Verdict.FASTER and -1 < found.program_share.value < found.ratio - 1
    assert found.step_expected_ps == pytest.approx(1.4 * found.step_before.value, rel=0.1)


def test_a_stored_comparison_draws_the_same() -> None:
    report = build_report(comparison())
    (again,) = json_reader.decode_report(json.loads(json_.render(report))).pages
    assert html.render_fragment(again) == html.render_fragment(report.pages[0])


@pytest.mark.parametrize("seed", range(5))
def test_false_discoveries_are_those_of_scipy(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    chances = np.concatenate((rng(seed).random(200), rng(seed).random(20) / 1e4)).tolist()
    adjusted = stats.false_discovery_control(chances)
    assert benjamini_hochberg(chances, 0.05) == (adjusted <= 0.05).tolist()
    assert benjamini_hochberg([], 0.05) == [] and benjamini_hochberg([0.04], 0.05) == [True]


def test_the_mean_of_captures_has_their_spread_and_a_prior_as_error() -> None:
    stats = pytest.importorskip("scipy.stats")
    captures = [rng(at).normal(10 + at, 1, 50) for at in range(40)]
    found = combine_means(list(map(mean_with_error, captures)), 0.04)
    means = [stats.trim_mean(each, TRIMMED) for each in captures]
    assert found.value == pytest.approx(np.mean(means)) and found.error == pytest.approx(stats.sem(means), rel=0.06)
    alone = combine_means([mean_with_error(captures[0])], 0.04)
    assert 0.8 < alone.sampling_error / stats.sem(captures[0]) < 2
    assert alone.error == pytest.approx(math.hypot(0.04 * alone.value, alone.sampling_error)) and alone.freedom < found.freedom


@pytest.mark.parametrize("steps", [20, 22, 81])
def test_a_part_that_runs_in_some_steps_has_their_plain_mean(steps: int) -> None:
    times = np.where(rng(5).permutation(100) < steps, 6.0, 0.0)
    assert combine_means([mean_with_error(times)], 0.04).value == pytest.approx(0.06 * steps)


@pytest.mark.parametrize("freedom", [4, 6, 18])
def test_chances_are_those_of_student(freedom: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for t in (0.5, 2.0, 3.5, 8.0, 20.0):
        assert 0.98 <= two_sided_p_value(t, freedom) / (2 * stats.t.sf(t, freedom)) <= 1.5  # never surer than it may be


@pytest.mark.parametrize(
    ("part", "work"),
    [
        (("Host", "_MklNativeFusedConv2D", "a/Relu"), DENSE),
        (("Host", "MatMul", "a/MatMul"), DENSE),
        (("Host", "AddV2", "a/add"), ELEMENTWISE),
        (("Input", "Dataset", "Iterator::Map"), INPUT),
        (("Device", "MemcpyH2D", "MemcpyH2D"), COPIES),
        (("Device", "dot_general", "jit(f)/dot_general"), ON_DEVICE),
        (("Step", "All others", "All others"), PYTHON),
    ],
)
def test_classes_of_work(part: tuple[str, str, str], work: str) -> None:
    assert classify_part(part) == work
