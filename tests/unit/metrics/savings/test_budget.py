"""What there is to save: shares of the steady step, on the base without the profiler where it was
measured.
"""

from __future__ import annotations

from typing import Any

import pytest

from outpace.api import Profile
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.savings.budget import (
    ALL_HOSTS,
    budgets,
    build_category_saving,
    build_saving,
    compute_gap_share,
    profiling_cost,
)
from outpace.model import OUTSIDE_STEPS, Category, Saving
from outpace.testing import SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import PROFILES, crowded, opened

MS = 1_000_000_000
NS = 1_000_000  # per ms


def run_of(*spaces: SpaceBuilder, **records: Any) -> Run:
    traces = [read_trace((crowded(space, 20_000) if records else space).to_bytes(), space.hostname) for space in spaces]
    return Run.from_traces(traces, records=records)


def measured(before: float, during: float) -> dict[str, Any]:
    return {"overhead": {"before_ns": [before * NS] * 5, "during_ns": [during * NS] * 5}}


def test_shares_are_the_steady_steps() -> None:
    """Steps of 2 ms input, 5 of ops and 3 of Python, after a first one that waits for 500."""
    run = run_of(training_run(steps=8, input_ps=[500 * MS, *[2 * MS] * 7], python_ps=3 * MS))
    mine = budgets(run)["vm"]
    assert mine.step_ps == 10 * MS and mine.steps == 7
    assert mine.category_shares["input"] == pytest.approx(0.2, abs=0.01)
    assert mine.category_shares["host_compute"] == pytest.approx(0.5, abs=0.01)
    assert mine.category_shares["all_others"] == pytest.approx(0.3, abs=0.01)
    assert mine.category_shares[OUTSIDE_STEPS] == 0
    assert mine.base == "recorded step"
    assert mine.host_weights == {"vm": 1.0}


@pytest.mark.parametrize("name", PROFILES)
def test_a_step_is_all_of_its_categories(name: str) -> None:
    found = budgets(opened(name).run)
    with_steps = [t.host for t in opened(name).run.hosts if len(t.steps)]
    assert set(found) == ({*with_steps, ALL_HOSTS} if with_steps else set())
    for budget in found.values():
        assert sum(budget.category_shares[c.value] for c in Category) == pytest.approx(1.0)
        assert all(0 <= share <= 1 for share in budget.category_shares.values())
        assert sum(budget.host_weights.values()) == pytest.approx(1.0)
        assert budget.step_ps > 0 and budget.steps > 0


def test_the_base_is_the_step_without_the_profiler() -> None:
    plain = budgets(run_of(training_run(steps=8, input_ps=5 * MS), vm=measured(8, 10)))["vm"]
    assert plain.step_ps == pytest.approx(10 * MS / 1.25)
    assert plain.base == "step without the profiler"
    same = budgets(run_of(training_run(steps=8, input_ps=5 * MS), vm=measured(10, 10.05)))["vm"]
    assert (same.step_ps, same.base) == (10 * MS, "recorded step"), "half a percent is no difference"
    faster = budgets(run_of(training_run(steps=8, input_ps=5 * MS), vm=measured(12, 10)))["vm"]
    assert faster.base == "recorded step", "a profiler does not speed steps up"


def test_what_the_profiler_adds_to_the_usual_step_says_nothing_of_rare_ones() -> None:
    """An evaluation every five steps takes most of the time; nobody compared its steps with those
    before the capture.
    """
    rare = [5 * MS, 5 * MS, 5 * MS, 5 * MS, 95 * MS] * 4
    found = budgets(run_of(training_run(steps=20, input_ps=rare), vm=measured(8, 10)))["vm"]
    assert (found.step_ps, found.base) == (28 * MS, "recorded step")


def test_what_noting_the_events_cannot_have_taken_is_another_phase() -> None:
    """A queue that was full when the capture began: 0.5 ms before it, and 10 ms in it, of some
    forty events.
    """
    space = training_run(steps=8, input_ps=5 * MS)
    run = Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": measured(0.5, 10)})
    assert budgets(run)["vm"].base == "recorded step"
    overview = Profile(run).overview()
    assert (
        "the profiling overhead is unknown: the steps right before the capture belong to a faster phase (vm)"
        in overview.evidence
    )
    assert not [finding for finding in overview.findings if finding.id == "profiling_overhead"]


def test_a_mean_over_all_rounds_holds_for_rare_ones_too() -> None:
    """A window by time: 28 ms from one round's start to the next one's, 20 ms behind it, by counted
    runs.
    """
    rare = [5 * MS, 5 * MS, 5 * MS, 5 * MS, 95 * MS] * 4
    noted = {"overhead": {"during_ns": [28_000_000], "after_ns": [20_000_000], "rounds": [0, 20, 100]}}
    run = run_of(training_run(steps=20, input_ps=rare), vm=noted)
    cost = profiling_cost(run, run.hosts[0])
    assert cost is not None and (cost.average, cost.when) == ("mean", "after") and cost.slowdown == pytest.approx(0.4)
    found = budgets(run)["vm"]
    assert found.step_ps == pytest.approx(20 * MS) and found.base == "step without the profiler"


