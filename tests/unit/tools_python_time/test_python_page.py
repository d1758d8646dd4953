"""What the page of Python says first."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.facts import python_lines as python_time
from outpace.metrics.views import jit_calls
from outpace.metrics.views import thread_lines as python_threads
from outpace.tools.python_time.page import analyse
from tests.advice_cases.build import MS, run, table

_LINE: dict[str, Any] = {"file": "/me/train.py", "line": 47, "function": "<module>", "who": "yours", "samples": 100}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            {"self_ps": 9 * MS, "untraced_ps": 3 * MS, "untraced_share": 0.3},
            "30% of the step is untraced Python; your own code spends most of it at train.py:47 (<module>): 3.00 ms per step.",
        ),
        (
            {"self_ps": 9 * MS, "building_ps": 9 * MS},
            "Hardly any of the step is untraced Python. Your own code spends most of its time at train.py:47 (<module>), which traces and "
            "compiles.",
        ),
        (
            {"self_ps": 9 * MS, "building_ps": MS, "untraced_ps": MS // 100, "untraced_share": 0.001},
            "Hardly any of the step is untraced Python. Your own code spends most of its time at train.py:47 (<module>).",
        ),
        (
            {"who": "library", "self_ps": 9 * MS},
            "No line of your own code was seen on the training thread: a library's loop runs it.",
        ),
    ],
)
def test_the_headline_is_true_of_the_lines(line: dict[str, Any], said: str) -> None:
    known = {
        python_time.python_lines: table("python_lines", python_time.PYTHON_LINES, {**_LINE, **line}),
        python_threads.thread_lines: table("thread_lines", python_threads.THREAD_LINES),
        jit_calls.jit_calls: table("jit_calls", jit_calls.JIT_CALLS),
    }
    assert analyse(run(known)).headline == said
