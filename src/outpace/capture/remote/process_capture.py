# SPDX-License-Identifier: Apache-2.0
"""Captures this process on request of a client: the framework's profiler for a given time, and the
profile as bytes. The training loop continues meanwhile.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
import threading
import time

from outpace.capture.calibration import calibrate
from outpace.capture.frameworks import build_profiler, framework_in_use
from outpace.capture.main_thread import run_between_calls
from outpace.capture.marks import pop_overhead
from outpace.capture.options import CaptureOptions
from outpace.capture.profilers import Profiler, ProfilerBusy
from outpace.capture.record import WindowSummary, build_record
from outpace.capture.remote.wire import ProfileRequest, ProfileResponse, has_events
from outpace.capture.sampler import FrameSampler
from outpace.store.record import CapturedSteps, PythonSamples

# one hour; a request for more is a mistake, and its profile could not be sent
MAX_DURATION_MS = 3_600_000


class CaptureRefused(Exception):
    """Raised where no capture was made; `code` is the name of the gRPC status."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class ProcessCapture:
    """Makes one capture at a time. `shut_down` ends a running one early, with what it has, and
    refuses later ones.
    """

    def __init__(self, training_thread: threading.Thread) -> None:
        """Create it for the process in which `training_thread` trains."""
        self._training_thread = training_thread
        self._lock = threading.Lock()
        self._is_ending = False
        self._condition = threading.Condition()

    def capture(self, request: ProfileRequest, cancel: threading.Event) -> tuple[ProfileResponse, str]:
        """Return the profile of the requested time, and a remark on it ("" for none). Raises
        CaptureRefused.

        `cancel` is set when no client waits for the answer any more; `notify` must be called after
        setting it.
        """
        if not 0 < request.duration_ms <= MAX_DURATION_MS:
            raise CaptureRefused("INVALID_ARGUMENT", f"{request.duration_ms} ms cannot be captured: ask for 1 ms to 1 hour.")
        delay = request.start_ns / 1e9 - time.time()
        if delay > MAX_DURATION_MS / 1e3:
            raise CaptureRefused(
                "INVALID_ARGUMENT", f"A capture that begins in {delay:,.0f} s cannot be waited for: ask for one within an hour."
            )
        if self._is_ending:
            raise CaptureRefused("UNAVAILABLE", "The process is ending.")
        # before the lock is acquired, so that a waiting request blocks no other
        self._pause(delay, cancel)
        if not self._lock.acquire(blocking=False):
            raise CaptureRefused("ALREADY_EXISTS", "Another capture of this process is running.")
        folder = ""
        try:
            name, profiler = _find_profiler(request)
            folder = tempfile.mkdtemp(prefix="outpace-")
            window = _SampleWindow(profiler, folder, self._training_thread)
            window.open()
            self._pause(request.duration_ms / 1e3, cancel)
            window.close(save=not cancel.is_set())
            xspace = b"" if cancel.is_set() else _read_profile(folder)
            note = (
                f"{name} here takes no tracer levels: its defaults were used"
                if getattr(profiler, "ignores_levels", False)
                else ""
            )
            return ProfileResponse(xspace, not has_events(xspace), window.record()), note
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._lock.release()

    def notify(self) -> None:
        """Let waiting captures check their `cancel` again."""
        with self._condition:
            self._condition.notify_all()

    def shut_down(self) -> None:
        """End the running capture early because the process is about to end."""
        self._is_ending = True
        self.notify()

    def _pause(self, seconds: float, cancel: threading.Event) -> None:
        """Wait for `seconds`, or until the process ends or the request is cancelled."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_ending or cancel.is_set(), max(0.0, seconds))


def _find_profiler(request: ProfileRequest) -> tuple[str, Profiler]:
    """Return the name of the framework that trains here, and its profiler. Raises CaptureRefused
    where none is imported.
    """
    name = framework_in_use()
    if name is None:
        raise CaptureRefused("FAILED_PRECONDITION", "The process has imported neither TensorFlow nor JAX yet.")
    options = CaptureOptions(
        host_level=request.host_level, python_level=request.python_level, device_level=request.device_level
    )
    return name, build_profiler(options, name)


class _SampleWindow:
    """Time span of one capture: the profiler, Python's samples, and the values for the record."""

    def __init__(self, profiler: Profiler, folder: str, training_thread: threading.Thread) -> None:
        """Create a window that is not open; the profile is written into `folder`."""
        self._profiler, self._folder, self._training_thread = profiler, folder, training_thread
        self._calibration: dict[str, int] = {}
        self._samples: PythonSamples | None = None
        self._sampler: FrameSampler | None = None
        self._begin_s = self._end_s = 0.0  # perf_counter seconds

    def open(self) -> None:
        """Start the profiler. Raises CaptureRefused where it cannot start."""
        self._calibration = calibrate()
        try:
            run_between_calls(lambda: self._profiler.start(self._folder), self._training_thread, self._profiler.is_ready)
        except ProfilerBusy:
            raise CaptureRefused("ALREADY_EXISTS", "Another profiler is running in this process.") from None
        except Exception as error:
            raise CaptureRefused("INTERNAL", f"The profiler could not be started: {error}") from error
        self._begin_s = time.perf_counter()
        self._sampler = FrameSampler(self._training_thread)
        self._sampler.start()

    def close(self, save: bool) -> None:
        """Stop the profiler when dispatched work is done. Raises CaptureRefused where there is
        nothing to save.
        """
        self._end_s = time.perf_counter()
        if self._sampler is not None:
            self._samples = self._sampler.stop()
        try:
            run_between_calls(lambda: self._stop_profiler(save), self._training_thread, self._profiler.is_ready)
        except Exception as error:  # for example, the script has stopped it
            raise CaptureRefused("ABORTED", f"The profiler was stopped by somebody else, or could not save: {error}") from error

    def _stop_profiler(self, save: bool) -> None:
        """Stop the profiler when the devices are idle."""
        self._profiler.sync()
        self._profiler.stop(save=save)

    def record(self) -> bytes:
        """Return the capture's record, as the bytes of its JSON."""
        window, overhead = CapturedSteps(0, 0, 0, self._end_s - self._begin_s), pop_overhead(self._begin_s, self._end_s)
        notes = WindowSummary("server", window, overhead=overhead, calibration=self._calibration)
        return build_record(notes, sys.argv[0], sys.argv[1:], samples=self._samples).to_json().encode("utf-8")


def _read_profile(folder: str) -> bytes:
    """Return the profile in a folder. Raises CaptureRefused where there is none."""
    paths = glob.glob(os.path.join(folder, "plugins", "profile", "*", "*.xplane.pb"))
    if not paths:
        raise CaptureRefused("INTERNAL", "The profiler wrote no file.")
    with open(paths[0], "rb") as file:
        return file.read()
