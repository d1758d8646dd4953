"""JAX programs: what runs on XLA's threads, and what is built, counts for the steps in whose time
it falls.
"""

from __future__ import annotations

import numpy as np
import pytest

from outpace import api
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.model.space_builder import Unsigned
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.timeline.builds import find_jax_builds
from outpace.timeline.event_names import EventFlag, EventNames
from outpace.timeline.xla_threads import extend_to_regions, find_hlo_events
from outpace.trace import read_trace

MS = 1_000_000_000
REGION, END, RECORD = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion", "ThreadpoolListener::Record"


def loop(*, late_ms: int = 0, compiled: tuple[int, ...] = (), noted: bool = True, began: int = 0) -> Run:
    """Four steps of 20 ms: 1 ms of dispatch, 12 ms of work on a thread of XLA that begins `late_ms`
    after the dispatch, 1 ms of Python's own.

    In the steps `compiled`, the call traces for 2 ms, lowers for 1 and compiles for 5 before it
    dispatches.
    """
    space = SpaceBuilder()
    space.plane("Task Environment").stat("profile_start_time", Unsigned(began))
    plane = space.plane("/host:CPU")
    python, worker = plane.line("python"), plane.line("tf_XLAPjRtCpuClient/1")
    for step in range(4):
        at = step * 20 * MS
        python.event("train", at, 20 * MS, step_num=step, _r=1)
        build = 8 * MS if step in compiled else 0
        python.event("PjitFunction(step)", at, build + MS)
        if build:
            python.event("lower_sharding_computation", at + 2 * MS, MS)
            python.event("backend_compile_and_load", at + 3 * MS, 5 * MS)
        python.event(RECORD, at + build + MS // 2, 0, _p=step, _pt=15)
        begin = at + build + MS + late_ms * MS
        if noted:
            worker.event(REGION, begin, 0, _c=step, _ct=15)
        worker.event("dot.1", begin, 12 * MS, hlo_op="dot.1", hlo_module="jit_step", program_id=8, run_id=100 + step)
        if noted:
            worker.event(END, begin + 12 * MS, 0)
    return Run.from_traces([read_trace(space.to_bytes())])


def shares(run: Run, step: int) -> dict[str, float]:
    """Categories of a step in ms, without the empty ones."""
    row = list(step_breakdown(run).steps.records())[step]
    return {
        k.removesuffix("_ps"): v / MS
        for k, v in row.items()
        if k.endswith("_ps") and v and k not in ("start_ps", "duration_ps")
    }


def test_work_on_a_thread_of_xla_is_the_steps_own() -> None:
    run = loop()
    assert shares(run, 1) == {"host_compute": 13, "all_others": 7}
    timeline = run.hosts[0]
    assert timeline.step_index[find_hlo_events(timeline.trace)].tolist() == [0, 1, 2, 3]


def test_links_say_which_step_dispatched_it() -> None:
    """The work begins 15 ms after the dispatch and ends in the next step: it is the dispatching
    step's, and both steps compute.
    """
    run = loop(late_ms=15)
    assert run.hosts[0].step_index[find_hlo_events(run.hosts[0].trace)].tolist() == [0, 1, 2, 3]
    assert shares(run, 0) == {"host_compute": 1 + 4, "all_others": 15}
    assert shares(run, 2) == {"host_compute": 8 + 4, "all_others": 8}, "8 ms of the step before, in which this one dispatches"


def test_time_says_it_where_links_are_missing() -> None:
    run = loop(noted=False)
    assert run.hosts[0].step_index[find_hlo_events(run.hosts[0].trace)].tolist() == [0, 1, 2, 3]
    assert shares(run, 1) == {"host_compute": 13, "all_others": 7}


def test_a_build_is_compilation() -> None:
    """From the call to the end of the compiler, also the tracing that no event names."""
    run = loop(compiled=(1, 3))
    assert shares(run, 0) == {"host_compute": 13, "all_others": 7}
    assert shares(run, 1) == {"compilation": 8, "host_compute": 12}
    builds = find_jax_builds(run.hosts[0].trace)
    assert [(b.function, b.end - b.start) for b in builds] == [("step", 8 * MS)] * 2


def test_compilations_are_listed_by_function() -> None:
    page = api.Profile(loop(compiled=(1, 2))).functions()
    (row,) = page.table("compilations").records()
    assert (row["function"], row["count"], row["steps"]) == ("step", 2, "1-2")
    assert row["total_ps"] == row["in_steps_ps"] == 2 * row["longest_ps"] == 16 * MS
    assert "'step' was built 2 times (steps 1-2)" in page.headline


def test_what_the_capture_noted_names_the_line() -> None:
    """The note is of the end of the compiler, 28 ms after the capture began."""
    began = 1_700_000_000 * 10**9
    note = {
        "unix_ns": began + 28_000_000,
        "duration_ns": 5_000_000,
        "file": "/home/me/train.py",
        "line": 12,
        "function": "main",
    }
    for moment, place in ((began, "train.py:12"), (began + 10**9, "")):
        run = loop(compiled=(1,), began=moment)
        noted = Run(run.source, run.hosts, {run.hosts[0].host: {"compilations": [note]}})
        (row,) = api.Profile(noted).functions().table("compilations").records()
        assert row["source"] == place


def test_what_the_capture_noted_names_the_argument() -> None:
    """The second build differs from the one before in the shape of a parameter; the first is the
    function's own.
    """
    began = 1_700_000_000 * 10**9
    note = {"duration_ns": 5_000_000, "file": "/home/me/train.py", "line": 12, "function": "main", "program": "jit(step)"}
    notes = [
        {**note, "unix_ns": began + 28_000_000, "before": None, "arguments": {}},
        {**note, "unix_ns": began + 48_000_000, "before": None, "arguments": None, "program": "jit(convert)"},
        {
            **note,
            "unix_ns": began + 48_000_000,
            "before": {"x": "int32[16,119]", "y": "int32[16]"},
            "arguments": {"x": "int32[16,118]", "y": "int32[15]"},
        },
    ]
    run = loop(compiled=(1, 2), began=began)
    page = api.Profile(Run(run.source, run.hosts, {run.hosts[0].host: {"compilations": notes}})).functions()
    rows = list(page.table("traces").records())
    assert [(row["function"], row["step"], row["kinds"], row["duration_ps"]) for row in rows] == [
        ("step", 1, "first", 8 * MS),
        ("step", 2, "shape", 8 * MS),
    ]
    assert rows[1]["cause"] == "x: int32[16,119] → int32[16,118]; y: int32[16] → int32[15]"
    (finding,) = [f for f in page.findings if f.id == "recompiled"]
    assert "called at train.py:12, because of x: int32[16,119] → int32[16,118] and 1 more." in finding.sentence
    assert finding.action.startswith("Keep the shape of x constant")


def test_a_tensorflow_profile_has_no_builds_of_jax() -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line("python").event("backend_compile", 0, MS)
    assert find_jax_builds(Run.from_traces([read_trace(space.to_bytes())]).hosts[0].trace) == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("backend_compile_and_load", True),
        ("$pxla.py:1209 compile", True),
        ("$train.py:12 compile", False),
        ("$partial_eval.py:2342 trace_to_jaxpr_dynamic", True),
        ("StatefulPartitionedCall/compile_loss/Mean:Mean", False),
        ("HLO passes after layout assignment (jit_step)", True),
    ],
)
def test_names_that_build(name: str, expected: bool) -> None:
    assert EventNames((name,), np.flatnonzero).mask(EventFlag.BUILD).tolist() == [expected]


