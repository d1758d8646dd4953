"""Imports point down: import-linter checks the contract of pyproject.toml, and no package stands outside of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "outpace"
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def test_layers_are_kept() -> None:
    done = subprocess.run([sys.executable, "-c", LINT, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_every_package_has_a_layer() -> None:
    """A package that the contract does not list would be free to import anything."""
    layers = re.search(r"^layers = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert layers is not None
    packages = {p.parent.name for p in SOURCE.glob("*/__init__.py")} | {
        p.stem for p in SOURCE.glob("*.py") if not p.stem.startswith("__")
    }
    assert packages <= set(re.findall(r"\w+", layers[1]))
