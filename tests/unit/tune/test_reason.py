"""Why something failed, in one line."""

from __future__ import annotations

import pytest

from outpace.model.errors import CaptureError
from outpace.tune.reason import LONGEST, reason_in, reason_of

XLA = """Exception encountered when calling Py.call().

Detected at node StatefulPartitionedCall/sequential/py/PyFunc defined at (most recent call last):
<stack traces unavailable>
Detected unsupported operations when trying to compile graph __inference_one_step_on_data_1[] on XLA_CPU_JIT: PyFunc (no kernel)
"""
ASSERTION = """Graph execution error:

Detected at node assert_less/Assert defined at (most recent call last):
<stack traces unavailable>
assertion failed: [element 500 is broken] [Condition x < y did not hold]
\t [[{{node assert_less/Assert}}]]"""


def test_the_line_that_says_something_is_found() -> None:
    assert reason_of(ValueError("no such file.\nmore")) == "ValueError: no such file"
    assert reason_of(RuntimeError(ASSERTION)).startswith("RuntimeError: assertion failed: [element 500 is broken]")
    assert "PyFunc" in reason_of(RuntimeError(XLA)) and "\n" not in reason_of(RuntimeError(XLA))
    bare = RuntimeError("{{function_node __wrapped__IteratorGetNext}} assertion failed")
    assert reason_of(bare) == "RuntimeError: assertion failed"


def test_an_own_error_is_its_sentence() -> None:
    assert reason_of(CaptureError("The script ended.\nIts last lines: x.")) == "The script ended.\nIts last lines: x."


@pytest.mark.parametrize(
    "error", [StopIteration("StopIteration"), StopIteration(), KeyError(), RuntimeError("Graph execution error:\n")]
)
def test_an_error_without_words_is_its_type(error: Exception) -> None:
    assert reason_of(error) == type(error).__name__


def test_a_long_line_is_cut() -> None:
    said = reason_of(ValueError("x" * 10_000))
    assert len(said) == LONGEST + len("ValueError: ") and said.endswith("…")


def test_what_a_process_wrote_at_its_end_is_told_by_its_last_error() -> None:
    traceback = 'epoch 1\nTraceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
    assert reason_in(f"{traceback}KeyError: 'steps'\n") == "KeyError: 'steps'"
    xla = (
        "tensorflow.errors_impl.InvalidArgumentError: Graph execution error:\n\nDetected at node X\n\nPyFunc is not supported\n"
    )
    assert reason_in(traceback + xla) == "InvalidArgumentError: PyFunc is not supported"
    assert reason_in(f"{traceback}MemoryError\n") == "MemoryError"
    assert reason_in("epoch 1\ndone\n") == ""
