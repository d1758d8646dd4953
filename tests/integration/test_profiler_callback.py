"""`outpace.ProfilerCallback` in real Keras trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import KERAS, needs_jax, needs_tensorflow, run_on_tensorflow, run_program

PROGRAM = (
    KERAS
    + """
found = {}

def train(name, batches, epochs=1, **options):
    callback = outpace.ProfilerCallback(name, batches)
    model(**options).fit(x, y, batch_size=8, epochs=epochs, verbose=0, callbacks=[callback], validation_data=(x, y))
    found[name] = steps_of(callback.run)

train("range", (5, 12))
train("epochs", (15, 32), epochs=2)
train("calls", (7, 16), steps_per_execution=4)
train("short", (30, 40))
train("inside", (15, 40))

callback = outpace.ProfilerCallback("evaluate", (3, 6))
model().evaluate(x, y, batch_size=8, verbose=0, callbacks=[callback])
found["evaluate"] = steps_of(callback.run)

callback, single = outpace.ProfilerCallback("single", (3, 6)), model()
callback.attach(single)
for _ in range(9):
    single.train_on_batch(x[:8], y[:8])
found["single"] = steps_of(callback.run)

class Boom(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 9:
            raise RuntimeError("boom")

callback, twice = outpace.ProfilerCallback("twice", (8, 13)), model()
try:
    twice.fit(x, y, batch_size=8, verbose=0, callbacks=[callback, Boom()])
except RuntimeError:
    found["raised"] = True
twice.fit(x, y, batch_size=8, verbose=0, callbacks=[callback])
found["twice"] = steps_of(callback.run)

try:
    outpace.ProfilerCallback(batches=(9, 3))
except outpace.OutpaceError as error:
    found["refused"] = str(error)

print(json.dumps(found))
"""
)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str], Path]:
    folder = tmp_path_factory.mktemp("callback")
    ended = run_on_tensorflow(PROGRAM, folder)
    assert ended.code == 0, ended.err[-3000:]
    (folder / "stderr.txt").write_text(ended.err, encoding="utf-8")
    return json.loads(ended.out.splitlines()[-1]), ended.told, folder


@needs_tensorflow
def test_a_captured_training_ends_with_the_first_screen_once(captured: Any) -> None:
    err = (captured[2] / "stderr.txt").read_text(encoding="utf-8")
    saved = [line for line in captured[1] if "; profile in " in line]
    assert saved
    assert err.count("\n  Confidence  ") == len(saved)
    assert err.index("; profile in ") < err.index("Confidence  ")


@needs_tensorflow
@pytest.mark.parametrize(
    ("name", "numbers", "per_call"),
    [
        ("range", range(5, 13), 1),
        ("epochs", range(15, 33), 1),
        ("calls", range(2, 5), 4),  # batches 5 to 16: whole calls
        ("inside", range(15, 21), 1),
        ("evaluate", range(3, 7), 1),
        ("single", range(3, 7), 1),
    ],
)
def test_the_profile_holds_the_asked_batches_as_marked_steps(captured: Any, name: str, numbers: range, per_call: int) -> None:
    assert captured[0][name] == ["marked", list(numbers), per_call]


@needs_tensorflow
def test_a_training_that_ends_before_the_range_says_so_and_what_to_give(captured: Any) -> None:
    found, told, folder = captured
    assert found["short"] is None
    line = next(line for line in told if "before batch 30" in line)
    assert "after 20 batches" in line and "ProfilerCallback(batches=(6, 16))" in line
    assert not (folder / "short").exists()


@needs_tensorflow
def test_a_training_that_ends_inside_the_range_is_saved_and_said(captured: Any) -> None:
    assert any("ended inside the range of 26 batches" in line for line in captured[1])


@needs_tensorflow
def test_a_fit_that_fails_inside_the_range_is_continued_by_the_next(captured: Any) -> None:
    found = captured[0]
    assert found["raised"]
    source, numbers, _ = found["twice"]
    assert source == "marked"
    assert len(numbers) == 6, "the batches of both fits; the one that raised is no whole step"


@needs_tensorflow
def test_the_record_holds_steps_before_inside_and_after(captured: Any) -> None:
    record = json.loads(next((captured[2] / "range").glob("plugins/profile/*/*.outpace.json")).read_text())
    assert record["mode"] == "keras fit"
    assert record["window"]["first_step"] == 5 and record["window"]["steps"] == 8
    assert record["overhead"]["before_ns"] and len(record["overhead"]["during_ns"]) == 8 and record["overhead"]["after_ns"]


@needs_tensorflow
def test_nothing_but_runs_is_left_in_the_log_directories(captured: Any) -> None:
    for name in ("range", "calls", "inside", "single"):
        assert [path.name for path in (captured[2] / name).iterdir()] == ["plugins"]


@needs_jax
def test_keras_on_jax(tmp_path: Path) -> None:
    ended = run_program(
        KERAS
        + """
callback = outpace.ProfilerCallback("logs", (5, 12))
model().fit(x, y, batch_size=8, verbose=0, callbacks=[callback])
print(json.dumps(steps_of(callback.run)))
""",
        tmp_path,
        jax=True,
        KERAS_BACKEND="jax",
    )
    assert ended.code == 0, ended.err[-3000:]
    assert json.loads(ended.out) == ["marked", list(range(5, 13)), 1]


@needs_tensorflow
def test_an_impossible_range_is_refused(captured: Any) -> None:
    assert "batches=(9, 3) is no range" in captured[0]["refused"]


@needs_tensorflow
def test_the_stock_callback_of_keras_2_once_mended(tmp_path: Path) -> None:
    ended = run_on_tensorflow(
        KERAS
        + """
import tensorflow as tf

class Quiet(keras.callbacks.TensorBoard):  # its scalars need the package tensorboard, its profiles do not
    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch)
    def on_epoch_end(self, epoch, logs=None):
        pass

def trained(logs):
    model().fit(x, y, batch_size=8, verbose=0, callbacks=[Quiet(logs, profile_batch=(5, 12))])
    return steps_of(f"{logs}/train")

found = [trained("stock")]
outpace.mark_tensorboard_steps()
print(json.dumps([*found, trained("mended")]))
""",
        tmp_path,
    )
    assert ended.code == 0, ended.err[-3000:]
    (stock, stock_numbers, _), (mended, mended_numbers, _) = json.loads(ended.out)
    assert (stock, mended) == ("keras batch", "marked")
    assert len(stock_numbers) in (7, 8) and len(mended_numbers) in (7, 8)
