"""Samples of Python stacks on a profile whose every time is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from outpace.metrics.facts import python_lines as python_time
from outpace.metrics.facts import thread_states as python_moments
from outpace.metrics.facts.python_callers import StackSamples, find_step_period
from outpace.metrics.facts.python_lines import _step_numbers, lines_outside_step, python_lines, wilson_interval
from outpace.metrics.facts.python_samples import calls_at_line
from outpace.metrics.facts.thread_states import ThreadStates
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
UNIX = 1_800_000_000_000_000_000  # ns: where the profile's zero lies

FRAMES = [
    ("/me/train.py", "<module>", 1, ""),
    ("/site-packages/keras/trainer.py", "fit", 10, "keras"),
    ("/me/train.py", "Noter.on_batch_end", 30, ""),
    ("/site-packages/numpy/lib.py", "sort", 5, "numpy"),
    ("/outpace/capture/steps_tf.py", "__call__", 7, "outpace"),
    ("/lib/threading.py", "run", 3, "python"),
]
FIT, NOTE, SORT, OURS, BARE, FETCH, READY = range(7)
STACKS = [
    [(0, 50), (1, 11)],  # fit, which the line of the user called
    [(0, 50), (1, 12), (2, 31)],  # a callback of the user's, called by fit
    [(0, 50), (1, 12), (2, 32), (3, 6)],  # ... which sorts
    [(0, 50), (1, 12), (4, 8)],
    [(5, 4)],
    [(0, 51), (6, 9)],
    [(0, 52)],
]
FETCHES = ("/site-packages/jax/array.py", "ArrayImpl._value", 9, "jax")
TEXT = [(0, 50, "model.fit(data)"), (0, 52, "loss.block_until_ready()")]


def run_of(samples: list[tuple[float, int]], **options: Any) -> Run:
    """Samples as (ms since the profile's zero, stack); steps of 10 ms: 2 of waiting for input, 3 of
    Python, 5 in ops.
    """
    record = {
        "python_samples": {
            "base_unix_ns": UNIX - 5_000_000,  # the samples began before the profile
            "frames": [*FRAMES, FETCHES],
            "stacks": STACKS,
            "samples": [(round((ms + 5) * 1e6), 5_000_000, stack) for ms, stack in samples],
            "text": TEXT,
        }
    }
    shape: dict[str, Any] = {"steps": 20, "python_ps": 3 * MS, "timestamp_ns": UNIX, **options}
    trace = read_trace(training_run(**shape).to_bytes(), "vm")
    return Run.from_traces([trace], records={"vm": record})


def times_of(run: Run) -> tuple[float, float, float]:
    """Where (ms) in the fifth step the thread waits, where it has no event, and where
    an op runs.
    """
    timeline = run.hosts[0]
    start = int(timeline.steps.start[5])
    return tuple(float(start / MS + offset) for offset in (1.0, 3.5, 7.0))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def moments() -> tuple[float, float, float]:
    return times_of(run_of([(1.0, FIT)]))


def row_of(run: Run, line: int) -> dict[str, Any]:
    (row,) = (row for row in python_lines(run).records() if row["line"] == line)
    return row


def test_samples_count_for_the_innermost_line_of_the_user(moments: tuple[float, float, float]) -> None:
    _, free, busy = moments
    run = run_of([(free, NOTE), (free, SORT), (free, SORT), (busy, FIT)])
    rows = {row["line"]: row for row in python_lines(run).records()}
    assert set(rows) == {31, 32, 50}
    assert (rows[31]["function"], rows[31]["who"], rows[31]["library"]) == ("Noter.on_batch_end", "yours", "")
    assert (rows[32]["library"], rows[32]["below"], rows[32]["share"]) == ("numpy", "numpy: sort", 0.5)
    assert rows[32]["self_ps"] == 5 * MS and rows[32]["own_ps"] == 0
    assert rows[31]["own_ps"] == rows[31]["self_ps"]
    assert rows[50]["text"] == "model.fit(data)"
    assert rows[32]["low"] < 0.5 < rows[32]["high"]


def test_what_the_thread_was_doing_tells_python_from_waiting(moments: tuple[float, float, float]) -> None:
    waits, free, busy = moments
    row = row_of(run_of([(waits, FIT), (free, FIT), (busy, FIT), (busy, FIT)]), 50)
    assert row["untraced_ps"] == 2.5 * MS
    assert row["waiting_ps"] == 2.5 * MS
    assert (row["untraced_share"], row["python_share"]) == (0.25, 0.25)


def test_a_line_that_waits_for_a_result_is_no_python(moments: tuple[float, float, float]) -> None:
    free = moments[1]
    run = run_of([(free, FETCH), (free, READY), (free, NOTE), (free, NOTE)])
    assert [(line.line, line.python_share) for line in lines_outside_step(run, "vm")] == [(31, 0.5)]
    assert row_of(run, 52)["waiting_ps"] == 2.5 * MS


def test_our_own_time_and_time_without_a_user_are_told_apart(moments: tuple[float, float, float]) -> None:
    free = moments[1]
    run = run_of([(free, OURS), (free, BARE), (free, BARE)])
    rows = {row["who"]: row for row in python_lines(run).records()}
    assert rows["outpace"]["share"] == pytest.approx(1 / 3)
    assert (rows["library"]["file"], rows["library"]["line"]) == ("/lib/threading.py", 4)
    assert lines_outside_step(run, "vm") == []


def test_samples_outside_the_steps_say_nothing_of_them(moments: tuple[float, float, float]) -> None:
    free = moments[1]
    run = run_of([(-3.0, NOTE), (free, FIT), (100_000.0, NOTE)])
    assert [row["line"] for row in python_lines(run).records()] == [50]


def test_a_second_of_the_clock_more_and_nothing_fits(moments: tuple[float, float, float]) -> None:
    _, free, busy = moments
    assert row_of(run_of([(free, NOTE)]), 31)["untraced_share"] == 1.0
    assert row_of(run_of([(busy, NOTE)]), 31)["untraced_share"] == 0.0  # 3.5 ms later


def test_nothing_was_sampled() -> None:
    trace = read_trace(training_run(steps=5, timestamp_ns=UNIX).to_bytes(), "vm")
    for record in ({}, {"python_samples": None}):
        run = Run.from_traces([trace], records={"vm": record})
        assert len(python_lines(run)) == 0
        assert lines_outside_step(run, "vm") == []


@pytest.mark.parametrize(("share", "count"), [(0.0, 10), (0.5, 4), (1.0, 1000), (0.3, 0)])
def test_interval_holds_the_share_and_stays_a_share(share: float, count: int) -> None:
    low, high = wilson_interval(share, count)
    assert 0.0 <= low <= share + 1e-9 and share - 1e-9 <= high <= 1.0


def test_more_samples_make_a_narrower_interval() -> None:
    few, many = wilson_interval(0.3, 20), wilson_interval(0.3, 2000)
    assert many[1] - many[0] < (few[1] - few[0]) / 5


SAVES = (
    ("/site-packages/keras/callbacks.py", "ModelCheckpoint.on_train_batch_end", 9, "keras"),
    ("/lib/zipfile.py", "write", 3, "python"),
)


@pytest.mark.parametrize("own", [False, True])
def test_a_callback_of_keras_is_named_by_the_line_that_made_it(moments: tuple[float, float, float], own: bool) -> None:
    """Not by that of `fit`; where it calls the user's code, by that."""
    free = moments[1]
    run = run_of([(free, len(STACKS)), (free, FIT)])
    record = run.records["vm"]
    assert isinstance(record, dict)
    record["callbacks"] = {"ModelCheckpoint": ("/me/train.py", 44, "ModelCheckpoint('w.keras', save_freq=10)")}
    record["python_samples"]["frames"] += SAVES
    saves = [(0, 50), (1, 12), (7, 9), *([(2, 31)] if own else []), (8, 3)]
    record["python_samples"]["stacks"] = [*STACKS, saves]
    rows = {row["line"]: row for row in python_lines(run).records()}
    assert set(rows) == {50, 31 if own else 44}
    if not own:
        assert (rows[44]["function"], rows[44]["below"]) == ("ModelCheckpoint.on_train_batch_end", "python: write")
        assert rows[44]["text"].startswith("ModelCheckpoint('w.keras'")


@pytest.mark.parametrize("ahead", [True, False])
def test_a_loop_that_runs_ahead_is_not_held_up_by_what_it_does_meanwhile(
    moments: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    """On another thread the program's work runs: even events of the training thread cost nothing
    then.
    """
    free = moments[1]
    run = run_of([(free, NOTE), (free, NOTE)])
    monkeypatch.setitem(vars(run.hosts[0]), "steps", replace(run.hosts[0].steps, async_dispatch=ahead))
    worked = np.ones(2, bool)
    seen = ThreadStates(np.array([True, False]), worked, ~worked, ~worked)
    monkeypatch.setattr(python_time, "thread_states", lambda timeline, moment: seen)
    assert row_of(run, 31)["beside_share"] == (0.0 if ahead else 0.5)


@pytest.mark.parametrize("seldom", [False, True])
def test_a_function_that_every_step_calls_is_the_models_time(
    moments: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch, seldom: bool
) -> None:
    """What a line spends in a tf.function other than the step's is Python's matter only where few
    steps call it: an evaluation.
    """
    free = moments[1]
    run = run_of([(free, NOTE), (free, FIT)])
    step, every = np.arange(1), np.arange(2)
    monkeypatch.setattr(python_time, "step_function_rows", lambda timeline: step)
    monkeypatch.setattr(python_time, "function_call_rows", lambda timeline: every)
    monkeypatch.setattr(python_time, "isin_events", lambda timeline, rows, moment: np.full(len(moment), rows is every))
    monkeypatch.setattr(python_time, "_slow_steps", lambda timeline: frozenset(range(20) if seldom else ()))
    row = row_of(run, 31)
    assert (row["seldom"], row["beside_share"]) == ((1.0, 0.5) if seldom else (0.0, 0.0))


@pytest.mark.parametrize("building", [False, True])
def test_python_that_traces_and_compiles_is_no_line_to_change(
    moments: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch, building: bool
) -> None:
    """Of steps that are slow because they compile, the lines of the traced function are not what a
    reader should look at.
    """
    free = moments[1]
    run = run_of([(free, NOTE), (free, FIT), (free, FIT)])
    yes = np.ones(3, bool)
    seen = ThreadStates(np.array([not building, True, True]), ~yes, ~yes, np.array([building, False, False]))
    monkeypatch.setattr(python_time, "thread_states", lambda timeline, moment: seen)
    monkeypatch.setattr(python_time, "isin_events", lambda timeline, rows, moment: yes)
    monkeypatch.setattr(python_time, "_slow_steps", lambda timeline: frozenset(range(20)))
    row = row_of(run, 31)
    assert (row["untraced_ps"] > 0, row["beside_share"] > 0) == (not building, not building)
    assert row["building_ps"] == building * row["self_ps"]


def test_builds_are_what_the_profile_calls_so(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = run_of([(1.0, FIT)]).hosts[0]
    ends = np.array([2 * MS]), np.array([4 * MS])
    monkeypatch.setattr(python_moments, "build_spans", lambda of: (np.zeros(1, np.int64), *ends))
    seen = python_moments.thread_states(timeline, np.array([3 * MS, 4 * MS + 1]))
    assert seen.building.tolist() == [True, False]
    assert not seen.untraced[0]


def test_the_line_of_the_loop_that_calls_a_function_is_told(moments: tuple[float, float, float]) -> None:
    """Not the helper's between them; nor, for lines of the loop itself, what leads there."""
    free = moments[1]
    run = run_of([(free, len(STACKS)), (free, FIT)])
    record = run.records["vm"]
    assert isinstance(record, dict)
    record["python_samples"]["frames"] += [
        ("/me/train.py", "outer.<locals>.<listcomp>", 9, ""),
        ("/me/train.py", "outer", 8, ""),
    ]
    record["python_samples"]["stacks"] = [*STACKS, [(0, 60), (8, 70), (2, 71), (2, 72), (7, 73), (3, 5)]]
    stacks = StackSamples(record["python_samples"]["frames"], record["python_samples"]["stacks"])
    last = len(STACKS)
    assert stacks.find_caller(last, {("/me/train.py", "<module>")}) == "train.py:60"
    assert stacks.find_caller(last, {("/me/train.py", "Noter.on_batch_end")}) == "train.py:72"
    assert stacks.find_caller(last, {("/me/train.py", "outer")}) == ""
    assert stacks.find_caller(last, ()) == "train.py:72"
    assert stacks.find_caller(FETCH, ()) == ""
    assert row_of(run, 73)["caller"] == "train.py:72"


def test_reading_variables_is_seen() -> None:
    frames = [("/me/train.py", "note", 1, ""), ("/tf/ops.py", "BaseResourceVariable.numpy", 7, "tensorflow")]
    stacks = StackSamples(
        [*frames, ("/tf/ops.py", "_EagerTensorBase.numpy", 7, "tensorflow")], [[(0, 2), (1, 8)], [(0, 2), (2, 9)]]
    )
    assert [stacks.reads_variable(0), stacks.reads_variable(1)] == [True, False]


def test_differentiating_in_each_call_is_seen() -> None:
    frames = [("/me/train.py", "update", 1, ""), ("/v/jax/_src/interpreters/ad.py", "linearize", 7, "jax")]
    stacks = StackSamples([*frames, ("/v/jax/_src/pjit.py", "call", 7, "jax")], [[(0, 2), (1, 8)], [(0, 2), (2, 9)]])
    assert [stacks.differentiates(0), stacks.differentiates(1)] == [True, False]


def test_what_makes_elements_is_seen() -> None:
    frames = [
        ("/me/train.py", "main", 1, ""),
        ("/me/train.py", "Texts.__getitem__", 9, ""),
        ("/me/train.py", "encode", 20, ""),
        ("/v/keras/src/trainers/data_adapters/generator_data_adapter.py", "get_numpy_iterator", 5, "keras"),
        ("/v/numpy/core.py", "asarray", 5, "numpy"),
    ]
    nowhere: dict[tuple[int, ...], str] = {(0, 2): "", (0, 3): "", (3, 4): ""}
    below = {(0, 1): "train.py:10", (0, 1, 2): "train.py:10", (0, 3, 2, 4): "train.py:20", (0, 2, 1): "train.py:10", **nowhere}
    stacks = StackSamples(frames, [[(frame, 10 * frame) for frame in path] for path in below])
    assert [stacks.find_maker(number) for number in range(len(below))] == list(below.values())


@pytest.mark.parametrize(
    ("met", "samples", "period"),
    [
        (range(10, 30), 100, 0),  # in each
        ((10, 20), 8, 10),
        ((12, 17, 22, 27), 20, 5),
        ((12, 17, 27), 20, 5),  # one was missed
        ((12, 17, 23), 20, 0),
        ((15, 18), 8, 0),  # it would have come again
        ((10, 20), 3, 0),  # too few samples to say
        ((12,), 50, 0),
    ],
)
def test_how_often_a_line_runs(met: tuple[int, ...], samples: int, period: int) -> None:
    assert find_step_period(met, samples, 10, 29) == period


@pytest.mark.parametrize(
    ("numbers", "counted"),
    [([7, 8, 10, 11], [7, 8, 10, 11]), ([5, 6, 7, 0, 1, 5], [0, 1, 2, 3, 4, 5]), ([3, 3], [0, 1]), ([4], [4])],
)
def test_batches_whose_numbers_begin_anew_are_counted(numbers: list[int], counted: list[int]) -> None:
    """Two epochs in one capture: batch 5 of the first is not batch 5 of the second."""
    assert _step_numbers(np.array(numbers)).tolist() == counted


def test_what_a_line_calls_within_windows(moments: tuple[float, float, float]) -> None:
    waits, _, runs = moments
    run = run_of([(waits, FIT), (waits + 0.2, FIT), (waits + 0.4, NOTE), (runs, SORT), (runs + 0.2, SORT), (runs + 0.4, SORT)])
    window = (np.array([0], np.int64), np.array([10**18], np.int64))
    assert calls_at_line(run, run.hosts[0], *window, ("/me/train.py", 50)) == ("keras: fit",)
    assert calls_at_line(run, run.hosts[0], *window, ("/me/train.py", 32)) == ("numpy: sort",), "not what called the line"
    assert calls_at_line(run, run.hosts[0], *window, ("/me/train.py", 99)) == ()
    early = (np.array([0], np.int64), np.array([1], np.int64))
    assert calls_at_line(run, run.hosts[0], *early, ("/me/train.py", 50)) == ()
