"""The clock that a script reads where it is compared."""

from __future__ import annotations

import datetime
import pickle
import sys
import time
from typing import Any

import pytest

from outpace.tune.same.clock import CALENDAR, CLOCKS, Clock, ClockSetting

BEGIN, TICK = 1000.0, 20_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock for this file."""
    monkeypatch.setitem(sys.modules, "datetime", datetime)
    for name in (*CLOCKS, *CALENDAR, "strftime", "sleep"):  # which are put back afterwards
        monkeypatch.setattr(time, name, getattr(time, name))
    made = Clock(lambda file: file == __file__, ClockSetting(BEGIN, TICK))
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


def test_the_calendar_is_the_clocks(clock: Clock) -> None:
    assert time.gmtime().tm_min == 16 and time.gmtime(0).tm_year == 1970
    assert time.strftime("%Y", time.gmtime(0)) == "1970"
    assert time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", time.localtime(1000)) and time.ctime().endswith("1970")


def test_dates_are_the_clocks_and_their_instances_the_modules_own(clock: Clock) -> None:
    from datetime import date as own_date
    from datetime import datetime as own

    now = own.now()
    assert now.timestamp() == pytest.approx(1000.02) and own.now(datetime.timezone.utc).minute == 16
    assert type(now) is datetime.datetime and type(own(2026, 1, 2)) is datetime.datetime
    assert isinstance(datetime.datetime(2026, 1, 2), own) and issubclass(datetime.datetime, own)
    assert not isinstance(own_date.today(), own) and isinstance(now, own_date)
    assert own.utcnow().minute == 16 and own.strptime("2026", "%Y").year == 2026
    assert pickle.loads(pickle.dumps(own.today())).year == own_date.today().year == 1970


def test_a_librarys_dates_are_the_systems(clock: Clock) -> None:
    names: dict[str, Any] = {}
    exec(compile("from datetime import datetime; year = datetime.now().year", "library.py", "exec"), names)
    assert names["year"] >= 2026 and names["datetime"] is datetime.datetime


def test_of_the_other_clock_all_readings_are_others() -> None:
    one = ClockSetting(1_000_000_000.0)
    first, second = (time.gmtime(each.begin) for each in (one, one.other(0.0)))
    assert all(getattr(first, name) != getattr(second, name) for name in ("tm_hour", "tm_min", "tm_sec"))
    assert one.tick != one.other(0.0).tick


@pytest.mark.parametrize("seconds", [0.5, 8.0, 300.0])
def test_the_other_clock_goes_on_for_longer_than_the_script(seconds: float) -> None:
    """From the second reading on: what waits for a time that the script really takes sees it."""
    setting = ClockSetting(BEGIN).other(seconds)
    other = Clock(lambda file: True, setting)
    first = other._now()
    later = [other._now() - first for _ in range(50)]
    assert later[0] >= max(seconds, 1.0) and later == sorted(later) and later[-1] < 10 * max(seconds, 1.5)
