# SPDX-License-Identifier: Apache-2.0
"""Staging of a run: its files are written into a hidden folder, and the run appears in the log
directory as a whole, or not at all.

Standard library only: this runs inside the user's training process.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import shutil
import sys
import tempfile
from contextlib import ExitStack
from types import TracebackType

from outpace.model.errors import CaptureError
from outpace.store.logdir import PROFILE_FOLDER, upload_run
from outpace.store.tree import is_url

if sys.platform != "win32":
    import fcntl

STAGING_PREFIX = ".outpace-"
NEW_FOLDER, PREVIOUS_FOLDER = "new", "before"
"""Folders inside a hidden folder: the new content, and the previous content of its destination,
under its own name.
"""
_LOCK = "lock"
MAX_NAME_ATTEMPTS = 1000  # maximum number of captures that begin within one second and want the same name


class Staging:
    """The folder in which one run's files are written before they are published; use it in a `with`
    block.

    For a local log directory the hidden folder is inside it, so that publishing is a rename; for a
    URL it is in the temporary directory, and publishing uploads. Leaving the block removes whatever
    was not published.
    """

    def __init__(self, logdir: str) -> None:
        """Create the folder. Raises CaptureError when the log directory cannot be written to."""
        self.logdir = logdir
        self.folder, self._lock = "", ExitStack()
        try:
            if is_url(logdir):
                self.folder = tempfile.mkdtemp(prefix=STAGING_PREFIX[1:])
                return
            self._local = os.path.abspath(os.path.expanduser(logdir))
            os.makedirs(self._local, exist_ok=True)
            remove_stale_folders(self._local)
            self.folder, self._lock = create_hidden_folder(self._local)
        except OSError as error:
            reason = error.strerror or error
            raise CaptureError(f"The log directory {logdir} is not writable ({reason}). Give another one.") from None

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()

    def run_folder(self, name: str | None = None) -> str:
        """Return the folder for the run's files, and create it when it is missing. Its name is the
        time by default, as TensorFlow's is.
        """
        existing = self._runs()
        if existing and name in (None, existing[0]):
            return os.path.join(self.folder, PROFILE_FOLDER, existing[0])
        path = os.path.join(self.folder, PROFILE_FOLDER, name or f"{datetime.datetime.now():%Y_%m_%d_%H_%M_%S}")
        os.makedirs(path)
        return path

    def publish(self) -> str:
        """Move or upload the run into the log directory under a free name, and return its path or
        URL.

        Raises CaptureError when there is no file to publish or the run cannot be moved, OutputError
        when an upload fails: the message then names the local folder that still contains the run.
        """
        runs = self._runs()
        source = os.path.join(self.folder, PROFILE_FOLDER, runs[0]) if runs else ""
        if not runs or not os.listdir(source):
            raise CaptureError("The profiler wrote no file, so there is no profile to save.")
        if is_url(self.logdir):
            return upload_run(source, self.logdir)
        target = os.path.join(self._local, PROFILE_FOLDER, runs[0])
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            return _rename_folder(source, target)
        except OSError as error:
            raise CaptureError(f"The profile cannot be moved to {target}: {error.strerror or error}.") from None

    def discard(self) -> None:
        """Remove the folder and what is left in it; a second call does nothing."""
        remove_hidden_folder(self.folder, self._lock)

    def _runs(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(os.listdir(os.path.join(self.folder, PROFILE_FOLDER)))
        return []


def _rename_folder(source: str, target: str) -> str:
    """Rename a folder to the target or, when that exists, to the target with a number, and return
    the new path.
    """
    for attempt in range(MAX_NAME_ATTEMPTS):
        place = target if attempt == 0 else f"{target}_{attempt}"
        if os.path.exists(place):
            continue
        try:
            os.rename(source, place)
        except OSError:
            if os.path.exists(place):  # another process was faster
                continue
            raise
        return place
    raise OSError(f"{target} exists already")


def create_hidden_folder(parent: str) -> tuple[str, ExitStack]:
    """Create a hidden folder of this process and return it with its lock, which is closed by
    `remove_hidden_folder`.
    """
    # A sweep ignores this name, so that the folder is safe before it is locked.
    new = tempfile.mkdtemp(prefix=f"{STAGING_PREFIX}new-", dir=parent)
    lock = ExitStack()
    with contextlib.suppress(OSError):  # the file system has no locks
        lock = _lock_folder(new)
    folder = os.path.join(parent, f"{STAGING_PREFIX}{os.getpid()}-{new[-8:]}{_suffix()}")
    os.rename(new, folder)
    return folder, lock


def remove_hidden_folder(folder: str, lock: ExitStack) -> None:
    """Remove a hidden folder. A previous folder whose replacement did not reach its destination is
    moved back first; where that fails, OSError is raised and everything stays.
    """
    with lock:
        aside = os.path.join(folder, PREVIOUS_FOLDER)
        if os.path.isdir(os.path.join(folder, NEW_FOLDER)) and os.path.isdir(aside):
            for name in os.listdir(aside):
                place = os.path.join(os.path.dirname(folder), name)
                if not os.path.lexists(place):
                    os.rename(os.path.join(aside, name), place)
    shutil.rmtree(folder, ignore_errors=True)  # after the lock is closed: NFS keeps a file that is open


def _lock_folder(folder: str) -> ExitStack:
    """Return the lock of a hidden folder, which is released when it is closed or the process ends.
    Raises OSError where another process has it, or the file system has no locks.
    """
    with ExitStack() as lock:
        if sys.platform != "win32":
            fcntl.flock(lock.enter_context(open(os.path.join(folder, _LOCK), "ab")), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock.pop_all()


def _suffix() -> str:
    """Return the machine's part of a hidden folder's name: on a shared file system, process ids of
    other machines mean nothing here.
    """
    return f"@{platform.node()}"


def remove_stale_folders(logdir: str) -> None:
    """Remove the hidden folders of processes of this machine that were killed before they removed
    them.

    Containers may share a machine's name and have process ids of their own: only the lock, which is
    released with its process and works over NFS, shows that the owner is gone. A folder of another
    user may contain links to this user's files, and stays.
    """
    if sys.platform == "win32":  # signal 0 is Ctrl-C on Windows
        return
    for name in os.listdir(logdir):
        pid = (
            name[len(STAGING_PREFIX) :].partition("-")[0]
            if name.startswith(STAGING_PREFIX) and name.endswith(_suffix())
            else ""
        )
        if pid.isdigit() and not _lives(int(pid)):
            folder = os.path.join(logdir, name)
            with contextlib.suppress(OSError):
                if os.lstat(folder).st_uid == os.getuid():
                    remove_hidden_folder(folder, _lock_folder(folder))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # another user's process refuses the signal, and lives
    return True
