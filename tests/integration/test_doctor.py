"""`outpace doctor` with the framework that is installed, and on Pythons that lack one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from outpace.doctor import trial
from outpace.doctor.system import System
from tests.integration.programs import needs_jax

needs_tensorflow = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace.cli", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **variables})


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python without any package."""
    venv.create(tmp_path / "bare", with_pip=False)
    return str(tmp_path / "bare" / "bin" / "python")


@needs_tensorflow
@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_passes_its_trial_capture(tmp_path: Path) -> None:
    done = doctor("--json", "--logdir", str(tmp_path / "logs"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # the framework's own output does not reach the user
    diagnosis = json.loads(done.stdout)
    results = {item["id"]: item for item in diagnosis["results"]}
    assert diagnosis["works"]
    assert "no GPU" in diagnosis["verdict"]
    assert "CPU-only machine" in results["devices"]["text"]
    assert results["tensorflow-trial"]["outcome"] == "ok"
    assert "3 steps (marked)" in results["tensorflow-trial"]["text"]
    assert results["cupti"]["outcome"] == "not checked"
    assert not list(tmp_path.iterdir())


@needs_jax
def test_a_program_lives_on_behind_a_capture_by_time() -> None:
    assert trial.run_timed_trial(System(), sys.executable).failure == ""


def test_a_python_without_a_framework_cannot_capture(bare: str, tmp_path: Path) -> None:
    done = doctor("--python", bare, "--logdir", str(tmp_path), "--width", "80")
    assert done.returncode == 5
    assert "neither TensorFlow nor JAX" in done.stdout
    assert "pip install tensorflow-cpu libcst" in done.stdout.splitlines()[-1]  # problems come last, with their commands
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "$ " not in line)
    assert "\x1b" not in done.stdout


def test_a_framework_that_crashes_is_a_finding(bare: str, tmp_path: Path) -> None:
    """A package that dies at import, as a broken CUDA installation makes TensorFlow do."""
    (tmp_path / "jax.py").write_text("import os, sys\nsys.stderr.write('F driver: fatal\\n')\nsys.stderr.flush()\nos.abort()\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = doctor("--json", "--python", bare, "--logdir", str(tmp_path / "logs"), PYTHONPATH=path)
    assert done.returncode == 5
    results = {item["id"]: item for item in json.loads(done.stdout)["results"]}
    assert results["jax"]["text"] == "JAX crashed with signal 6 when it was imported."
    assert "F driver: fatal" in results["jax"]["evidence"]
    assert results["trial"]["outcome"] == "not checked"


def test_a_log_directory_that_cannot_be_made(bare: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = doctor("--no-trial", "--json", "--python", bare, "--logdir", str(tmp_path / "file" / "logs"))
    assert done.returncode == 5
    results = {item["id"]: item for item in json.loads(done.stdout)["results"]}
    assert "a file is in the way" in results["logdir"]["text"]


def test_characters_that_a_terminal_lacks_are_not_used(tmp_path: Path) -> None:
    folder = tmp_path / ("wider-than-a-column-" * 5)  # cut short, it would end in an ellipsis
    venv.create(folder / "bare", with_pip=False)
    python = str(folder / "bare" / "bin" / "python")
    done = doctor("--python", python, "--logdir", str(folder), PYTHONIOENCODING="ascii")
    assert done.returncode == 5, done.stderr
    assert done.stdout.isascii()


def test_a_missing_python_is_one_sentence() -> None:
    done = doctor("--python", "/nowhere/python")
    assert done.returncode == 4
    assert done.stderr.startswith("outpace: /nowhere/python cannot be asked")
    assert len(done.stderr.splitlines()) == 1
