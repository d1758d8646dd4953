"""The sampler of Python frames: planted lines get the share of the time that they took, and the
program never notices.
"""

from __future__ import annotations

import bisect
import itertools
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from outpace.capture import sampler, ticks
from outpace.capture.sampler import FrameSampler
from outpace.capture.stacks import _FrameLines, owner_of
from outpace.store.record import PythonSamples

pytestmark = pytest.mark.slow

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="timers that signal one thread are Linux's")


def naps() -> None:
    time.sleep(0.012)


def sorts() -> None:
    np.sort(np.random.default_rng(0).random(150_000))


def counts() -> None:
    total = 0
    for number in range(60_000):
        total += number % 7


TEXTS = [str(number * 7919 % 1_000_003) for number in range(25_000)]


def lists() -> None:
    sorted(TEXTS)  # holds the GIL throughout


def called(*planted: Callable[[], None], rounds: int) -> list[tuple[int, int, str]]:
    """Call the functions in turn, so often each: (begin, end, name) of every call, ns of the clock
    that samples count from.
    """
    calls = []
    for _ in range(rounds):
        for function in planted:
            begin = time.time_ns()
            function()
            calls.append((begin, time.time_ns(), function.__name__))
    return calls


def sampled(samples: PythonSamples) -> list[tuple[int, str]]:
    """(moment, planted function that is on the stack, or "") of every sample."""
    found = []
    for moment, _, stack in samples.samples:
        names = [samples.frames[frame][1].rpartition(".")[2] for frame, _ in samples.stacks[stack]]
        planted = next((name for name in names if name in ("naps", "sorts", "counts", "lists")), "")
        found.append((samples.base_unix_ns + moment, planted))
    return found


@pytest.fixture(autouse=True)
def signals_stay_as_they_were() -> Iterator[None]:
    numbers = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


def misgiven(samples: PythonSamples, calls: list[tuple[int, int, str]]) -> list[tuple[int, str, str]]:
    """(moment, function named, function that ran then) of every sample that is not the one that
    ran.
    """
    begins = [begin for begin, *_ in calls]
    wrong = []
    for moment, name in sampled(samples):
        at = bisect.bisect_right(begins, moment) - 1
        ran = calls[at][2] if at >= 0 and moment < calls[at][1] else ""
        if name != ran:
            wrong.append((moment, name, ran))
    return wrong


@on_linux
def test_each_moment_is_given_to_the_line_that_ran_then() -> None:
    """Then each line gets its share of the time, for moments come by the clock. However long the
    system lets the process wait: the call that waits is the one that is named. A signal that the
    system itself brings late meets the next call: a window in which it did so is looked at again,
    and of three windows one must have been brought in time.
    """
    wrong: list[list[tuple[int, str, str]]] = []
    for _ in range(3):
        watched = FrameSampler()
        watched.start()
        calls = called(naps, sorts, counts, lists, rounds=80)
        samples = watched.stop()
        assert samples is not None and samples.method == "signal" and samples.thread == "MainThread"
        found = sampled(samples)
        assert len(found) > 80 and {name for _, name in found} >= {"naps", "sorts", "counts", "lists"}
        wrong.append(misgiven(samples, calls))
        if len(wrong[-1]) <= 0.03 * len(found):  # a moment at the very end of a call is handled behind it
            return
    pytest.fail(f"{wrong}")


@on_linux
def test_the_line_inside_the_function_is_the_one_that_ran() -> None:
    watched = FrameSampler()
    watched.start()
    called(naps, rounds=25)
    samples = watched.stop()
    assert samples is not None
    line = naps.__code__.co_firstlineno + 1
    leaves = {(samples.frames[stack[-1][0]][0], samples.frames[stack[-1][0]][1], stack[-1][1]) for stack in samples.stacks}
    assert (os.path.abspath(__file__), "naps", line) in leaves
    assert any(
        samples.frames[frame][1] == "naps" and (at, text) == (line, "time.sleep(0.012)") for frame, at, text in samples.text
    )


def comprehends() -> None:
    sum([number % 7 for number in [each + 1 for each in range(60_000)]])


@on_linux
@pytest.mark.skipif(sys.version_info < (3, 11), reason="frames tell whose comprehension they are since Python 3.11")
def test_a_comprehension_is_its_functions_time() -> None:
    watched = FrameSampler()
    watched.start()
    called(comprehends, rounds=100)
    samples = watched.stop()
    assert samples is not None
    names = {samples.frames[stack[-1][0]][1] for stack in samples.stacks}
    assert "comprehends" in names and not any("comp>" in name for name in names)


@on_linux
def test_a_long_call_weighs_as_long_as_it_took() -> None:
    watched, before = FrameSampler(), time.monotonic()
    watched.start()
    start = time.monotonic()
    time.sleep(0.7)
    slept = time.monotonic() - start
    samples = watched.stop()
    watching = time.monotonic() - before
    assert samples is not None
    assert 0.9 * slept <= sum(weight for _, weight, _ in samples.samples) / 1e9 <= 1.1 * watching
    moments = [moment for moment, *_ in samples.samples]
    assert moments == sorted(moments) and moments[-1] / 1e9 <= watching


