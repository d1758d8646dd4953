"""The first screens of all profiles, at three widths, as they were looked at. `python -m
tests.golden.test_screens` writes them anew.
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
WIDTHS = (60, 80, 120)


def screens(name: str) -> dict[int, str]:
    """The first screen of a profile by width; its path is the profile's name."""
    path = DATA / "profiles" / name
    with outpace.open(path) as profile:
        report = profile.report()
    commands = tuple(replace(command, line=command.line.replace(str(path), name)) for command in report.next)
    report = replace(report, source=name, next=commands)
    return {width: terminal.render(report, width=width) for width in WIDTHS}


@pytest.mark.parametrize("name", PROFILES)
def test_the_first_screen_is_as_it_was_looked_at(name: str) -> None:
    found = screens(name)
    for width, text in found.items():
        assert text == (SCREENS / f"{name}.{width}.txt").read_text(encoding="utf-8")
    assert len(found[80].splitlines()) <= HEIGHT
    assert "…" not in found[80]


def write() -> None:
    """Write all screens."""
    SCREENS.mkdir(exist_ok=True)
    for name in PROFILES:
        for width, text in screens(name).items():
            (SCREENS / f"{name}.{width}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
