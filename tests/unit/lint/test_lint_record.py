"""What a capture recorded confirms or withdraws what the source suggests. Records are built here; a
real one is in tests/integration.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace.lint import Message, lint_text, read_record
from outpace.model import NotFoundError, ProfileError
from outpace.store.record import CapturedSteps, CaptureRecord, FunctionTrace, PipelineStage, StepDurations, write_record

FILE = "/somewhere/train.py"
Stages = list[tuple[str, int, dict[str, object], tuple[str, ...]]]


def record(text: str, stages: Stages, traces: tuple[FunctionTrace, ...] = (), **versions: str) -> CaptureRecord:
    """A record of stages that feed each other in order: operation, line, arguments, stateful
    operations.
    """
    lines = text.splitlines()
    pipeline = tuple(
        PipelineStage(number, op, None, FILE, line, lines[line - 1].strip(), kwargs, (number - 1,) if number else (), stateful)
        for number, (op, line, kwargs, stateful) in enumerate(stages)
    )
    return CaptureRecord(
        "0", FILE, (), versions, "3.11", "keras", CapturedSteps(1, 1, 0, 1.0), 1, StepDurations(), pipeline, 2, traces
    )  # fmt: skip


def lint(text: str, stages: Stages, *traces: FunctionTrace, **versions: str) -> list[tuple[str, str, str]]:
    messages = lint_text(text, FILE, record(text, stages, traces, **versions))
    return [(message.rule, message.level.value, message.origin.value) for message in messages]


OFF = "options.experimental_optimization.apply_default_optimizations = False\n"
MAP = "import tensorflow as tf\nfrom lib import f\nds = tf.data.Dataset.range(9)\nds = ds.map(f)\n"


@pytest.mark.parametrize(
    ("kwargs", "stateful", "expected"),
    [
        ({}, (), []),
        ({}, ("RandomUniform",), [("DS102", "warning", "capture")]),
        ({"num_parallel_calls": -1}, (), []),
    ],
)
def test_a_recorded_map_is_certain(
    kwargs: dict[str, object], stateful: tuple[str, ...], expected: list[tuple[str, str, str]]
) -> None:
    assert lint(MAP, [("range", 3, {}, ()), ("map", 4, kwargs, stateful)]) == expected


def test_the_stateful_operations_are_named() -> None:
    stages: Stages = [("range", 3, {}, ()), ("map", 4, {}, ("PyFunc", "captured variable"))]
    (message,) = lint_text(MAP, FILE, record(MAP, stages))
    assert message.evidence == "its function holds PyFunc and captured variable"


def test_a_record_of_other_code_says_nothing() -> None:
    stages: Stages = [("range", 3, {}, ()), ("map", 4, {}, ("RandomUniform",))]
    changed = MAP.replace("ds.map(f)", "ds.map(f, name='x')")
    assert [message.rule for message in lint_text(MAP, FILE, record(MAP, stages))] == ["DS102"]
    assert not lint_text(changed, FILE, record(MAP, stages))
    assert not lint_text(MAP, "/elsewhere/other.py", record(MAP, stages))


def test_two_operations_on_one_line_cannot_be_told_apart() -> None:
    text = "import tensorflow as tf\nds = tf.data.Dataset.range(9).map(lambda x: x).map(lambda x: x + tf.random.uniform([]))\n"
    stages: Stages = [("range", 2, {}, ()), ("map", 2, {}, ()), ("map", 2, {}, ("RandomUniform",))]
    assert lint(text, stages) == [("DS102", "warning", "source")]


def test_a_call_over_several_lines_is_found_by_the_line_of_its_name() -> None:
    text = "import tensorflow as tf\nds = (\n    tf.data.Dataset\n    .range(9)\n    .map(\n        f\n    )\n)\n"
    assert lint(text, [("range", 4, {}, ()), ("map", 5, {}, ("RandomUniform",))]) == [("DS102", "warning", "capture")]


ORDER = """import tensorflow as tf
def make(training, keep):
    ds = tf.data.Dataset.range(9)
    if training:
        ds = ds.shuffle(9)
    if keep:
        ds = ds.cache()
    return ds
