"""The source distribution holds all that the core is built from, where there is no wheel, and all
that tests it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify
ROOT = Path(__file__).resolve().parents[2]
INSTALL = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of what is committed, so that nothing is in it that lies about."""
    folder = tmp_path_factory.mktemp("source")
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "clone")], check=True)
    build = [sys.executable, "-m", "build", "-q", "--sdist", "--no-isolation", "--outdir", str(folder), str(folder / "clone")]
    subprocess.run(build, check=True, capture_output=True, timeout=600)
    (found,) = folder.glob("*.tar.gz")
    return found


def test_it_can_be_installed(packed: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run([sys.executable, *INSTALL, str(site), str(packed)], check=True, capture_output=True, timeout=600)
    code = "import outpace, outpace._native; outpace._native.load_library(); print(outpace.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    )
    assert Path(done.stdout.strip()).is_relative_to(site)


def test_its_tests_pass(packed: Path, tmp_path: Path) -> None:
    """`make fast`, in an environment that is there already."""
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    make = ["make", "-C", str(source), f"BIN={Path(sys.executable).parent}", "-o", ".venv/.dependencies", "fast"]
    done = subprocess.run(make, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_without_a_compiler_it_says_what_to_do(packed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "CXX": "no-such-compiler"}
    install = [sys.executable, *INSTALL, str(tmp_path / "site"), str(packed)]
    done = subprocess.run(install, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode != 0
    assert "there is no compiler to build it with (no-such-compiler: No such file or directory)" in done.stderr
    assert "apt install g++" in done.stderr
    assert "Traceback" not in done.stderr
