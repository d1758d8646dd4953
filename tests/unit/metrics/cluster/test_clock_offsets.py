"""Clocks of hosts, by the ends of what they do together."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.cluster.clock_offsets import clock_offsets, corrected_shifts_ns, estimate_offset, host_zeros_ps
from outpace.metrics.cluster.host_summary import host_summaries
from outpace.metrics.cluster.program_groups import program_groups
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.timeline.clock_origin import compute_shifts_ns
from outpace.trace import read_trace
from tests.support import opened
from tests.unit.hosts.made import MS, host

STEP = 10.0 * MS


def run_of(*spaces: SpaceBuilder) -> Run:
    return Run.from_traces([read_trace(space.to_bytes(), space.hostname) for space in spaces])


@pytest.mark.parametrize("ahead", [3 * 10**9, -2 * 10**9, 40_000_000])
def test_a_wrong_clock_is_estimated_and_put_right(ahead: int) -> None:
    run = run_of(host("a"), host("b", ahead_ns=ahead), host("c", later_ns=100_000))
    found = clock_offsets(host_summaries(run))
    assert found["b"].offset_ps == pytest.approx(1000 * ahead, abs=1 * MS)
    assert (found["b"].is_wrong, found["b"].step_count) == (True, 10)
    assert not found["a"].is_wrong and not found["c"].is_wrong
    zero = host_zeros_ps(host_summaries(run))
    assert abs(zero["b"] - zero["a"]) < 1 * MS
    assert corrected_shifts_ns(run)["b"] == zero["b"] // 1000
    assert program_groups(run).trains_together == (True,)


def test_of_two_hosts_the_first_is_the_one_that_is_right() -> None:
    found = clock_offsets(host_summaries(run_of(host("a"), host("b", ahead_ns=3 * 10**9))))
    assert found["a"].offset_ps == 0
    assert found["b"].offset_ps == pytest.approx(3000 * MS)


def test_without_collectives_a_late_start_is_no_wrong_clock() -> None:
    run = run_of(host("a", collectives=False), host("b", collectives=False, ahead_ns=3 * 10**9))
    assert clock_offsets(host_summaries(run)) == {}
    assert corrected_shifts_ns(run) == compute_shifts_ns(run)


def test_steps_of_the_captures_own_count_say_nothing() -> None:
    assert clock_offsets(host_summaries(run_of(host("a", marked=False), host("b", marked=False)))) == {}


def test_real_clocks_of_one_machine_are_right() -> None:
    found = clock_offsets(host_summaries(opened("multi_worker_strategy").run))
    assert set(found) == {"worker0", "worker1"}
    assert not any(each.is_wrong for each in found.values())


def ends(*apart: float) -> dict[int, int]:
    return {at: round(at * STEP + each) for at, each in enumerate(apart)}


USUAL = {at: at * STEP for at in range(20)}


@pytest.mark.parametrize(
    ("apart", "known"),
    [
        ((5 * STEP,) * 3, True),
        ((5 * STEP,) * 2, False),  # may be chance
        ((0.0, 0.0, 0.2 * STEP, 0.2 * STEP, 0.2 * STEP), True),
        (tuple(np.arange(10) * 0.1 * STEP), False),  # who waits for nobody drifts
        ((29_000.0 * MS,) * 5, True),
        ((31_000.0 * MS,) * 5, False),  # another time
    ],
)
def test_evidence_is_a_distance_that_stays(apart: tuple[float, ...], known: bool) -> None:
    assert (estimate_offset(ends(*apart), USUAL, STEP) is not None) is known


@pytest.mark.parametrize(("apart", "wrong"), [(0.4, False), (0.6, True), (-0.6, True)])
def test_a_clock_is_wrong_that_puts_steps_at_another_time(apart: float, wrong: bool) -> None:
    found = estimate_offset(ends(*(apart * STEP,) * 5), USUAL, STEP)
    assert found is not None and found.is_wrong is wrong
