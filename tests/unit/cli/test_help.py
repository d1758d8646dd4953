"""The help of all commands."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

import outpace.cli
from outpace.cli import COMMANDS, GROUPS, app


def test_each_command_stands_below_its_heading_with_a_sentence_of_its_own() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    parts = re.split(r"╭─ (\w+) ─+╮", shown)
    below = dict(zip(parts[1::2], parts[2::2], strict=True))
    for heading, names in GROUPS.items():
        rows = re.findall(r"^│ (\S+) +(\S[^│]*)│$", below[heading], re.MULTILINE)
        assert [name for name, _ in rows if name in COMMANDS] == list(names), below[heading]


def test_each_module_that_is_a_command_has_a_heading() -> None:
    modules = {path.stem for path in Path(outpace.cli.__file__).parent.glob("[a-z]*.py")}
    helpers = {"capture_progress", "console", "interleaved_capture", "options", "output", "process", "progress", "side_sources"}
    assert modules - helpers == set(COMMANDS)
