"""Every step time that a report tells is told with what it is."""

from __future__ import annotations

from typing import Any

import pytest

from outpace import api
from outpace.report import terminal
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import crowded

MS = 1_000_000_000
NS = 1_000_000  # per ms


def profile(before: float, during: float, **window: Any) -> api.Profile:
    """Steps of 10 ms, which took `before` ms without the profiler and `during` with it, in their
    medians.
    """
    record = {"overhead": {"before_ns": [before * NS] * 5, "during_ns": [during * NS] * 5}, "window": window, "cpu_count": 4}
    trace = read_trace(crowded(training_run(steps=8, input_ps=5 * MS, work_ps={"ParallelMapV2": 9 * MS})).to_bytes(), "vm")
    return api.Profile(Run.from_traces([trace], records={"vm": record}))


def test_the_step_without_the_profiler_stands_beside_the_steady_step() -> None:
    overview = profile(8, 12).overview()
    assert [(f.label, f.value) for f in overview.key_figures[:2]] == [
        ("Steady step time", 10 * MS),
        ("Without the profiler", pytest.approx(10 * MS / 1.5)),
    ]
    assert "steps were 50% slower while they were profiled (vm): a median of 12.0 ms instead of 8.00 ms" in overview.evidence
    shown = " ".join(terminal.render(profile(8, 12).report(), width=80).split())
    assert shown.count("6.67 ms") >= 2, "once as a figure, once as what savings are shares of"


def test_steps_that_the_profiler_did_not_change_have_one_time() -> None:
    page = profile(10, 10.05).overview()
    assert "Without the profiler" not in [f.label for f in page.key_figures]
    assert "profiling did not change the step time noticeably (vm)" in page.evidence


def test_other_programs_are_named_where_they_took_the_cores() -> None:
    page = profile(8, 12, seconds=2.0, cpu_seconds=2.0, machine_busy=1.0).overview()
    assert any(line.endswith("; other programs used 3.0 of 4 cores meanwhile") for line in page.evidence)
    page = profile(8, 12, seconds=2.0, cpu_seconds=7.8, machine_busy=1.0).overview()
    assert not any("other programs" in line for line in page.evidence)


def test_a_rate_says_which_steps_it_leaves_out() -> None:
    """Three evaluations in twenty steps of 10 ms, at no period."""
    waits = [5 * MS] * 20
    waits[2], waits[5], waits[12] = 45 * MS, 35 * MS, 55 * MS
    trace = read_trace(training_run(steps=20, input_ps=waits).to_bytes(), "vm")
    overview = api.Profile(Run.from_traces([trace])).overview()
    (rate,) = (figure for figure in overview.key_figures if figure.label == "Steps per second")
    assert (rate.value, rate.remark) == (
        "100",
        "per host, time between steps included, but not 3 steps left out with 47% of the time",
    )
