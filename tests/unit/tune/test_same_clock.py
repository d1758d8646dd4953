"""The clock that a script reads where it is compared."""

from __future__ import annotations

import time

import pytest

from outpace.tune.same.clock import CLOCKS, Clock

BEGIN, TICK = 1000.0, 20_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock for this file."""
    for name in (*CLOCKS, "sleep"):  # which are put back afterwards
        monkeypatch.setattr(time, name, getattr(time, name))
    made = Clock(lambda file: file == __file__, BEGIN, TICK)
    made.install()
    return made


@pytest.mark.parametrize("name", CLOCKS)
def test_each_reading_is_a_tick_later(clock: Clock, name: str) -> None:
    reading = getattr(time, name)
    unit, kind = (10**9, int) if name.endswith("_ns") else (1, float)
    assert [reading(), reading()] == pytest.approx([1000.02 * unit, 1000.04 * unit])
    assert isinstance(reading(), kind)


def test_all_clocks_go_together_and_sleep_passes(clock: Clock) -> None:
    before = time.time()
    time.sleep(0.001)
    assert time.monotonic() - before == pytest.approx(0.021)


def test_a_librarys_clock_is_the_systems(clock: Clock) -> None:
    theirs = eval(compile("lambda: time.time()", "library.py", "eval"), {"time": time})
    assert theirs() > 1e9 and time.time() < 2000
