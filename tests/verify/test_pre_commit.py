"""The hook that other repositories run: pre-commit builds Outpace from this one, and runs it on a
repository of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_lint import EAGER, MODEL

pytestmark = pytest.mark.verify
ROOT = Path(__file__).parents[2]


def test_a_repository_runs_the_hook(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "train.py").write_text(f"{MODEL}{EAGER}\n")
    (repository / "notes.txt").write_text(EAGER)
    for words in (("init", "-q", "."), ("add", ".")):
        subprocess.run(["git", *words], cwd=repository, check=True)

    def hook(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "outpace-lint", *arguments]
        environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
        return subprocess.run(
            command, cwd=repository, capture_output=True, text=True, timeout=900, check=False, env=environment
        )

    done = hook("--all-files")
    assert done.returncode == 1 and "train.py:3" in done.stdout and "LP111" in done.stdout, done.stdout + done.stderr
    assert "notes.txt" not in done.stdout
    (repository / "train.py").write_text(f"{MODEL}{EAGER.replace('True', 'False')}\n")
    assert hook("--files", "train.py").returncode == 0
