"""What one thread must not write: files of the user's, which it finds as it would have left them, and what callbacks and savers write.

Standard library only."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from outpace.capture.family import noted
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


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REMOVES = ("remove", "unlink", "rmdir")
_MOVES = ("rename", "replace")
_LINKS = ("link", "symlink")
_TOUCHES = ("chmod", "utime", "truncate")
_LOOKS = ("stat", "lstat")


class Files:
    """Files as one thread sees them. off: those that it would have changed, as paths from here."""

    def __init__(self, off: set[str], thread: int | None) -> None:
        self.off = off
        self._thread = thread
        self._temporary = os.path.abspath(tempfile.gettempdir()) + os.sep  # asked for later, it would be looked for by writing
        self._folder = ""
        self._instead: dict[str, str] = {}  # the other file, by path

    def guard(self, replace: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
        """Put ourselves before Python's functions: `replace(owner, name, make)` gives each one a stand-in, `make(original)`."""
        for owner in (builtins, io):
            replace(owner, "open", self._opened)
        replace(os, "open", self._opened_low)
        replace(os, "mkdir", self._made)
        for names, make in ((_REMOVES, self._removed), (_MOVES, self._moved), (_LINKS, self._linked)):
            for name in names:
                replace(os, name, make)
        for name in _TOUCHES:
            replace(os, name, functools.partial(self._redirected, writes=True))
        for name in _LOOKS:
            replace(os, name, functools.partial(self._redirected, writes=False))

    def _path(self, path: Any, folder: int | None = None) -> str:
        """The whole path; empty where another thread asks, or where nothing of the user's is meant."""
        if threading.get_ident() != self._thread or not isinstance(path, (str, bytes, os.PathLike)):
            return ""
        plain = os.fsdecode(path)
        if folder is not None:
            with contextlib.suppress(OSError):
                plain = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), plain)
        whole = os.path.abspath(plain)
        return "" if whole not in self._instead and self._harmless(whole) else whole

    def _harmless(self, whole: str) -> bool:
        """Whether a file is none of the user's: a device, or temporary and not below the folder that the script runs in."""
        temporary = whole.startswith(self._temporary) and not whole.startswith(os.getcwd() + os.sep)
        return temporary or whole.startswith(("/dev/", "/proc/")) or "__pycache__" in whole

    def _other(self, path: str, keeps: bool) -> str:
        """What is written in place of a file; `keeps`: it goes on with what that holds."""
        self.off.add(os.path.relpath(path))
        if path not in self._instead:
            self._folder = self._folder or new_folder(self._temporary)
            made = os.path.join(self._folder, f"{len(self._instead)}_{os.path.basename(path)}"[:200])
            if keeps and os.path.isfile(path):
                shutil.copyfile(path, made)
            self._instead[path] = made
        return self._instead[path]

    def _opened(self, original: Any) -> Any:
        def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            path = self._path(file) if kwargs.get("opener") is None else ""
            if path and set(mode) & set("wax+"):
                return original(self._other(path, "r" in mode), mode.replace("x", "w"), *args, **kwargs)
            return original(self._instead.get(path, file), mode, *args, **kwargs)

        return open

    def _opened_low(self, original: Any) -> Any:
        def open(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
            whole = self._path(path, kwargs.get("dir_fd"))
            if whole and flags & _WRITES:
                return original(self._other(whole, not flags & os.O_TRUNC), (flags | os.O_CREAT) & ~os.O_EXCL, *args)
            return original(self._instead.get(whole, path), flags, *args, **kwargs)

        return open

    def _made(self, original: Any) -> Any:
        """A folder is made, and goes with what this command has started."""

        def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
            original(path, *args, **kwargs)
            if whole := self._path(path, kwargs.get("dir_fd")):
                noted(whole)

        return mkdir

    def _removed(self, original: Any) -> Any:
        def remove(path: Any, **kwargs: Any) -> None:
            whole = self._path(path, kwargs.get("dir_fd"))
            if whole in self._instead:
                os.unlink(self._instead.pop(whole))
            elif whole and os.path.lexists(whole):
                self.off.add(os.path.relpath(whole))
            else:
                original(path, **kwargs)

        return remove

    def _moved(self, original: Any) -> Any:
        def replace(src: Any, dst: Any, **kwargs: Any) -> None:
            old, new = self._path(src, kwargs.get("src_dir_fd")), self._path(dst, kwargs.get("dst_dir_fd"))
            if old in self._instead and not new:
                original(self._instead.pop(old), dst)
            elif new and (old in self._instead or (not old and os.path.isfile(src))):
                other = self._other(new, keeps=False)
                original(self._instead.pop(old, None) or src, other)
            elif old and os.path.lexists(old):
                self.off.add(os.path.relpath(new or old))
            else:
                original(src, dst, **kwargs)

        return replace

    def _linked(self, original: Any) -> Any:
        def link(src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
            new = self._path(dst)
            if new:
                self.off.add(os.path.relpath(new))
            else:
                original(src, dst, *args, **kwargs)

        return link

    def _redirected(self, original: Any, writes: bool) -> Any:
        """What looks at a file sees the other one; what changes it does so to that alone."""

        def done(path: Any, *args: Any, **kwargs: Any) -> Any:
            whole = self._path(path, kwargs.get("dir_fd")) if writes or self._instead else ""
            if whole in self._instead:
                return original(self._instead[whole], *args, **{**kwargs, "dir_fd": None} if "dir_fd" in kwargs else kwargs)
            if writes and whole and os.path.lexists(whole):
                self.off.add(os.path.relpath(whole))
                return None
            return original(path, *args, **kwargs)

        return done
