"""What holds of the steps of any profile, wherever its capture ends."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category
from outpace.timeline import Confidence, StepSource, Timeline
from outpace.timeline.builds import find_first_builds, find_jax_builds
from outpace.timeline.causality import find_launches
from outpace.timeline.steady_state import Exclusion, outlier_limit
from outpace.trace.selection import select_rows
from tests.support import FAST, PROFILES, opened

UNMARKED = [
    *((name, True) for name in PROFILES),
    *((name, False) for name in ("custom_loop", "jax_cpu_steps", "jax_loop", "jax_h200_table", "keras_fit", "retracing")),
]
"""Profiles, with their marks and, some that have any, without."""
CUTS = (0.55, 0.85) if FAST else (0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)


def timelines(name: str, use_marks: bool = True) -> tuple[Timeline, ...]:
    return opened(name, use_marks=use_marks).run.hosts


def stopped(timeline: Timeline, share: float) -> Timeline:
    """The profile as it would be had its capture ended after a share of the steps' time: the host's
    events that were over by then, and all that devices did for them. An event that was open leaves
    none, but what it had launched is there.
    """
    trace, steps = timeline.trace, timeline.steps
    end = int(steps.start[0] + share * (steps.end[-1] - steps.start[0]))
    kept = trace.end[:] <= end
    for plane in timeline.device_planes:
        kept[trace.rows_of(plane)] = False
    host, device = find_launches(trace)
    kept[device] = kept[host]
    return Timeline(select_rows(trace, np.flatnonzero(kept)), timeline.use_marks)


@pytest.mark.parametrize(("name", "use_marks"), UNMARKED)
def test_categories_sum_to_the_step(name: str, use_marks: bool) -> None:
    steps = step_breakdown(opened(name, use_marks=use_marks).run).steps
    total = sum(steps[f"{category.value}_ps"].astype(np.int64) for category in Category)
    assert np.abs(np.asarray(total) - steps["duration_ps"].astype(np.int64)).max(initial=0) <= len(Category)


@pytest.mark.parametrize(("name", "use_marks"), UNMARKED)
def test_no_step_that_was_set_aside_is_in_a_mean(name: str, use_marks: bool) -> None:
    breakdown = step_breakdown(opened(name, use_marks=use_marks).run)
    for timeline in timelines(name, use_marks):
        steps = timeline.steps
        apart = [at for at, why in enumerate(steps.exclusions) if why is not Exclusion.NO or not steps.complete[at]]
        assert len(apart) == len(steps) or not set(apart) & set(steps.steady_rows.tolist())
        mine = breakdown.steps.filter_by("host", timeline.host)
        usual = breakdown.steady_steps.filter_by("host", timeline.host)
        assert set(usual["step"].tolist()) <= set(mine["step"].tolist())
        assert sorted(usual["start_ps"].tolist()) == sorted((steps.start[steps.steady_rows] - timeline.zero_ps).tolist())


@pytest.mark.parametrize(("name", "use_marks"), UNMARKED)
def test_no_first_build_is_in_a_mean(name: str, use_marks: bool) -> None:
    """Where other steps hold none, whatever else takes as long."""
    for timeline in timelines(name, use_marks):
        steps, built = timeline.steps, list(zip(*(times.tolist() for times in find_first_builds(timeline.trace)), strict=True))
        holds = np.array(
            [
                sum(max(min(end, stop) - max(start, begin), 0) for begin, stop in built) > 0.05 * (end - start)
                for start, end in zip(steps.start.tolist(), steps.end.tolist(), strict=True)
            ],
            bool,
        )
        usual = steps.duration[steps.complete & ~holds]
        if len(usual):
            longer = holds & (steps.duration > 1.05 * np.median(usual))
            assert not set(np.flatnonzero(longer).tolist()) & set(steps.steady_rows.tolist())


@pytest.mark.parametrize(("name", "use_marks"), UNMARKED)
def test_high_certainty_has_its_ground(name: str, use_marks: bool) -> None:
    """Inferred steps are sure only where they are three or more, fill most of the time from the
    first to the last event, and few of the calls compile what they call.
    """
    for timeline in timelines(name, use_marks):
        steps, trace = timeline.steps, timeline.trace
        if steps.source is not StepSource.INFERRED or steps.confidence is not Confidence.HIGH:
            continue
        assert len(steps) >= 3
        last = min(
            float(steps.duration[-1]), outlier_limit(steps.duration[:-1].astype(np.float64))
        )  # its end may be the capture's
        assert steps.duration[:-1].sum() + last >= 0.5 * (trace.span_ps[1] - steps.start[0])
        builds = [b for b in find_jax_builds(trace) if f"({b.function})" in steps.explanation]
        inside = [b for b in builds if steps.start[0] <= b.start < steps.end[-1]]
        assert len(inside) <= 0.5 * len(steps)


@pytest.mark.parametrize("name", PROFILES)
def test_nothing_is_promised_where_no_step_is_known(name: str) -> None:
    profile = opened(name)
    if any(len(timeline.steps) for timeline in profile.run.hosts):
        return
    report = profile.report()
    assert all(finding.saving is None and finding.id.startswith("capture.") for finding in report.findings)
    assert all(not page.findings or page.id == "overview" for page in report.pages)
    assert " per step" not in report.headline


@pytest.mark.parametrize("name", [name for name, use_marks in UNMARKED if use_marks])
def test_no_end_of_a_capture_stretches_the_last_step(name: str) -> None:
    """Wherever the capture ends: a last step that takes much longer than those before it was cut
    off, and neither in a mean nor explained.
    """
    for timeline in timelines(name):
        steps = timeline.steps
        if steps.source is not StepSource.INFERRED or len(steps) < 8 or not timeline.device_planes or steps.line[0] < 0:
            continue
        usual = outlier_limit(steps.duration[steps.steady_rows].astype(np.float64))
        for share in CUTS:
            found = stopped(timeline, share).steps
            if len(found) and not found.async_dispatch:
                last = len(found) - 1
                assert found.duration[last] <= usual or last not in found.complete_rows, (share, found.duration[-3:] / 1e9)


def test_a_cut_capture_still_has_steps() -> None:
    """The cuts leave something to judge."""
    timeline = timelines("jax_h100_dwconv1d")[0]
    assert [len(stopped(timeline, share).steps) for share in (0.5, 0.9)] == [25, 45]
