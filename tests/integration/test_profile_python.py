"""`run_script` samples the Python of real trainings: planted lines are named, with their share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.capture import CaptureOptions, CaptureResult, run_script
from outpace.metrics.facts.python_lines import lines_outside_step, python_lines
from outpace.timeline import Run
from tests.integration.programs import needs_jax, needs_tensorflow

JAX = """
import json, sys, time
import numpy as np, jax, jax.numpy as jnp

@jax.jit
def step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
    return w - 0.1 * grad, loss

def prepare():
    slept.append(time.time_ns())
    time.sleep(0.008)
    slept.append(time.time_ns())
    return np.ones((64, 32), "float32")

w, slept, count = jnp.ones((32, 1)), [], 0
begun = time.perf_counter()
"""


SIGNALS = """
import os, signal, time
from outpace.capture import ticks
assert ticks.claim_signal()
import tensorflow as tf
signal.signal(signal.SIGALRM, lambda number, frame: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
x, until = tf.random.uniform((256, 48)), time.monotonic() + 3
while time.monotonic() < until:
    tf.matmul(x, x, transpose_a=True)
print("alive", flush=True)
os._exit(0)
"""

Profile = Callable[..., tuple[CaptureResult, Path]]


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")

    def run(text: str, **options: Any) -> tuple[CaptureResult, Path]:
        script = tmp_path / "job.py"
        script.write_text(textwrap.dedent(text))
        return run_script("job.py", [], CaptureOptions(**options)), script

    return run


def opened(result: CaptureResult) -> Run:
    assert result.run is not None, result.reason
    return api.open(result.run).run


def share_of(run: Run, moments: list[int]) -> float:
    """The share of the steady steps' time between each first and second of these moments (Unix ns):
    the truth, whoever else had the cores.
    """
    timeline = run.hosts[0]
    steps, origin = timeline.steps, timeline.unix_origin_ns
    assert origin is not None
    begin, length = steps.start[steps.steady_rows], steps.duration[steps.steady_rows]
    ends = (np.array(moments, np.int64).reshape(-1, 2) - origin) * 1000
    inside = np.minimum(ends[:, 1:], begin + length) - np.maximum(ends[:, :1], begin)
    return float(np.maximum(inside, 0).sum() / length.sum())


def line_of(script: Path, text: str) -> int:
    return next(number for number, line in enumerate(script.read_text().splitlines(), 1) if text in line)


def row_of(run: Run, script: Path, text: str) -> dict[str, Any]:
    rows = {(row["file"], row["line"]): row for row in python_lines(run).records()}
    return rows[os.path.realpath(script), line_of(script, text)]


@needs_jax
def test_a_jax_loop_without_marks_is_captured_by_itself(profile: Profile) -> None:
    result, script = profile(
        JAX
        + """
while time.perf_counter() - begun < 5:
    w, loss = step(w, prepare())
    loss.block_until_ready()
json.dump(slept, open("slept.json", "w"))
""",
        stop=False,
    )
    assert result.exit_code == 0 and not result.stopped
    record = result.record
    assert record is not None and record.mode == "seconds" and record.python_samples is not None
    assert record.python_samples.method in ("signal", "thread")
    run = opened(result)
    assert len(run.hosts[0].steps) > 20
    share = share_of(run, json.loads((script.parent / "slept.json").read_text()))
    slept = row_of(run, script, "time.sleep")
    assert (slept["function"], slept["who"]) == ("prepare", "yours")
    assert slept["low"] - 0.1 <= share <= slept["high"] + 0.1
    assert slept["untraced_ps"] > 0.9 * slept["self_ps"]  # the clocks agree: where it slept, nothing is recorded
    assert lines_outside_step(run, run.hosts[0].host)[0].line == slept["line"]


@pytest.mark.verify
@needs_jax
def test_a_loop_that_compiles_in_every_step_is_captured_and_its_line_noted(profile: Profile) -> None:
    result, script = profile(
        JAX
        + """
while time.perf_counter() - begun < 30:
    count += 1
    made = jax.jit(lambda w, x: (x @ w).sum() * count)
    made(w, prepare()).block_until_ready()
"""
    )
    assert result.run is not None and result.stopped
    record = result.record
    assert record is not None
    compiled = [item for item in record.compilations if item.event.endswith("backend_compile_duration")]
    assert len(compiled) > 3
    assert {(item.file, item.line) for item in compiled} == {(os.path.realpath(script), line_of(script, "made(w, prepare())"))}
    finding = next(f for f in api.open(result.run).functions().findings if f.id == "recompiled")
    assert "A lambda" in finding.sentence and "the same shapes, dtypes and static arguments as before" in finding.sentence
    assert finding.action.startswith("Create the jitted function once")


@needs_jax
def test_marks_win_over_a_window_by_time(profile: Profile) -> None:
    result, _ = profile(
        JAX
        + """
for n in range(60):
    with jax.profiler.StepTraceAnnotation("train", step_num=n):
        time.sleep(0.05)
        w, loss = step(w, prepare())
        loss.block_until_ready()
"""
    )
    assert result.record is not None and result.record.mode == "own marks"


@needs_tensorflow
def test_an_eager_loop_over_arrays_is_captured_by_itself(profile: Profile) -> None:
    result, script = profile(
        """
        import time, numpy as np, tensorflow as tf
        w, x = tf.Variable(tf.ones([32, 1])), np.ones((64, 32), "float32")
        begun = time.perf_counter()
        while time.perf_counter() - begun < 20:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            time.sleep(0.008)
        """
    )
    assert result.stopped and result.record is not None and result.record.mode == "seconds"
    run = opened(result)
    assert len(run.hosts[0].steps) > 20
    assert row_of(run, script, "time.sleep")["untraced_share"] > 0.3


@needs_tensorflow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_callback_that_sleeps_is_named_with_its_share(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    if backend == "jax":
        pytest.importorskip("jax")
    monkeypatch.setenv("KERAS_BACKEND", backend)
    result, script = profile(
        """
        import time, numpy as np, keras

        class Note(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                begin = time.time_ns()
                time.sleep(0.012)
                print(begin, time.time_ns(), file=slept, flush=True)

        slept = open("slept.txt", "w")
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        x = np.zeros((3200, 8), "float32")
        model.fit(x, x[:, :1], batch_size=32, epochs=3, verbose=0, callbacks=[Note()])
        """,
        steps=60,
    )
    record = result.record
    assert record is not None and record.mode == "keras fit"
    run = opened(result)
    steps = run.hosts[0].steps
    assert len(steps) == 60
    slept = row_of(run, script, "time.sleep")
    assert (slept["function"], slept["text"]) == ("Note.on_train_batch_end", "time.sleep(0.012)")
    share = share_of(run, [int(word) for word in (script.parent / "slept.txt").read_text().split()])
    assert slept["low"] - 0.1 <= share <= slept["high"] + 0.1
    assert slept["untraced_ps"] > 0.9 * slept["self_ps"]
    assert lines_outside_step(run, run.hosts[0].host)[0].line == slept["line"]


@needs_jax
@pytest.mark.parametrize("late", [0.05, 0.2])
def test_a_script_that_ends_while_its_profile_is_saved_is_waited_for(profile: Profile, late: float) -> None:
    result, _ = profile(
        JAX
        + f"""
while time.perf_counter() - begun < 2.0 + {late}:
    w, loss = step(w, prepare())
""",
        steps=None,
        seconds=1.0,
        delay=1.0,
        stop=False,
    )
    assert result.exit_code == 0
    assert result.run is not None, result.reason


@needs_tensorflow
@pytest.mark.skipif(sys.platform != "linux", reason="samples by signals are taken on Linux only")
def test_signals_leave_compiled_code_alone() -> None:
    """oneDNN's matrix products keep data below the end of the stack: a handler that ran there
    crashed the program.
    """
    done = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-300:]
