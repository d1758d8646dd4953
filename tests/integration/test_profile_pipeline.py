"""The tf.data recorder on real pipelines: nothing else is built, and stages know their lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_on_tensorflow

pytestmark = needs_tensorflow

DRIVER = """
import dataclasses, json, runpy, sys
import tensorflow as tf
from outpace.capture.pipeline import PipelineRecorder
recorder = PipelineRecorder()
if sys.argv[1] == "record":
    recorder.install(tf)
values = runpy.run_path("job.py")["result"]
with open("out.json", "w") as file:
    json.dump({"values": repr(values), "stages": [dataclasses.asdict(stage) for stage in recorder.stages]}, file)
"""

JOB = """
import tensorflow as tf
import numpy as np
import keras
D = tf.data.Dataset
def read(name):
    if tf.strings.length(name) > 100:
        count = np.int64(1)
    else:
        count = np.int64(2)
    return tf.data.TextLineDataset(name).take(count)  # inner
files = D.list_files("*.txt", shuffle=False)  # files
whole = list(files.flat_map(tf.data.TextLineDataset).as_numpy_iterator())  # a class for a function
lines = files.interleave(read, cycle_length=2, num_parallel_calls=2, deterministic=True)  # interleave
scale = tf.Variable(2.0)
@tf.function
def maybe(x):
    return tf.cond(x > 1e9, lambda: tf.random.uniform([]), lambda: x)
numbers = lines.map(lambda text: tf.strings.to_number(text) * scale).map(maybe)  # maps
both = D.zip((numbers, D.range(100)))  # zip
both = both.filter(lambda a, b: b >= 0, name="mine")  # named
options = tf.data.Options()
both = both.with_options(options)  # options
both = both.apply(tf.data.experimental.assert_cardinality(4))  # through a stage that is not recorded
batches = (
    both
    .batch(np.int64(2))  # batch
    .prefetch(tf.data.AUTOTUNE)  # prefetch
)
def make(n):
    return D.range(n).batch(2)  # twice
mixed = D.choose_from_datasets([make(4), make(4)], D.range(2))  # choose
errors = []
try:
    D.range(3).batch()
except TypeError as error:
    errors.append(str(error))
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2), "float32"), np.ones(8), batch_size=4, verbose=0)  # fit
result = (list(batches.as_numpy_iterator()), [x.tolist() for x in mixed.as_numpy_iterator()], errors)
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same job without and with the recorder."""
    folder = tmp_path_factory.mktemp("pipeline")
    (folder / "job.py").write_text(JOB)
    for name in "ab":
        (folder / f"{name}.txt").write_text("1\n2\n3\n")

    def run(mode: str) -> dict[str, Any]:
        ended = run_on_tensorflow(DRIVER, folder, mode, command=True)
        assert ended.code == 0, ended.err[-3000:]
        found: dict[str, Any] = json.loads((folder / "out.json").read_text())
        return found

    return run("plain"), run("record")


def line_of(comment: str) -> int:
    return next(number for number, text in enumerate(JOB.splitlines(), 1) if text.endswith(f"# {comment}"))


@pytest.fixture
def stages(both: tuple[dict[str, Any], dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = both[1]["stages"]
    return found


def one(stages: list[dict[str, Any]], comment: str, op: str) -> dict[str, Any]:
    return next(stage for stage in stages if stage["line"] == line_of(comment) and stage["op"] == op)


def test_elements_and_errors_are_the_same(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    plain, recorded = both
    assert plain["stages"] == []
    assert recorded["values"] == plain["values"]
    assert "missing 1 required positional argument" in plain["values"]


def test_labels_name_file_line_and_operation(stages: list[dict[str, Any]]) -> None:
    for comment, op in [("files", "list_files"), ("interleave", "interleave"), ("batch", "batch"), ("prefetch", "prefetch")]:
        stage = one(stages, comment, op)
        assert stage["label"] == f"job_py_L{line_of(comment)}_{op}"
        assert stage["file"].endswith("job.py") and stage["text"].endswith(f"# {comment}")
    mapped = f"job_py_L{line_of('maps')}_map"
    assert [stage["label"] for stage in stages if stage["line"] == line_of("maps")] == [mapped, f"{mapped}_2"]
    assert one(stages, "named", "filter")["label"] == "mine"
    assert one(stages, "options", "with_options")["label"] is None
    assert one(stages, "choose", "choose_from_datasets")["inputs"]


def test_links_lead_from_the_end_to_every_source(stages: list[dict[str, Any]]) -> None:
    reached, todo = set(), [one(stages, "prefetch", "prefetch")["id"]]
    while todo:
        stage = stages[todo.pop()]
        reached.add((stage["op"], stage["line"]))
        todo += stage["inputs"]
    assert {("list_files", line_of("files")), ("range", line_of("zip")), ("filter", line_of("named"))} <= reached


def test_stages_inside_a_function_are_found_at_the_users_line(stages: list[dict[str, Any]]) -> None:
    inner = [stages[number] for number in one(stages, "interleave", "interleave")["inner"]]
    line, found = line_of("inner"), [(stage["op"], stage["line"]) for stage in inner]
    assert found == [("TextLineDataset", line), ("take", line)]


def test_arguments_and_state_are_recorded(stages: list[dict[str, Any]]) -> None:
    given = {"map_func": "read", "cycle_length": 2, "num_parallel_calls": 2, "deterministic": True}
    assert one(stages, "interleave", "interleave")["kwargs"] == given
    assert one(stages, "batch", "batch")["kwargs"] == {"batch_size": 2}
    first, second = (stage for stage in stages if stage["line"] == line_of("maps"))
    assert first["stateful"] == ["captured variable"]
    assert second["stateful"] == ["RandomUniform"]  # inside a branch of a nested function
    assert one(stages, "interleave", "interleave")["stateful"] == []


def test_one_line_run_twice_keeps_one_label(stages: list[dict[str, Any]]) -> None:
    line = line_of("twice")
    assert {each["label"] for each in stages if (each["line"], each["op"]) == (line, "batch")} == {f"job_py_L{line}_batch"}


def test_what_keras_builds_is_told_apart(stages: list[dict[str, Any]]) -> None:
    built = [stage for stage in stages if stage["line"] == line_of("fit")]
    assert built
    assert {stage["library"] for stage in built} == {"keras"}
    assert {stage["library"] for stage in stages if stage["line"] != line_of("fit")} == {None}
