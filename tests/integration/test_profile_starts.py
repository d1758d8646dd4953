"""Scripts that do something else before they train: what is captured is the training."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import outpace
from outpace.capture import CaptureOptions, run_script
from outpace.timeline import Run
from tests.integration.programs import environment, needs_jax

pytestmark = needs_jax

SETUP = """
import sys, time
import numpy as np, jax, jax.numpy as jnp

begun = time.time()

@jax.jit
def train_step(w, x):
    return w - 1e-3 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)

@jax.jit
def make_batch(key):
    key, own = jax.random.split(key)
    return jax.random.normal(own, (256, 128)), key

w, x = jnp.ones((128, 128)) / 128, jnp.ones((256, 128))
"""
TRAIN = """
for number in range(10**9):
    w = train_step(w, x)
    w.block_until_ready()
    if time.time() - begun > 60:
        break
"""


def profiled(text: str, folder: Path, capfd: pytest.CaptureFixture[str], **options: object) -> tuple[Run | None, str, str]:
    """The run that `outpace profile` leaves of a program, what it told, and why there is none."""
    (folder / "job.py").write_text(SETUP + text)
    chosen = CaptureOptions(**{"logdir": str(folder / "logs"), "lasting": 0.5, **options})  # type: ignore[arg-type]
    variables = {"PYTHONPATH": environment(jax=True)["PYTHONPATH"]}
    result = run_script(str(folder / "job.py"), (), chosen, variables=variables)
    told = capfd.readouterr().err
    return outpace.open(result.run).run if result.run is not None else None, told, result.reason or ""


def trains(run: Run | None) -> bool:
    """Whether the steps are calls of the training's step."""
    assert run is not None
    return "train_step" in run.hosts[0].steps.explanation and len(run.hosts[0].steps) > 20


def test_data_made_by_a_jitted_function_is_no_training(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
key, batches = jax.random.PRNGKey(0), []
while time.time() - begun < 12:
    batch, key = make_batch(key)
    batches = [np.asarray(batch), *batches[:20]]
"""
    run, told, _ = profiled(text + TRAIN, tmp_path, capfd)
    assert trains(run) and "make_batch comes round, and computes no gradients (now at job.py:" in told


def test_a_program_that_runs_behind_its_calls_is_seen_to_train(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ten calls at once and then a wait: a look may hold calls of other steps, or none."""
    text = """
w, x = jnp.ones((512, 512)) / 512, jnp.ones((2048, 512))
for number in range(10**9):
    w = train_step(w, x)
    if number % 10 == 0:
        float(w[0, 0])
    if time.time() - begun > 60:
        break
"""
    run, told, _ = profiled(text, tmp_path, capfd)
    assert trains(run) and "computes no gradients" not in told


def test_what_a_step_takes_without_the_profiler_is_known_without_marks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run, _, _ = profiled(TRAIN, tmp_path, capfd)
    assert trains(run) and run is not None
    overhead = run.record(run.hosts[0].host)["overhead"]
    (during,), (after,), (_, inside, behind) = (overhead[name] for name in ("during_ns", "after_ns", "rounds"))
    assert inside >= 3 and behind >= 3 and 0 < after < 3 * during


@pytest.mark.verify
def test_marked_steps_behind_a_slow_start_are_the_steps(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
time.sleep(7)
for number in range(10**6):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        w = train_step(w, x).block_until_ready()
"""
    run, told, _ = profiled(text, tmp_path, capfd, steps=20)
    assert run is not None and run.hosts[0].steps.source.value == "marked" and "waiting for the training since" in told


def test_steps_that_begin_during_a_look_are_captured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Looks become long while nothing comes round, so that the first marked steps fall into one."""
    text = """
@jax.jit
def part(x):
    return jax.lax.fori_loop(0, 3000, lambda at, x: jnp.tanh(x), x)

x2 = jnp.ones((2000, 500))
while time.time() - begun < 8:
    x2 = part(x2).block_until_ready()
for number in range(10**6):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        w = train_step(w, x).block_until_ready()
"""
    run, told, why = profiled(text, tmp_path, capfd, steps=20)
    assert run is not None and run.hosts[0].steps.source.value == "marked", told + why


@pytest.mark.verify
def test_reading_data_is_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, told, _ = profiled("time.sleep(8)\n" + TRAIN, tmp_path, capfd)
    assert trains(run) and re.search(r"waiting for the training since \d s \(now at job.py:\d+\)", told)


@pytest.mark.verify
def test_steps_that_are_longer_than_a_look_are_captured_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = TRAIN.replace("    w = train_step(w, x)\n", "    for _ in range(2): w = train_step(w, x)\n    time.sleep(1.2)\n")
    run, _, _ = profiled(text, tmp_path, capfd)
    assert run is not None and int(run.hosts[0].steps.complete.sum()) >= 3


@pytest.mark.verify
def test_a_script_in_which_nothing_comes_round_says_what_was_seen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, _, reason = profiled("time.sleep(4)\nprint(float((x * 2).sum()))\ntime.sleep(2)\n", tmp_path, capfd)
    assert run is None and "without a training step that could be seen" in reason


@pytest.mark.verify
def test_the_scripts_own_profile_is_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The script begins a trace of its own at any time, also in the middle of a look."""
    text = """
own = sys.argv[0].replace("job.py", "own")
for _ in range(4):
    for number in range(400):
        w = train_step(w, x).block_until_ready()
    with jax.profiler.trace(own):
        for number in range(50):
            w = train_step(w, x).block_until_ready()
"""
    run, _, _ = profiled(text + TRAIN, tmp_path, capfd)
    assert trains(run) and len(list((tmp_path / "own").rglob("*.xplane.pb"))) >= 1


@pytest.mark.verify
def test_a_healthy_capture_meets_no_fault_of_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, _, _ = profiled(TRAIN, tmp_path, capfd)
    assert run is not None
    record = run.record(run.hosts[0].host)
    assert record["faults"] == {} and record["command_buffers"] is True


def test_a_training_that_compiles_nearly_all_the_time_is_captured(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """While a program is compiled there is nothing to look at, unless it was compiled before."""
    text = """
@functools.partial(jax.jit, static_argnums=2)
def train_step(w, x, rate):
    def loss(w):
        y = x
        for number in range(120):
            y = jnp.tanh(y @ w + number)
        return jnp.mean(y ** 2)
    return w - rate * jax.grad(loss)(w)

for number in range(10**9):
    w = train_step(w, x, 1e-3 / (1 + number // 10))
    w.block_until_ready()
    if time.time() - begun > 60:
        break
"""
    run, _, reason = profiled("import functools\n" + text, tmp_path, capfd)
    assert run is not None, reason
    assert "train_step" in run.hosts[0].steps.explanation and run.record(run.hosts[0].host).get("compilations")
