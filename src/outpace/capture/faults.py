"""Faults of our own code in the training's process. The training must not see them, and somebody
must: the capture's record counts them.
"""

from __future__ import annotations

import os
from collections import Counter
from types import TracebackType

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST = 100  # places

_counts: Counter[str] = Counter()


class suppress_faults:  # it reads as a statement, like contextlib.suppress
    """A block whose exceptions end it, and are counted. KeyboardInterrupt and SystemExit pass: they
    are the program's.

    Example: `with suppress_faults(): recorder.note(function)` leaves out what it cannot read of
    this version of TensorFlow.
    """

    def __enter__(self) -> None:
        """The block begins."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """The block ends."""
        if not isinstance(error, Exception):
            return False
        count_fault(error)
        return True


def count_fault(error: Exception) -> None:
    """Count an exception that goes no further, by the innermost line of ours that it
    came through.
    """
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OWN):
            place = f"{file[len(_OWN) :].replace(os.sep, '/')}:{trace.tb_lineno}"
        trace = trace.tb_next
    key = f"{place} {type(error).__name__}"
    if key in _counts or len(_counts) < _MOST:
        _counts[key] += 1


def fault_counts() -> dict[str, int]:
    """How often each fault was met in this process: by file, line and kind, as in
    `capture/sources.py:131 AttributeError`.
    """
    return dict(_counts)
