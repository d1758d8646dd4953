"""`outpace compare` as users call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support import profile_path


def compared(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "outpace", "compare", *arguments], capture_output=True, text=True, timeout=120)


def test_a_run_against_itself_is_the_same(tmp_path: Path) -> None:
    run = str(profile_path("keras_fit"))
    done = compared(run, run, "--width", "80", "--html", str(tmp_path / "compare.html"))
    assert done.returncode == 0, done.stderr
    assert "The same run: both sides are 16 steps of" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "<!doctype html>" in (tmp_path / "compare.html").read_text(encoding="utf-8")[:100]


def test_programs_of_different_machines_are_not_compared() -> None:
    done = compared(str(profile_path("keras_fit")), str(profile_path("tf_gpu_v100_bert")), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["headline"].startswith("Not to be compared by the step: the runs differ in")
    assert "devices" in report["headline"]


def test_a_run_without_steps_says_so() -> None:
    done = compared(str(profile_path("idle_empty")), str(profile_path("keras_fit")))
    assert done.returncode == 2 and "No step was found" in done.stderr
