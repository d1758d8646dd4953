# SPDX-License-Identifier: Apache-2.0
"""Counts exceptions of Outpace's own code in the training's process.

The training must not see them, but they must not go unnoticed: the capture's record holds the
counts.
"""

from __future__ import annotations

import os
from collections import Counter
from types import TracebackType

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MAX_PLACES = 100  # maximum number of distinct places that are counted

_counts: Counter[str] = Counter()


class suppress_faults:  # lower case as `contextlib.suppress`, because it reads as a statement
    """Context manager that ends its block at an exception and counts the exception.

    KeyboardInterrupt and SystemExit pass through, because they belong to the program.

    Example: `with suppress_faults(): recorder.note(function)` skips what it cannot read of this
    version of TensorFlow.
    """

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Leave the block; True suppresses the exception."""
        if not isinstance(error, Exception):
            return False
        count_fault(error)
        return True


def count_fault(error: Exception) -> None:
    """Count an exception that is handled, by the innermost line of Outpace in its traceback."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OWN_FOLDER):
            place = f"{file[len(_OWN_FOLDER) :].replace(os.sep, '/')}:{trace.tb_lineno}"
        trace = trace.tb_next
    key = f"{place} {type(error).__name__}"
    if key in _counts or len(_counts) < _MAX_PLACES:
        _counts[key] += 1


def fault_counts() -> dict[str, int]:
    """Return how often each exception was counted in this process, by file, line and class, such as
    `capture/sources.py:131 AttributeError`.
    """
    return dict(_counts)
