"""The wheels of a release (`make wheels`): what their tags promise, what is in them, and that they
are all that a report needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from outpace._native import FREE_FUNCTIONS, SIGNATURES
from tests.support import DATA

pytestmark = pytest.mark.verify
ROOT = Path(__file__).resolve().parents[2]
RELEASE = os.environ.get("OUTPACE_RELEASE_PYTHON", "")
"""A Python that has what stands in release/requirements.txt."""
OTHERS = [python for python in os.environ.get("OUTPACE_OTHER_PYTHONS", "").split(os.pathsep) if Path(python).is_file()]
"""Pythons of other machines, emulated, which have the wheel for these installed."""
WHEELS = sorted((ROOT / "wheels").glob("*.whl")) if RELEASE else []
LARGEST = 2_000_000

FINGERPRINTS = """
import hashlib, sys
import outpace
from outpace.report import json_
for folder in sys.argv[1:]:
    with outpace.open(folder) as profile:
        print(folder, hashlib.sha256(json_.render(profile.report()).encode()).hexdigest())
"""
EXPORTED = "import lief, sys, zipfile; print(*(f.name for f in lief.parse(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2])).exported_functions))"
PROFILES = [str(path.relative_to(ROOT)) for path in sorted((DATA / "profiles").iterdir())]

needs_wheels = pytest.mark.skipif(not WHEELS, reason="needs OUTPACE_RELEASE_PYTHON, and wheels/ of 'make wheels'")


def ran(command: Sequence[str | Path], **options: object) -> str:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=1800, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@needs_wheels
def test_there_is_one_for_every_platform() -> None:
    platforms = {wheel.stem.split("-")[-1] for wheel in WHEELS}
    arms = {"manylinux_2_17_aarch64", "musllinux_1_2_aarch64", "macosx_11_0_arm64"}
    assert platforms == {"manylinux_2_17_x86_64", "musllinux_1_2_x86_64", "macosx_11_0_x86_64", "win_amd64"} | arms


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.stem.split("-")[-1])
class TestWheel:
    def test_it_is_small(self, wheel: Path) -> None:
        assert wheel.stat().st_size <= LARGEST

    def test_its_library_has_what_python_calls(self, wheel: Path) -> None:
        names = {name.lstrip("_") for name in ran([RELEASE, "-c", EXPORTED, wheel, "outpace/_native/core.so"]).split()}
        assert {name for name in names if name.startswith("ox_")} == {"ox_abi", *SIGNATURES, *FREE_FUNCTIONS}

    def test_auditwheel_says_the_same_of_glibc(self, wheel: Path) -> None:
        platform = wheel.stem.split("-")[-1]
        if "manylinux" not in platform:
            pytest.skip("auditwheel looks for libraries on the machine that it runs on, and this one has glibc")
        assert f'"{platform}"' in ran([RELEASE, "-m", "auditwheel", "show", wheel])


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with nothing but the wheel and its dependencies."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    (wheel,) = (ROOT / "wheels").glob("*manylinux*_x86_64.whl")
    ran([home / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel])
    return home / "bin"


@needs_wheels
def test_from_wheel_to_report_without_compiler_and_network(empty: Path) -> None:
    alone = [shutil.which("unshare") or "", "--map-root-user", "--net"]
    if not alone[0] or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lends nobody a network namespace")
    said = ran(
        [*alone, empty / "outpace", "report", "tests/data/profiles/retracing"], env={"PATH": str(empty), "LANG": "C.UTF-8"}
    )
    assert "Compile-bound: 56% of the 62.2 ms step" in said


@needs_wheels
@pytest.mark.parametrize("python", ["this machine's", *OTHERS], ids=lambda python: Path(python).parent.name)
def test_all_reports_are_equal_bit_by_bit(python: str, empty: Path) -> None:
    """To those of the library that this machine's own compiler made."""
    own = ran([sys.executable, "-c", FINGERPRINTS, *PROFILES])
    assert ran([python if python in OTHERS else empty / "python", "-c", FINGERPRINTS, *PROFILES]) == own
