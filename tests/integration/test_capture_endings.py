"""A training's outcome during a capture is its own, is told, and leaves nothing half-written."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outpace.store.logdir import find_profiles
from tests.integration.programs import KERAS, Ended, environment, needs_tensorflow, run_on_tensorflow, run_program

pytestmark = needs_tensorflow

ENDLESS = f"""{KERAS}
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
LIMITED = f"""{KERAS}
import resource
trained = model()
trained.fit(x, y, batch_size=8, verbose=0)
for logs, size in (("empty", 0), ("small", 20_000), ("file", -1)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))  # how a full disk looks to the process
    callback = outpace.ProfilerCallback(logs, (3, 6))
    trained.fit(x, y, batch_size=8, verbose=0, callbacks=[callback])
    with outpace.capture(logs) as capture:
        trained.fit(x, y, batch_size=8, verbose=0)
    print(callback.run, capture.run, "trained on", flush=True)
sys.exit(9)
"""


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def waited_for(true: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("how", ["callback", pytest.param("program", marks=pytest.mark.verify)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(how: str, number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ENDLESS, encoding="utf-8")
    told = tmp_path / "told"
    with told.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(script), how],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
        )
    waited_for(lambda: "outpace: capturing" in told.read_text())
    time.sleep(0.5)
    for _ in range(5):  # TensorFlow 2.16 can lose the KeyboardInterrupt in C code: who waits in vain presses Ctrl-C again
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
            break
    rest = told.read_text()
    assert process.wait(0) == -number, rest
    if number == signal.SIGTERM:
        assert "outpace: SIGTERM ended the process during a capture; nothing was saved" in rest
        assert os.listdir(tmp_path / "logs") == []
    else:  # Python's own KeyboardInterrupt leaves the program time to save
        assert "KeyboardInterrupt" in rest and "outpace: captured" in rest
        assert len(find_profiles(tmp_path / "logs").files) == 1
        assert [path.name for path in (tmp_path / "logs").iterdir()] == ["plugins"]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    """Captures that cannot be written: no room, little room, a file for a log directory."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "file").write_text("a file, which no permission lets become a folder")
    return run_program(LIMITED, folder), folder


def test_a_training_goes_on_when_its_captures_cannot_be_written(limited: tuple[Ended, Path]) -> None:
    ended, _ = limited
    assert (ended.code, ended.out) == (9, "None None trained on\n" * 3), ended.err[-3000:]


@pytest.mark.parametrize("logs", ["empty", "small"])
def test_a_full_disk(logs: str, limited: tuple[Ended, Path]) -> None:
    ended, folder = limited
    lost = [line for line in ended.told if f"The profile could not be saved in {logs}: File too large" in line]
    assert len(lost) == 2
    assert files_below(folder / logs) == []


def test_a_log_directory_that_cannot_be_written(limited: tuple[Ended, Path]) -> None:
    assert len([line for line in limited[0].told if "The log directory file is not writable" in line]) == 2


def test_an_exception_of_the_model(tmp_path: Path) -> None:
    ended = run_on_tensorflow(
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
    ended = run_on_tensorflow(
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
