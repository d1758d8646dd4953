"""Races of scripts: Keras, loops, `outpace_race`, crashes, Ctrl-C. No speed is asked for."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from outpace.tune.starts import Forks
from outpace.tune.texts.edition import Edition
from outpace.tune.trial import read_experiment
from outpace.tune.trial.script import Command, ScriptArm
from tests.integration.programs import Ended, needs_tensorflow, run_python, started

SLEEPY = """
import os, time
def outpace_race():
    def step():
        time.sleep(float(os.environ.get("NAP", SECONDS)))
    return step, EXAMPLES
if __name__ == "__main__":
    raise SystemExit("this part must not run")
"""
CRASH = "print('reading data.csv')\nraise ValueError('no such file')\n"
LATE = """
def outpace_race():
    done = []
    def step():
        done.append(0)
        if len(done) > 60:
            raise MemoryError("no memory left")
        return sum(range(100_000))
    return step
"""
KERAS = """
import sys, numpy as np, keras
batch = int(sys.argv[1])
x, y = np.zeros((256, 8), "float32"), np.zeros((256, 1), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=batch, epochs=1, verbose=0, validation_data=(x, y))
raise SystemExit("the race never lets fit end")
"""
LOOP = """
import tensorflow as tf
@tf.function
def train_step(x):
    return x * 0.5 + 1.0
x = tf.zeros((64, 64))
for _ in range(10**9):
    x = train_step(x)
"""


def write(folder: Path, **scripts: str) -> None:
    for name, source in scripts.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")


def sleepy(seconds: float, examples: int | None = None) -> str:
    return SLEEPY.replace("SECONDS", repr(seconds)).replace("EXAMPLES", repr(examples))


def outpace(folder: Path, *args: str) -> Ended:
    done = run_python("-m", "outpace.cli", *args, cwd=folder)
    assert not left_over(folder)
    return done


def begun(folder: Path) -> subprocess.Popen[str]:
    """A race that is on."""
    write(folder, a=sleepy(0.01), b=sleepy(0.002))
    race = started("-m", "outpace.cli", "race", "a.py", "b.py", "--budget", "100s", cwd=folder, stdout=subprocess.PIPE)
    assert race.stderr is not None
    for line in race.stderr:
        if "racing" in line:
            break
    return race


def left_over(folder: Path) -> list[str]:
    """Processes of variants that still run in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            arguments = (process / "cmdline").read_bytes()
            if b"outpace.tune.trial.child" in arguments and os.readlink(process / "cwd") == str(folder):
                found.append(process.name)
    return found


@pytest.mark.verify
def test_a_race_is_printed_recorded_drawn_and_repeated(tmp_path: Path) -> None:
    write(tmp_path, a=sleepy(0.03), b=sleepy(0.003), crash=CRASH, late=LATE)
    options = ("--budget", "5s", "--out", "r.jsonl", "--html", "r.html", "--width", "80")
    done = outpace(tmp_path, "race", "a.py", "b.py", "crash.py", "late.py", *options)
    assert done.code == 0, done.err
    assert "Which variant trains faster than a.py" in done.out
    assert "reading data.csv" in done.err or "ValueError: no such file" in done.err
    assert "ValueError: no such file" in done.words
    assert max(map(len, done.out.splitlines())) <= 80
    experiment = read_experiment(tmp_path / "r.jsonl")
    found = experiment.verdict("b.py").estimate
    assert found is not None and found.ratio > 2  # it sleeps a tenth as long
    assert "b.py" in (tmp_path / "r.html").read_text(encoding="utf-8")
    judged = outpace(tmp_path, "replay", "r.jsonl", "--judge-only")
    assert judged.code == 0 and "agrees with the record." in judged.out


@pytest.mark.verify
def test_a_replay_races_again_and_compares(tmp_path: Path) -> None:
    write(tmp_path, a=sleepy(0.01))
    assert outpace(tmp_path, "race", "a.py", "NAP=0.002 a.py", "--budget", "2s", "--out", "r.jsonl").code == 0
    again = outpace(tmp_path, "replay", "r.jsonl", "--out", "r2.jsonl", "--json")
    assert again.code == 0, again.err
    table = json.loads(again.out)["tools"]["replay"]["tables"]["replay"]
    assert [row[0] for row in table["rows"]] == ["NAP=0.002 a.py"]
    first, second = (read_experiment(tmp_path / name) for name in ("r.jsonl", "r2.jsonl"))
    estimates = [experiment.verdicts[0].estimate for experiment in (first, second)]
    assert all(found is not None and found.ratio > 2 for found in estimates)  # it sleeps a fifth as long
    assert first.samples != second.samples
    assert (first.protocol, first.seed, first.sources) == (second.protocol, second.seed, second.sources)


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    write(tmp_path, crash=CRASH, nothing="print('no training here')")
    assert outpace(tmp_path, "race", "crash.py").code == 2
    assert outpace(tmp_path, "race", "crash.py", "none.py").code == 4
    assert outpace(tmp_path, "replay", "crash.py").code == 2
    nobody = outpace(tmp_path, "race", "crash.py", "nothing.py")
    assert nobody.code == 5
    assert "ValueError: no such file" in nobody.err
    assert "without a training step" in nobody.err


def test_ctrl_c_leaves_the_table_and_no_process(tmp_path: Path) -> None:
    race = begun(tmp_path)
    time.sleep(0.5)
    race.send_signal(signal.SIGINT)
    out, _ = race.communicate(timeout=180)
    assert race.returncode == 130
    assert "The race was stopped" in out and "b.py" in out
    assert not left_over(tmp_path)


def test_a_killed_race_leaves_no_process(tmp_path: Path) -> None:
    with begun(tmp_path) as race:
        race.kill()
    end = time.monotonic() + 10
    while left_over(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left_over(tmp_path)


@pytest.mark.verify
@needs_tensorflow
def test_keras_and_loops_are_raced_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, keras_=KERAS, loop=LOOP)
    done = outpace(tmp_path, "race", "keras_.py 32", "keras_.py 64", "loop.py", "--budget", "4s", "--out", "r.jsonl")
    assert done.code == 0, done.err
    experiment = read_experiment(tmp_path / "r.jsonl")
    steps = {trial.arm: (trial.step, trial.failure) for trial in experiment.trials}
    assert steps["keras_.py 32"] == ("keras fit, 32 examples", None)
    assert steps["keras_.py 64"] == ("keras fit, 64 examples", None)
    assert steps["loop.py"] == ("custom loop (train_step)", None)
    assert experiment.environment.versions["tensorflow"]
    assert "A step is not the same work in every variant" in done.out


READS_FIRST = """
import keras, numpy as np, tensorflow as tf
data = tf.data.Dataset.from_tensor_slices((np.zeros((256, 8), "float32"), np.zeros((256, 1), "float32")))
rows = sum(1 for x, y in data)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data.batch(32), epochs=1, verbose=0)
"""


@needs_tensorflow
def test_what_a_script_repeats_before_its_fit_is_not_the_step(tmp_path: Path) -> None:
    write(tmp_path, train=READS_FIRST)
    with Forks() as forks:
        command = Command((str(tmp_path / "train.py"),))
        process = ScriptArm(command, first_epoch=1.0, edition=Edition({}), folder=str(tmp_path), forks=forks)
        try:
            process.start()
            assert process.run(20).steps >= 20
            facts = process.arm("it").facts
            assert facts is not None and facts().step.startswith("keras fit")
        finally:
            process.close()
