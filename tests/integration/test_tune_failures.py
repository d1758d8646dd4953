"""What `tune` and `race` say and leave when something fails: arms, memory, Ctrl-C."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.integration.programs import Ended, needs_tensorflow, run_python, run_tune
from tests.integration.test_race import left_over

TRAIN = """
import hashlib, sys
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(160, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")

class Python(keras.layers.Layer):
    def call(self, a):
        doubled = tf.numpy_function(lambda v: v * 2, [a], tf.float32)
        doubled.set_shape(a.shape)
        return tf.stop_gradient(doubled)
    def compute_output_shape(self, shape):
        return shape

data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(160)PIPELINE.batch(16)
model = keras.Sequential([keras.Input((6,)), Python(), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(data, epochs=EPOCHS, verbose=0)
print("trained", hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest(), history.history["loss"][-1])
"""
CHECK = """
def check(a, b):
    tf.debugging.assert_less(a[0], -1.0, message="the data are broken")
    return a, b

data ="""
STEP = "def outpace_race():\n    return lambda: sum(range(20_000))\n"
UNBOUNDED = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (400 * 2**20, 400 * 2**20))
held = []
def outpace_race():
    return lambda: held.append(bytearray(100 * 2**20))
"""
KILLED = """
import os, signal
calls = []
def step():
    calls.append(0)
    if len(calls) > 3:
        os.kill(os.getpid(), signal.SIGKILL)  # as the system does when memory runs out
def outpace_race():
    return step
"""


def write(folder: Path, name: str, source: str) -> None:
    (folder / name).write_text(textwrap.dedent(source), encoding="utf-8")


@pytest.mark.verify
@needs_tensorflow
def test_an_arm_that_xla_cannot_compile_fails_alone(tmp_path: Path) -> None:
    # Long enough to be seen before it ends: a script that ended with an error is not tuned.
    source = TRAIN.replace("PIPELINE", "").replace("EPOCHS", "400") + "sys.exit(3)\n"
    done = run_tune(tmp_path, source, "--budget", "60s", "--then", "continue", "--json", code=3)
    document, end = json.JSONDecoder().raw_decode(done.out)
    tried = {row[0]: row for row in document["tools"]["tune"]["tables"]["tried"]["rows"]}
    *_, reason, _ = tried["XLA"]  # the verdict, before its id
    assert tried["XLA"][1] == "failed" and "PyFunc" in reason and "\n" not in reason and len(reason) < 400
    assert tried["several steps per call"][1] not in ("failed", "not raced")
    plain = run_python("train.py", cwd=tmp_path)
    assert done.out[end:].split() == plain.out.split() and "trained" in plain.out


@needs_tensorflow
def test_a_program_that_fails_by_itself_is_not_tuned(tmp_path: Path) -> None:
    source = TRAIN.replace("data =", CHECK).replace("PIPELINE", ".map(check)").replace("EPOCHS", "2")
    done = run_tune(tmp_path, source, "--budget", "30s", code=1)
    assert done.out == "" and "the data are broken" in done.err, done.err[-3000:]
    assert "nothing is tuned: the script failed while its training was looked at" in done.err


def race(folder: Path, *arguments: str, **scripts: str) -> Ended:
    for name, source in scripts.items():
        write(folder, f"{name}.py", source)
    done = run_python("-m", "outpace", "race", *(f"{name}.py" for name in scripts), "--budget", "2s", *arguments, cwd=folder)
    assert done.code == 0, done.err
    assert not left_over(folder)
    return done


def test_a_variant_that_runs_out_of_memory_is_named_with_the_reason(tmp_path: Path) -> None:
    page = json.loads(race(tmp_path, "--json", a=STEP, twin=STEP, unbounded=UNBOUNDED, killed=KILLED).out)["tools"]["race"]
    rows = {str(row[0]): " ".join(map(str, row)) for row in page["tables"]["race"]["rows"]}
    assert [" failed " in rows[name] for name in ("twin.py", "unbounded.py", "killed.py")] == [False, True, True]
    assert "exit code 1. MemoryError" in rows["unbounded.py"]
    assert "was killed (SIGKILL), as the system does when memory runs out" in rows["killed.py"]


def test_a_race_whose_named_baseline_is_killed_says_so(tmp_path: Path) -> None:
    text = race(tmp_path, "--baseline", "killed.py", a=STEP, killed=KILLED).words
    assert "There is nothing to compare with" in text and "SIGKILL" in text and "larger budget" not in text


@pytest.mark.parametrize("batches", [0, pytest.param(1, marks=pytest.mark.verify)])
@needs_tensorflow
def test_next_to_no_data(tmp_path: Path, batches: int) -> None:
    source = TRAIN.replace("PIPELINE", f".take({16 * batches})").replace("EPOCHS", "2")
    source = source.replace('history.history["loss"][-1]', "len(history.epoch)")
    done = run_tune(tmp_path, source, "--dry-run", code=0 if batches else 8)
    assert "trained" not in done.out  # it was over before enough steps were seen, and the process ends with it
    assert ("The data set is empty, so there is no step to measure." in done.err) == (batches == 0)
    assert ("would try: XLA" in done.out) == (batches == 1)
