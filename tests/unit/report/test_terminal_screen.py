"""The first screen in a terminal: its order, its length, and that it cuts nothing in the middle."""

import dataclasses
import re
from collections.abc import Callable

import pytest

from outpace.model import CAPTURE_PREFIX, Category, Command, Finding, Report
from outpace.report import terminal
from outpace.report.terminal_screen import HEIGHT
from tests.unit.report.report_samples import finding_info, finding_precision, hostile, realistic


def test_the_first_screen_is_in_the_agreed_order() -> None:
    report = dataclasses.replace(realistic(), next=(Command("outpace explain logs", "the slowest step"),))
    text = terminal.render(report, width=80)
    marks = [
        "! worker-3.xplane.pb",
        "it waits for input for 51.7%",
        "logs/plugins/profile/2026_11_21",
        "▓ Input 31.6 ms 52%",
        "1. ",
        "train.py:41",
        "saves 18.0 to 30.0 ms per step (30.0 to 50.0%",
        "more: --details",
        "Confidence  ",
        "Next        outpace explain logs   the slowest step",
    ]
    places = [text.index(m) for m in marks]
    assert places == sorted(places)


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("make", [realistic, lambda: realistic(0, 0)])
def test_it_is_one_screen(make: Callable[[], Report], width: int) -> None:
    assert len(terminal.render(make(), width=width).splitlines()) <= HEIGHT


def test_what_does_not_fit_is_counted_and_never_cut() -> None:
    one = realistic().findings[0]
    many = tuple(
        dataclasses.replace(one, id=f"rule_{i}", sentence=f"Stage {i} " + "is slow, and so on " * 9 + "end.") for i in range(7)
    )
    report = dataclasses.replace(
        realistic(), findings=many, warnings=tuple(f"Warning {i} {'of a long text ' * 8}ends." for i in range(5))
    )
    text = terminal.render(report, width=80)
    assert "…" not in text
    shown = len(re.findall(r"^ +Stage \d", text, re.MULTILINE))
    assert 0 < shown < 7
    assert f"and {7 - shown} more: --details" in text
    assert re.search(r"! and \d more \(--details\)", text)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_command_stays_on_one_line_and_whole(width: int) -> None:
    line = "outpace report a/long/path/to/the/logs/plugins/profile/2026_11_23_02_34_54 --tool input_pipeline"
    report = dataclasses.replace(realistic(), next=(Command(line, "the numbers"), Command("outpace tune train.py", "try")))
    shown = terminal.render(report, width=width).splitlines()
    assert shown[-2:] == [f"  Next        {line}", f"{' ' * 14}outpace tune train.py"]
    assert sum(-(-len(row) // width) for row in shown if row) + shown.count("") <= HEIGHT or width < 80


def test_parts_of_no_time_are_not_named() -> None:
    assert Category.DEVICE_TO_DEVICE.label not in terminal.render(realistic(), width=80)


def test_without_colours_bar_and_legend_use_the_same_glyphs() -> None:
    lines = [line.strip() for line in terminal.render(realistic(), width=80).splitlines()]
    at = next(i for i, line in enumerate(lines) if "Input 31.6 ms" in line)
    marks = re.findall(r"(\S) [A-Z][^·]*? ms", lines[at])
    assert len(marks) > 1
    assert set(marks) <= set(lines[at - 1])


def test_no_honest_number_is_said_and_no_change_too() -> None:
    unknown = dataclasses.replace(realistic(), findings=(finding_precision(),))
    assert "saves" not in terminal.render(unknown, width=80) and "not measurable" not in terminal.render(unknown, width=80)
    nothing = dataclasses.replace(realistic(), findings=(finding_info(),))
    assert "Nothing was found that is worth a change." in terminal.render(nothing, width=80)


def test_a_capture_that_must_be_made_anew_promises_nothing_and_repeats_nothing() -> None:
    again = dataclasses.replace(
        finding_precision(), id=f"{CAPTURE_PREFIX}empty", sentence="Nothing was recorded.", action="Capture again."
    )
    text = terminal.render(dataclasses.replace(realistic(), headline="Nothing was recorded.", findings=(again,)), width=80)
    assert "saving" not in text
    assert text.count("Nothing was recorded") == 1
    assert "1. Capture again." in text


def test_hosts_are_named_where_they_differ() -> None:
    def on(host: str) -> Finding:
        return dataclasses.replace(finding_precision(), host=host)

    assert "[a]" not in terminal.render(dataclasses.replace(realistic(), findings=(on("a"),)), width=80)
    both = terminal.render(dataclasses.replace(realistic(), findings=(on("a"), on("b"))), width=80)
    assert "[a]" in both and "[b]" in both


def test_the_command_that_is_shown_is_text() -> None:
    report = dataclasses.replace(realistic(), next=(Command("outpace explain '/runs/\x1b[31m'", "x"),))
    assert "\x1b" not in terminal.render(report, width=80)
    assert terminal.render(hostile(), width=60)
