"""What sides should share: what profiles say of it, and what a difference means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outpace.compare import Side, build_report, compare
from outpace.compare.facts import BLOCKING_FACTS, EXAMPLES_FACT, FACT_MEANINGS, LOST_FACT, compute_facts, find_differences
from outpace.metrics.facts.capture_setup import tracer_levels
from outpace.report import terminal
from outpace.timeline import Run, Timeline
from outpace.trace import Trace, dialect
from outpace.trace.trace import Damage
from tests.support import opened
from tests.unit.compare.sides import program, side, sides
from tests.unit.compare.test_compare import rng


def test_what_profiles_say() -> None:
    keras = compute_facts(opened("keras_fit").run)
    assert (keras["tracer levels"], keras["steps found by"], keras[LOST_FACT]) == (
        "host 2, device 1, Python 0",
        "keras batch",
        "nothing",
    )
    assert (keras["devices"], keras["device model"], keras["examples per step"]) == ("none", "", "64")
    assert compute_facts(opened("jax_cpu_steps").run)["tracer levels"] == "host 2, device 1, Python 1"
    gpu = compute_facts(opened("jax_h200_table").run)
    assert (gpu["device model"], gpu["jax"], gpu["cuda"]) == ("NVIDIA H200", "0.11.2", "13000")
    assert compute_facts(opened("tpu_v6e_inference").run)["device model"] == "TPU v6 Lite"


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
    assert compute_facts(opened(name).run)["execution"] == execution


@pytest.mark.parametrize(("options", "levels"), [(b"\x10\x03", "host 3, device 0, Python 0"), (b"\x10", ""), ("text", "")])
def test_levels_are_read_from_what_the_profiler_was_asked_for(options: bytes | str, levels: str) -> None:
    trace = opened("keras_fit").run.hosts[0].trace
    planes = tuple(
        replace(plane, stats={**plane.stats, dialect.PROFILE_OPTIONS: options})
        if plane.name == dialect.ENVIRONMENT_PLANE
        else plane
        for plane in trace.planes
    )
    assert tracer_levels(Timeline(replace(trace, planes=planes))) == levels
    assert tracer_levels(Timeline(replace(trace, planes=trace.planes[:1]))) == ""


@pytest.mark.parametrize("fact", BLOCKING_FACTS)
def test_what_forbids_a_comparison_does_so_where_both_know_it(fact: str) -> None:
    (known,) = find_differences({fact: "1"}, {fact: "2"})
    assert known.blocks and known.meaning == FACT_MEANINGS[fact] and known.meaning.startswith("Not comparable: ")
    (unknown,) = find_differences({fact: "1"}, {})
    assert not unknown.blocks and (unknown.before, unknown.after) == ("1", "")
    assert unknown.meaning == "Not known of one of them, and compared all the same."


@pytest.mark.parametrize("fact", sorted(FACT_MEANINGS.keys() - BLOCKING_FACTS.keys()))
def test_other_facts_are_told_with_what_they_mean(fact: str) -> None:
    (found,) = find_differences({fact: "1"}, {fact: "2"})
    assert not found.blocks and found.meaning == FACT_MEANINGS[fact]


def damaged(run: Run, size: int) -> Run:
    def cut(trace: Trace) -> Trace:
        return replace(trace, damages=(Damage("an event is damaged", 10, size, ""),))

    return replace(run, hosts=tuple(Timeline(cut(timeline.trace)) for timeline in run.hosts))


def test_what_any_capture_of_a_side_has_lost_is_told() -> None:
    run = opened("keras_fit").run
    assert compute_facts(run)[LOST_FACT] == "nothing" and compute_facts(damaged(run, 7))[LOST_FACT] == "7 bytes are missing"
    times = program(rng(5))
    whole, other = sides(rng(6), times, times)
    parts = [
        side("a", whole.captures, **{LOST_FACT: "nothing", "cores": "2"}),
        side("b", other.captures, **{LOST_FACT: "7 bytes"}),
    ]
    assert Side.merge("both", parts).facts == {LOST_FACT: "7 bytes", "cores": "2"}
    assert Side.merge("one", parts[:1]).facts[LOST_FACT] == "nothing"


def test_the_page_says_what_a_difference_means_in_80_columns() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times)
    levels = ("host 2, device 1, Python 0", "host 3, device 1, Python 1")
    found = compare(
        side("before", one.captures, **{"tracer levels": levels[0], "steps found by": "marked"}),
        side("after", two.captures, **{"tracer levels": levels[1], "steps found by": "inferred"}),
    )
    assert not found.is_comparable
    page = build_report(found)
    assert page.headline.startswith("Not to be compared by the step: the runs differ in tracer levels.")
    shown = terminal.render(page, width=80, tools=["compare"])
    words = " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80 and "What the runs do not share" in words
    assert "A step may begin and" in words and "Not comparable: the" in words


def test_steps_of_other_batches_are_told_by_the_example() -> None:
    times = program(rng(5))
    one, two = sides(rng(6), times, times, machine=0.0)
    found = compare(side("a", one.captures, **{EXAMPLES_FACT: "32"}), side("b", two.captures, **{EXAMPLES_FACT: "64"}))
    assert not found.is_comparable and found.ratio == pytest.approx(1, abs=0.1)
    per = f"{1 - found.ratio / 2:.1%} less"
    assert build_report(found).headline.endswith(f", an example {per}.")
    before, after = (
        side("a", one.captures, **{EXAMPLES_FACT: "32", "cores": "2"}),
        side("b", two.captures, **{EXAMPLES_FACT: "64", "cores": "1"}),
    )
    assert "an example" not in build_report(compare(before, after)).headline
