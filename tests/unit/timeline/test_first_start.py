"""A first step begins with the program's own work: what the profiler, set-up and data sets do
before it belongs to no step.
"""

from __future__ import annotations

import pytest

from tests.unit.timeline.loops import MS, Loop, durations


def trained(loop: Loop, steps: int = 5, wait: float = 1) -> Loop:
    """A loop that fetches its input for 2 ms before each call of 4 ms."""
    for _ in range(steps):
        loop.event("IteratorGetNext", 2).call("train_step", 4).wait(wait)
    return loop


@pytest.mark.parametrize("name", ["$profiler.py:101 start_trace", "TensorSliceDataset", "WriteSummary"])
@pytest.mark.parametrize("apart", [0, 3, 500])
def test_what_stands_before_the_first_call_is_no_step(name: str, apart: float) -> None:
    loop = Loop().event(name, 9_000).wait(apart)
    first = loop.at
    steps = trained(loop).steps()
    assert int(steps.start[0]) == first, "the input that leads to the first call is where the first step begins"
    assert durations(steps) == [6, 7, 7, 7, 7]
    timeline = loop.run.hosts[0]
    assert timeline.step_index[0] == -1, "and the event before it belongs to none"
    assert timeline.step_index[1] == 0


def test_the_input_that_leads_the_first_step_belongs_to_it() -> None:
    steps = trained(Loop()).steps()
    assert steps.start[0] == 0
    assert durations(steps) == [6, 7, 7, 7, 7]
    assert steps.complete.all()


def test_a_capture_that_begins_after_the_input_has_a_shorter_first_step() -> None:
    loop = trained(Loop().call("train_step", 4).wait(1), 4)
    assert durations(loop.steps()) == [4, 7, 7, 7, 7]


def test_an_input_long_before_the_call_is_not_its_own() -> None:
    """An iterator that was tried out before the training is no part of the first step."""
    loop = Loop().event("IteratorGetNext", 2).wait(5_000)
    first = loop.at
    assert int(trained(loop).steps().start[0]) == first


def test_without_a_lead_a_step_begins_with_its_call() -> None:
    loop = Loop().event("set-up", 50)
    for _ in range(5):
        loop.call("train_step", 4)
    assert durations(loop.steps()) == [4] * 5


def test_a_step_that_nothing_follows_begins_with_its_call() -> None:
    steps = Loop().event("IteratorGetNext", 2).call("train_step", 4).steps()
    assert len(steps) == 1 and durations(steps) == [4], "nothing says that the input is its own"


def test_the_average_is_of_what_repeats() -> None:
    loop = trained(Loop().event("start_trace", 9_000), 10)
    steps = loop.steps()
    assert float(steps.duration[steps.steady_rows].mean()) < 8 * MS


@pytest.mark.parametrize("last, whole", [(0.5, False), (4, False), (9, True)])
def test_a_last_step_that_the_capture_cuts_off_is_no_whole_one(last: float, whole: bool) -> None:
    """Calls do not wait for their results; the wait that was not over at the end left no event."""
    loop = Loop()
    for _ in range(4):
        loop.jit("step", 0.5).event("np.asarray(jax.Array)", 0.1).event("block_until_ready", 9.4)
    loop.jit("step", 0.5).event("block_until_ready", last - 0.5) if last > 0.5 else loop.jit("step", 0.5)
    steps = loop.steps()
    assert steps.complete.tolist()[-2:] == [True, whole]
    assert int(steps.steady_rows[-1]) == (4 if whole else 3)
