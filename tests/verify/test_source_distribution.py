"""The source distribution holds all that the core is built from: where there is no wheel, pip builds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify
ROOT = Path(__file__).resolve().parents[2]


def test_it_can_be_installed(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(source)], check=True)
    build = [sys.executable, "-m", "build", "-q", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=600)
    (packed,) = tmp_path.glob("*.tar.gz")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
        str(packed),
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=600)
    code = "import outpace, outpace._native; outpace._native.library(); print(outpace.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    )
    assert Path(done.stdout.strip()).is_relative_to(site)
