"""One profiler session of this process, from its start to the run that appears in the log
directory.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import os
import sys
import threading
from collections.abc import Callable

from outpace._dataclass import dataclass
from outpace.capture.main_thread import run_between_calls
from outpace.capture.messages import print_message
from outpace.capture.profilers import Profiler
from outpace.capture.termination import TerminationHandler
from outpace.model.errors import CaptureError, OutputError
from outpace.store.staging import Staging

XPLANE_SUFFIX = ".xplane.pb"
_LONGEST_REPORT = 120  # seconds, for profiles of gigabytes


def print_run_report(run: str) -> None:
    """The first screen of a saved run, on the same stderr, made by a process of its own: analysis
    has no place in a training process.
    """
    import subprocess  # at the end of a training, not at its start

    stream = sys.__stderr__
    if stream is None:
        return
    command = [sys.executable, "-m", "outpace", "report", run]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        stream.flush()
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, timeout=_LONGEST_REPORT, check=False)


@dataclass(frozen=True)
class SavedProfile:
    """A profile that is in place: its run folder (path or URL) and the host that it names."""

    run: str
    host: str


class UnwantedProfile(Exception):
    """A finished profile is not what is wanted; its text says why. It is kept aside."""


class Recording:
    """A running profiler. `start` raises when it cannot run; after `stop` or `discard` nothing is
    left of it but the run.

    When the process is told to end (SIGTERM) while it records, the user is told, nothing
    half-written stays, and the process ends as it would have. When it ends by itself, what was
    recorded is saved.
    """

    def __init__(self, profiler: Profiler, logdir: str, training_thread: threading.Thread | None = None) -> None:
        """A recording that has not begun. `training_thread`: the thread that trains; the main one
        by default.
        """
        self.pid = os.getpid()
        self._profiler = profiler
        self._trains = training_thread
        self._logdir = logdir
        self._staging: Staging | None = None
        self._aside: tuple[Staging, str] | None = None
        self._termination = TerminationHandler(self._terminated)
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Whether the profiler records in this process; a fork's child records nothing."""
        return self._staging is not None and os.getpid() == self.pid

    def start(self, at_exit: Callable[[], object] | None = None) -> None:
        """Start the profiler; `at_exit` is called when the process ends while it records (`discard`
        by default).

        Raises CaptureError when the log directory is not writable, ProfilerBusy when another
        session runs, and whatever else the framework raises.
        """
        staging = Staging(self._logdir)
        try:
            self._between_calls(lambda: self._started(staging.folder))
        except BaseException:
            staging.discard()
            raise
        self._staging = staging
        self._at_exit = at_exit or self.discard
        atexit.register(self._exiting)
        self._termination.install()

    def stop(self, finish: Callable[[SavedProfile], None] | None = None) -> SavedProfile:
        """Stop the profiler, let `finish` add to the run while nobody sees it, and publish it.

        Raises CaptureError, or OutputError when the run cannot be uploaded, and UnwantedProfile
        where `finish` did; the profiler is stopped all the same.
        """
        staging = self._take()
        try:
            if staging is None:
                raise CaptureError("Nothing is being recorded.")
            try:
                self._between_calls(self._stopped)
            except Exception as error:
                raise CaptureError(
                    f"The profile could not be saved in {self._logdir}: {_reason(error, staging.folder)}."
                ) from error
            host = self._host(staging)
            if finish is not None:
                try:
                    finish(SavedProfile(staging.run_folder(), host))
                except (OSError, OutputError) as error:
                    print_message(f"the profile is saved without a record beside it: {error}")
                except UnwantedProfile:
                    self._aside, staging = (staging, host), None
                    self._end_watch()
                    raise
            return SavedProfile(staging.publish(), host)
        finally:
            self._release(staging)

    def _started(self, folder: str) -> None:
        self._profiler.sync()
        self._profiler.start(folder)

    def _stopped(self) -> None:
        self._profiler.sync()
        self._profiler.stop(save=True)

    def discard(self) -> None:
        """Stop the profiler and throw away what it recorded."""
        staging = self._take()
        if staging is not None:
            with contextlib.suppress(Exception):
                self._between_calls(lambda: self._profiler.stop(save=False))
        self._release(staging)

    def _between_calls(self, function: Callable[[], None]) -> None:
        """Begin or end the profiler between two calls of the training, where that matters."""
        run_between_calls(function, self._trains, self._profiler.is_ready)

    def publish_rejected(self) -> SavedProfile:
        """Publish the profile that was refused: there is no better one. Raises OutputError when it
        cannot be uploaded.
        """
        assert self._aside is not None
        staging, host = self._aside
        return SavedProfile(staging.publish(), host)

    def discard_rejected(self) -> None:
        """Throw away the profile that was refused."""
        if self._aside is not None:
            self._aside[0].discard()

    @staticmethod
    def _host(staging: Staging) -> str:
        found = sorted(glob.glob(os.path.join(glob.escape(staging.run_folder()), f"*{XPLANE_SUFFIX}")))
        if not found or not os.path.getsize(found[0]):
            raise CaptureError("The profiler wrote no file, so there is no profile to save.")
        return os.path.basename(found[0])[: -len(XPLANE_SUFFIX)]

    def _take(self) -> Staging | None:
        """The staging folder, for one taker: a timer, the training thread and the exit handler may
        all want to stop.
        """
        with self._lock:
            staging, self._staging = self._staging, None
        return staging if os.getpid() == self.pid else None

    def _release(self, staging: Staging | None) -> None:
        if staging is not None:
            staging.discard()
            self._end_watch()

    def _end_watch(self) -> None:
        """Nothing is recorded any more that the process's end could lose."""
        self._termination.remove()
        atexit.unregister(self._exiting)

    def _exiting(self) -> None:
        if self.active:
            with contextlib.suppress(BaseException):
                self._at_exit()
        self.discard()  # what nobody wants to save, as after an interrupt in the middle of a start

    def _terminated(self, name: str) -> None:
        staging = self._staging
        if staging is not None and os.getpid() == self.pid:
            staging.discard()
            print_message(f"{name} ended the process during a capture; nothing was saved")


def _reason(error: Exception, hidden: str) -> str:
    """An error's first line; TensorFlow puts the file's path, which means nothing to the user,
    before a semicolon.
    """
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (line.rpartition("; ")[2] if hidden in line else line).rstrip(".")
