"""What a loop would write while it is tuned: known writers do nothing, files opened for writing are others, and the script prints nothing."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from outpace.tune.loop.files import Files

# Each is a method that writes files by the framework's own code; (module, class or empty, name).
_WRITERS = (
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint", "save"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint", "write"),
    ("tensorflow.python.checkpoint.checkpoint_management", "CheckpointManager", "save"),
    ("tensorflow.python.saved_model.save", "", "save"),
    ("keras.src.models.model", "Model", "save"),
    ("keras.src.models.model", "Model", "save_weights"),
    ("keras.src.models.model", "Model", "export"),
    ("orbax.checkpoint", "CheckpointManager", "save"),
    ("orbax.checkpoint", "PyTreeCheckpointer", "save"),
    ("orbax.checkpoint", "StandardCheckpointer", "save"),
    ("orbax.checkpoint", "Checkpointer", "save"),
)


class Unwritten:
    """The script's main thread writes no file of the user's, from `begin` on. off: the writers that were called, and files that would have
    been changed."""

    def __init__(self) -> None:
        self.off: set[str] = set()
        self.begun = False
        self._main = threading.main_thread().ident
        self._replaced: set[tuple[int, str]] = set()
        self._forever = contextlib.ExitStack()  # never left

    def begin(self) -> None:
        """From now on, to the end of the process; once more for what was imported since."""
        if not self.begun:
            self.begun = True
            Files(self.off, self._main).guard(self._replace)
        for module, kind, name in _WRITERS:
            self._switch_off(module, kind, name)

    def mute(self) -> None:
        """From now on it prints nothing, and writes no summaries of TensorFlow's."""
        for name in ("stdout", "stderr"):
            self._replace(sys, name, lambda stream: _Muted(stream, self._main))
        summary = getattr(sys.modules.get("tensorflow"), "summary", None)
        if summary is not None:
            self._forever.enter_context(summary.record_if(False))

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None and (id(owner), name) not in self._replaced:
            self._replaced.add((id(owner), name))
            setattr(owner, name, make(original))

    def _switch_off(self, module: str, kind: str, name: str) -> None:
        owner = sys.modules.get(module)
        owner = getattr(owner, kind, None) if kind else owner
        if owner is None or name not in vars(owner):
            return
        said = f"{kind or module.rpartition('.')[0].rpartition('.')[2]}.{name}"

        def off(original: Any) -> Any:
            def method(*args: Any, **kwargs: Any) -> Any:
                if threading.get_ident() != self._main:
                    return original(*args, **kwargs)
                self.off.add(said)
                return str(args[1]) if len(args) > 1 and isinstance(args[1], (str, os.PathLike)) else ""

            return method

        self._replace(owner, name, off)


class _Muted:
    """A stream that swallows what one thread writes."""

    def __init__(self, stream: Any, thread: int | None) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        """Write, or swallow it."""
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
