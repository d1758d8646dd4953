# SPDX-License-Identifier: Apache-2.0
"""One profiler session of this process, from its start to the published run in the log
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
_REPORT_TIMEOUT_S = 120  # time limit in seconds; profiles of gigabytes take long


def print_run_report(run: str) -> None:
    """Print the first screen of `outpace report` for a saved run to the process's original stderr.

    A separate process makes it: analysis must not be imported into a training process.
    """
    import subprocess  # imported here to keep the start of a training short

    stream = sys.__stderr__
    if stream is None:
        return
    command = [sys.executable, "-m", "outpace", "report", run]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        stream.flush()
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, timeout=_REPORT_TIMEOUT_S, check=False)


@dataclass(frozen=True)
class SavedProfile:
    """A published profile.

    run: path or URL of its run folder.
    host: name of the host in the file's name.
    """

    run: str
    host: str


class UnwantedProfile(Exception):
    """Raised by a `finish` callback to reject a finished profile; the text says why. The profile is
    stored until it is published or discarded.
    """


class Recording:
    """One session of a profiler.

    `start` raises when the profiler cannot run. After `stop` or `discard` only the published run
    remains.

    When SIGTERM arrives during the recording, a message says so, no partial files stay, and the
    process ends by the signal as it would have. When the process ends by itself, what was recorded
    so far is saved.
    """

    def __init__(self, profiler: Profiler, logdir: str, training_thread: threading.Thread | None = None) -> None:
        """Create a recording that has not started.

        profiler: profiler of the framework.
        logdir: log directory for the run.
        training_thread: thread that trains; the main thread by default.
        """
        self.pid = os.getpid()
        self._profiler = profiler
        self._training_thread = training_thread
        self._logdir = logdir
        self._staging: Staging | None = None
        self._rejected: tuple[Staging, str] | None = None
        self._termination = TerminationHandler(self._on_termination)
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Whether the profiler is recording in this process; False in the child of a fork."""
        return self._staging is not None and os.getpid() == self.pid

    def start(self, at_exit: Callable[[], object] | None = None) -> None:
        """Start the profiler.

        `at_exit` is called when the process ends during the recording; the default discards the
        recording.

        Raises CaptureError when the log directory is not writable, ProfilerBusy when another
        session runs, and any exception of the framework.
        """
        staging = Staging(self._logdir)
        try:
            self._run_between_calls(lambda: self._start_profiler(staging.folder))
        except BaseException:
            staging.discard()
            raise
        self._staging = staging
        self._at_exit = at_exit or self.discard
        atexit.register(self._on_exit)
        self._termination.install()

    def stop(self, finish: Callable[[SavedProfile], None] | None = None) -> SavedProfile:
        """Stop the profiler and publish the run. `finish` may add files to the run before it
        becomes visible.

        Raises CaptureError when nothing can be saved, OutputError when the run cannot be uploaded,
        and UnwantedProfile where `finish` raises it. The profiler is stopped in every case.
        """
        staging = self._take_staging()
        try:
            if staging is None:
                raise CaptureError("Nothing is being recorded.")
            try:
                self._run_between_calls(self._stop_profiler)
            except Exception as error:
                raise CaptureError(
                    f"The profile could not be saved in {self._logdir}: {_format_reason(error, staging.folder)}."
                ) from error
            host = self._find_host(staging)
            if finish is not None:
                try:
                    finish(SavedProfile(staging.run_folder(), host))
                except (OSError, OutputError) as error:
                    print_message(f"the profile is saved without a record beside it: {error}")
                except UnwantedProfile:
                    self._rejected, staging = (staging, host), None
                    self._remove_handlers()
                    raise
            return SavedProfile(staging.publish(), host)
        finally:
            self._release(staging)

    def _start_profiler(self, folder: str) -> None:
        """Start the profiler when the devices are idle; the profile is written below `folder`."""
        self._profiler.sync()
        self._profiler.start(folder)

    def _stop_profiler(self) -> None:
        """Stop the profiler when the devices are idle, and save the profile."""
        self._profiler.sync()
        self._profiler.stop(save=True)

    def discard(self) -> None:
        """Stop the profiler and delete what it recorded."""
        staging = self._take_staging()
        if staging is not None:
            with contextlib.suppress(Exception):
                self._run_between_calls(lambda: self._profiler.stop(save=False))
        self._release(staging)

    def _run_between_calls(self, function: Callable[[], None]) -> None:
        """Call `function`, which starts or stops the profiler, between two calls of the training
        where the framework needs that.
        """
        run_between_calls(function, self._training_thread, self._profiler.is_ready)

    def publish_rejected(self) -> SavedProfile:
        """Publish the rejected profile, for want of a better one. Raises OutputError when it cannot
        be uploaded.
        """
        assert self._rejected is not None
        staging, host = self._rejected
        return SavedProfile(staging.publish(), host)

    def discard_rejected(self) -> None:
        """Delete the rejected profile, if there is one."""
        if self._rejected is not None:
            self._rejected[0].discard()

    @staticmethod
    def _find_host(staging: Staging) -> str:
        """Return the host's name from the file that the profiler wrote. Raises CaptureError when
        there is none, or an empty one.
        """
        paths = sorted(glob.glob(os.path.join(glob.escape(staging.run_folder()), f"*{XPLANE_SUFFIX}")))
        if not paths or not os.path.getsize(paths[0]):
            raise CaptureError("The profiler wrote no file, so there is no profile to save.")
        return os.path.basename(paths[0])[: -len(XPLANE_SUFFIX)]

    def _take_staging(self) -> Staging | None:
        """Return the staging folder to the first caller, None to every later one and in a forked
        child.

        A timer, the training thread and the exit handler may all try to stop the recording.
        """
        with self._lock:
            staging, self._staging = self._staging, None
        return staging if os.getpid() == self.pid else None

    def _release(self, staging: Staging | None) -> None:
        """Delete the staging folder and stop watching for the end of the process."""
        if staging is not None:
            staging.discard()
            self._remove_handlers()

    def _remove_handlers(self) -> None:
        """Remove the handlers of signals and of the process's exit, when there is nothing left to
        lose.
        """
        self._termination.remove()
        atexit.unregister(self._on_exit)

    def _on_exit(self) -> None:
        """Exit handler: call `at_exit`, then delete what is left."""
        if self.active:
            with contextlib.suppress(BaseException):
                self._at_exit()
        # a recording that `at_exit` did not save, for example one interrupted during its start
        self.discard()

    def _on_termination(self, name: str) -> None:
        """Delete the unfinished recording before the signal `name` ends the process, and say so."""
        staging = self._staging
        if staging is not None and os.getpid() == self.pid:
            staging.discard()
            print_message(f"{name} ended the process during a capture; nothing was saved")


def _format_reason(error: Exception, hidden: str) -> str:
    """Return the first line of an error, without its full stop.

    TensorFlow puts the path of a file before a semicolon; a path that contains `hidden` (the
    staging folder) means nothing to the user and is cut off.
    """
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (line.rpartition("; ")[2] if hidden in line else line).rstrip(".")