def test_another_thread_is_sampled_by_a_thread() -> None:
    held: list[PythonSamples | None] = []

    def work() -> None:
        watched = FrameSampler()
        watched.start()
        called(naps, lists, rounds=60)
        held.append(watched.stop())

    thread = threading.Thread(target=work, name="trainer")
    thread.start()
    thread.join()
    (samples,) = held
    assert samples is not None and (samples.method, samples.thread) == ("thread", "trainer")
    seen = Counter(name for _, name in sampled(samples))
    assert seen["naps"] > 60 / 3, "a call sleeps for more than the mean time between two looks"


def test_one_of_our_own_threads_samples_the_main_thread() -> None:
    held: list[FrameSampler] = []
    thread = threading.Thread(target=lambda: held.append(FrameSampler()), name="outpace-window")
    thread.start()
    thread.join()
    assert held[0]._thread is threading.main_thread()


def test_no_start_no_samples() -> None:
    watched = FrameSampler(threading.Thread())
    assert watched.stop() is None


def test_what_goes_wrong_never_reaches_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def broken(*given: object) -> None:
        calls.append(given)
        raise RuntimeError("planted")

    monkeypatch.setattr(FrameSampler, "add_sample", broken)
    watched = FrameSampler()
    watched.start()
    called(counts, rounds=60)
    assert watched.stop() is None
    assert calls


def test_too_many_samples_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "MAX_SAMPLES", 5)
    watched = FrameSampler()
    watched.start()
    called(counts, rounds=90)
    samples = watched.stop()
    assert samples is not None
    assert len(samples.samples) <= 5 and samples.dropped > 5


def test_deep_stacks_keep_the_innermost_frames_and_the_users_own() -> None:
    watched = FrameSampler(threading.Thread())

    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
        else:
            watched.add_sample(sys._getframe(), [(1, 1)])

    dive(100)
    stacks = watched._build_samples("thread").stacks
    assert len(stacks[0]) >= 100  # this file is the user's own


def test_late_moments_of_the_thread_are_spread_over_the_time_it_waited() -> None:
    assert ticks._spread_points(0, 10_000_000, 10_100_000) == [(10_000_000, 10_100_000)]
    late = ticks._spread_points(0, 10_000_000, 110_000_000)
    assert len(late) == 11
    assert sum(weight for _, weight in late) == pytest.approx(110_000_000, abs=20)


def test_missed_moments_are_thinned_out_and_weigh_more() -> None:
    plan = [10, 100]
    points = ticks._pop_due_points(plan, 100 + 10 * 640, 7)
    assert len(points) == ticks.MAX_POINTS
    assert sum(weight for _, weight in points) == pytest.approx(641 * 7, abs=ticks.MAX_POINTS)
    assert plan == [10, 100 + 6410]
    assert ticks._pop_due_points(plan, 100, 7) == []


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/me/train.py", ""),
        ("/venv/lib/python3.11/site-packages/keras/src/trainers/trainer.py", "keras"),
        ("/usr/lib/python3/dist-packages/six.py", "six"),
        (os.path.abspath(threading.__file__), "python"),
        ("<frozen importlib._bootstrap>", "python"),
        ("<string>", "python"),
        ("<stdin>", ""),
        ("<ipython-input-3-abc>", ""),
        ("<__array_function__ internals>", "numpy"),
        (sampler.__file__, "outpace"),
        ("/tmp/__autograph_generated_filex1.py", "tensorflow"),
    ],
)
def test_owner(file: str, owner: str) -> None:
    assert owner_of(file) == owner


def test_the_switch_interval_is_given_back() -> None:
    """Two samplers at once, a program that sets another one meanwhile, and a child that is forked
    in between.
    """
    before = sys.getswitchinterval()
    with ticks._short_switch_interval:
        with ticks._short_switch_interval:
            assert sys.getswitchinterval() < 0.0001
        assert sys.getswitchinterval() < 0.0001
    assert sys.getswitchinterval() == before
    with ticks._short_switch_interval:
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002)
    sys.setswitchinterval(before)
    child = ticks._ShortSwitchInterval()
    with child:
        child._restore_after_fork()
        assert sys.getswitchinterval() == before
        child._user_count = 1


def test_a_jump_without_a_line_has_the_one_before_it() -> None:
    """Another thread sees a loop there, where Python lets it run."""
    text = "def find(all):\n    for each in all:\n        if each in all:\n            all.pop()\n    return all\n"
    names: dict[str, Any] = {}
    exec(compile(text, "<stdin>", "exec"), names)
    lines = _FrameLines(names["find"].__code__, {})
    entries = list(names["find"].__code__.co_lines())
    for before, (start, _, line) in itertools.pairwise(entries):
        assert lines.line(start) == (line or lines.line(before[0]))
    assert {lines.line(start) for start, _, line in entries if line is None} <= {1, 2, 3, 4}
