"""What seven programs on an H100 say of their steps, against what their authors know: see
`tests/data/SOURCES.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace.metrics.facts.idle_gaps import device_waits, find_idle_gap
from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category, Finding, Report
from outpace.timeline import Confidence, Steps, StepSource
from outpace.timeline.builds import find_autotuning_launches, find_first_builds, find_unfinished_build
from tests.support import opened

MS = 1_000_000_000


def report(name: str) -> Report:
    return opened(f"jax_h100_{name}").report()


def steps(name: str) -> Steps:
    return opened(f"jax_h100_{name}").run.hosts[0].steps


def told(finding: Finding) -> str:
    return f"{finding.sentence} {finding.action}"


@pytest.mark.parametrize(
    ("name", "usual"), [("choice_batch", 3.53), ("columns", 17.0), ("dwconv1d", 11.7), ("fft_odd", 20.2), ("ok_vae", 66.9)]
)
def test_step_times(name: str, usual: float) -> None:
    found = steps(name)
    assert np.median(found.duration[found.steady_rows]) / MS == pytest.approx(usual, rel=0.01)
    assert found.confidence is Confidence.HIGH


def test_sample_often_sets_both_first_compilations_aside() -> None:
    """Of `train_step`, before its first run, and of `next_logits`, in step 25: they made a mean of
    70.6 ms.
    """
    found = steps("sample_often")
    assert np.median(found.duration[found.steady_rows]) / MS == pytest.approx(10.4, rel=0.01)
    assert found.exclusions[25].value == "first compilation" and 25 not in found.steady_rows
    start, end = find_first_builds(opened("jax_h100_sample_often").run.hosts[0].trace)
    long = (end - start) > 1000 * MS
    assert [round(took / MS) for took in (end - start)[long].tolist()] == [5054, 2100]
    for begin, stop_ in zip(start[long].tolist(), end[long].tolist(), strict=True):
        held = (found.start[found.steady_rows] < stop_) & (found.end[found.steady_rows] > begin)
        assert not held.any()
    breakdown = step_breakdown(opened("jax_h100_sample_often").run)
    assert breakdown.category_ps(Category.COMPILATION).sum() == 0
    assert breakdown.steady_steps["duration_ps"].mean() / MS < 17


def test_sample_often_is_not_bound_by_compilation() -> None:
    found = report("sample_often")
    assert "compil" not in found.headline.lower()
    first = found.findings[0]
    assert "compil" not in told(first).lower()
    assert first.location == "sample_often.py:59" and "sample_often.py:75" in first.sentence


def test_ok_resnet_holds_no_step_of_the_training() -> None:
    """Its 21 calls of `_truncated_normal` were steps of high certainty, the last of them 9.52 s
    long.
    """
    found = steps("ok_resnet")
    assert len(found) == 0 and found.source is StepSource.NONE and found.confidence is not Confidence.HIGH
    timeline = opened("jax_h100_ok_resnet").run.hosts[0]
    cut = find_unfinished_build(timeline.trace)
    assert cut is not None and cut.function == "train_step"
    assert (cut.start - timeline.zero_ps) / MS == pytest.approx(4880, rel=0.005)


def test_ok_resnet_says_one_thing() -> None:
    found = report("ok_resnet")
    (only,) = found.findings
    assert only.id == "capture.no_steps" and only.saving is None and only.location == "ok_resnet.py:67"
    for text in (found.headline, only.sentence):
        assert "the capture ended while train_step was being compiled (from 4.88 s on" in text
        assert "it holds none of its steps" in text
    assert "outpace profile --seconds 10 --delay 60 ok_resnet.py" in only.action
    assert not any(figure.label == "Step boundaries" for page in found.pages for figure in page.key_figures)
    assert not any(finding.saving for page in found.pages for finding in page.findings)


@pytest.mark.parametrize(
    ("name", "line", "length", "behind"), [("dwconv1d", 72, 8.1, (0.4, 0.8)), ("fft_odd", 70, 16.6, (0.6, 0.9))]
)
def test_a_wait_without_an_event_is_a_wait(name: str, line: int, length: float, behind: tuple[float, float]) -> None:
    """Equinox waits for the device in each call, and no event says so: 80% of the step was Python,
    and a sleep or a lock.
    """
    run = opened(f"jax_h100_{name}").run
    waits = device_waits(run.hosts[0])
    assert len(waits.start) >= 0.9 * len(run.hosts[0].steps.steady_rows)
    assert np.median(waits.end - waits.start) / MS == pytest.approx(length, rel=0.02)
    assert 1.3 <= np.median(waits.device_idle_ps) / MS <= 1.8
    assert find_idle_gap(run, run.hosts[0].host) is None
    (row,) = [row for row in python_lines(run).records() if row["line"] == line]
    assert row["calls_step"] and row["wraps_step"] and row["waiting_ps"] > 0.7 * length * MS
    assert row["python_share"] < 0.05


@pytest.mark.parametrize("name", ["dwconv1d", "fft_odd"])
def test_a_step_in_which_the_capture_began_is_cut_off(name: str) -> None:
    """No program without an input pipeline is fed from buffers."""
    found = steps(name)
    assert not found.complete[0] and found.complete[1:].all()
    assert not any("buffer" in text for page in report(name).pages for text in page.evidence)


@pytest.mark.parametrize("name", ["dwconv1d", "fft_odd"])
def test_no_python_is_blamed_for_a_wait(name: str) -> None:
    found = report(name)
    for finding in found.findings:
        assert finding.id not in ("python_line", "even_stops", "python_overhead", "small_steps")
        assert "a sleep, a lock" not in told(finding) and "equinox: _call" not in told(finding)
    (wait,) = [finding for finding in found.findings if finding.id == "waits_in_calls"]
    assert "lax.scan" in wait.action and wait.saving is not None and wait.saving.high <= 0.17
    page = next(page for page in found.pages if page.id == "input_pipeline")
    assert "0.0% of the step time waits" not in page.headline


def test_what_the_compiler_runs_is_compilation() -> None:
    """Kernels that choose the fastest way, by the time in which they were launched and by their
    threads: none is in a step's computation.
    """
    for name, launched in (("ok_resnet", 4394), ("sample_often", 217)):
        trace = opened(f"jax_h100_{name}").run.hosts[0].trace
        host, device = find_autotuning_launches(trace)
        assert len(host) == len(device) == launched
        threads = {trace.lines.names[line].partition("/")[0] for line in trace.line[host].tolist()}
        assert threads == {"tf_pjrt_compile_thread_pool"}
    for name in ("choice_batch", "columns", "dwconv1d", "fft_odd", "ok_vae"):
        assert not len(find_autotuning_launches(opened(f"jax_h100_{name}").run.hosts[0].trace)[0])


def test_healthy_programs_stay_quiet() -> None:
    found: list[Any] = [finding.saving.high for finding in report("ok_vae").findings if finding.saving]
    assert max(found, default=0.0) <= 0.05
