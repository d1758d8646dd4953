"""Analysis runs on a laptop without TensorFlow, and importing the package costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = ("tensorflow", "keras", "jax", "google.protobuf", "polars", "pandas", "pyarrow", "tornado", "flask")
ANALYSIS = "import outpace, outpace.api, outpace.trace, outpace.tools; outpace.api.tools()"
RENDERERS = "import outpace.report.html, outpace.report.terminal, outpace.report.json_, outpace.report.csv_"
COMMAND = "import outpace.cli"


def loaded(code: str) -> set[str]:
    """Modules that a fresh interpreter holds after running `code`."""
    script = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", [ANALYSIS, RENDERERS, COMMAND])
def test_frameworks_stay_out(code: str) -> None:
    modules = loaded(code)
    assert "outpace" in modules
    assert modules.isdisjoint(FRAMEWORKS)


def test_importing_the_package_is_cheap() -> None:
    modules = loaded("import outpace")
    assert modules.isdisjoint({"numpy", "fsspec", "rich", "typer", "jinja2", "nanoarrow", *FRAMEWORKS})


@pytest.mark.slow
def test_the_public_names_are_there() -> None:
    code = "import outpace; missing = [n for n in outpace.__all__ if not hasattr(outpace, n)]; assert not missing, missing"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
