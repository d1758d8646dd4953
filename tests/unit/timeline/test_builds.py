"""Which programs were built, which for the first time, and which the capture's end cut off."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outpace.testing import GpuBuilder
from outpace.timeline.builds import find_autotuning_launches, find_first_builds, find_unfinished_build
from outpace.timeline.steady_state import Exclusion
from outpace.timeline.steps import Steps, empty_steps
from tests.unit.timeline.loops import MS, Loop, durations


def built(loop: Loop, function: str, ms: float) -> Loop:
    """A call that builds its function."""
    begin = loop.at
    loop.line.event(f"PjitFunction({function})", begin, round(ms * MS))
    loop.line.event("backend_compile_and_load", begin + MS // 10, round((ms - 0.2) * MS))
    return loop.wait(ms)


def firsts(loop: Loop) -> list[tuple[float, float]]:
    start, end = find_first_builds(loop.run.hosts[0].trace)
    return [(s / MS, (e - s) / MS) for s, e in zip(start.tolist(), end.tolist(), strict=True)]


def test_the_first_build_of_each_function() -> None:
    loop = built(built(Loop(), "step", 30).jit("step", 1), "evaluate", 20).jit("step", 1)
    assert firsts(loop) == [(0, 29.9), (31, 19.9)]


def test_what_is_built_again_is_no_first_build() -> None:
    assert firsts(built(built(Loop(), "step", 30).jit("step", 1), "step", 20)) == [(0, 29.9)]
    assert firsts(built(Loop().jit("step", 1), "step", 30)) == [], "it had been built before the capture began"


def test_a_call_that_is_traced_does_not_run() -> None:
    """`relu` is called while `step` is traced, and built when it is called by itself."""
    loop = Loop()
    loop.line.event("PjitFunction(step)", 0, 30 * MS)
    loop.line.event("trace_to_jaxpr_dynamic", MS, 10 * MS)
    loop.line.event("PjitFunction(relu)", 2 * MS, MS)
    loop.line.event("backend_compile_and_load", 12 * MS, 10 * MS)
    assert firsts(built(loop.wait(31), "relu", 5)) == [(0, 22), (31, 4.9)]


def test_tensorflow_counts_its_graphs() -> None:
    loop = Loop()
    for count in (1, 1, 2):
        loop.event(
            "train_step",
            10,
            tf_function_call="traced-nonXla" if count != 1 or not loop.at else "notTraced-nonXla",
            tracing_count=count,
        )
    assert firsts(loop) == [(0, 10)]


def steps(loop: Loop) -> Steps:
    found = loop.steps()
    assert found.explanation
    return found


def test_two_first_builds_are_not_one_event_that_comes_round() -> None:
    """Of the step, and of what runs every 25 steps: about as long as each other, they stayed, and
    made the mean seven times the usual step.
    """
    loop = built(Loop(), "step", 2860)
    for number in range(1, 90):
        loop.jit("step", 9.9).wait(0.1)
        if number % 25 == 24:
            loop = built(loop, "sample", 2450) if number == 24 else loop.jit("sample", 140)
    found = steps(loop)
    assert [(at, why) for at, why in enumerate(found.exclusions) if why is not Exclusion.NO] == [
        (0, Exclusion.WARM_UP),
        (25, Exclusion.FIRST_BUILD),
    ]
    assert found.duration[found.steady_rows].mean() < 15 * MS
    assert 140 < max(durations(found)[at] for at in found.steady_rows.tolist()) < 151, "what comes round stays"


def test_what_compiles_again_and_again_stays() -> None:
    loop = Loop()
    for number in range(12):
        loop = (built(loop, "step", 100) if number % 3 == 0 else loop.jit("step", 9)).wait(1)
    found = steps(loop)
    assert [at for at, why in enumerate(found.exclusions) if why is not Exclusion.NO] == [0]


def test_a_build_that_makes_no_step_longer_sets_none_aside() -> None:
    loop = Loop()
    for number in range(12):
        loop = built(loop, "step", 10.2) if number == 5 else loop.jit("step", 10)
    assert set(steps(loop).exclusions) == {Exclusion.NO}, "it had run before"
    loop = Loop()
    for number in range(12):
        loop = built(loop, "other", 0.3).jit("step", 10) if number == 5 else loop.jit("step", 10)
    assert set(steps(loop).exclusions) == {Exclusion.NO}, "3% of its step"


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=6),
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
)
def test_time_of_builds_by_step(builds: list[tuple[int, int]], lengths: list[int]) -> None:
    """As counted moment by moment."""
    end = np.cumsum(np.array(lengths, np.int64), dtype=np.int64)
    start = end - np.array(lengths, np.int64)
    spans = np.array(sorted((begin, begin + length) for begin, length in builds), np.int64).reshape(-1, 2)
    none = empty_steps("")
    count = len(lengths)
    found = Steps(
        none.source,
        none.confidence,
        "",
        np.arange(count),
        start,
        end,
        np.zeros(count, np.int32),
        np.ones(count, bool),
        none.root_row,
        none.root_step,
        first_builds=(spans[:, 0], spans[:, 1]),
    )
    held = [
        sum(any(b <= moment < e for b, e in spans.tolist()) for moment in range(s, t)) for s, t in zip(start, end, strict=True)
    ]
    assert found._build_time.tolist() == held


def passes(loop: Loop, function: str, count: int = 3) -> Loop:
    """Passes of the compiler whose build is not over."""
    for _ in range(count):
        loop.event(f"fusion (jit_{function})", 5)
    return loop


def test_a_build_that_the_capture_cut_off() -> None:
    loop = passes(Loop().jit("normal", 1).jit("normal", 1).wait(8), "train_step")
    found = find_unfinished_build(loop.run.hosts[0].trace)
    assert found is not None and (found.function, found.start) == ("train_step", 10 * MS)


def test_a_build_that_was_over_is_not_open() -> None:
    loop = Loop()
    loop.line.event("PjitFunction(step)", 0, 30 * MS)
    loop.line.event("fusion (jit_step)", MS, 5 * MS)
    assert find_unfinished_build(loop.run.hosts[0].trace) is None, "in a call"
    loop = Loop()
    loop.line.event("backend_compile_and_load", 0, 30 * MS)
    loop.line.event("fusion (jit_step)", MS, 5 * MS)
    assert find_unfinished_build(loop.wait(30).jit("other", 1).run.hosts[0].trace) is None, "ahead of time"
    assert find_unfinished_build(passes(Loop(), "step").jit("step", 1).run.hosts[0].trace) is None, (
        "it began before the capture, and the call came back"
    )
    loop = Loop().jit("step", 1)
    loop.event("CommonPjRtLoadedExecutable::Execute (jit_step)", 1)
    assert find_unfinished_build(loop.run.hosts[0].trace) is None, "a run is no pass of the compiler"


def test_what_the_compiler_launches_is_its_own() -> None:
    """From threads that launch only while something is built; the thread that runs the program
    meanwhile launches at other times too.
    """
    loop = built(Loop(), "step", 40).jit("step", 10)
    runner, pool = (loop.space.plane("/host:CPU").line(name) for name in ("runner", "pool"))
    gpu, compiler = GpuBuilder(loop.space, runner), GpuBuilder(loop.space, pool, index=1)
    gpu.kernel("early", 5 * MS, MS, called=4 * MS).kernel("late", 46 * MS, MS, called=45 * MS)
    compiler.kernel("tried", 8 * MS, MS, called=7 * MS).kernel("tried", 20 * MS, MS, called=19 * MS)
    trace = loop.run.hosts[0].trace
    _, device = find_autotuning_launches(trace)
    assert [trace.names[at] for at in trace.name[device].tolist()] == ["tried", "tried"]
