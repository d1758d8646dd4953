# SPDX-License-Identifier: Apache-2.0
"""The guard of trials: a process that runs the user's script, and all that it starts, changes none
of the user's files.

Two ways to the same end. *overlay*: the kernel shows the process its files through private overlays
(`overlay`); whatever writes, in whichever language, writes to memory that goes with the process.
*redirect*, where the kernel lends none: Python's functions write to a private folder, the
frameworks' savers are off by name, and the rest is forbidden where the kernel has Landlock
(`redirect` says what is not seen). In both, experiment trackers write to this machine alone. Not
guarded is what lies outside of the machine's files: servers, data bases, other machines.

    guard = begin([folder_of_the_command])    # first of all, before there are threads
    ...
    guard.changed()                           # "log.csv", "model.keras": what the script would
                                              # have written

Standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from outpace._dataclass import dataclass
from outpace.frameworks.tensorflow import AUTOGRAPH_FILE
from outpace.tune.guard import landlock, redirect, trackers
from outpace.tune.guard.mounts import SHARED, below
from outpace.tune.guard.overlay import Impossible, Overlay, build
from outpace.tune.guard.redirect import Redirect
from outpace.tune.guard.writers import Writers

CHOICE = "OUTPACE_GUARD"  # for tests: one of the WAYS
GUARDED = "OUTPACE_GUARDED"  # how the process is guarded that has started this one
OVERLAY, _AS_USER, _REDIRECT, _PYTHON = WAYS = ("overlay", "overlay as user", "redirect", "redirect without landlock")
_PROGRAMS = (".cache", ".nv", ".triton", ".ipython", ".config")  # folders of a user in which programs keep what is no result
_LIBRARIES = ("outpace-", AUTOGRAPH_FILE, "matplotlib-", "pymp-")  # begins of names of temporary files
_begun: list[Guard] = []


class Inherited:
    """What is written goes to the overlay of the process that has started this one."""

    def written(self) -> Iterator[str]:
        """Not told from what that one wrote."""
        return iter(())


@dataclass(frozen=True)
class Guard:
    """A guard that was begun. how: "overlay" or "redirect"; why: the reason where it is no overlay;
    seconds: what it took; room: a folder of the real disk for large files of Outpace's own; sealed:
    what Python's functions do not see cannot write either.
    """

    how: str
    why: str
    seconds: float
    room: str
    sealed: bool
    _source: Overlay | Redirect | Inherited
    _off: set[str]
    _temporary: str
    _placed: dict[str, bytes]

    def place(self, contents: Mapping[str, bytes]) -> None:
        """Let this process, and those that it starts, find other contents in files, by their real
        paths. Where the guard is another's, or a file may not be written, only what reads through
        Python's import system finds them.
        """
        for path, content in contents.items() if not isinstance(self._source, Inherited) else ():
            with contextlib.suppress(OSError), open(path, "wb") as file:
                self._placed[path] = content
                file.write(content)

    def changed(self) -> list[str]:
        """Files of the user's that would have been written or removed, as paths from here where
        they lie below; and savers that were off.
        """
        return sorted({*_shown(self._written(), self._temporary), *self._off})

    def all_changed(self) -> list[str]:
        """Like `changed`, with those in the folder for temporary files that no library names."""
        theirs = [os.path.join(self._temporary, each) for each in _LIBRARIES]
        written = [path for path in self._written() if not path.startswith(tuple(theirs))]
        return sorted({*_shown(written, ""), *self._off})

    def _written(self) -> list[str]:
        return [path for path in [*self._source.written()] if not self._as_placed(path)]

    def _as_placed(self, path: str) -> bool:
        if path not in self._placed:
            return False
        with contextlib.suppress(OSError), open(path, "rb") as file:
            return file.read() == self._placed[path]
        return False


def begin(keep: Sequence[str] = ()) -> Guard:
    """Guard this process and all that it will start, for ever. keep: folders that exist and are
    really written to; the first one is given to large files of Outpace's own. Call it before there
    are threads. A second call gives the same guard.
    """
    if _begun:
        return _begun[0]
    began = time.perf_counter()
    choice = os.environ.get(CHOICE, "")
    temporary = os.path.realpath(tempfile.gettempdir())
    why = _why_no_overlay(keep, choice)
    inherited = bool(why) and os.environ.get(GUARDED) == OVERLAY and not choice
    room = os.path.realpath(keep[0]) if keep else "" if inherited else _own_room()
    off: set[str] = set()
    source: Overlay | Redirect | Inherited
    if inherited:  # overlays can be stacked twice
        source, sealed, private = Inherited(), True, tempfile.mkdtemp(prefix="outpace-trackers-")
    elif why:
        private = tempfile.mkdtemp(prefix="guard-", dir=room)
        source = redirect.begin(private, tuple(keep))
        sealed = choice != _PYTHON and landlock.restrict([private, *keep])
        Writers(off).switch_off_on_import()
    else:
        source, sealed = build(keep, choice == _AS_USER), True
        private = tempfile.mkdtemp(prefix="outpace-trackers-")
    trackers.offline(private)
    how = _REDIRECT if why and not inherited else OVERLAY
    os.environ[GUARDED] = how
    _begun.append(Guard(how, why, time.perf_counter() - began, room, sealed, source, off, temporary, {}))
    return _begun[0]


def _own_room() -> str:
    """A folder that goes with this process, where that ends by itself."""
    made, owner = tempfile.mkdtemp(prefix="outpace-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made


def room(otherwise: str) -> str:
    """A folder of the real disk for large files, in a guarded process; `otherwise` in others."""
    return _begun[0].room if _begun else otherwise


def _why_no_overlay(keep: Sequence[str], choice: str) -> str:
    """Empty where an overlay can be built, which a forked process finds out: half built, it could
    not be left.
    """
    if choice in (_REDIRECT, _PYTHON):
        return "so chosen"
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        said = "it failed"
        try:
            os.close(ours)
            said = _tried(keep, choice == _AS_USER)
        finally:
            os.write(theirs, said.encode("utf-8", "replace")[:4000])
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    os.waitpid(child, 0)
    return said


def _tried(keep: Sequence[str], as_user: bool) -> str:
    """Build one and use it; why that is not possible, empty where it is."""
    try:
        build(keep, as_user)
        if os.access(".", os.W_OK):
            for _ in range(2):  # a folder in place of one that was removed asks most of the file system
                folder = tempfile.mkdtemp(prefix=".outpace-", dir=".")
                with open(os.path.join(folder, "file"), "w", encoding="ascii") as file:
                    file.write("x")
                shutil.rmtree(folder)
    except Impossible as error:
        return str(error) or "it is not possible"
    except (OSError, AttributeError) as error:
        return f"the system does not allow it ({error})"
    return ""


def _shown(written: Iterable[str], temporary: str) -> Iterable[str]:
    """Files that a person would call his own: not those of caches in his own folder, nor what
    libraries keep.
    """
    here, home = os.getcwd(), os.path.expanduser("~")
    for path in written:
        inside = below(path, here)
        parts = os.path.relpath(path, here if inside else "/").split(os.sep)
        if (
            "__pycache__" in parts
            or any(below(path, os.path.join(home, each)) for each in _PROGRAMS)
            or (not inside and ((temporary and below(path, temporary)) or below(path, SHARED)))
        ):
            continue
        if not inside and any(below(path, os.path.realpath(prefix)) for prefix in {sys.prefix, sys.base_prefix}):
            continue
        yield os.path.relpath(path, here) if inside else path