def test_steps_that_grow_are_not_the_profilers_doing() -> None:
    run = run_of(training_run(steps=40, input_ps=[(5 + at // 4) * MS for at in range(40)]), vm=measured(8, 14))
    assert profiling_cost(run, run.hosts[0]) is None
    assert budgets(run)["vm"].base == "recorded step"


def test_what_slow_steps_take_beyond_is_time_outside_of_the_steady_step() -> None:
    run = run_of(training_run(steps=14, input_ps=[(105 if at in (3, 9, 10) else 5) * MS for at in range(14)]))
    assert budgets(run)["vm"].category_shares[OUTSIDE_STEPS] == pytest.approx(300 / (11 * 10 + 3 * 110))
    assert budgets(run)["vm"].step_ps == 10 * MS


@pytest.mark.parametrize("record", [{}, {"overhead": None}, {"overhead": {"before_ns": [1.0], "during_ns": [1.0, 2.0]}}])
def test_without_measurements_nothing_is_known_of_the_profiler(record: dict[str, Any]) -> None:
    run = run_of(training_run(), vm=record)
    assert profiling_cost(run, run.hosts[0]) is None
    assert budgets(run)["vm"].base == "recorded step"


def test_hosts_and_all_together() -> None:
    """Twice as many steps weigh twice as much."""
    run = run_of(training_run(steps=8, hostname="a", input_ps=5 * MS), training_run(steps=4, hostname="b", input_ps=5 * MS))
    found = budgets(run)
    assert set(found) == {"a", "b", ALL_HOSTS}
    assert found[ALL_HOSTS].host_weights == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert found[ALL_HOSTS].steps == 12
    for category in Category:
        mean = sum(found[ALL_HOSTS].host_weights[h] * found[h].category_shares[category.value] for h in "ab")
        assert found[ALL_HOSTS].category_shares[category.value] == pytest.approx(mean)


def test_hosts_are_on_the_profilers_base_only_if_all_measured_it() -> None:
    two = [training_run(hostname=h, input_ps=5 * MS) for h in "ab"]
    assert budgets(run_of(*two, a=measured(8, 10)))[ALL_HOSTS].base == "recorded step"
    assert budgets(run_of(*two, a=measured(8, 10), b=measured(8, 10)))[ALL_HOSTS].base == "step without the profiler"


def test_without_steps_there_is_nothing_to_save() -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line("python").event("something", 0, MS)
    assert budgets(run_of(space)) == {}


def test_time_between_steps() -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("python")
    for step in range(5):
        line.event("train", step * 10 * MS, 6 * MS, step_num=step, _r=1)
    run = run_of(space)
    assert compute_gap_share(run.hosts[0]) == pytest.approx(16 / 46)
    assert budgets(run)["vm"].category_shares[OUTSIDE_STEPS] == pytest.approx(16 / 46)


def test_bounds() -> None:
    assert build_saving(0.3, Category.INPUT, OUTSIDE_STEPS, assumes="so") == Saving(0.0, 0.3, ("input", OUTSIDE_STEPS), "so")
    assert build_saving(1.7, Category.INPUT, assumes="so") == Saving(0.0, 1.0, ("input",), "so")
    assert build_saving(0.0, Category.INPUT, assumes="so") is None
    assert build_saving(-0.1, Category.INPUT, assumes="so") is None
    breakdown = step_breakdown(run_of(training_run(input_ps=5 * MS)))
    whole, half = (build_category_saving(breakdown, Category.INPUT, "so", part) for part in (1.0, 0.5))
    assert whole is not None and half is not None
    assert whole.high == pytest.approx(0.5, abs=0.01) and half.high == pytest.approx(whole.high / 2)
    assert build_category_saving(breakdown, Category.DEVICE_COLLECTIVES, "so") is None


@pytest.mark.parametrize(("at", "share"), [(6, 80 / 220), (0, 0.0)], ids=["a single step", "the first one"])
def test_what_single_steps_compile_is_time_outside_of_the_steady_step(at: int, share: float) -> None:
    """Of eight steps of 20 ms one takes 80 more, compiling; what a first one builds is
    built once.
    """
    space = SpaceBuilder("vm")
    line, begin = space.plane("/host:CPU").line("python"), 0
    for number in range(8):
        length = 80 if number == at else 20
        line.event("train", begin * MS, length * MS, step_num=number, _r=1)
        if number == at:
            line.event("backend_compile", begin * MS, 80 * MS)
        begin += length
    assert budgets(run_of(space))["vm"].category_shares[OUTSIDE_STEPS] == pytest.approx(share)
