"""The line that a command shows while people wait."""

from __future__ import annotations

import io
import sys
from threading import Event, Semaphore

import pytest

from outpace.cli import progress as module
from outpace.cli.progress import format_remaining, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on(monkeypatch: pytest.MonkeyPatch, after: float) -> Terminal:
    """What a terminal of 40 columns gets, from so many seconds on."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(module, "_AFTER", after)
    return made


def test_a_line_moves_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(monkeypatch, 0.0)
    monkeypatch.setattr(module, "_EVERY", 0.01)
    times = Semaphore(0)

    def said(passed: float) -> str:
        times.release()
        return f"Reading \x1b[31m/a/very/long/path/of/a/profile/that/is/wide: {passed:.0f} s"

    with show_progress(said):
        assert all(times.acquire(timeout=30) for _ in range(3))
    shown = terminal.getvalue().split(module._LINE)
    assert len(shown) > 3 and shown[0] == shown[-1] == "", "it begins with nothing, and nothing is left"
    assert all(len(line.replace(r"\x1b", "?")) < 40 and "\x1b" not in line for line in shown)


def test_what_is_soon_done_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on(monkeypatch, 60.0)
    with show_progress(lambda passed: "Reading"):
        pass
    assert terminal.getvalue() == ""


def test_an_error_leaves_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, said = shown_on(monkeypatch, 0.0), Event()

    def say(passed: float) -> str:
        said.set()
        return "Reading"

    with pytest.raises(KeyboardInterrupt), show_progress(say):
        assert said.wait(30)
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith(module._LINE)


def test_elsewhere_than_in_a_terminal_nothing_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AFTER", 0.0)
    with show_progress(lambda passed: "Reading"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("passed", "said"), [(0, "about 40 s left"), (39, "nearly done"), (80, "nearly done"), (-160, "about 3 min left")]
)
def test_how_long_it_goes_on(passed: float, said: str) -> None:
    assert format_remaining(passed, 40) == said
