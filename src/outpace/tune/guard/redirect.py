# SPDX-License-Identifier: Apache-2.0
"""The second choice where the kernel lends no overlay: Python's functions for files write to
others, in a private folder, for all threads.

The private folder mirrors the user's tree: `files` holds what was written, `gone` a mark for each
path that was removed. Reads see the mirror first. Only what goes through `builtins`, `io` and `os`
is seen: SQLite, HDF5, C++ savers and programs that are started write by system calls of their own.
Those of the frameworks are switched off by name (`writers`); the rest fails with PermissionError
where the kernel has Landlock (Linux 5.13), and **without Landlock it changes the user's file**.
Python processes that the script starts are redirected, too. Standard library only.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from outpace.tune.guard.mirror import Mirror, fail

VARIABLE = "OUTPACE_REDIRECT"  # private folder and kept ones, for Python processes that the script starts
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SITE = """import os, sys
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != os.path.dirname(os.path.abspath(__file__))]
try:
    from outpace.tune.guard.redirect import go_on
    go_on()
except ImportError:
    pass
own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = own
"""


def begin(private: str, keep: tuple[str, ...]) -> Redirect:
    """From now on, in this process and in Python processes that it starts."""
    site = os.path.join(private, "site")
    for name in ("files", "gone", "tmp", "site"):
        os.makedirs(os.path.join(private, name), exist_ok=True)
    with open(os.path.join(site, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(_SITE)
    os.environ[VARIABLE] = os.pathsep.join((private, *keep))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["TMPDIR"] = os.path.join(private, "tmp")
    sys.dont_write_bytecode = True
    tempfile.tempdir = None
    made = Redirect(private, keep)
    made.install()
    return made


def go_on() -> None:
    """In a process that a redirected one has started."""
    folders = os.environ.get(VARIABLE, "").split(os.pathsep)
    if folders[0]:
        made = Redirect(folders[0], tuple(folders[1:]))
        made.install()


class Entry:
    """A `DirEntry` whose path is the user's, wherever the file stands."""

    def __init__(self, entry: os.DirEntry[Any], name: Any, path: Any) -> None:
        self._entry, self.name, self.path = entry, name, path

    def __fspath__(self) -> Any:
        return self.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)


