"""What users may write to choose a part of the trace, and what they are told when it makes no
sense.
"""

from __future__ import annotations

from typing import Any

import pytest

from outpace.model import UsageError
from outpace.viewer import parse_selection
from tests.support import opened

S, MS, US = 10**12, 10**9, 10**6


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("1.2s:1.5s", (1_200 * MS, 1_500 * MS)),
        ("800ms:", (800 * MS, None)),
        (":2s", (None, 2 * S)),
        ("5us:6 µs", (5 * US, 6 * US)),
        (".5s:900000000ns", (S // 2, 900 * MS)),
    ],
)
def test_windows(text: str, window: Any) -> None:
    assert parse_selection(text, None, None).window_ps == window


@pytest.mark.parametrize(
    ("text", "steps"), [("3:5", (3, 5)), ("3", (3, 3)), ("3:", (3, None)), (":5", (None, 5)), ("-2:-1", (-2, -1))]
)
def test_steps(text: str, steps: Any) -> None:
    assert parse_selection(None, text, None).steps == steps


@pytest.mark.parametrize("window", ["", "1s", "5:6", "2s:1s", "1s:1s", "one:two", "1s:2s:3s", "nan s:2s", "-1s:2s"])
def test_windows_that_are_none(window: str) -> None:
    with pytest.raises(UsageError, match="--window"):
        parse_selection(window, None, None)


@pytest.mark.parametrize("steps", ["", ":", "a:b", "5:3", "1.5:2", "1:2:3"])
def test_steps_that_are_none(steps: str) -> None:
    with pytest.raises(UsageError, match="--steps"):
        parse_selection(None, steps, None)


def test_contradictions_and_bad_patterns() -> None:
    with pytest.raises(UsageError, match="one of them"):
        parse_selection("1s:", "3:5", None)
    with pytest.raises(UsageError, match="regular expression"):
        parse_selection(None, None, "(")


def test_steps_that_are_not_there_are_named_with_those_that_are() -> None:
    timeline = opened("custom_loop").run.hosts[0]
    number = timeline.steps.number
    with pytest.raises(UsageError, match=f"has steps {number.min()} to {number.max()}"):
        parse_selection(None, "1000:", None).span(timeline, 0)
