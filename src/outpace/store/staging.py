"""A run takes shape in a hidden folder and appears in the log directory as a whole, or not at all.

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
from types import TracebackType

from outpace.model.errors import CaptureError
from outpace.store.logdir import PROFILE_FOLDER, upload_run
from outpace.store.tree import is_url

PREFIX = ".outpace-"
MOST_NAMES = 1000  # captures that begin within one second and want the same name


class Staging:
    """The place where one run's files are written before they are published; use it in a `with` block.

    The hidden folder stands inside a local log directory, so that publishing is a rename; for a URL it stands in the temporary
    directory, and publishing uploads. Leaving the block removes whatever was not published.
    """

    def __init__(self, logdir: str) -> None:
        """Make the folder; raises CaptureError when the log directory cannot be written to."""
        self.logdir = logdir
        self.folder = ""
        try:
            if is_url(logdir):
                self.folder = tempfile.mkdtemp(prefix=PREFIX[1:])
                return
            self._local = os.path.abspath(os.path.expanduser(logdir))
            os.makedirs(self._local, exist_ok=True)
            sweep(self._local)
            prefix, suffix = unfinished()
            self.folder = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=self._local)
        except OSError as error:
            reason = error.strerror or error
            raise CaptureError(f"The log directory {logdir} is not writable ({reason}). Give another one.") from None

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()

    def run_folder(self, name: str | None = None) -> str:
        """The folder for the run's files, made when it is missing; its name is the time by default, as TensorFlow's is."""
        existing = self._runs()
        if existing and name in (None, existing[0]):
            return os.path.join(self.folder, PROFILE_FOLDER, existing[0])
        path = os.path.join(self.folder, PROFILE_FOLDER, name or f"{datetime.datetime.now():%Y_%m_%d_%H_%M_%S}")
        os.makedirs(path)
        return path

    def publish(self) -> str:
        """Move or upload the run into the log directory under a free name; returns its path or URL.

        Raises CaptureError when there is no file to publish or the run cannot be moved, OutputError when an upload fails: the
        message then names the local folder where the run was kept.
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
            return _renamed(source, target)
        except OSError as error:
            raise CaptureError(f"The profile cannot be moved to {target}: {error.strerror or error}.") from None

    def discard(self) -> None:
        """Remove the folder and what is left in it; a second call does nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _runs(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(os.listdir(os.path.join(self.folder, PROFILE_FOLDER)))
        return []


def _renamed(source: str, target: str) -> str:
    """Rename a folder to the target or, when that is taken, to the target with a number."""
    for attempt in range(MOST_NAMES):
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


def unfinished() -> tuple[str, str]:
    """How the name of a folder begins and ends that this process writes into, so that `sweep` knows it."""
    return f"{PREFIX}{os.getpid()}-", _suffix()


def _suffix() -> str:
    """The machine's part of a folder's name: on a shared file system, process ids of others say nothing here."""
    return f"@{platform.node()}"


def sweep(logdir: str) -> None:
    """Remove the folders of this machine's processes that were killed before they could do it themselves."""
    for name in os.listdir(logdir):
        pid = name[len(PREFIX) :].partition("-")[0] if name.startswith(PREFIX) and name.endswith(_suffix()) else ""
        if pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(os.path.join(logdir, name), ignore_errors=True)


def _lives(pid: int) -> bool:
    if sys.platform == "win32":  # where signal 0 is Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # a process of somebody else is refused, and lives
    return True
