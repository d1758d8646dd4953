"""However a training ends during a capture, its outcome is its own, the user is told, and nothing half-written stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outpace.store.logdir import find_profiles
from tests.integration.programs import KERAS, environment, needs_tensorflow, run_program

pytestmark = needs_tensorflow

ENDLESS = (
    KERAS
    + """
import tensorflow as tf
data = tf.data.Dataset.from_tensors((x[:8], y[:8])).repeat()
if sys.argv[1] == "callback":
    model().fit(data, steps_per_epoch=10**6, verbose=0, callbacks=[outpace.ProfilerCallback("logs", (3, 10**6))])
else:
    trained = model()
    trained.train_on_batch(x, y)
    with outpace.capture("logs"):
        while True:
            trained.train_on_batch(x, y)
"""
)
LIMITED = (
    KERAS
    + """
import resource
trained = model()
trained.fit(x, y, batch_size=8, verbose=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))  # how a full disk looks to the process
callback = outpace.ProfilerCallback("logs", (3, 6))
trained.fit(x, y, batch_size=8, verbose=0, callbacks=[callback])
with outpace.capture("logs") as capture:
    trained.fit(x, y, batch_size=8, verbose=0)
print(callback.run, capture.run, "trained on")
sys.exit(9)
"""
)


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("how", ["callback", pytest.param("program", marks=pytest.mark.verify)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(how: str, number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ENDLESS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script), how],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    assert process.stderr is not None
    with process.stderr as lines:
        next(line for line in lines if line.startswith("outpace: capturing"))
        time.sleep(0.5)
        process.send_signal(number)
        rest = lines.read()
    assert process.wait(60) == -number, rest
    if number == signal.SIGTERM:
        assert "outpace: SIGTERM ended the process during a capture; nothing was saved" in rest
        assert os.listdir(tmp_path / "logs") == []
    else:  # Python's own KeyboardInterrupt leaves the program time to save
        assert "KeyboardInterrupt" in rest and "outpace: captured" in rest
        assert len(find_profiles(tmp_path / "logs").files) == 1
        assert [path.name for path in (tmp_path / "logs").iterdir()] == ["plugins"]


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_full_disk(size: int, tmp_path: Path) -> None:
    ended = run_program(LIMITED, tmp_path, str(size))
    assert (ended.code, ended.out) == (9, "None None trained on\n"), ended.err[-3000:]
    lost = [line for line in ended.told if "The profile could not be saved in logs: File too large" in line]
    assert len(lost) == 2
    assert files_below(tmp_path / "logs") == []


def test_a_log_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file, which no permission lets become a folder")
    ended = run_program(LIMITED, tmp_path, "-1")
    assert (ended.code, ended.out) == (9, "None None trained on\n"), ended.err[-3000:]
    assert len([line for line in ended.told if "The log directory logs is not writable" in line]) == 2


def test_an_exception_of_the_model(tmp_path: Path) -> None:
    ended = run_program(
        KERAS
        + """
class Boom(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 9:
            raise RuntimeError("of the model")

model().fit(x, y, batch_size=8, verbose=0, callbacks=[outpace.ProfilerCallback("logs", (3, 60)), Boom()])
""",
        tmp_path,
    )
    assert ended.code == 1
    assert "RuntimeError: of the model" in ended.err
    assert "captured 8 steps" in ended.told[-1]
    assert len(find_profiles(tmp_path / "logs").files) == 1


def test_a_handler_of_the_program_stays_in_charge(tmp_path: Path) -> None:
    """Set before or during the capture, the program's own handler is the one that runs."""
    ended = run_program(
        KERAS
        + """
import signal
trained = model()
trained.train_on_batch(x, y)
outpace.start("logs")
signal.signal(signal.SIGTERM, lambda number, frame: print("handled", flush=True))
os.kill(os.getpid(), signal.SIGTERM)
trained.train_on_batch(x, y)
print(outpace.stop().run is not None)
mine = signal.getsignal(signal.SIGTERM)
outpace.start("logs")
os.kill(os.getpid(), signal.SIGTERM)
outpace.stop()
print(signal.getsignal(signal.SIGTERM) is mine)
""",
        tmp_path,
    )
    assert (ended.code, ended.out) == (0, "handled\nTrue\nhandled\nTrue\n"), ended.err[-3000:]
