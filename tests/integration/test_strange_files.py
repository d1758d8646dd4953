"""Strange files under names that Outpace reads: it goes on, or says so in a sentence, at once."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import outpace
from tests.strange import STRANGE
from tests.support import profile_path

MEMORY = 2 << 30  # bytes of address space: a report of this profile takes a quarter
SECONDS = 90  # of a busy machine
SOURCE = str(Path(outpace.__file__).parents[1])


def asked(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a command said; TimeoutExpired where it waits for what never comes."""
    return subprocess.run(
        [sys.executable, "-m", "outpace", *command], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)), check=False, env={**os.environ, "PYTHONPATH": SOURCE},
    )  # fmt: skip


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said of what is in the way."""
    assert "Traceback" not in done.stderr and "not enough memory" not in done.stderr, done.stderr
    return done.stderr + done.stdout


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(profile_path("custom_loop"), tmp_path / "run"))


@pytest.mark.parametrize("what", STRANGE)
def test_a_capture_record_that_is_none_is_left_out(run: Path, what: str) -> None:
    STRANGE[what](run / "vm.outpace.json")
    done = asked("report", str(run), cwd=run)
    assert done.returncode == 0 and "custom_loop" not in done.stderr, done.stderr
    if (run / "vm.outpace.json").exists() or what == "link in a circle":
        assert "The capture record" in sentence(done) and "is ignored" in sentence(done), done.stdout


@pytest.mark.parametrize("what", STRANGE)
def test_a_profile_that_is_none_is_a_sentence(run: Path, what: str) -> None:
    STRANGE[what](run / "other.xplane.pb")
    done = asked("report", "other.xplane.pb", cwd=run)
    codes = (0,) if what == "link to its folder" else (3, 4)
    assert done.returncode in codes and "other.xplane.pb" in sentence(done), (done.returncode, done.stderr)
    done = asked("report", str(run), "--json", cwd=run)
    assert done.returncode == 0 and json.loads(done.stdout)["schema"], "the other host's profile is good"


WHAT = ("pipe", "socket", "endless device", "endless file of the kernel", "four terabytes of nothing")


@pytest.mark.parametrize("what", WHAT)
def test_every_command_that_reads_says_so(run: Path, what: str) -> None:
    make: Callable[[Path], None] = STRANGE[what]
    for name in ("vm.outpace.json", "side.json", "report.json", "train.py", "race.json"):
        make(run / name)
    (run / "good.py").write_text("import tensorflow as tf\n")
    os.mkdir(run / "scripts")
    make(run / "scripts" / "train.py")
    (run / "scripts" / "good.py").write_text("x = 1\n")
    for command, codes in (
        (("trace", ".", "--out", "out.json"), (0,)),
        (("export", ".", "--tool", "overview", "--out", "tables"), (0, 2)),
        (("compare", ".", "side.json"), (3, 4)),
        (("compare", "side.json", "."), (3, 4)),
        (("report", "report.json"), (3, 4)),
        (("lint", "train.py"), (2, 0) if what == "endless file of the kernel" else (2,)),
        (("lint", "good.py", "--record", "vm.outpace.json"), (3,)),
        (("lint", "scripts"), (0, 2)),
        (("replay", "race.json"), (2, 4)),
        (("explain", ".", "step"), (0,)),
    ):
        done = asked(*command, cwd=run)
        assert done.returncode in codes, (command, done.returncode, done.stderr, done.stdout)
        assert sentence(done)
