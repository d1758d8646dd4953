"""Tuning that is cancelled, told to end, or out of memory in real runs: what is said, and that the
training stays the user's.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.integration.programs import environment, needs_tensorflow, started
from tests.integration.test_race import left_over

pytestmark = [needs_tensorflow, pytest.mark.verify]

START = """
import hashlib, sys
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
numbers = np.random.default_rng(5)

def feed():  # state outside of the pipeline, which trials must not move on
    for at in numbers.permutation(640):
        yield x[at] + numbers.random() / 100, y[at]

def constant(a, b):
    square = tf.reshape(tf.tile(a, [600]), [60, 60])
    for _ in range(20):  # milliseconds, so that a cache takes a while to fill
        square = tf.nn.softmax(square @ square)
    return a + 0.001 * square[0, :6], b

def fed():
    return tf.data.Dataset.from_generator(feed, output_signature=(tf.TensorSpec((6,)), tf.TensorSpec((), tf.int32))).batch(16)

def slices():
    return tf.data.Dataset.from_tensor_slices((x[:160], y[:160])).map(constant).shuffle(160).batch(16)

def memory():  # next to no work per batch, so that several steps per call win on any machine
    return tf.data.Dataset.from_tensors((x[:16], y[:16])).repeat(40)

model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = SOURCE()
"""
END = """
history = model.fit(data, epochs=EPOCHS, verbose=0)
weights = hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
print("trained", weights, history.history["loss"][-1], numbers.random())
sys.exit(3)
"""


EPOCHS = {"fed": "150", "slices": "500", "memory": "300"}  # each takes longer than it is looked at


def program(folder: Path, source: str) -> None:
    text = START.replace("SOURCE", source) + END.replace("EPOCHS", EPOCHS[source])
    (folder / "train.py").write_text(textwrap.dedent(text), encoding="utf-8")


def plain(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 3 and done.stdout.startswith("trained "), done.stderr[-3000:]
    return done.stdout


def signalled(process: subprocess.Popen[str], after: str, number: int) -> tuple[str, str]:
    """Send a signal once a line of its stderr holds `after`; what it wrote afterwards."""
    assert process.stderr is not None and process.stdout is not None
    with process.stderr as lines, process.stdout as output:
        if not any(after in line for line in lines):
            process.wait()
            pytest.skip(f"it never said {after!r}: this machine is too noisy for it to keep anything")
        process.send_signal(number)
        rest = lines.read()
        return output.read(), rest


STAGES = {
    "a preparation": ("preparing XLA", "fed"),
    "a screening race": ("racing, at most", "fed"),
    "the filling of a cache": ("preparing Cache", "slices"),
    "another look": ("Looking again", "memory"),
    "the comparison": ("Is the edited script the same program?", "memory"),
    "the last race": ("Racing the edited script against the original", "memory"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_the_command_with_nothing_on_stdout(stage: str, tmp_path: Path) -> None:
    after, source = STAGES[stage]
    program(tmp_path, source)
    process = started(
        "-m", "outpace", "tune", "--out", "samples", "--html", "tune.html", "train.py", cwd=tmp_path, stdout=subprocess.PIPE
    )
    output, rest = signalled(process, after, signal.SIGINT)
    assert process.wait(120) == 130, rest[-3000:]
    assert output == "" and "interrupted" in rest and "KeyboardInterrupt" not in rest and "out of the race" not in rest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_a_command_that_is_told_to_end_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    program(tmp_path, "slices")
    process = started(
        "-m",
        "outpace",
        "tune",
        "--out",
        "samples",
        "--html",
        "tune.html",
        "train.py",
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    _, rest = signalled(process, "preparing as it is", signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM, rest[-3000:]
    end = time.monotonic() + 20
    while left_over(tmp_path) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left_over(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_a_training_with_state_outside_is_bit_equal_after_a_whole_tuning(tmp_path: Path) -> None:
    program(tmp_path, "fed")
    untouched = plain(tmp_path)
    command = [sys.executable, "-m", "outpace", "tune", "--budget", "20s", "--then", "continue", "--json", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 3, done.stderr[-3000:]
    document, end = json.JSONDecoder().raw_decode(done.stdout)
    assert done.stdout[end:].strip() == untouched.strip()
    assert document["tools"]["tune"]["tables"]["tried"]["rows"]
