"""The first screens of the profiles: a dozen, unlike each other, as they were looked at; of all,
that they fit. `python -m tests.golden.test_screens` writes the dozen anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import outpace
from outpace.report import terminal
from outpace.report.terminal_screen import HEIGHT

DATA = Path(__file__).parents[1] / "data"
SCREENS = DATA / "screens"
PROFILES = sorted(folder.name for folder in (DATA / "profiles").iterdir() if folder.is_dir())
STORED = sorted(file.stem for file in SCREENS.glob("*.txt"))


def screen(name: str) -> str:
    """The first screen of a profile in 80 columns; its path is the profile's name."""
    path = DATA / "profiles" / name
    with outpace.open(path) as profile:
        report = profile.report()
    commands = tuple(replace(command, line=command.line.replace(str(path), name)) for command in report.next)
    return terminal.render(replace(report, source=name, next=commands), width=80)


@pytest.mark.parametrize("name", PROFILES)
def test_the_first_screen_fits_and_is_as_it_was_looked_at(name: str) -> None:
    text = screen(name)
    assert name not in STORED or text == (SCREENS / f"{name}.txt").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= HEIGHT
    assert "…" not in text


if __name__ == "__main__":
    for name in STORED:
        (SCREENS / f"{name}.txt").write_text(screen(name), encoding="utf-8")
