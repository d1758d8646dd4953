"""Which steps are left out: a leading warm-up and single events; what comes again stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpace.timeline.steady_state import Exclusion, find_exclusions, find_period, find_trend, outlier_limit

MS = 1_000_000_000
NO, WARM, FED, ONCE, SLOW = Exclusion.NO, Exclusion.WARM_UP, Exclusion.BUFFERED, Exclusion.ONE_OFF, Exclusion.SLOW


def aside(*milliseconds: float, cut: tuple[int, ...] = ()) -> list[Exclusion]:
    complete = np.ones(len(milliseconds), bool)
    complete[list(cut)] = False
    return find_exclusions(np.array(milliseconds) * MS, complete, [])


def test_a_leading_warm_up_is_set_aside_however_many_steps_it_takes() -> None:
    assert aside(300, 10, 11, 10, 9, 10) == [WARM, NO, NO, NO, NO, NO]
    assert aside(900, 300, 10, 11, 10, 9, 10) == [WARM, WARM, NO, NO, NO, NO, NO]


def test_a_single_slow_step_is_a_one_off_wherever_it_stands() -> None:
    for place in range(1, 8):
        times = [10.0, 11, 10, 9, 10, 10, 11, 10]
        times[place] = 60
        assert aside(*times) == [ONCE if i == place else NO for i in range(8)]


def test_what_comes_again_is_part_of_the_cost() -> None:
    assert aside(10, 60, 10, 11, 10, 10, 60, 10, 10, 11) == [NO] * 10
    assert aside(300, 10, 60, 10, 11, 10, 10, 60, 10, 10, 11) == [WARM, *[NO] * 10], "though a warm-up precedes it"


def test_a_lead_that_was_fed_from_buffers_is_set_aside() -> None:
    assert aside(2, 3, 10, 11, 10, 9, 10, 10) == [FED, FED, NO, NO, NO, NO, NO, NO]
    assert aside(2, 3, 2, 2, 10, 11, 10, 10) == [FED, FED, NO, NO, NO, NO, NO, NO], "a quarter at most"
    assert aside(10, 11, 2, 10, 9, 10, 10, 2) == [NO] * 8, "only the lead: later fast steps are the program's own"
    assert aside(6, 10, 11, 10, 9, 10, 10, 10)[0] is NO, "more than half of the others' time"


def test_slow_steps_that_come_at_no_period_make_no_mean() -> None:
    """Steps of a loop that sleeps 15 ms, with two stalls: they held 72% of the time, and made a
    mean of 45.3 ms.
    """
    times = [12.3, 19.0, 17.5, 334, 5.9, 7.1, 16.7, 15.6, 21.6, 20.4, 120, 6.2, 19.2, 18.3]
    found = aside(*times)
    assert [i for i, reason in enumerate(found) if reason is SLOW] == [3, 10]
    assert np.mean([t for t, reason in zip(times, found, strict=True) if reason is NO]) == pytest.approx(15.0, abs=0.1)
    assert aside(10, 60, 60, 10, 10, 11, 10, 10, 10, 11) == [NO, SLOW, SLOW, *[NO] * 7], "neighbours are one disturbance"
    assert aside(10, 60, 10, 11, 10, 10, 40, 10, 10, 11) == [NO, SLOW, *[NO] * 4, SLOW, *[NO] * 3], "two unlike events"


def test_a_step_that_is_nothing_like_other_slow_ones_is_a_one_off() -> None:
    times = [10.0] * 60 + [1150] + [10] * 30 + [21] + [10] * 40
    assert [(i, reason) for i, reason in enumerate(aside(*times)) if reason is not NO] == [(60, ONCE)]


def test_slow_steps_that_hardly_make_the_mean_stay() -> None:
    assert aside(*[10] * 20, 16, 17, *[10] * 20) == [NO] * 42


def test_many_slow_steps_are_the_programs_way() -> None:
    assert aside(10, 40, 10, 10, 70, 40, 10, 90, 10, 10) == [NO] * 10


def test_of_three_steps_one_that_is_nothing_like_the_others_is_told() -> None:
    assert aside(3.24, 24.1, 5.27) == [NO, SLOW, NO]
    assert aside(5, 14, 5) == [NO] * 3


def test_steps_that_grow_have_a_trend() -> None:
    grown = find_trend(np.linspace(5.2, 10.5, 241))
    assert grown == pytest.approx((5.86, 9.84), abs=0.02)
    started = np.concatenate((np.full(60, 6.3), np.linspace(3.8, 10.5, 181)))
    assert find_trend(started) is not None, "though the profiler's start made the first ones slow"
    rng = np.random.default_rng(0)
    assert not any(find_trend(10 * rng.lognormal(0, 0.2, 240)) for _ in range(200)), "noise"
    assert find_trend(np.array([5.0] * 60 + [9.0] * 60)) is None, "two phases"
    assert find_trend(np.linspace(5, 10, 31)) is None, "too few to tell"
    drained = np.minimum(np.linspace(5, 25, 240), 15) + np.linspace(0, 0.1, 240)
    assert find_trend(drained) is None, "a buffer that ran empty in the first half"
    assert find_trend(np.linspace(10, 5, 240)) is None, "they shrink"


@pytest.mark.parametrize("times", [(), (5,), (500, 5), (9, 5, 5), (1, 2, 1)])
def test_few_steps_tell_nothing_of_each_other(times: tuple[float, ...]) -> None:
    assert aside(*times) == [NO] * len(times)


def test_of_four_steps_one_can_be_told_from_three() -> None:
    assert aside(500, 5, 5, 5) == [WARM, NO, NO, NO]


def test_noise_is_no_event() -> None:
    """Log-normal times with a spread of 20%, as on a shared machine: hardly any step is left out,
    and none by little.
    """
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        times = 10 * MS * rng.lognormal(0, 0.2, 20)
        found = find_exclusions(times, np.ones(20, bool), [])
        hits += sum(reason is not NO for reason in found)
        assert all(times[i] > 1.5 * np.median(times) for i, reason in enumerate(found) if reason in (WARM, ONCE))
    assert hits <= 10, "of 4000 steps"


def test_equal_times_with_a_hairs_breadth_between_them_are_equal() -> None:
    assert aside(10, 10, 10, 10, 14, 10, 10) == [NO] * 7, "the spread is 0, but 1.4 times the others is no event"


def test_steps_that_the_capture_cut_off_are_judged_by_nobody() -> None:
    assert aside(900, 10, 11, 10, 9, 10, cut=(0,)) == [NO] * 6
    assert aside(1, 300, 10, 11, 10, 9, 10, cut=(0,)) == [NO, WARM, NO, NO, NO, NO, NO]
    assert aside(10, 11, 10, 60, 10, 10, 80, cut=(6,)) == [NO, NO, NO, ONCE, NO, NO, NO]


def test_limits_are_above_what_all_steps_take() -> None:
    assert outlier_limit(np.array([10.0, 10, 10])) == 15
    assert outlier_limit(np.array([8.0, 10, 12])) == pytest.approx(10 + 5 * 1.4826 * 2)


def test_neighbours_come_round_with_nothing() -> None:
    times = np.full(80, 20.0)
    times[5:8] = 60.0
    slow, every = find_period(times, np.ones(80, bool))
    assert slow.tolist() == [5, 6, 7]
    assert every is None


def test_what_comes_round_has_a_period() -> None:
    times = np.array([10.0, 10, 10, 10, 60] * 4)
    slow, every = find_period(times, np.ones(20, bool))
    assert slow.tolist() == [4, 9, 14, 19] and every == 5
    irregular = np.array([10.0, 60, 10, 60, *[10] * 12, 60, 10])
    assert find_period(irregular, np.ones(len(irregular), bool))[1] is None
    slow, every = find_period(times, np.arange(20) != 9)
    assert slow.tolist() == [4, 14, 19], "only of the steady state"


durations = st.lists(st.integers(MS, 100 * MS), min_size=0, max_size=24)


@given(durations, st.integers(2, 1000))
def test_units_do_not_matter(times: list[int], factor: int) -> None:
    values, complete = np.array(times, np.int64), np.ones(len(times), bool)
    assert find_exclusions(values, complete, []) == find_exclusions(values * factor, complete, [])


@given(st.lists(st.floats(0.8, 1.2), min_size=5, max_size=20), st.lists(st.floats(5, 50), max_size=2), st.randoms())
def test_the_order_of_steady_steps_does_not_matter(steady: list[float], lead: list[float], chance: Any) -> None:
    mixed = list(steady)
    chance.shuffle(mixed)
    for tail in (steady, mixed):
        found = aside(*sorted(lead, reverse=True), *(10 * t for t in tail))
        assert found[len(lead) :] == [NO] * len(steady)
    assert (
        find_exclusions(np.array([*lead, *steady]) * MS, np.ones(len(lead) + len(steady), bool), [])[: len(lead)]
        == find_exclusions(np.array([*lead, *mixed]) * MS, np.ones(len(lead) + len(steady), bool), [])[: len(lead)]
    )


@given(durations)
def test_most_steps_stay(times: list[int]) -> None:
    """At least three steps of any capture are the steady state (of three, two), and at most one is
    a one-off.
    """
    found = find_exclusions(np.array(times, np.int64), np.ones(len(times), bool), [])
    assert found.count(NO) >= (min(3, len(times)) if len(times) != 3 else 2)
    assert found.count(ONCE) <= 1
    lead = [reason for reason in found if reason in (WARM, FED)]
    assert found[: len(lead)] == lead, "only what leads"
    assert len(set(lead)) <= 1


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ((900, 10, 11, 10, 700, 10, 9, 10), [NO] * 8),
        ((900, 10, 11, 10, 470, 10, 9, 10), [NO] * 8),
        ((900, 10, 11, 10, 440, 10, 9, 10), [WARM, *[NO] * 3, ONCE, *[NO] * 3]),
        ((100, 10, 11, 10, 100, 10, 9, 10), [WARM, *[NO] * 3, ONCE, *[NO] * 3]),
        ((115, 10, 11, 10, 115, 10, 9, 10), [NO] * 8),
        ((900, 800, 10, 11, 10, 700, 10, 9, 10), [WARM, WARM, *[NO] * 3, ONCE, *[NO] * 3]),
        ((10, 10, 11, 10, 700, 10, 9, 10), [*[NO] * 4, ONCE, *[NO] * 3]),
    ],
    ids=[
        *("as long", "half as long", "less than half as long", "not many times as long", "many times as long"),
        *("of two leading steps", "no first one"),
    ],
)
def test_what_the_first_step_was_comes_round(times: tuple[float, ...], found: list[Exclusion]) -> None:
    """A checkpoint at step 0 and again at step 4: at least ten times the others beyond them, and
    within twice of each other.
    """
    assert aside(*times) == found