def test_intervals() -> None:
    spans = merge_spans(np.array([5, 0, 1, 20, 9]), np.array([7, 4, 2, 30, 9]))
    assert [a.tolist() for a in spans] == [[0, 5, 20], [4, 7, 30]]
    window, start, end = intersect_spans(np.array([0, 6, 40]), np.array([6, 25, 50]), spans)
    assert list(zip(window.tolist(), start.tolist(), end.tolist(), strict=True)) == [
        (0, 0, 4),
        (0, 5, 6),
        (1, 6, 7),
        (1, 20, 25),
    ]


def test_a_region_holds_what_runs_until_it_stops() -> None:
    """Regions inside regions, a stop whose start was not captured, and one that the end of the
    capture cut off.
    """
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("tf_XLAEigen/1")
    events = [END, REGION, "a", REGION, "b", END, "c", END, "d", REGION, "e"]
    for i, name in enumerate(events):
        line.event(name, i * MS, 0)
    other = space.plane("/host:CPU").line("tf_XLAEigen/2")
    other.event(END, 0, 0)
    trace = read_trace(space.to_bytes())
    alone = np.arange(1, len(trace) + 1)
    ends = extend_to_regions(trace, alone)
    changed = {i: int(ends[i]) for i in np.flatnonzero(ends != alone).tolist()}
    assert changed == {1: 8, 3: 6}
