"""Settings of the environment in real processes take effect, prove it, and change nothing else."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from outpace.tune.climb.environment import tune_environment
from outpace.tune.optimisations import environment_knobs
from outpace.tune.optimisations.environment import Host, Observed
from outpace.tune.trial.script import Command, ScriptArm
from tests.integration.programs import environment, needs_tensorflow, started

pytestmark = needs_tensorflow
KNOBS = {knob.id: knob for knob in environment_knobs()}
CORES = Host.here(Observed()).visible
needs_cores = pytest.mark.skipif(CORES < 2, reason="TensorFlow starts one thread anyway")

STEPS = """
import os
DROPPED
import tensorflow as tf

def outpace_race():
    x = tf.ones((32, 32))
    step = tf.function(lambda a: a @ a / 32.0)
    return lambda: step(x)
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


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Here, with an environment that sets nothing of TensorFlow's but its log level."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_ENABLE_ONEDNN_OPTS", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def write(name: str, source: str) -> str:
    Path(name).write_text(source, encoding="utf-8")
    return name


def seen(script: str, **variables: str) -> Observed:
    """What a script's process tells with some variables; the process is ended."""
    process = ScriptArm(Command((script,), environment=variables))
    try:
        process.start()
        assert process.memory > 2**26  # TensorFlow alone takes more
        return Observed(**process.observed)
    finally:
        process.close()


@pytest.mark.verify
@needs_cores
def test_settings_take_effect_and_the_process_shows_it() -> None:
    script = write("train.py", STEPS.replace("DROPPED", ""))
    plain = seen(script)
    both = seen(script, TF_NUM_INTRAOP_THREADS="1", TF_ENABLE_ONEDNN_OPTS="0")
    host = replace(Host.here(plain), environment={})
    threads, onednn = (KNOBS[name].settings(host)[0] for name in ("intra_op_threads", "onednn"))
    found = KNOBS["intra_op_threads"].proof(threads, both, host)
    assert found == f"TensorFlow started {2 * CORES - CORES + 1} threads for its pools instead of {2 * CORES}"
    assert KNOBS["intra_op_threads"].proof(threads, plain, host) is None
    assert both.onednn is False
    assert KNOBS["onednn"].proof(onednn, plain, host) is None
    assert KNOBS["onednn"].proof(onednn, both, host) or plain.onednn is False  # off anyway, on other processors


@pytest.mark.verify
@needs_cores
def test_a_knob_that_does_nothing_is_reported_as_unproven() -> None:
    script = write("train.py", STEPS.replace("DROPPED", "os.environ.pop('TF_NUM_INTRAOP_THREADS', None)"))
    knob = KNOBS["intra_op_threads"]
    outcome = tune_environment(script, budget=4, knobs=[knob])
    assert {tried.decision for tried in outcome.tried} == {"no effect proven"}
    assert not outcome.variables
    assert str(outcome.command) == "python train.py"
    assert not left_over()


def test_what_the_user_sets_is_left_alone_and_a_module_can_be_raced(monkeypatch: pytest.MonkeyPatch) -> None:
    write("loop.py", LOOP)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "2")
    outcome = tune_environment("loop", module=True, budget=4, knobs=[KNOBS["onednn"], KNOBS["inter_op_threads"]])
    assert [(tried.decision, tried.reason.split(",")[0]) for tried in outcome.tried] == [
        ("not applicable", "the environment sets TF_ENABLE_ONEDNN_OPTS=0"),
        ("not applicable", "the environment sets TF_NUM_INTEROP_THREADS=2"),
    ]
    assert (outcome.races, str(outcome.command)) == ((), "python -m loop")


@needs_cores
def test_no_process_is_started_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    script = write("train.py", STEPS.replace("DROPPED", ""))
    for module in ("climb.environment", "trial.script"):
        monkeypatch.setattr(f"outpace.tune.{module}.free_memory", lambda: 2**28)
    outcome = tune_environment(script, budget=4, knobs=[KNOBS["intra_op_threads"]])
    assert all(tried.decision == "not applicable" and "0.2 GiB of memory are free" in tried.reason for tried in outcome.tried)
    assert outcome.tried and not outcome.races


def test_a_script_that_cannot_be_raced_is_still_run() -> None:
    write("train.py", "print('no training here')\nraise SystemExit(3)\n")
    command = [sys.executable, "-m", "outpace", "tune", "--environment", "train.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=240)
    assert done.returncode == 3
    assert "outpace: the environment is not tried: The script" in done.stderr
    assert done.stdout == "no training here\n"


def test_ctrl_c_ends_the_command_and_leaves_no_process() -> None:
    write("train.py", "import time\ntime.sleep(1000)\n")
    process = started("-m", "outpace", "tune", "--environment", "train.py", stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    with process.stderr as lines:
        next(line for line in lines if "preparing" in line)
        while not left_over():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        rest = lines.read()
    assert process.wait(30) == 130, rest
    assert not left_over()


def left_over() -> list[str]:
    """Processes of this folder's variants that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            arguments = (process / "cmdline").read_bytes()
            if b"outpace.tune.trial.child" in arguments and (process / "cwd").readlink() == Path.cwd():
                found.append(process.name)
    return found
