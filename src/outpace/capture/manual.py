# SPDX-License-Identifier: Apache-2.0
"""`outpace.capture(...)`, `outpace.start(...)` and `outpace.stop()`: a capture that the program
itself starts and ends.

A mistake in the program (a second start, a stop without a start, another profiler that runs) raises
where it is made. Failures of the machine (a full disk, a log directory that is read-only) are
reported on stderr: they must not end a training of many days.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType

from outpace.capture.calibration import calibrate
from outpace.capture.frameworks import build_profiler
from outpace.capture.main_thread import wait_and_serve
from outpace.capture.marks import pop_overhead
from outpace.capture.messages import print_message
from outpace.capture.options import DEFAULT_LOGDIR, CaptureOptions
from outpace.capture.profilers import ProfilerBusy
from outpace.capture.record import WindowSummary, write_capture_record
from outpace.capture.recording import Recording, SavedProfile
from outpace.capture.sampler import FrameSampler
from outpace.model.errors import CaptureError, OutpaceError, UsageError
from outpace.store.record import CapturedSteps, PythonSamples


class Capture:
    """One capture, as a context manager.

    run: run folder (path or URL) after the capture has ended; None where nothing was saved.
    reason: why nothing was saved.
    """

    def __init__(
        self, logdir: str, options: CaptureOptions, framework: str | None, delay: float, duration: float | None
    ) -> None:
        self.run: str | None = None
        self.reason: str | None = None
        self._logdir = logdir
        self._options, self._framework = options, framework
        self._delay, self._duration = delay, duration
        self._recording: Recording | None = None
        self._stop_event = threading.Event()
        self._thread: threading.Thread | None = None
        self._begin_s = 0.0
        self._calibration: dict[str, int] = {}
        self._sampler: FrameSampler | None = None
        self._training_thread = threading.main_thread()
        self._end_lock = threading.RLock()

    def __enter__(self) -> Capture:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def profile(self) -> str:
        """Run folder. Raises CaptureError when nothing was saved."""
        if self.run is None:
            raise CaptureError(self.reason or "The capture has not ended yet.")
        return self.run

    def start(self) -> None:
        """Start the capture, or wait for `delay` first in a thread.

        Raises UsageError when a capture runs already, CaptureError when another profiler runs.
        """
        _claim(self)
        try:
            self._training_thread = threading.current_thread()
            self._sampler = FrameSampler(self._training_thread)
            if self._delay or self._duration is not None:
                # raises here, and not in a thread, when no framework is imported
                build_profiler(self._options, self._framework)
                self._thread = threading.Thread(target=self._run_timed, name="outpace-capture", daemon=True)
            if self._delay and self._thread is not None:
                self._thread.start()
                return
            self._begin()
            if self._thread is not None:
                self._thread.start()
        except BaseException:
            _release(self)
            raise

    def stop(self) -> None:
        """End the capture and save it. Does nothing when the duration is over already."""
        self._stop_event.set()
        if self._thread is not None and self._thread is not threading.current_thread() and self._thread.is_alive():
            wait_and_serve(self._join_thread)
        self._end()

    def _join_thread(self, seconds: float) -> bool:
        """Wait for the thread of the capture, `seconds` at most, and return whether it is still
        running.
        """
        assert self._thread is not None
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _begin(self) -> None:
        """Start the profiler and the sampler of Python. Raises CaptureError when another profiler
        runs.
        """
        recording = Recording(build_profiler(self._options, self._framework), self._logdir, self._training_thread)
        self._calibration = calibrate()
        try:
            recording.start(at_exit=self.stop)
        except ProfilerBusy:
            raise CaptureError(
                "Another profiler runs in this process (tf.profiler or jax.profiler, a TensorBoard callback, a capture from outside). "
                "End that one first: there can be only one."
            ) from None
        except OutpaceError as error:
            self._fail(str(error))
            return
        self._recording, self._begin_s = recording, time.perf_counter()
        if self._sampler is not None:
            self._sampler.start()
        print_message("capturing" + (f" {self._duration:g} s" if self._duration is not None else "") + " …")

    def _run_timed(self) -> None:
        """Thread of a capture with a delay or duration: wait for both. Each wait ends early when
        the program calls `stop`.
        """
        if self._delay:
            if self._stop_event.wait(self._delay):
                return
            try:
                self._begin()
            except OutpaceError as error:
                self._fail(str(error))
        if self._duration is not None and not self._stop_event.wait(self._duration):
            self._end()

    def _end(self) -> None:
        """End the capture; one thread at a time."""
        with self._end_lock:
            self._end_once()

    def _end_once(self) -> None:
        """Save what was recorded, or report why there is nothing; does nothing when that is done
        already.
        """
        recording, self._recording = self._recording, None
        try:
            if recording is not None and recording.active:
                end_s = time.perf_counter()
                samples = self._sampler.stop() if self._sampler is not None else None
                self.run = recording.stop(finish=lambda saved: self._write_record(saved, end_s, samples)).run
                print_message(f"captured {end_s - self._begin_s:.1f} s; profile in {self.run}")
            elif self.run is None and self.reason is None:
                self._fail(f"The program ended the capture before its delay of {self._delay:g} s was over")
        except OutpaceError as error:
            self._fail(str(error))
        finally:
            _release(self)

    def _write_record(self, saved: SavedProfile, end_s: float, samples: PythonSamples | None) -> None:
        """Write the record next to the saved profile. `end_s` is in `perf_counter` seconds."""
        window, overhead = CapturedSteps(0, 0, 0, end_s - self._begin_s), pop_overhead(self._begin_s, end_s)
        notes = WindowSummary("program", window, overhead=overhead, calibration=self._calibration)
        write_capture_record(saved, notes, sys.argv[0], sys.argv[1:], samples=samples)

    def _fail(self, reason: str) -> None:
        """Store and print why there is no profile."""
        self.reason = reason
        print_message(f"{reason.rstrip('.')}; the program runs on without a profile")


_current: Capture | None = None
_current_lock = threading.Lock()


def _claim(capture: Capture) -> None:
    """Make this the capture of the process. Raises UsageError while another one runs."""
    global _current
    with _current_lock:
        if _current is not None:
            raise UsageError(
                "A capture runs already in this process. End it with outpace.stop(), or leave its `with` block, first."
            )
        _current = capture


def _release(capture: Capture) -> None:
    """Let the process start another capture."""
    global _current
    with _current_lock:
        if _current is capture:
            _current = None


def capture(
    logdir: str | os.PathLike[str] = DEFAULT_LOGDIR,
    *,
    host_level: int = 2,
    python_level: int = 0,
    device_level: int = 1,
    delay: float = 0.0,
    duration: float | None = None,
    framework: str | None = None,
) -> Capture:
    """Return a context manager that captures what runs inside it, for TensorFlow and JAX; mark the
    steps with `outpace.step`.

    An exception inside passes through, and what was recorded until then is saved.

    Args:
        logdir: log directory in TensorBoard's layout; a path or a URL that fsspec understands
            (`gs://`, `s3://`).
        host_level: the profiler's tracer level of the host, 0 to 3.
        python_level: 1 also records Python calls, where the framework's version supports it.
        device_level: 0 leaves devices out.
        delay: seconds until the capture begins.
        duration: seconds after which it ends by itself.
        framework: `tensorflow` or `jax`; by default the one that trains in this process.

    Raises UsageError for impossible values.

    Example::

        with outpace.capture("logs"):
            for n in range(20):
                with outpace.step(n):
                    train_step(next(batches))
    """
    problem = _find_problem(delay, duration, framework)
    if problem:
        raise UsageError(problem)
    options = CaptureOptions(host_level=host_level, python_level=python_level, device_level=device_level)
    return Capture(os.fspath(logdir), options, framework, delay, duration)


def start(
    logdir: str | os.PathLike[str] = DEFAULT_LOGDIR,
    *,
    host_level: int = 2,
    python_level: int = 0,
    device_level: int = 1,
    framework: str | None = None,
) -> Capture:
    """Start a capture that `outpace.stop()` ends; see `outpace.capture` for the arguments and
    errors.
    """
    current = capture(logdir, host_level=host_level, python_level=python_level, device_level=device_level, framework=framework)
    current.start()
    return current


def stop() -> Capture:
    """End the capture that runs in this process, save it and return it. Raises UsageError when none
    runs.
    """
    current = _current
    if current is None:
        raise UsageError("No capture runs in this process: outpace.start(logdir) begins one.")
    current.stop()
    return current


def _find_problem(delay: float, duration: float | None, framework: str | None) -> str | None:
    """Return a sentence on what makes these arguments impossible, or None."""
    if delay < 0:
        return f"A delay of {delay:g} s is impossible: give 0 or more."
    if duration is not None and duration <= 0:
        return f"{duration:g} seconds cannot be captured: give more than 0."
    if framework not in (None, "tensorflow", "jax"):
        return f"There is no profiler for {framework!r}: give 'tensorflow' or 'jax'."
    return None
