"""What a step gets back when input threads no longer share the cores with it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from outpace.metrics.facts.cpu_saturation import core_shares, cpu_saturation
from outpace.metrics.savings.best_case import contention_saving
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000


def run_of(record: dict[str, Any], **options: Any) -> Run:
    trace = read_trace(training_run(steps=100, **options).to_bytes(), "vm")
    return Run.from_traces([trace], records={"vm": record})


def back(run: Run, gone: float, waits: float = 0.0) -> tuple[float, float]:
    return contention_saving(run, run.hosts[0], gone, waits)


# Steps of 10 ms: input works 8 ms, so that on average 0.8 of its threads are busy; the model's ops
# take all of the step.
BUSY = {
    "input_ps": MS // 100,
    "step_ps": 10 * MS,
    "ops": (("a", "MatMul", 9_990_000_000),),
    "work_ps": {"ParallelMapV2": 8 * MS},
}


def test_on_two_cores_a_model_with_a_thread_per_core_gets_back_what_input_took() -> None:
    least, most = back(run_of({"cpu_count": 2}, **BUSY), math.inf)
    assert most == pytest.approx(1 - 1 / 1.8, abs=0.01)  # each op ends with the part that shares its core
    assert least == pytest.approx(0.0, abs=0.01)  # one thread of the model and 0.8 of the input find room on two cores


def test_on_one_core_what_input_has_of_it_comes_back() -> None:
    least, most = back(run_of({"cpu_count": 1}, **BUSY), math.inf)
    assert most == pytest.approx(0.8 / 2, abs=0.01)  # for 0.8 of the time two threads share the core, half and half
    assert least == 0.0  # all runs of the op are alike: nobody knows what it takes alone


def test_only_what_goes_is_given_back() -> None:
    _, most = back(run_of({"cpu_count": 2}, **BUSY), 4 * MS)
    assert most == pytest.approx(1 - 1.4 / 1.8, abs=0.01)


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("waits", [0, 2 * MS])
def test_no_more_comes_back_than_the_cores_have(cores: int, waits: int) -> None:
    """Work takes its time on all cores, whoever had them before: a step of 10 ms on full cores
    loses no more than a core's part of them.
    """
    run = run_of({"cpu_count": cores}, **BUSY)
    known = core_shares(run)["vm"]
    for gone in (MS, 4 * MS, math.inf):
        _, most = back(run, gone, waits)
        freed = known.idle_share + known.input_share * min(gone / (8 * MS), 1.0)
        assert waits + most * (10 * MS - waits) <= max(freed * 10 * MS, waits) + MS / 10  # moments tell a hundredth
    assert known.idle_share == pytest.approx(max(0.0, 1 - 1.8 / cores) if cores > 1 else 0.0, abs=0.02)


def test_many_cores_or_an_unknown_number_give_nothing_back() -> None:
    assert back(run_of({"cpu_count": 8}, **BUSY), math.inf)[0] == 0.0
    assert back(run_of({}, **BUSY), math.inf) == (0.0, 0.0)


def test_measured_processor_time_says_how_full_the_cores_are() -> None:
    run = run_of({"cpu_count": 2, "window": {"seconds": 2.0, "cpu_seconds": 3.8}}, **BUSY)
    (row,) = cpu_saturation(run).records()
    assert row["used_cores"] == pytest.approx(1.9)
    assert row["saturation"] == pytest.approx(0.95)
    assert row["input_share"] == pytest.approx(0.8 / 1.9, abs=0.02)
    (unmeasured,) = cpu_saturation(run_of({"cpu_count": 2}, **BUSY)).records()
    assert unmeasured["used_cores"] is None
    assert unmeasured["saturation"] == pytest.approx(0.9, abs=0.02)
