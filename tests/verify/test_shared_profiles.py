"""Every profile that stands beside the repository reports; broken ones end as documented."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify
SHARED = Path(__file__).resolve().parents[3] / "shared" / "profiles"
FOLDERS = (
    sorted(p for p in SHARED.iterdir() if p.is_dir() and list(p.glob("*.xplane.pb")) and p.name != "broken")
    if SHARED.exists()
    else []
)
BROKEN = {"empty": 3, "garbage": 3, "text_mangled": 3, "truncated": 0, "gzipped": 0}


def outpace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_shared_profiles_are_there() -> None:
    if not SHARED.exists():
        pytest.skip("no shared profiles beside this repository; tests/data holds the same ones")
    assert len(FOLDERS) > 20


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_every_folder_reports(folder: Path) -> None:
    before = sorted(p.name for p in folder.iterdir())
    done = outpace("report", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == 2
    assert outpace("report", folder, "--width", 80).returncode == 0
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize(("name", "code"), BROKEN.items())
def test_broken_files_end_as_documented(name: str, code: int) -> None:
    if not SHARED.exists():
        pytest.skip("no shared profiles beside this repository; tests/data holds the same ones")
    done = outpace("report", SHARED / "broken" / f"{name}.xplane.pb")
    assert done.returncode == code
    assert "Traceback" not in done.stderr
