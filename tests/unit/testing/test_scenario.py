"""A built run reports exactly the steps, waits and op times that were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
SOURCES = {"train": "marked", "keras": "keras batch", None: "inferred"}


def run_of(**options: Any) -> Run:
    return Run.from_traces([read_trace(training_run(**options).to_bytes(), "vm")])


@pytest.mark.parametrize("marks", SOURCES)
def test_steps_and_categories_are_those_asked_for(marks: str | None) -> None:
    waits = [3 * MS, 1 * MS, 2 * MS, 7 * MS]
    run = run_of(steps=4, step_ps=15 * MS, input_ps=waits, python_ps=2 * MS, marks=marks)
    found = step_breakdown(run)
    assert found.steps["source"].tolist() == [SOURCES[marks]] * 4
    assert found.steps["step"].tolist() == [0, 1, 2, 3]
    assert np.diff(found.steps["start_ps"]).tolist() == [15 * MS] * 3
    assert found.steps["duration_ps"].tolist() == [15 * MS] * 4
    assert found.category_ps(Category.INPUT).tolist() == waits
    assert found.category_ps(Category.ALL_OTHERS).tolist() == [2 * MS] * 4
    assert found.category_ps(Category.HOST_COMPUTE).tolist() == [13 * MS - wait for wait in waits]
    assert found.steps["complete"].all()


@pytest.mark.parametrize("marks", SOURCES)
def test_ops_take_the_time_asked_for(marks: str | None) -> None:
    ops = (("a/MatMul", "MatMul", 5 * MS), ("b/Relu", "Relu", 2 * MS), ("c/MatMul", "MatMul", 1 * MS))
    table = op_metrics(run_of(steps=6, ops=ops, marks=marks))
    found = {
        r["name"]: (r["type"], r["count"], r["self_ps"])
        for r in table.records()
        if r["name"] in ("a/MatMul", "b/Relu", "c/MatMul")
    }
    assert found == {name: (op_type, 6, 6 * ps) for name, op_type, ps in ops}


def test_all_ops_belong_to_their_step() -> None:
    timeline = run_of(steps=3).hosts[0]
    rows = timeline.trace.find_rows_by_name(lambda name: name.endswith(":MatMul"))
    assert timeline.step_index[rows].tolist() == [0, 1, 2]


def test_stages_work_as_long_as_asked_for() -> None:
    work = {"Shuffle": 3 * MS, "ParallelMapV2": 5 * MS}
    (pipeline,) = pipelines(run_of(steps=8, step_ps=12 * MS, work_ps=work))
    assert pipeline.root_calls == 8
    assert [stage.type for stage in pipeline.stages] == ["Root", "Prefetch", "ParallelMapV2", "Shuffle", "TensorSlice"]
    assert [stage.parent for stage in pipeline.stages] == [-1, 0, 1, 2, 3]
    by_type = {stage.type: stage for stage in pipeline.stages}
    assert (
        by_type["Shuffle"].self_ps == 7 * 3 * MS and by_type["Shuffle"].calls == 7
    )  # the first was ready before the first step
    assert 7 * 5 * MS < by_type["ParallelMapV2"].function_ps < 8 * 5 * MS
    assert by_type["TensorSlice"].self_ps < 8 * 10_000
    assert pipeline.bottleneck is by_type["ParallelMapV2"]


def test_work_of_synchronous_stages_is_done_while_the_loop_waits() -> None:
    run = run_of(input_ps=4 * MS, pipeline=("Root", "Map", "TensorSlice"), work_ps={"Map": 3 * MS, "TensorSlice": 1 * MS})
    (pipeline,) = pipelines(run)
    assert {s.type: s.self_ps for s in pipeline.stages} == {"Root": 0, "Map": 30 * MS, "TensorSlice": 10 * MS}


@pytest.mark.parametrize(
    "options", [{}, {"pipeline": ()}, {"ops": ()}, {"steps": 1}, {"input_ps": 0}, {"timestamp_ns": 1_795_230_211_000_000_000}]
)
def test_plain_variants_open(options: dict[str, Any], tmp_path: Path) -> None:
    path = training_run(**options).write(tmp_path)
    profile = api.open(path)
    assert len(step_breakdown(profile.run).steps) == options.get("steps", 10)
    assert profile.warnings == ()


def test_the_same_call_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = (training_run().write(tmp_path / name) for name in ("a.xplane.pb.gz", "b.xplane.pb.gz"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"marks": "torch"}, "marks must be one of"),
        ({"steps": 3, "input_ps": [1, 2]}, "3 steps but 2 input times"),
        ({"step_ps": 1}, "its parts take"),
        ({"work_ps": {"Batch": 1}}, "stages that the pipeline does not have: Batch"),
        ({"work_ps": {"Shuffle": 100 * MS}}, "cannot keep up"),
        ({"work_ps": {"Root": 100 * MS}}, "longer than"),
    ],
)
def test_impossible_runs_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training_run(**options)
