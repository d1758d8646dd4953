"""Where models were compiled: the user's line of the last `compile` of each, for a script that compiles more than once."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any

from outpace.capture import frames

_lines: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()


def note_compiles(keras: Any) -> None:
    """Note the line of each `compile` from now on."""
    original = keras.Model.compile

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            place = frames.caller()
            if place is not None:
                _lines[self] = place.file, place.line
        return original(self, *args, **kwargs)

    keras.Model.compile = compile


def compiled_at(model: Any) -> tuple[str, int] | None:
    """File and line; None where nobody noted it."""
    return _lines.get(model)
