"""A line of ours begins at the left, wherever the script's own output ended."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from outpace.capture.line_start import line_start

COLUMNS = 30


def on_screen(text: str) -> list[str]:
    """The lines that a terminal shows: a full line wraps when the next character comes."""
    lines, column = [""], 0
    for character in text:
        if character == "\r":
            column = 0
        elif character == "\n":
            lines.append("")
            column = 0
        else:
            if column == COLUMNS:
                lines.append("")
                column = 0
            lines[-1] = lines[-1][:column].ljust(column) + character + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    outer, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    with os.fdopen(inner, "w") as stream:
        yield stream
    os.close(outer)


@pytest.mark.parametrize("before", ["", "\n", "x", "12/100 bar", "y" * (COLUMNS - 1), "z" * COLUMNS])
def test_a_terminal_shows_the_line_on_its_own(before: str, terminal: TextIO) -> None:
    shown = on_screen(before + line_start(terminal) + "outpace: captured\n")
    assert "outpace: captured" in shown
    assert [line for line in shown if line] == [text for text in (before.strip(), "outpace: captured") if text]


@pytest.mark.parametrize(("before", "start"), [("", ""), ("a line\n", ""), ("12/100 bar", "\n")])
def test_a_file_is_looked_at(before: str, start: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(before, encoding="utf-8")
    with (tmp_path / "log").open("a", encoding="utf-8") as file:
        assert line_start(file, unknown="?") == start


def test_a_pipe_tells_nothing() -> None:
    outer, inner = os.pipe()
    with os.fdopen(outer), os.fdopen(inner, "w") as pipe:
        assert line_start(pipe, unknown="\n") == "\n"
        assert line_start(pipe) == ""
    assert line_start(io.StringIO(), unknown="\n") == ""
