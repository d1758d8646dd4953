"""What `outpace tune` and `outpace race` say and leave behind when something fails: arms, memory,
Ctrl-C.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from outpace.tune.climb.environment import tune_environment
from outpace.tune.optimisations.environment import EnvironmentKnob, Host, Observed, Setting
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.risk import Risk
from tests.integration.programs import environment, needs_tensorflow
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
BROKEN = """.map(check)"""
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


class Deadly(EnvironmentKnob):
    """A setting whose process does not live long, as one that makes TensorFlow take more memory
    than there is.
    """

    id, title, practice, order = "deadly", "Deadly", "Set nothing of this kind.", 1

    def applies(self, host: Host, /) -> Applies:
        return Applies("it is a test", Risk.EXACT)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        return (Setting("Deadly: 1", {"DEADLY": "1"}),)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        return "it ran"


def outpace(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False, env=environment())


def write(folder: Path, name: str, source: str) -> None:
    (folder / name).write_text(textwrap.dedent(source), encoding="utf-8")


@pytest.mark.verify
@needs_tensorflow
def test_an_arm_that_xla_cannot_compile_fails_alone(tmp_path: Path) -> None:
    # Long enough to be seen before it ends: a script that ended with an error is not tuned.
    write(tmp_path, "train.py", TRAIN.replace("PIPELINE", "").replace("EPOCHS", "400") + "sys.exit(3)\n")
    done = outpace(tmp_path, "tune", "--budget", "60s", "--then", "continue", "--json", "train.py")
    assert done.returncode == 3, done.stderr[-3000:]
    document, end = json.JSONDecoder().raw_decode(done.stdout)
    tried = {row[0]: row for row in document["tools"]["tune"]["tables"]["tried"]["rows"]}
    *_, reason, _ = tried["XLA"]  # the verdict, before its id
    assert tried["XLA"][1] == "failed" and "PyFunc" in reason and "\n" not in reason and len(reason) < 400
    assert tried["several steps per call"][1] not in ("failed", "not raced")
    plain = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False
    )
    assert done.stdout[end:].split() == plain.stdout.split() and "trained" in plain.stdout


@needs_tensorflow
def test_a_program_that_fails_by_itself_is_not_tuned(tmp_path: Path) -> None:
    write(tmp_path, "train.py", TRAIN.replace("data =", CHECK).replace("PIPELINE", BROKEN).replace("EPOCHS", "2"))
    done = outpace(tmp_path, "tune", "--budget", "6s", "train.py")
    assert done.returncode == 1 and done.stdout == ""
    assert "the data are broken" in done.stderr, done.stderr[-3000:]
    assert "nothing is tuned: the script failed while its training was looked at" in done.stderr


def test_a_variant_that_runs_out_of_memory_is_named_with_the_reason(tmp_path: Path) -> None:
    for name, source in {"a": STEP, "twin": STEP, "unbounded": UNBOUNDED, "killed": KILLED}.items():
        write(tmp_path, f"{name}.py", source)
    done = outpace(tmp_path, "race", "a.py", "twin.py", "unbounded.py", "killed.py", "--budget", "2s", "--json")
    assert done.returncode == 0, done.stderr
    page = json.loads(done.stdout)["tools"]["race"]
    rows = {str(row[0]): " ".join(map(str, row)) for row in page["tables"]["race"]["rows"]}
    assert " failed " in rows["unbounded.py"] and "exit code 1. MemoryError" in rows["unbounded.py"]
    assert "MemoryError" in rows["unbounded.py"]
    assert " failed " in rows["killed.py"]
    assert "was killed (SIGKILL), as the system does when memory runs out" in rows["killed.py"]
    assert " failed " not in rows["twin.py"]
    assert not left_over(tmp_path)


def test_a_race_whose_named_baseline_is_killed_says_so(tmp_path: Path) -> None:
    write(tmp_path, "a.py", STEP)
    write(tmp_path, "killed.py", KILLED)
    done = outpace(tmp_path, "race", "a.py", "killed.py", "--baseline", "killed.py", "--budget", "2s")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "There is nothing to compare with" in text and "SIGKILL" in text and "larger budget" not in text
    assert not left_over(tmp_path)


@pytest.mark.parametrize("batches", [0, pytest.param(1, marks=pytest.mark.verify)])
@needs_tensorflow
def test_next_to_no_data(tmp_path: Path, batches: int) -> None:
    source = TRAIN.replace("PIPELINE", f".take({16 * batches})").replace("EPOCHS", "2")
    source = source.replace('history.history["loss"][-1]', "len(history.epoch)")
    write(tmp_path, "train.py", source)
    done = outpace(tmp_path, "tune", "--dry-run", "train.py")
    assert done.returncode == (0 if batches else 8), done.stderr[-3000:]
    assert done.stdout.count("trained") == 1  # it was over before enough steps were seen, and is looked at when it ends
    assert ("The data set is empty, so there is no step to measure." in done.stderr) == (batches == 0)
    assert ("would try: XLA" in done.stdout) == (batches == 1)


def test_a_setting_whose_process_is_killed_is_one_that_failed(tmp_path: Path) -> None:
    write(tmp_path, "train.py", KILLED.replace("if len(calls) > 3:", "if os.environ.get('DEADLY'):"))
    outcome = tune_environment(str(tmp_path / "train.py"), budget=4, knobs=[Deadly()])
    (tried,) = outcome.tried
    assert tried.decision == "failed" and not outcome.variables
    assert tried.reason.startswith("The script was killed (SIGKILL), as the system does when memory runs out")
