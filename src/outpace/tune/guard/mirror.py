# SPDX-License-Identifier: Apache-2.0
"""The mirror of a redirected process: which of the user's paths stand where in the private folder.
Standard library only.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

from outpace.tune.guard.mounts import ancestors, below

_MOST_LINKS = 40
_NOT_FILES = ("/dev", "/proc", "/sys")


class Mirror:
    """The user's tree as the script sees it. aside: threads that look at what really is there."""

    def __init__(self, private: str, keep: tuple[str, ...]) -> None:
        self._used = False
        self.files, self._gone = os.path.join(private, "files"), os.path.join(private, "gone")
        self.exempt = (os.path.realpath(private), *map(os.path.realpath, keep), *_NOT_FILES)
        self.aside = threading.local()

    @property
    def used(self) -> bool:
        """Whether something was written, or removed, by any process of the script's."""
        self._used = self._used or bool(os.listdir(self.files) or os.listdir(self._gone))
        return self._used

    def written(self) -> Iterator[str]:
        """Paths of files that were written or removed."""
        self.aside.on = True
        try:
            for folder, _, files in os.walk(self.files):
                for name in files:
                    yield os.path.join(folder, name)[len(self.files) :]
            for mark in os.listdir(self._gone):
                with open(os.path.join(self._gone, mark), encoding="utf-8", errors="surrogateescape") as file:
                    yield file.read()
        finally:
            self.aside.on = False

    def user(self, path: Any, folder: int | None = None, follow: bool = True) -> str:
        """The whole path of a file of the user's; empty where something else is meant."""
        if isinstance(path, bool) or not isinstance(path, (str, bytes, int, os.PathLike)):
            return ""
        try:
            whole = self._of_descriptor(path) if isinstance(path, int) else self._of_path(path, folder, follow)
        except (OSError, ValueError):
            return ""
        if below(whole, self.files):
            whole = whole[len(self.files) :] or "/"
        return "" if not whole or any(below(whole, each) for each in self.exempt) else whole

    def _of_descriptor(self, number: int) -> str:
        text = os.readlink(f"/proc/self/fd/{number}")
        return text if text.startswith("/") and not text.endswith(" (deleted)") else ""

    def _of_path(self, path: Any, folder: int | None, follow: bool) -> str:
        text = os.fsdecode(path)
        base = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
        text = os.path.join(base, text)
        if follow:
            return self._followed(os.path.realpath(text))
        text = text.rstrip("/") or "/"
        return os.path.join(self._followed(os.path.realpath(os.path.dirname(text))), os.path.basename(text))

    def _followed(self, path: str) -> str:
        """Where a path leads by symbolic links of the mirror's."""
        for _ in range(_MOST_LINKS if self.used else 0):
            link = next((each for each in ancestors(path, "/") if os.path.islink(self.files + each)), "")
            if not link:
                return path
            target = os.path.join(os.path.dirname(link), os.readlink(self.files + link))
            path = os.path.realpath(os.path.join(target, os.path.relpath(path, link)))
        return path

    def mirror(self, user: str) -> str:
        """Where what is written there stands."""
        return self.files + user

    def mark(self, user: str) -> str:
        """The mark that it was removed."""
        return os.path.join(self._gone, hashlib.sha1(os.fsencode(user), usedforsecurity=False).hexdigest())

    def where(self, user: str) -> str:
        """Where that file stands, or would."""
        mirror = self.mirror(user)
        if os.path.isdir(user) and os.path.isdir(mirror) and not os.path.exists(self.mark(user)):
            return user
        return mirror if os.path.lexists(mirror) or os.path.exists(self.mark(user)) else user

    def exists(self, user: str) -> bool:
        """Whether something stands there."""
        return os.path.lexists(self.where(user))

    def remove_mark(self, user: str) -> None:
        """It is there again."""
        if os.path.exists(self.mark(user)):
            os.unlink(self.mark(user))

    def hide(self, user: str) -> None:
        """From now on nothing stands there."""
        if os.path.lexists(user):
            with open(self.mark(user), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(user)

    def room(self, user: str, keeps: bool = False) -> str:
        """The path to write in place of a file; `keeps`: it goes on with what that holds."""
        folder, mirror = os.path.dirname(user), self.mirror(user)
        if not os.path.isdir(self.where(folder)):
            fail(errno.ENOENT, user)
        if not os.access(self.where(user if os.path.exists(self.where(user)) else folder), os.W_OK):
            fail(errno.EACCES, user)
        os.makedirs(os.path.dirname(mirror), exist_ok=True)
        if not os.path.lexists(mirror) and keeps and os.path.isfile(self.where(user)):
            shutil.copy2(user, mirror)
        self.remove_mark(user)
        return mirror

    def special(self, user: str) -> bool:
        """Whether a pipe, a socket or a device stands there."""
        try:
            mode = os.stat(user).st_mode
        except OSError:
            return False
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)

    def shown(self, user: str) -> list[str]:
        """Names in a folder."""
        mirror, names = self.mirror(user), set()
        if os.path.isdir(user) and not os.path.exists(self.mark(user)):
            names = {name for name in os.listdir(user) if not os.path.exists(self.mark(os.path.join(user, name)))}
        if os.path.isdir(mirror):
            names |= set(os.listdir(mirror))
        return sorted(names)

    def hide_all(self, user: str) -> None:
        """From now on nothing of what was really there stands below."""
        for folder, folders, files in os.walk(user):
            for name in (*folders, *files):
                self.hide(os.path.join(folder, name))

    def names(self, user: str) -> list[str]:
        """Names in a folder; the error where there is none."""
        found = self.where(user)
        if not os.path.isdir(found):
            fail(errno.ENOTDIR if os.path.lexists(found) else errno.ENOENT, user)
        return self.shown(user)


def fail(number: int, path: str) -> NoReturn:
    """Raise what the system would."""
    raise OSError(number, os.strerror(number), path)
