"""Every window of ours ends on the thread that trains, between two of its calls.

On NVIDIA GPUs a JAX program dies when a trace is stopped on another thread while it launches CUDA
graphs. Here the profiler's session is one that ends the process in the same case, and the training
is inside a call nearly all the time.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import outpace
from outpace.capture import CaptureOptions, run_script
from tests.integration.programs import environment, needs_jax, run_program

pytestmark = needs_jax

DELICATE = """
import os, sys, threading, time
import jax, jax.numpy as jnp
import jax._src.profiler as behind
import outpace.capture.main_thread

outpace.capture.main_thread.uses_cuda_graphs = lambda: True  # as on a GPU

inside = False

class Session:
    def __init__(self, *options):
        self._session = Real(*options)

    def __getattr__(self, name):
        if name.startswith("stop"):
            if inside and threading.current_thread() is not threading.main_thread():
                os.abort()
        return getattr(self._session, name)

Real, behind._profiler.ProfilerSession = behind._profiler.ProfilerSession, Session

@jax.jit
def product(w, x):
    for _ in range(12):
        x = jnp.tanh(x @ w)
    return w - 1e-6 * x

def train_step(w):
    global inside
    inside = True
    w = product(w, x)
    w.block_until_ready()
    inside = False
    return w

w, x = jnp.ones((512, 512)) / 512, jnp.ones((512, 512))
w = train_step(w)
"""


def profiled(body: str, folder: Path, **options: object) -> str:
    """The run that `outpace profile` leaves of a program."""
    script = folder / "train.py"
    script.write_text(DELICATE + textwrap.dedent(body))
    chosen = CaptureOptions(**{"logdir": str(folder / "logs"), "stop": True, **options})  # type: ignore[arg-type]
    result = run_script(str(script), (), chosen, variables={"PYTHONPATH": environment(jax=True)["PYTHONPATH"]})
    assert result.run is not None and result.exit_code == 0, result
    return result.run


def steps_of(run: str) -> int:
    return len(outpace.open(run).run.hosts[0].steps)


def test_the_stand_in_dies_as_a_gpu_does(tmp_path: Path) -> None:
    ended = run_program(
        DELICATE
        + """
jax.profiler.start_trace("logs")
threading.Thread(target=lambda: (time.sleep(0.3), jax.profiler.stop_trace()), daemon=True).start()
while True:
    w = train_step(w)
""",
        tmp_path,
        jax=True,
    )
    assert ended.code == -6


def test_a_window_that_opens_by_itself(tmp_path: Path) -> None:
    assert steps_of(profiled("while True:\n    w = train_step(w)\n", tmp_path)) > 5


def test_a_window_of_seconds(tmp_path: Path) -> None:
    body = "while True:\n    w = train_step(w)\n"
    assert steps_of(profiled(body, tmp_path, steps=None, seconds=1.0, delay=0.5)) > 3


@pytest.mark.verify
def test_a_window_of_seconds_over_marked_steps(tmp_path: Path) -> None:
    body = """
    for number in range(10**9):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            w = train_step(w)
    """
    assert steps_of(profiled(body, tmp_path, steps=None, seconds=1.0, delay=0.0)) > 3


@pytest.mark.verify
def test_a_script_that_trains_on_behind_its_window(tmp_path: Path) -> None:
    body = "begun = time.time()\nwhile time.time() - begun < 12:\n    w = train_step(w)\n"
    assert steps_of(profiled(body, tmp_path, stop=False)) > 5


@pytest.mark.parametrize(
    "capture",
    [
        "with outpace.capture('logs', duration=1.0) as capture:\n    train()",
        "with outpace.capture('logs', delay=0.3, duration=1.0) as capture:\n    train()",
        pytest.param("capture = outpace.start('logs')\ntrain()\noutpace.stop()", marks=pytest.mark.verify),
    ],
)
def test_a_capture_by_the_program(capture: str, tmp_path: Path) -> None:
    body = """
import outpace

def train():
    global w
    for _ in range(60):
        w = train_step(w)

"""
    ended = run_program(DELICATE + body + capture + "\nprint(capture.profile)\n", tmp_path, jax=True)
    assert ended.code == 0 and steps_of(ended.out.splitlines()[-1]) > 3, ended


@pytest.mark.verify
def test_a_monitors_capture(tmp_path: Path) -> None:
    body = """
from outpace.monitor import Monitor

with Monitor("logs", every=0.5, warmup=3, ratio=1.5) as monitor:
    for number in range(300):
        with monitor.step():
            for _ in range(1 if number < 200 else 3):
                w = train_step(w)
"""
    ended = run_program(DELICATE + body, tmp_path, jax=True)
    assert ended.code == 0, ended


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="grpcio is not installed")
@pytest.mark.parametrize("asks", ["while waiting for its data", "while it computes"])
def test_a_server_of_ours(asks: str, tmp_path: Path) -> None:
    rest = "\n    time.sleep(0.2)" if asks.startswith("while waiting") else ""
    script = tmp_path / "train.py"
    script.write_text(
        DELICATE
        + f"""
import outpace
server = outpace.serve(0)
print(server.address, flush=True)
begun = time.time()
while not os.path.exists("end") and time.time() - begun < 60:
    w = train_step(w){rest}
print("survived", flush=True)
os._exit(0)
"""
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(jax=True)
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        where = str(tmp_path / "logs")
        command = [sys.executable, "-m", "outpace.cli", "capture", address, "--logdir", where, "--duration", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        (tmp_path / "end").touch()
        assert process.stdout.readline() == "survived\n"
    assert done.returncode == 0 and list((tmp_path / "logs").rglob("*.xplane.pb")), done.stderr
    run = outpace.open(tmp_path / "logs").run  # with its record, and the lines of Python that were sampled
    (record,) = (run.record(timeline.host) for timeline in run.hosts)
    assert record["mode"] == "server" and record["calibration"] and record["python_samples"]["samples"]
