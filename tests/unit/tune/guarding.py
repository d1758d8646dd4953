"""Runs a text as a guarded process, in a user's folder with files of an earlier training."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpace.tune.guard import CHOICE, GUARDED, _why_no_overlay, kernel

PREFACE = """
import json, os, sys
from outpace.tune import guard
begun = guard.begin(json.loads(sys.argv[1]))
"""
AFTERWARDS = """
sys.stdout.flush()
sys.stderr.write("\\nCHANGED " + json.dumps({"changed": begun.changed(), "how": begun.how, "seconds": begun.seconds}))
"""


@functools.cache
def why_no(way: str) -> str:
    """Why a way is not possible here; empty where it is."""
    if way.startswith("overlay"):
        return _in_a_child(way)
    return "" if way != "redirect" or kernel.landlock_version() else "no Landlock"


def _in_a_child(way: str) -> str:
    assert callable(_why_no_overlay)
    command = "import sys; from outpace.tune import guard; print(guard._why_no_overlay([], sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", command, way], capture_output=True, text=True, check=True, env=_environment("")
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Ran:
    """What a guarded process said and did."""

    code: int
    out: str
    err: str
    changed: list[str]
    how: str


class Home:
    """A user's folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self.keep = folder / "keep"
        for each in (self.path, self.path / "runs" / "old", self.path / "tmp", self.keep):
            each.mkdir(parents=True)
        for name in ("model.npy", "log.csv", "runs/old/events", "tmp/weights", "old"):
            (self.path / name).write_text("of an earlier training\n")

    def hashes(self) -> dict[str, str]:
        """Everything that stands in the folder."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            state = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            found[str(path.relative_to(self.path))] = f"{content} {state.st_mode} {state.st_mtime_ns if path.is_file() else 0}"
        return found

    def command(self, text: str) -> list[str]:
        """The command line of a guarded process."""
        return [sys.executable, "-c", PREFACE + textwrap.dedent(text) + AFTERWARDS, json.dumps([str(self.keep)])]

    def run(self, way: str, text: str, **variables: str) -> Ran:
        """Run a text to its end."""
        environment = _environment(way, **variables)
        done = subprocess.run(
            self.command(text), cwd=self.path, capture_output=True, text=True, env=environment, check=False, timeout=60
        )
        err, _, told = done.stderr.partition("\nCHANGED ")
        said: dict[str, Any] = json.loads(told) if told else {"changed": [], "how": ""}
        return Ran(done.returncode, done.stdout, err, said["changed"], said["how"])

    def unchanged(self, way: str, text: str, **variables: str) -> Ran:
        """The same; no file changes."""
        before = self.hashes()
        ran = self.run(way, text, **variables)
        assert self.hashes() == before
        return ran

    def environment(self, way: str) -> dict[str, str]:
        """What such a process is started with."""
        return _environment(way)


def _environment(way: str, **variables: str) -> dict[str, str]:
    rest = {name: text for name, text in os.environ.items() if name != GUARDED}
    source = str(Path(__file__).parents[3] / "src")
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return {**rest, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", CHOICE: way, **variables}