class Entries:
    """What `scandir` gives."""

    def __init__(self, found: Iterator[Any]) -> None:
        self._found = found

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> Any:
        return next(self._found)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to close."""


class Redirect(Mirror):
    """Stand-ins for Python's functions, which look at the mirror first and write there alone."""

    def install(self) -> None:
        """Put ourselves before Python's functions, for good."""
        for owner in (builtins, io):
            self._replace(owner, "open", self._open)
        table: dict[Callable[..., Any], str] = {
            self._open_low: "open",
            self._mkdir: "mkdir",
            self._remove: "remove unlink",
            self._rmdir: "rmdir",
            self._rename: "rename replace",
            self._link: "link",
            self._new: "symlink",
            self._touch: "chmod chown utime truncate setxattr removexattr lchown mkfifo mknod",
            self._look: "stat lstat access readlink statvfs getxattr listxattr chdir",
            self._list: "listdir",
            self._scan: "scandir",
        }
        for make, names in table.items():
            for name in names.split():
                self._replace(os, name, make)

    def _replace(self, owner: Any, name: str, make: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if getattr(self.aside, "on", False):
                return original(*args, **kwargs)
            self.aside.on = True
            try:
                return make(original, *args, **kwargs)
            finally:
                self.aside.on = False

        functools.update_wrapper(stand_in, original)
        setattr(owner, name, stand_in)
        for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if original in group:
                group.add(stand_in)

    def _open(self, original: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, int) or kwargs.get("opener") is not None or len(args) > 5:
            self.aside.on = False  # an opener of the script's opens by `os.open`
            return original(file, mode, *args, **kwargs)
        writes = bool(set(mode) & set("wax+"))
        user = self.user(file) if writes or self.used else ""
        if not user or self.special(user):
            return original(file, mode, *args, **kwargs)
        if not writes:
            return original(self.where(user) if self.where(user) != user else file, mode, *args, **kwargs)
        if "x" in mode and self.exists(user):
            fail(errno.EEXIST, user)
        if "r" in mode and not self.exists(user):
            fail(errno.ENOENT, user)
        if os.path.isdir(self.where(user)):
            fail(errno.EISDIR, user)
        return original(self.room(user, keeps="w" not in mode), mode, *args, **kwargs)

    def _open_low(self, original: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        writes = flags & _WRITES
        user = self.user(path, dir_fd, not flags & os.O_NOFOLLOW) if writes or self.used else ""
        if not user or self.special(user):
            return original(path, flags, mode, dir_fd=dir_fd)
        if not writes:
            found = self.where(user)
            return original(found, flags, mode) if found != user else original(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return original(os.path.dirname(self.files) + "/tmp", flags, mode)
        if flags & os.O_CREAT and flags & os.O_EXCL and self.exists(user):
            fail(errno.EEXIST, user)
        if not flags & os.O_CREAT and not self.exists(user):
            fail(errno.ENOENT, user)
        if os.path.isdir(self.where(user)):
            fail(errno.EISDIR, user)
        return original(self.room(user, keeps=not flags & os.O_TRUNC), flags | os.O_CREAT, mode)

    def _mkdir(self, original: Callable[..., None], path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        user = self.user(path, dir_fd, follow=False)
        if not user:
            return original(path, mode, dir_fd=dir_fd)
        if self.exists(user):
            fail(errno.EEXIST, user)
        gone = os.path.exists(self.mark(user))
        original(self.room(user), mode)
        if gone:  # what stands below the removed one stays hidden
            self.hide_all(user)
        return None

    def _remove(self, original: Callable[..., None], path: Any, *, dir_fd: int | None = None) -> None:
        user = self.user(path, dir_fd, follow=False)
        if not user:
            return original(path, dir_fd=dir_fd)
        found = self.where(user)
        if not os.path.lexists(found):
            fail(errno.ENOENT, user)
        if os.path.isdir(found) and not os.path.islink(found):
            fail(errno.EISDIR, user)
        if not os.access(self.where(os.path.dirname(user)), os.W_OK):
            fail(errno.EACCES, user)
        if found != user:
            original(found)
        self.hide(user)
        return None

    def _rmdir(self, original: Callable[..., None], path: Any, *, dir_fd: int | None = None) -> None:
        user = self.user(path, dir_fd, follow=False)
        if not user:
            return original(path, dir_fd=dir_fd)
        if not self.exists(user):
            fail(errno.ENOENT, user)
        if not os.path.isdir(self.where(user)):
            fail(errno.ENOTDIR, user)
        if self.shown(user):
            fail(errno.ENOTEMPTY, user)
        if os.path.isdir(self.mirror(user)):
            shutil.rmtree(self.mirror(user))
        self.hide(user)
        return None

    def _rename(
        self, original: Callable[..., None], src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        old, new = self.user(src, src_dir_fd, follow=False), self.user(dst, dst_dir_fd, follow=False)
        if not old and not new:
            return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        begun = self.where(old) if old else os.path.abspath(os.fsdecode(src))
        target = self.room(new) if new else os.path.abspath(os.fsdecode(dst))
        if not os.path.lexists(begun):
            fail(errno.ENOENT, old or begun)
        if os.path.isdir(begun) and not os.path.islink(begun):
            self._rename_folder(old, begun, new, target)
        elif old and begun == old:
            shutil.copy2(old, target, follow_symlinks=False)
        else:
            os.replace(begun, target)
        if old:
            self.hide(old)
        return None

    def _rename_folder(self, old: str, begun: str, new: str, target: str) -> None:
        """A folder's merged content moves to another place."""
        if new and os.path.isdir(self.where(new)):
            if self.shown(new):
                fail(errno.ENOTEMPTY, new)
        elif os.path.lexists(target):
            fail(errno.ENOTDIR, new or target)
        if not old:
            os.replace(begun, target)
            return
        os.makedirs(target, exist_ok=True)
        for name in self.shown(old):
            inside = self.where(os.path.join(old, name))
            if os.path.isdir(inside) and not os.path.islink(inside):
                self._rename_folder(os.path.join(old, name), inside, "", os.path.join(target, name))
            else:
                shutil.copy2(inside, os.path.join(target, name), follow_symlinks=False)
        if os.path.isdir(self.mirror(old)):
            shutil.rmtree(self.mirror(old))
        self.hide_all(old)

    def _link(self, original: Callable[..., None], src: Any, dst: Any, **kwargs: Any) -> None:
        """A hard link becomes a copy: writing through it would change the user's file."""
        old, new = self.user(src, kwargs.get("src_dir_fd")), self.user(dst, kwargs.get("dst_dir_fd"), follow=False)
        if not old and not new:
            return original(src, dst, **kwargs)
        begun = self.where(old) if old else os.fsdecode(src)
        if not os.path.lexists(begun):
            fail(errno.ENOENT, begun)
        if new and self.exists(new):
            fail(errno.EEXIST, new)
        shutil.copy2(begun, self.room(new) if new else os.fsdecode(dst))
        return None

    def _new(self, original: Callable[..., None], src: Any, dst: Any, *args: Any, **kwargs: Any) -> None:
        user = self.user(dst, kwargs.get("dir_fd"), follow=False)
        if not user:
            return original(src, dst, *args, **kwargs)
        if self.exists(user):
            fail(errno.EEXIST, user)
        return original(src, self.room(user))

    def _touch(self, original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        user = self.user(path, kwargs.get("dir_fd"))
        if not user:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        if not self.exists(user) and original.__name__ not in ("mkfifo", "mknod"):
            fail(errno.ENOENT, user)
        if os.path.isdir(self.where(user)):
            if self.where(user) == user:
                return None  # of a folder of the user's: forgotten
            return original(self.where(user), *args, **kwargs)
        return original(self.room(user, keeps=True), *args, **kwargs)

    def _look(self, original: Any, path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        follow = kwargs.get("follow_symlinks", True) and original.__name__ not in ("lstat", "readlink")
        user = self.user(path, kwargs.get("dir_fd"), follow) if self.used and not isinstance(path, int) else ""
        found = self.where(user) if user else ""
        if not user or found == user:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        if not os.path.lexists(found) and original.__name__ != "access":
            fail(errno.ENOENT, user)
        return original(found, *args, **kwargs)

    def _list(self, original: Any, path: Any = ".") -> Any:
        user = self.user(path) if self.used else ""
        if not user:
            return original(path)
        names = self.names(user)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def _scan(self, original: Any, path: Any = ".") -> Any:
        user = self.user(path) if self.used else ""
        if not user:
            return original(path)
        found: list[Entry] = []
        names = set(self.names(user))
        bare = isinstance(path, bytes)
        for place in (self.mirror(user), user):
            if os.path.isdir(place):
                with original(place) as entries:
                    for entry in entries:
                        if entry.name in names:
                            names.discard(entry.name)
                            name = os.fsencode(entry.name) if bare else entry.name
                            found.append(Entry(entry, name, name if isinstance(path, int) else os.path.join(path, name)))
        return Entries(iter(found))
