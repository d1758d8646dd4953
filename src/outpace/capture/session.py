# SPDX-License-Identifier: Apache-2.0
"""One capture in the script's process: its profiler, its log directory, and its messages to the
user.

Any failure becomes a reason and a line on stderr; the script never sees it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from outpace.capture.faults import suppress_faults
from outpace.capture.host_snapshots import mentions_training
from outpace.capture.messages import print_message
from outpace.capture.options import CaptureOptions, ScriptOutcome
from outpace.capture.profilers import PROFILER_CLASSES, Profiler, ProfilerBusy
from outpace.capture.recording import XPLANE_SUFFIX, Recording, SavedProfile, UnwantedProfile
from outpace.capture.sampler import FrameSampler
from outpace.capture.window import StepCandidate, StepWindow, format_candidate
from outpace.model.errors import OutpaceError
from outpace.model.units import format_count
from outpace.store.record import PythonSamples

BUSY_MESSAGE = "the script is profiling itself; its capture is left alone, ours waits until it has ended"
BUSY_RETRY_S = 5.0  # pause in seconds after a window that another profiler spoiled


class CaptureSession:
    """Starts and stops the profiler for the window, saves the profile, and builds the outcome.

    options: options of the capture.
    logdir, shown_logdir: log directory, and its name in messages.
    window: the step window that uses this session.
    pid: the process of the session; a forked child does nothing.
    profilers: profilers of the imported frameworks, by name.
    saved_profile: the published profile; None while there is none.
    reason: why the capture failed.
    user_logdir: log directory of the script's own profiler, where it started one.
    activity_text: what ran while the session waited for the training.
    samples: samples of Python in the window, once it is closed.
    on_open: called when a profiler has started.
    pause_snapshots: context in which no snapshot is taken, entered while a profiler starts.
    """

    def __init__(
        self,
        options: CaptureOptions,
        logdir: str,
        shown_logdir: str,
        write_record: Callable[[CaptureSession, SavedProfile], None],
        on_saved: Callable[[SavedProfile], None],
        stop_script: Callable[[], None],
    ) -> None:
        """Create a session that saves in `logdir`, which the user knows as `shown_logdir`.

        write_record: writes the record next to a profile, before the run becomes visible and again
            at the script's end.
        on_saved: called with a published profile.
        stop_script: ends the script, and this process with it.
        """
        self.options = options
        self.logdir, self.shown_logdir = logdir, shown_logdir
        self.window = StepWindow(options, self)
        self.pid = os.getpid()
        self.profilers: dict[str, Profiler] = {}
        self.saved_profile: SavedProfile | None = None
        self.reason: str | None = None
        self.user_logdir: str | None = None
        self.activity_text = ""
        self.samples: PythonSamples | None = None
        self._sampler: FrameSampler | None = None
        self._write_record, self._on_saved, self._stop_callback = write_record, on_saved, stop_script
        self._recording: Recording | None = None
        self._rejected: Recording | None = None  # rejected window, stored until there is a better one
        self._profiler: Profiler | None = None
        self._printed_keys: set[str] = set()
        self._may_train: bool | None = None
        self._retry_at_s = 0.0  # time until which no window opens, monotonic clock, seconds
        self.on_open: Callable[[], object] = lambda: None
        self.pause_snapshots: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
        # reentrant, because stopping the script also finishes the session
        self._end_lock = threading.RLock()
        self._is_script_ended = False

    def add_framework(self, name: str, module: Any) -> None:
        """Store the original functions of an imported framework's profiler, before they are
        hooked.
        """
        self.profilers[name] = PROFILER_CLASSES[name](module, self.options)

    def open(self, candidate: StepCandidate | None) -> bool:
        """Start the profiler into a hidden folder of the log directory; False when it cannot start
        now.
        """
        if time.monotonic() < self._retry_at_s:
            return False
        framework = candidate.framework if candidate else "tensorflow"
        profiler = self.profilers.get(framework)
        if profiler is None:
            return self._fail(f"the profiler of {framework} cannot be reached")
        recording = Recording(profiler, self.logdir)
        try:
            with self.pause_snapshots():
                recording.start(at_exit=self.window.close)
        except ProfilerBusy:
            self._print_once("busy", BUSY_MESSAGE)
            return False
        except OutpaceError as error:
            return self._fail(self._show_logdir(error))
        except Exception as error:
            return self._fail(f"the profiler could not be started: {error}")
        self._recording, self._profiler = recording, profiler
        with suppress_faults():
            self.on_open()
        if getattr(profiler, "ignores_levels", False):
            self._print_once("levels", "this TensorFlow ignores tracer levels and captures with its defaults")
        print_message(f"capturing {self._describe_capture(candidate)} …")
        self._sampler = FrameSampler()
        self._sampler.start()
        return True

    def begin_mark(self, name: str, number: int) -> Callable[[], None]:
        """Begin a step mark of the running profiler and return the function that ends it."""
        assert self._profiler is not None
        return self._profiler.begin_mark(name, number)

    def close(self, rejection_reason: Callable[[str], str] | None = None) -> bool:
        """Stop the profiler and publish the run folder with its record.

        `rejection_reason` gets the profile's path and returns why it is unwanted, "" for a good
        one. Returns False where the profile was rejected, or spoiled by another profiler.
        """
        recording, self._recording = self._recording, None
        if recording is None:
            return True
        self._end_sampling()

        def finish(saved: SavedProfile) -> None:
            self._write_record(self, saved)
            if rejection_reason is not None and (text := rejection_reason(os.path.join(saved.run, saved.host + XPLANE_SUFFIX))):
                raise UnwantedProfile(text)

        try:
            self.saved_profile = recording.stop(finish)
        except UnwantedProfile as rejection:
            print_message(f"the window is not kept, as {rejection}; another one opens")
            self._store_rejected(recording)
            return False
        except OutpaceError as error:
            # the other profiler was there first, which could not be seen at the start
            if isinstance(error.__cause__, ProfilerBusy):
                self._print_once("busy", BUSY_MESSAGE)
                self._retry_at_s = time.monotonic() + BUSY_RETRY_S
                return False
            self._fail(self._show_logdir(error))
            return True
        except Exception as error:
            self._fail(f"the profile could not be saved in {self.shown_logdir}: {error}")
            return True
        self._store_rejected(None)
        self._on_saved(self.saved_profile)
        window = self.window
        duration = f"{window.seconds:.1f} s" if window.seconds >= 1 else f"{window.seconds * 1e3:.0f} ms"
        content = f"{format_count(len(window.during_ns), 'step')} in {duration}" if window.during_ns else duration
        print_message(f"captured {content}; profile in {self.shown_path(self.saved_profile.run)}")
        return True

    def _store_rejected(self, rejected: Recording | None) -> None:
        """Store the last rejected window and discard the one before."""
        previous, self._rejected = self._rejected, rejected
        if previous is not None:
            previous.discard_rejected()

    def yield_to_user(self, logdir: object) -> None:
        """Discard an open window because the script is about to start its own profiler, and wait
        for that to end.
        """
        self.user_logdir = os.fspath(logdir) if isinstance(logdir, (str, os.PathLike)) and str(logdir) else self.user_logdir
        recording, self._recording = self._recording, None
        if recording is None:
            return
        self.window.yield_to_user()
        self._end_sampling()
        recording.discard()
        self._print_once("yield", "the script starts its own profiler; ours gives way and waits until that one has ended")

    def update_record(self) -> None:
        """Write into the record what was measured since the profile was saved; the program may be
        killed before its end.
        """
        with suppress_faults():
            if self.saved_profile is not None:
                self._write_record(self, self.saved_profile)

    def print_message(self, text: str) -> None:
        """Print a message to the user."""
        print_message(text)

    def may_train(self) -> bool:
        """Whether the program's source text mentions training."""
        if self._may_train is None:
            self._may_train = mentions_training()
        return self._may_train

    def stop_script(self) -> None:
        """End the script, unless it has come to its own end, or this is a forked child of it."""
        with self._end_lock:
            if not self._is_script_ended and os.getpid() == self.pid:
                self._stop_callback()

    def _end_sampling(self) -> None:
        """Stop the sampler of Python and store its samples."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            self.samples = sampler.stop()

    def mark_script_ended(self) -> None:
        """Note that the script has come to its own end, after which nothing stops it."""
        with self._end_lock:
            self._is_script_ended = True

    def finish(self, exit_code: int, stopped: bool) -> ScriptOutcome:
        """Save an open window, complete the record, and return the outcome, when the script is
        over.
        """
        if os.getpid() != self.pid:  # a forked child of the script also ends here
            return ScriptOutcome()
        self.mark_script_ended()
        with contextlib.suppress(BaseException):
            self.window.close()
        self.window.disable()
        if self.saved_profile is None and self._rejected is not None:
            with contextlib.suppress(OutpaceError, OSError):
                self.saved_profile = self._rejected.publish_rejected()
                print_message(
                    f"no other window came: the one that was not kept is in {self.shown_path(self.saved_profile.run)}"
                )
        if self.saved_profile:
            try:
                self._write_record(self, self.saved_profile)
            except Exception as error:
                print_message(f"the record beside the profile is incomplete: {error}")
            return ScriptOutcome(self.saved_profile.run, self.saved_profile.host, None, stopped, exit_code)
        return ScriptOutcome(None, None, self.reason or self._explain_no_capture(exit_code), stopped, exit_code)

    def shown_path(self, path: str) -> str:
        """Return a path inside the log directory, with the log directory as the user gave it."""
        return self.shown_logdir + path[len(self.logdir) :] if path.startswith(self.logdir) else path

    def _show_logdir(self, error: OutpaceError) -> str:
        """Return the text of an error, with the log directory as the user gave it."""
        return str(error).replace(self.logdir, self.shown_logdir)

    def _describe_capture(self, candidate: StepCandidate | None) -> str:
        """Return what is about to be captured, for the message."""
        options = self.options
        seconds = f"{options.seconds:g} s" if options.seconds is not None else ""
        if candidate is None or candidate.mode == "seconds":
            guess = f"{candidate.seconds:.2g} s, as no step can be seen" if candidate and candidate.seconds is not None else ""
            return seconds or guess
        first = candidate.count
        if options.steps is None:
            return f"{seconds} from step {first} on, {format_candidate(candidate)}"
        limit = f", {seconds} at most" if seconds else ""
        per_call = candidate.steps_per_execution
        steps = (
            f"calls {first}-{first + options.steps - 1} of {per_call} steps each"
            if per_call > 1
            else f"steps {first}-{first + options.steps - 1}"
        )
        return f"{steps}, {format_candidate(candidate)}{limit}"

    def _explain_no_capture(self, exit_code: int) -> str:
        """Return sentences on why nothing was captured, and what to change."""
        window, options = self.window, self.options
        end_text = f"The script ended with exit code {exit_code}" if exit_code else "The script ended"
        if self.user_logdir:
            return f"The script profiled itself all the time; its own profile is in {self.user_logdir}."
        if not self.profilers and exit_code:
            return f"{end_text} before it imported TensorFlow or JAX: no profile was captured. If that import failed, run 'outpace doctor'."
        if not self.profilers:
            return "The script imported neither TensorFlow nor JAX, so there was nothing to profile."
        if (window.top_candidate is None or window.top_candidate.count == 0) and exit_code:
            return f"{end_text} before a training step could be seen: no profile was captured. What it failed with is above."
        if window.top_candidate is None or window.top_candidate.count == 0:
            return (
                f"{end_text} without a training step that could be seen (a Keras batch, a repeated tf.function call, "
                "an eager loop over a tf.data iterator, or a step marker), or too early for a capture by time. "
                "Let it run longer, or use --seconds to capture by time." + self.activity_text
            )
        count = window.top_candidate.count
        if count > options.warmup:
            steps = format_candidate(window.top_candidate)
            return f"The script ran {count} steps ({steps}), but none was certain to be a training step. Use --seconds to capture by time."
        warmup = min(options.warmup, count // 2)
        steps = f"{format_count(count, 'step')} ({format_candidate(window.top_candidate)})"
        text = f"{end_text} after {steps}, within the warm-up of {options.warmup}"
        if exit_code:
            return f"{text}: no profile was captured. What it failed with is above."
        return f"{text}. Let it run longer, or use --warmup {warmup} --steps {max(1, count - warmup - 1)}."

    def _fail(self, reason: str) -> bool:
        """Store and print the reason of a failure, stop counting steps, and return False."""
        self.reason = reason[0].upper() + reason[1:] + ("" if reason.endswith(".") else ".")
        print_message(f"{reason.rstrip('.')}; the script runs on without a capture")
        self.window.disable()
        return False

    def _print_once(self, key: str, text: str) -> None:
        """Print a message, once for each key."""
        if key not in self._printed_keys:
            self._printed_keys.add(key)
            print_message(text)