"""


def test_an_order_is_confirmed_or_withdrawn() -> None:
    assert lint(ORDER, []) == [("DS104", "note", "source")]
    assert lint(ORDER, [("range", 3, {}, ()), ("shuffle", 5, {}, ()), ("cache", 7, {}, ())]) == [
        ("DS104", "warning", "capture")
    ]
    text = ORDER + "a = make(True, False)\nb = make(False, True)\n"
    separate = record(text, [("range", 3, {}, ()), ("shuffle", 5, {}, ()), ("range", 3, {}, ()), ("cache", 7, {}, ())])
    stages = [stage if stage.id != 2 else type(stage)(**{**vars(stage), "inputs": ()}) for stage in separate.pipeline]
    assert not lint_text(
        text.replace("make(True, False)", "make(x, y)"), FILE, type(separate)(**{**vars(separate), "pipeline": tuple(stages)})
    )


def test_what_looked_random_may_prove_deterministic() -> None:
    text = "import tensorflow as tf\ndef f(x): return tf.random.uniform([]) if LOUD else x\nds = tf.data.Dataset.range(9)\n"
    text += "ds = ds.map(f, 2)\nds = ds.cache()\n"
    assert [rule for rule, _, _ in lint(text, [])] == ["DS105"]
    assert not lint(text, [("range", 3, {}, ()), ("map", 4, {"num_parallel_calls": 2}, ()), ("cache", 5, {}, ())])
    stages: Stages = [("range", 3, {}, ()), ("map", 4, {"num_parallel_calls": 2}, ("RandomUniform",)), ("cache", 5, {}, ())]
    assert lint(text, stages) == [("DS105", "warning", "capture")]


def test_a_batch_size_that_only_the_run_knows() -> None:
    text = (
        "import tensorflow as tf\nds = tf.data.Dataset.range(9)\nds = ds.batch(args.size)\nds = ds.prefetch(1)\nmodel.fit(ds)\n"
    )
    assert not lint(text, [])
    assert lint(text, [("range", 2, {}, ()), ("batch", 3, {"batch_size": 2}, ())]) == [("DS112", "note", "capture")]


def test_a_prefetch_in_other_code_withdraws_the_warning() -> None:
    text = (
        "import tensorflow as tf\nds = tf.data.Dataset.range(9)\nds = ds.batch(32)\nmodel.fit(lib.finish(ds))\nmodel.fit(ds)\n"
    )
    text += OFF
    assert lint(text, []) == [("DS101", "warning", "source")]
    assert not lint(text, [("range", 2, {}, ()), ("batch", 3, {}, ()), ("prefetch", 4, {}, ())])


STEP = "import tensorflow as tf\n@tf.function\ndef step(x, i):\n    return x\nfor i in range(40):\n    step(x, i)\n"


def traces(count: int, name: str = "i") -> tuple[FunctionTrace, ...]:
    return tuple(FunctionTrace("step", FILE, 2, 0, 10_000_000, {name: f"Literal[{number}]"}) for number in range(count))


def test_retracing_is_counted() -> None:
    text = STEP
    assert lint(text, []) == [("TF205", "warning", "source")]
    (message,) = lint_text(text, FILE, record(text, [], traces(40)))
    assert message.evidence == "traced 40 times, 400 ms in all"
    assert message.origin.value == "capture"
    assert not lint(text, [], *traces(1))


def test_retracing_that_the_source_does_not_show() -> None:
    text = STEP.replace("range(40)", "numbers")
    assert not lint(text, [])
    messages = lint_text(text, FILE, record(text, [], traces(7)))
    assert [(m.rule, m.line, m.origin.value) for m in messages] == [("TF205", 3, "capture")]
    assert "`i`" in messages[0].sentence
    same = [FunctionTrace("step", FILE, 2, 0, 1, {"x": f"TensorSpec({n})"}) for n in range(9)]
    assert not lint(text, [], *same)  # shapes, not numbers: another matter


def test_the_version_of_keras_decides() -> None:
    text = "import tensorflow as tf\nloss = optimizer.get_scaled_loss(loss)\n"
    assert lint(text, [], keras="3.15.1") == [("KR301", "warning", "capture")]
    assert not lint(text, [], keras="2.15.0")


def test_the_newest_record_is_read(tmp_path: Path) -> None:
    import os

    for number, script in enumerate(("old", "new")):
        folder = tmp_path / "plugins" / "profile" / script
        folder.mkdir(parents=True)
        path = write_record(str(folder), "host", record(MAP, [], keras=str(number)))
        os.utime(path, (1000 + number, 1000 + number))
    assert read_record(str(tmp_path)).versions == {"keras": "1"}
    with pytest.raises(NotFoundError, match="outpace profile"):
        read_record(str(tmp_path / "missing"))
    broken = tmp_path / "x.outpace.json"
    broken.write_text("{}")
    with pytest.raises(ProfileError, match="no capture record"):
        read_record(str(broken))


def test_a_message_keeps_its_rule_text() -> None:
    messages: list[Message] = lint_text(STEP)
    assert messages[0].to_dict()["origin"] == "source"
    assert set(messages[0].to_dict()) == {
        "rule", "level", "path", "line", "column", "end_column", "sentence", "fix", "harmless", "origin", "evidence", "edit",
    }  # fmt: skip
