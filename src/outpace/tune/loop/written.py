"""What a loop would write while it is tuned: known writers do nothing, files opened for writing are others, and the script prints nothing."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

from outpace.tune.data.isolated import new_folder

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
    """A context in which the script's main thread writes no file of the user's. off: the writers that were called, or files that were
    opened for writing."""

    def __init__(self) -> None:
        self.off: set[str] = set()
        self._main = threading.main_thread().ident
        self._folder = ""

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Inside the block."""
        with contextlib.ExitStack() as back:
            for module, kind, name in _WRITERS:
                self._switch_off(back, module, kind, name)
            self._replace(back, builtins, "open", self._open)
            self._replace(back, io, "open", self._open)
            for name in ("stdout", "stderr"):
                self._replace(back, sys, name, lambda stream: _Muted(stream, self._main))
            summary = getattr(sys.modules.get("tensorflow"), "summary", None)
            if summary is not None:
                back.enter_context(summary.record_if(False))
            yield

    def _replace(self, back: contextlib.ExitStack, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        back.callback(setattr, owner, name, original)
        setattr(owner, name, make(original))

    def _switch_off(self, back: contextlib.ExitStack, module: str, kind: str, name: str) -> None:
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

        self._replace(back, owner, name, off)

    def _open(self, original: Any) -> Any:
        """Files of the user's that are opened for writing are others, in a folder that goes with the process."""

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            writes = isinstance(file, (str, os.PathLike)) and set(mode) & set("wax+")
            if not writes or "opener" in kwargs or threading.get_ident() != self._main or _harmless(os.fspath(file)):
                return original(file, mode, *args, **kwargs)
            self.off.add(os.path.relpath(os.fspath(file)))
            self._folder = self._folder or new_folder(tempfile.gettempdir())
            name = os.path.abspath(os.fspath(file)).strip(os.sep).replace(os.sep, "_")[-200:]
            return original(os.path.join(self._folder, name), mode.replace("x", "w"), *args, **kwargs)

        return opened


def _harmless(path: str) -> bool:
    """Whether a file is none of the user's: a device, or temporary and not below the folder that the script runs in."""
    whole = os.path.abspath(path)
    temporary = whole.startswith(os.path.abspath(tempfile.gettempdir()) + os.sep) and not whole.startswith(os.getcwd() + os.sep)
    return temporary or whole.startswith(("/dev/", "/proc/")) or "__pycache__" in whole


class _Muted:
    """A stream that swallows what one thread writes."""

    def __init__(self, stream: Any, thread: int | None) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        """Write, or swallow it."""
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
