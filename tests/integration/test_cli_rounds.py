"""`outpace compare --run COMMAND --against COMMAND`: real captures of a small program, in turns."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.programs import environment, needs_jax, started

pytestmark = needs_jax

TRAIN = """
import os, sys, time
import jax, jax.numpy as jnp

with open("order", "a") as file:
    print(os.getpid(), os.environ.get("WHO", "nobody"), *sys.argv[1:], file=file)
print("this is the script's")
if "fail" in sys.argv:
    raise ValueError("no such data")

@jax.jit
def train_step(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)

w, x = jnp.ones((64, 64)), jnp.ones((8, 64))
for step in range(4 if "few" in sys.argv else 10**9):
    with jax.profiler.StepTraceAnnotation("train", step_num=step):
        w = jax.block_until_ready(train_step(w, x))
        if "nap" in sys.argv:
            time.sleep(0.02)
"""
QUICK = ("--warmup", "3", "--steps", "10")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    return tmp_path


def compared(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace", "compare", *arguments]
    (scratch := folder / "scratch").mkdir(exist_ok=True)
    variables = environment(jax=True, TMPDIR=str(scratch))
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, env=variables)
    assert not list(scratch.glob("outpace-*"))  # captures that nobody asked to keep
    return done


def ran(folder: Path) -> list[tuple[int, str]]:
    """Every process of the script, and what it was told."""
    lines = (folder / "order").read_text().splitlines()
    return [(int(line.split()[0]), line.split(maxsplit=1)[1]) for line in lines]


def test_both_sides_are_captured_in_turns_and_judged(folder: Path) -> None:
    sides = ("--run", "WHO=me python train.py nap", "--against", "train.py", "--captures", "2")
    done = compared(folder, *sides, *QUICK, "--logdir", "kept", "--gate", "5%", "--junit", "gate.xml", "--json")
    assert done.returncode in (10, 11), done.stderr  # of a program of three ops little can be told apart
    processes = ran(folder)
    assert [told for _, told in processes] == ["nobody", "me nap", "me nap", "nobody"] and len({p for p, _ in processes}) == 4
    report = json.loads(done.stdout)  # nothing that the script prints stands in it
    figures = {each["label"]: each for each in report["tools"]["compare"]["sections"][0]["items"]}
    assert figures["Ratio"]["value"] > 2  # a step sleeps for many times what it takes else
    assert figures["Before"]["remark"].startswith("python train.py, ") and "of 2 captures" in figures["Before"]["remark"]
    assert figures["After"]["remark"].startswith("WHO=me python train.py nap, ")
    assert "capture 4 of 4: python train.py" in done.stderr and "the captures are in kept" in done.stderr
    kept = sorted(path.relative_to(folder / "kept").parts[0] for path in (folder / "kept").rglob("*.xplane.pb"))
    assert kept == ["against-1", "against-2", "run-1", "run-2"]
    assert "<testsuites" in (folder / "gate.xml").read_text()
    again = compared(folder, "kept/against-1", "kept/run-1", "--before", "kept/against-2", "--after", "kept/run-2", "--json")
    assert json.loads(again.stdout)["tools"]["compare"]["sections"][0]["items"][2]["value"] == figures["Ratio"]["value"]


def test_a_side_that_fails_is_told_by_its_error(folder: Path) -> None:
    done = compared(folder, "--run", "train.py fail", "--against", "train.py", *QUICK)
    assert done.returncode == 5 and not done.stdout
    assert "python train.py fail could not be captured. It failed with exit code 1. ValueError: no such data." in done.stderr
    assert len(ran(folder)) == 2  # and nothing more is run


def test_a_side_that_is_over_too_soon_is_told(folder: Path) -> None:
    done = compared(folder, "--run", "train.py", "--against", "train.py few")
    assert done.returncode == 5 and "within the warm-up of 10" in done.stderr and len(ran(folder)) == 1


@pytest.mark.parametrize(("capture", "shown"), [(1, False), (3, True)])
def test_ctrl_c_leaves_what_is_known_and_no_process(folder: Path, capture: int, shown: bool) -> None:
    command = ("-m", "outpace", "compare", "--run", "train.py nap", "--against", "train.py nap", *QUICK)
    process = started(*command, jax=True, cwd=folder, stdout=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if f"capture {capture} of 8" in line:
            break
    while len(ran(folder) if (folder / "order").exists() else ()) < capture:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and ("Step time" in out) == shown
    assert ("of 1 capture a side instead of 4" if shown else "nothing to compare") in err
    assert not any(Path("/proc", str(number)).exists() for number, _ in ran(folder))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--run", "train.py"), 2, "--run and --against each name a command"),
        (("--run", "train.py", "--against", "train.py", "a"), 2, "take the place of runs"),
        (("a",), 2, "Give two runs; or two commands"),
        (("a", "b", "--captures", "3"), 2, "two commands, with --run and --against"),
        (("--run", "train.py", "--against", "gone.py"), 4, "There is no script gone.py"),
        (("--run", "train.py", "--against", "train.py", "--junit", "x.xml"), 2, "Give --gate"),
    ],
)
def test_requests_that_make_no_sense_run_nothing(folder: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = compared(folder, *arguments)
    assert done.returncode == code and says in done.stderr and not (folder / "order").exists()
