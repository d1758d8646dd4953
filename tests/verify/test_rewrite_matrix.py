"""The whole matrix of pipelines and rewrites (make verify): every rewrite on every pipeline is equal or refused with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.programs import environment, needs_tensorflow
from tests.integration.rewrite_expected import ACCEPTED, check


@pytest.mark.verify
@needs_tensorflow
def test_every_rewrite_on_every_pipeline(tmp_path: Path) -> None:
    program = str(Path(__file__).parents[1] / "integration" / "rewriting.py")
    command = [sys.executable, program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert sorted(found) == sorted(ACCEPTED)
    check(found)
