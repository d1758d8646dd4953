"""What sides should share: what profiles say of it, and what a difference means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outpace.compare import Side, compare, report_of
from outpace.compare.facts import EXAMPLES, FORBIDS, LOST, MEANS, differences, facts_of
from outpace.metrics.machine.captured_with import tracer_levels
from outpace.report import terminal
from outpace.timeline import Run, Timeline
from outpace.trace import Trace, dialect
from outpace.trace.trace import Loss
from tests.support import opened
from tests.unit.compare.sides import program, side, sides
from tests.unit.compare.test_compare import rng


def test_what_profiles_say() -> None:
    keras = facts_of(opened("keras_fit").run)
    assert (keras["tracer levels"], keras["steps found by"], keras[LOST]) == (
        "host 2, device 1, Python 0",
        "keras batch",
        "nothing",
    )
    assert (keras["devices"], keras["device model"], keras["examples per step"]) == ("none", "", "64")
    assert facts_of(opened("jax_cpu_steps").run)["tracer levels"] == "host 2, device 1, Python 1"
    gpu = facts_of(opened("jax_h200_table").run)
    assert (gpu["device model"], gpu["jax"], gpu["cuda"]) == ("NVIDIA H200", "0.11.2", "13000")
    assert facts_of(opened("tpu_v6e_inference").run)["device model"] == "TPU v6 Lite"


@pytest.mark.parametrize(
    ("name", "execution"),
    [
        ("keras_fit", "graphs"),
        ("keras_fit_xla", "compiled by XLA"),
        ("jax_cpu_steps", "compiled by XLA"),
        ("eager_loop", "op by op"),
        ("idle_empty", ""),
    ],
)
def test_how_ops_are_run(name: str, execution: str) -> None:
    assert facts_of(opened(name).run)["execution"] == execution


@pytest.mark.parametrize(("options", "levels"), [(b"\x10\x03", "host 3, device 0, Python 0"), (b"\x10", ""), ("text", "")])
def test_levels_are_read_from_what_the_profiler_was_asked_for(options: bytes | str, levels: str) -> None:
    trace = opened("keras_fit").run.hosts[0].trace
    planes = tuple(
        replace(plane, stats={**plane.stats, dialect.PROFILE_OPTIONS: options}) if plane.name == dialect.ENVIRONMENT else plane
        for plane in trace.planes
    )
    assert tracer_levels(Timeline(replace(trace, planes=planes))) == levels
    assert tracer_levels(Timeline(replace(trace, planes=trace.planes[:1]))) == ""


@pytest.mark.parametrize("fact", FORBIDS)
def test_what_forbids_a_comparison_does_so_where_both_know_it(fact: str) -> None:
    (known,) = differences({fact: "1"}, {fact: "2"})
    assert known.forbids and known.means == MEANS[fact] and known.means.startswith("Not comparable: ")
    (unknown,) = differences({fact: "1"}, {})
    assert not unknown.forbids and (unknown.before, unknown.after) == ("1", "")
    assert unknown.means == "Not known of one of them, and compared all the same."


@pytest.mark.parametrize("fact", sorted(MEANS.keys() - FORBIDS.keys()))
def test_other_facts_are_told_with_what_they_mean(fact: str) -> None:
    (found,) = differences({fact: "1"}, {fact: "2"})
    assert not found.forbids and found.means == MEANS[fact]


def damaged(run: Run, size: int) -> Run:
    def cut(trace: Trace) -> Trace:
        return replace(trace, losses=(Loss("an event is damaged", 10, size, ""),))

    return replace(run, hosts=tuple(Timeline(cut(timeline.trace)) for timeline in run.hosts))


def test_what_any_capture_of_a_side_has_lost_is_told() -> None:
    run = opened("keras_fit").run
    assert facts_of(run)[LOST] == "nothing" and facts_of(damaged(run, 7))[LOST] == "7 bytes are missing"
    times = program(rng(5))
    whole, other = sides(rng(6), times, times)
    parts = [side("a", whole.captures, **{LOST: "nothing", "cores": "2"}), side("b", other.captures, **{LOST: "7 bytes"})]
    assert Side.joined("both", parts).facts == {LOST: "7 bytes", "cores": "2"}
    assert Side.joined("one", parts[:1]).facts[LOST] == "nothing"


def test_the_page_says_what_a_difference_means_in_80_columns() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times)
    levels = ("host 2, device 1, Python 0", "host 3, device 1, Python 1")
    found = compare(
        side("before", one.captures, **{"tracer levels": levels[0], "steps found by": "marked"}),
        side("after", two.captures, **{"tracer levels": levels[1], "steps found by": "inferred"}),
    )
    assert not found.comparable
    page = report_of(found)
    assert page.headline.startswith("Not to be compared by the step: the runs differ in tracer levels.")
    shown = terminal.render(page, width=80, tools=["compare"])
    words = " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80 and "What the runs do not share" in words
    assert "A step may begin and" in words and "Not comparable: the" in words


def test_steps_of_other_batches_are_told_by_the_example() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times, machine=0.0)
    found = compare(side("a", one.captures, **{EXAMPLES: "32"}), side("b", two.captures, **{EXAMPLES: "64"}))
    assert not found.comparable and found.ratio == pytest.approx(1, abs=0.1)
    per = f"{1 - found.ratio / 2:.1%} less"
    assert report_of(found).headline.endswith(f", an example {per}.")
    before, after = (
        side("a", one.captures, **{EXAMPLES: "32", "cores": "2"}),
        side("b", two.captures, **{EXAMPLES: "64", "cores": "1"}),
    )
    assert "an example" not in report_of(compare(before, after)).headline
