"""Analysis runs on a laptop without TensorFlow, importing the package costs next to nothing, and a
short report imports few modules. `python -m tests.architecture.test_imports` prints how many.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.tools import discover_tools

FRAMEWORKS = ("tensorflow", "keras", "jax", "google.protobuf", "polars", "pandas", "pyarrow", "tornado", "flask")
ANALYSIS = "import outpace, outpace.api, outpace.trace, outpace.tools; outpace.api.tools()"
RENDERERS = "import outpace.report.html, outpace.report.terminal, outpace.report.json_, outpace.report.csv_"
COMMAND = "import outpace.cli"
PROFILES = Path(__file__).parents[1] / "data" / "profiles"
PER_TOOL = 4  # its `TOOL`, its schema, its computation, its page
MOST_MODULES = {name: base + PER_TOOL * len(discover_tools()) for name, base in (("idle_empty", 174), ("keras_fit", 179))}
"""Modules of Outpace that a report of a small profile may import: most users make such reports."""


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


def modules_of_report(name: str) -> int:
    """Number of Outpace's modules that `outpace report` of a profile imports."""
    command = [sys.executable, "-X", "importtime", "-m", "outpace", "report", str(PROFILES / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return len(re.findall(r"^import time:.*\boutpace[.\w]*$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("name", MOST_MODULES)
def test_a_short_report_imports_few_modules(name: str) -> None:
    """What a report of a small profile does not show is imported inside of the function that needs
    it; a new tool may have four modules.
    """
    assert modules_of_report(name) <= MOST_MODULES[name]


if __name__ == "__main__":
    for name, most in MOST_MODULES.items():
        print(f"outpace report {name}: {modules_of_report(name)} modules of Outpace are imported, at most {most}")
