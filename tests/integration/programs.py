"""Runs small training programs in processes of their own, as users run theirs."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from outpace.tune.starts import Forks, Imports
from outpace.tune.starts.imports import FRAMEWORKS

needs_tensorflow = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")

KERAS = """
import json, os, sys
import numpy as np, keras, outpace

def model(**options):
    made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    made.compile("sgd", "mse", **options)
    return made

x, y = np.zeros((160, 8), "float32"), np.zeros((160, 1), "float32")  # 20 batches of 8

def steps_of(run):
    if run is None:
        return None
    steps = outpace.open(run).run.hosts[0].steps
    return [steps.source.value, steps.number.tolist(), steps.steps_per_execution]
"""


@cache
def forks(*names: str) -> Forks:
    """What starts processes that have imported these frameworks, for all tests of a worker."""
    made = Forks(Imports(names))
    atexit.register(made.__exit__)
    return made


def forks_for(text: str) -> Forks:
    """The same, for a script."""
    imported = re.findall(r"(?:\bimport|,) *(\w+)", text)
    return forks(*dict.fromkeys(each for each in imported if each in FRAMEWORKS))


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> list[str]:
        """What Outpace said to the user."""
        return [line.removeprefix("outpace: ") for line in self.err.splitlines() if line.startswith("outpace: ")]

    @property
    def words(self) -> str:
        """What it printed, on one line."""
        return " ".join(self.out.split())


def environment(*, jax: bool = False, **changes: str) -> dict[str, str]:
    """The environment of a quiet program; with `jax` it can import that, and so will TensorFlow.

    Programs start in folders of their own, where a relative PYTHONPATH would lead to another
    Outpace.
    """
    path = [] if jax else [str(Path(__file__).with_name("without_jax"))]
    path += [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(path)}
    return {**os.environ, **quiet, **changes}


def started(*command: str, jax: bool = False, **options: Any) -> subprocess.Popen[str]:
    """Start Python as a terminal would: with Ctrl-C's own handler."""
    return subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(jax=jax),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **options,
    )


def run_python(*command: object, cwd: Path, timeout: float = 300, jax: bool = False, **changes: str) -> Ended:
    """Run Python with these arguments in a folder to its end."""
    words, variables = [sys.executable, *map(str, command)], environment(jax=jax, **changes)
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, env=variables)
    return Ended(done.returncode, done.stdout, done.stderr)


def compile_programs(module: str, folder: Path) -> Path:
    """Run a file of tests as a program, which compiles with JAX and writes into a folder; return
    that.
    """
    root = Path(__file__).resolve().parents[2]
    done = run_python("-m", f"tests.integration.{module}", folder, cwd=root, jax=True, JAX_PLATFORMS="cpu")
    assert done.code == 0, done.err[-3000:]
    return folder


def run_program(source: str, folder: Path, *args: str, timeout: float = 120, jax: bool = False, **changes: str) -> Ended:
    """Run a program in a folder to its end."""
    (folder / "program.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return run_python(folder / "program.py", *args, cwd=folder, timeout=timeout, jax=jax, **changes)


def run_tune(folder: Path, text: str, *options: str, code: int = 0, jax: bool = False, argv: Sequence[str] = ()) -> Ended:
    """Tune a script as a user does; it must end with that code."""
    (folder / "train.py").write_text(textwrap.dedent(text), encoding="utf-8")
    done = run_python("-m", "outpace", "tune", *options, "train.py", *argv, cwd=folder, jax=jax)
    assert done.code == code, done.err[-3000:]
    assert "could not be hooked" not in done.err, done.err[-3000:]
    return done


@cache
def _forks() -> subprocess.Popen[str]:
    """A process that has imported TensorFlow; it ends with this one."""
    command = [sys.executable, str(Path(__file__).with_name("forks.py")), "tensorflow"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def run_on_tensorflow(source: str, folder: Path, *args: str, command: bool = False, timeout: float = 120) -> Ended:
    """Run a program that imports TensorFlow or Keras first, as `run_program` does, but in a fork of
    a process that has imported them: most of what a small program takes. `command`: as `python -c`
    runs it.
    """
    forks, text, path = _forks(), textwrap.dedent(source), "-c" if command else str(folder / "program.py")
    if not command:
        Path(path).write_text(text, encoding="utf-8")
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out, tempfile.NamedTemporaryFile("r", encoding="utf-8") as err:
        program = {"text": text, "folder": str(folder), "argv": [path, *args], "out": out.name, "err": err.name}
        assert forks.stdin is not None and forks.stdout is not None
        print(json.dumps({**program, "environment": environment()}), file=forks.stdin, flush=True)
        late = Timer(timeout, os.kill, (int(forks.stdout.readline()), signal.SIGKILL))
        late.start()
        code = int(forks.stdout.readline())
        late.cancel()
        return Ended(code, out.read(), err.read())
