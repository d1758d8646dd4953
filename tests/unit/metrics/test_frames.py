"""Frames that a profiler's Python tracer recorded, read as a sampler's stacks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.python_records import TRACER_METHOD, python_records
from outpace.metrics.facts.workload import find_workload
from outpace.timeline import Run
from outpace.timeline.event_names import EventFlag
from outpace.tools.python_time import findings as rules
from tests.support import opened

FRAMES = ("jax_python_frames", "jax_cpu_steps", "jax_rocm_attention", "jax_rocm_gemm")


def run(name: str) -> Run:
    return opened(name).run


def records(name: str) -> Iterator[dict[str, object]]:
    return (dict(record) for record in python_records(run(name)).values())


def test_the_time_below_a_loop_is_found_in_frames_that_others_recorded() -> None:
    """np.sort takes 7.3 of 11.96 ms, and np.random.rand most of the rest; the program's own file is
    known by its programs.
    """
    (found,) = [
        each
        for each in rules.iter_findings(run("jax_python_frames"), find_workload(run("jax_python_frames")))
        if each.id == "python_line"
    ]
    assert found.location == "jx.py" and "sort" in found.sentence and "sort in jx.py" in found.action
    assert found.saving is not None and 0.7 < found.saving.high < 0.9
    (loop,) = [row for row in python_lines(run("jax_python_frames")).records() if row["file"].endswith("jx.py")]
    assert loop["below"].endswith("sort") and 0.55 < loop["below_share"] * loop["share"] < 0.68


@pytest.mark.parametrize("name", FRAMES)
def test_looks_fall_on_the_innermost_frame(name: str) -> None:
    """Each look's stack is that of the frames that hold its moment, counted one by one."""
    (timeline,) = run(name).hosts
    (record,) = records(name)
    samples = record["python_samples"]
    assert isinstance(samples, dict) and samples["method"] == TRACER_METHOD
    trace = timeline.trace
    rows = timeline.event_names.rows(EventFlag.PYTHON_FRAME)
    rows = rows[trace.line[rows] == np.bincount(timeline.steps.line[timeline.steps.line >= 0]).argmax()]
    start, end = trace.start[rows], trace.end[rows]
    for when, _, stack in samples["samples"][:: len(samples["samples"]) // 50]:
        moment = when * 1000 + 500
        holding = rows[(start <= moment) & (end > moment)]
        names = [
            samples["frames"][frame][1] for frame, _ in samples["stacks"][stack] if frame or len(samples["stacks"][stack]) == 1
        ]
        told = [trace.names[trace.name[row]].partition(" ")[2] for row in holding]
        assert names[-len(told) :] == told if told else names == ["no frame"]


@pytest.mark.parametrize("name", FRAMES)
def test_a_step_is_never_more_than_itself(name: str) -> None:
    lines = list(python_lines(run(name)).records())
    assert 0.99 < sum(row["share"] for row in lines) < 1.01
    assert all(0 <= row["beside_share"] <= row["share"] + 1e-9 for row in lines)


def test_what_jax_does_at_a_call_is_no_loop_of_the_programs() -> None:
    owners = {row["who"] for row in python_lines(run("jax_cpu_steps")).records() if row["library"] == "jax"}
    assert owners == {"library"}


def test_a_record_with_samples_is_left_alone() -> None:
    for profile in ("jax_loop", "keras_fit"):
        one = run(profile)
        for host, record in python_records(one).items():
            assert (
                record.get("python_samples") is one.record(host).get("python_samples")
                or record["python_samples"]["method"] == TRACER_METHOD
            )
