"""Imports point down: import-linter checks the contracts of pyproject.toml, and no package stands
outside of them. What is kept by hand of these lists is held against the tree, as the list of
packages that mypy checks for Windows is.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "outpace"
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
PACKAGES = {p.parent.name for p in SOURCE.glob("*/__init__.py")}
MODULES = {p.stem for p in SOURCE.glob("*.py") if not p.stem.startswith("__")}
TOML = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
MAKERS = {"capture", "tune"}
"""What runs training scripts in processes as POSIX has them."""


def contracts() -> dict[str, Any]:
    found = TOML.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return {str(each["name"]).split(",")[0]: each for each in found}


def linted(folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LINT, "--no-cache"], cwd=folder, capture_output=True, text=True, timeout=300)


def test_layers_are_kept() -> None:
    done = linted()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_every_package_has_a_layer() -> None:
    """A package that the contract does not list would be free to import anything."""
    listed = {name for layer in contracts()["layers"]["layers"] for name in re.findall(r"\w+", layer)}
    assert listed == PACKAGES | MODULES


def test_renderers_know_nothing_below_them_but_the_model() -> None:
    layers = [set(re.findall(r"\w+", layer)) for layer in contracts()["layers"]["layers"]]
    own = next(at for at, names in enumerate(layers) if "report" in names)
    below = set().union(*layers[own + 1 :])
    known = {"model"} | {name for name in MODULES if name.startswith("_")}
    forbidden = {name.removeprefix("outpace.") for name in contracts()["renderers know pages"]["forbidden_modules"]}
    assert forbidden == below - known


@pytest.mark.parametrize("name", ["added", "added_module"])
def test_a_package_that_is_added_is_met(name: str, tmp_path: Path) -> None:
    """One that opens the door to the core, and stands in no layer."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    code = tmp_path / "src" / "outpace"
    for path in SOURCE.rglob("*.py"):
        copy = code / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    added = code / name / "__init__.py" if name == "added" else code / f"{name}.py"
    added.parent.mkdir(exist_ok=True)
    added.write_text("import outpace._native\n", encoding="utf-8")
    search = f"import sys; sys.path.insert(0, {str(tmp_path / 'src')!r}); {LINT}"
    done = subprocess.run(
        [sys.executable, "-c", search, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0
    assert name in checked_for_windows(tmp_path)


def checked_for_windows(folder: Path = ROOT) -> set[str]:
    """Packages and modules that `make check` lets mypy check for that platform."""
    told = subprocess.run(["make", "-qp"], cwd=folder, capture_output=True, text=True, timeout=120).stdout
    line = re.search(r"^ANYWHERE := (.*)$", told, re.MULTILINE)
    assert line is not None, told[-2000:]
    return {Path(each).stem for each in line[1].split()}


def test_everything_but_what_runs_scripts_is_checked_for_windows() -> None:
    found = checked_for_windows()
    assert found - {"__init__", "__main__"} == (PACKAGES | MODULES) - MAKERS
