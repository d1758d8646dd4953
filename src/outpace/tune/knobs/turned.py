"""A context that stays turned on when it is never left, which is how a knob is applied for good."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType


class Turned(AbstractContextManager[None]):
    """`on` turns something and registers with the stack what turns it back; where it fails, what it registered is undone.

    Not made by `contextlib.contextmanager`: a generator that nobody holds any more is closed, which would turn the knob back.
    """

    def __init__(self, on: Callable[[ExitStack], None]) -> None:
        self._on = on
        self._back = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as stack:
            self._on(stack)
            self._back = stack.pop_all()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._back.close()
