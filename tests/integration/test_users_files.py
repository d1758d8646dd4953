"""Commands that run a script write nothing over the user's files, and leave nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import environment, needs_tensorflow, run_python

pytestmark = needs_tensorflow

SCRIPT = """
import contextlib, importlib.util, multiprocessing, time
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = (x[:, :3].argmax(1)).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a * 2, b))CACHE.batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

@contextlib.contextmanager
def summary():
    try:
        yield
    finally:
        open("summary.txt", "w").write("left")

CALLBACKS = [
    keras.callbacks.ModelCheckpoint("best.keras"),
    keras.callbacks.BackupAndRestore("backup"),
    keras.callbacks.CSVLogger("log.csv"),
]
if importlib.util.find_spec("tensorboard"):  # it writes scalars at the end of an epoch, and fails without
    CALLBACKS.append(keras.callbacks.TensorBoard("events"))
if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), daemon=False)
    worker.start()
    try:
        with summary():
            model.fit(data, epochs=400, verbose=0, callbacks=WHICH)
    finally:
        model.save("model.keras")
"""


def made(folder: Path, name: str) -> dict[str, str]:
    """The program and files of an earlier training; their hashes. Two scripts share no cache."""
    parts = {"WHICH": COMMANDS[name][1], "CACHE": "" if name == "race" else '.cache("kept")'}
    source = textwrap.dedent(SCRIPT)
    for part, text in parts.items():
        source = source.replace(part, text)
    (folder / "train.py").write_text(source, encoding="utf-8")
    (folder / "other.py").write_text("STEPS = 1\n" + source, encoding="utf-8")
    for name in ("best.keras", "model.keras", "log.csv", "summary.txt"):
        (folder / name).write_text("of an earlier training", encoding="utf-8")
    return hashes(folder)


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", "outpace-logs"} & {*path.parts})
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def running(folder: Path) -> list[str]:
    """Command lines of processes that run in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.joinpath("cwd").resolve() == folder and process.joinpath("cmdline").read_bytes():
                found.append(process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def quiet(folder: Path, seconds: float = 10.0) -> list[str]:
    end = time.monotonic() + seconds
    while (left := running(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


COMMANDS = {
    "tune": (["tune", "--budget", "40s", "train.py"], "CALLBACKS"),
    "race": (["race", "train.py", "other.py", "--budget", "3s"], "CALLBACKS"),
    "profile": (["profile", "train.py"], "[]"),
}


@pytest.mark.parametrize("name", ["profile", *(pytest.param(name, marks=pytest.mark.verify) for name in ("tune", "race"))])
def test_no_file_of_the_users_changes_and_no_process_is_left(name: str, tmp_path: Path) -> None:
    command = COMMANDS[name][0]
    before = made(tmp_path, name)
    done = run_python("-m", "outpace", *command, cwd=tmp_path)
    assert done.code == 0, done.err[-3000:]
    after = hashes(tmp_path)
    if name != "tune":  # the script's own pipeline writes its cache as it trains
        after = {path: value for path, value in after.items() if not path.startswith("kept")}
    assert after == before
    assert not quiet(tmp_path)
    if name == "race":
        assert "runs without ModelCheckpoint, BackupAndRestore, CSVLogger" in done.err
    if name == "profile":
        told = [line for line in done.err.splitlines() if "the training " in line]
        assert ["will be stopped" in line and "--then continue" in line for line in told] == [True, False]
        assert "was stopped" in told[1]


KILLED = [(name, at) for name in COMMANDS for at in range(10)]


@pytest.mark.parametrize(
    ("name", "moment"),
    [pytest.param(name, at, marks=[] if (name, at) == ("tune", 0) else [pytest.mark.verify]) for name, at in KILLED],
)
def test_a_killed_command_leaves_no_process_and_no_cache(name: str, moment: int, tmp_path: Path) -> None:
    command = COMMANDS[name][0]
    before = made(tmp_path, name)
    quietly: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment()}
    process = subprocess.Popen([sys.executable, "-m", "outpace", *command], cwd=tmp_path, **quietly)
    time.sleep(random.Random(f"{name} {moment}").uniform(0.3, 14.0) if moment else 7.0)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not quiet(tmp_path)
    after = {path: value for path, value in hashes(tmp_path).items() if not path.startswith("kept")}
    assert after == before
    assert not [path for path in os.listdir(tmp_path) if path.startswith("outpace_cache_")]
