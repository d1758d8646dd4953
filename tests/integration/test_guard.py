"""What the commands that run a user's script in trials leave of his files: everything."""

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

from tests.integration.programs import Ended, environment, needs_jax, needs_tensorflow, run_python

WAYS = ("", "redirect")

FIVE = """
import numpy as np, jax, jax.numpy as jnp

log = open("log.csv", "w")
loss = lambda w, x: jnp.mean((x @ w) ** 2)

@jax.jit
def epoch(w):
    return jax.lax.fori_loop(0, 10, lambda i, w: w - 0.01 * jax.grad(loss)(w, jnp.ones((8, 4))), w)

w = jnp.ones(4)
for i in range(5):
    w = epoch(w)
    log.write(f"{i}\\n")
np.save("w.npy", w)
"""

LOOP = """
import os, subprocess, tempfile, threading
import numpy as np, jax, jax.numpy as jnp

log = open("log.csv", "a")
temporary = os.path.join(tempfile.gettempdir(), "weights")
loss = lambda w, x: jnp.mean((x @ w) ** 2)

@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(loss)(w, x)

def save(w):
    np.save("thread.npy", np.asarray(w))
    subprocess.run("echo later > sub.txt", shell=True)

w, x = jnp.ones(4), jnp.ones((8, 4))
for i in range(4000):
    w = step(w, x)
    log.write(f"{i}\\n"); log.flush()
    if i % 50 == 5:
        threading.Thread(target=save, args=(w,)).start()
        with open(temporary, "wb") as file:
            np.save(file, w)
np.save("thread.npy", w)
"""

SAVING = """
import sys
import numpy as np, keras

class Best(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.save("best.keras")
        open("log.csv", "a").write("x")

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((160, 8), "float32"), np.zeros((160, 1), "float32"), batch_size=8, verbose=0, callbacks=[Best()])
"""


def made(folder: Path, text: str) -> dict[str, str]:
    """A script beside the files of an earlier training; the hashes of all."""
    (folder / "tmp").mkdir()
    for name in ("log.csv", "w.npy", "thread.npy", "sub.txt", "best.keras", "tmp/weights"):
        (folder / name).write_text("of an earlier training")
    (folder / "train.py").write_text(textwrap.dedent(text))
    return hashes(folder)


def hashes(folder: Path) -> dict[str, str]:
    """Everything in a folder, but for what is removed meanwhile, as by a process that ends."""
    found = {}
    for path, _, names in os.walk(folder):  # which passes over folders that are gone
        for name in () if "__pycache__" in path else names:
            with contextlib.suppress(FileNotFoundError):
                file = Path(path, name)
                found[str(file.relative_to(folder))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def outpace(folder: Path, way: str, *arguments: str, code: int = 0, **variables: Any) -> Ended:
    """Run a command in a folder; it must end with that code."""
    done = run_python("-m", "outpace", *arguments, cwd=folder, jax=True, OUTPACE_GUARD=way, **variables)
    assert done.code == code, done.err
    return done


@needs_jax
@pytest.mark.parametrize("way", WAYS)
def test_a_script_that_was_not_tuned_has_written_nothing(way: str, tmp_path: Path) -> None:
    before = made(tmp_path, FIVE)
    done = outpace(tmp_path, way, "tune", "train.py", code=8)
    assert "meanwhile the script did not write: log.csv, w.npy" in done.err
    assert "it ran without writing any file of yours" in done.err
    assert hashes(tmp_path) == before


@needs_jax
@pytest.mark.parametrize("then", ["continue", "apply"])
def test_a_script_that_was_not_tuned_is_started_anew(then: str, tmp_path: Path) -> None:
    made(tmp_path, FIVE)
    done = outpace(tmp_path, "", "tune", "--then", then, "train.py")
    assert "it is started anew, and trains" in done.err
    assert (tmp_path / "log.csv").read_text().split() == list("01234")
    assert (tmp_path / "w.npy").read_bytes().startswith(b"\x93NUMPY")


@needs_jax
@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.verify] * bool(way)) for way in WAYS])
def test_a_loop_with_a_log_a_thread_a_subprocess_and_a_folder_for_temporary_files(way: str, tmp_path: Path) -> None:
    before = made(tmp_path, LOOP)
    options = ["--budget", "60s", "--html", "tune.html", "--out", "races"]
    done = outpace(tmp_path, way, "tune", *options, "train.py", TMPDIR=str(tmp_path / "tmp"))
    after = hashes(tmp_path)
    assert after.pop("tune.html")
    assert [name for name in after if name.startswith("races/")]
    assert {name: value for name, value in after.items() if not name.startswith("races/")} == before
    assert f"the HTML report is {tmp_path}/tune.html" in done.err and f"are in {tmp_path}/races" in done.err
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("outpace: tuning took ") and last.endswith(" of 60 s")


@needs_tensorflow
def test_a_saving_callback_of_the_users_own_is_raced_and_writes_nothing(tmp_path: Path) -> None:
    before = made(tmp_path, SAVING)
    outpace(tmp_path, "", "race", "train.py", "train.py --again", "--budget", "2s")
    assert hashes(tmp_path) == before


@needs_jax
@pytest.mark.parametrize("moment", [pytest.param(at, marks=[] if at < 1 else [pytest.mark.verify]) for at in range(30)])
def test_a_killed_command_has_changed_nothing(moment: int, tmp_path: Path) -> None:
    before = made(tmp_path, LOOP)
    quietly: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command, variables = ["-m", "outpace", "tune", "--budget", "30s", "train.py"], {"TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen([sys.executable, *command], cwd=tmp_path, env=environment(jax=True, **variables), **quietly)
    time.sleep(random.Random(moment).uniform(0.2, 14.0) if moment else 5.0)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 10
    while hashes(tmp_path) != before and time.monotonic() < end:  # what was started ends a moment later
        time.sleep(0.1)
    assert hashes(tmp_path) == before
