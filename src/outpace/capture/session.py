"""One capture in the script's process: its profiler, where the profile goes, and what the user is told.

Whatever goes wrong here becomes a reason and a line on stderr; the script never sees it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from outpace.capture.faults import quietly
from outpace.capture.looks import may_train
from outpace.capture.options import CaptureOptions, Outcome
from outpace.capture.profilers import MAKERS, Profiler, ProfilerBusy
from outpace.capture.recording import ENDING, Recording, Saved, UnwantedProfile
from outpace.capture.sampler import FrameSampler
from outpace.capture.tell import tell
from outpace.capture.window import Candidate, StepWindow, describe
from outpace.model.errors import OutpaceError
from outpace.model.units import counted
from outpace.store.record import PythonSamples

BUSY = "the script is profiling itself; its capture is left alone, ours waits until it has ended"
REST_S = 5.0  # after a window that another profiler spoiled


class Session:
    """Opens and closes the profiler for the window, saves the profile as a whole, and writes the outcome."""

    def __init__(
        self,
        options: CaptureOptions,
        logdir: str,
        shown: str,
        note: Callable[[Session, Saved], None],
        saved: Callable[[Saved], None],
        stop: Callable[[], None],
    ) -> None:
        """A session that saves in `logdir`, which the user knows as `shown`.

        `note` leaves the record beside a profile: before the run appears, and once more at the script's end. `saved` is told of a run
        that is in place. `stop` ends the script, and this process with it.
        """
        self.options = options
        self.logdir, self.shown_logdir = logdir, shown
        self.window = StepWindow(options, self)
        self.pid = os.getpid()
        self.profilers: dict[str, Profiler] = {}
        self.saved: Saved | None = None
        self.reason: str | None = None
        self.user_logdir: str | None = None
        self.seen = ""  # what ran while the training was waited for
        self.samples: PythonSamples | None = None  # of the window, once it is closed
        self._sampler: FrameSampler | None = None
        self._note, self._saved, self._stop = note, saved, stop
        self._recording: Recording | None = None
        self._aside: Recording | None = None  # a window that was refused, for want of a better one
        self._profiler: Profiler | None = None
        self._told: set[str] = set()
        self._may_train: bool | None = None
        self._rests_until = 0.0  # monotonic seconds
        self.alone: Callable[[], AbstractContextManager[object]] = (
            contextlib.nullcontext
        )  # held while a profiler starts: no look is taken
        self._ending = threading.RLock()  # who stops the script also finishes the session
        self._ended = False

    def add_framework(self, name: str, module: Any) -> None:
        """A framework was imported: keep its profiler's original functions before they are hooked."""
        self.profilers[name] = MAKERS[name](module, self.options)

    def open(self, candidate: Candidate | None) -> bool:
        """Start the profiler into a hidden folder of the log directory; False when it cannot start now."""
        if time.monotonic() < self._rests_until:
            return False
        framework = candidate.framework if candidate else "tensorflow"
        profiler = self.profilers.get(framework)
        if profiler is None:
            return self._fail(f"the profiler of {framework} cannot be reached")
        recording = Recording(profiler, self.logdir)
        try:
            with self.alone():
                recording.start(at_exit=self.window.close)
        except ProfilerBusy:
            self._once("busy", BUSY)
            return False
        except OutpaceError as error:
            return self._fail(self._own(error))
        except Exception as error:
            return self._fail(f"the profiler could not be started: {error}")
        self._recording, self._profiler = recording, profiler
        if getattr(profiler, "ignores_levels", False):
            self._once("levels", "this TensorFlow ignores tracer levels and captures with its defaults")
        tell(f"capturing {self._expected(candidate)} …")
        self._sampler = FrameSampler()
        self._sampler.start()
        return True

    def mark(self, name: str, number: int) -> Callable[[], None]:
        """Open a step mark of the running profiler; the answer closes it."""
        assert self._profiler is not None
        return self._profiler.mark(name, number)

    def close(self, refused: Callable[[str], str] | None = None) -> bool:
        """Stop the profiler and move the finished run folder into place, record included; False where `refused` says why its profile is not
        kept."""
        recording, self._recording = self._recording, None
        if recording is None:
            return True
        self._end_sampling()

        def finish(saved: Saved) -> None:
            self._note(self, saved)
            if refused is not None and (why := refused(os.path.join(saved.run, saved.host + ENDING))):
                raise UnwantedProfile(why)

        try:
            self.saved = recording.stop(finish)
        except UnwantedProfile as why:
            tell(f"the window is not kept, as {why}; another one opens")
            self._keep_aside(recording)
            return False
        except OutpaceError as error:
            if isinstance(error.__cause__, ProfilerBusy):  # it was there first, and nobody could tell
                self._once("busy", BUSY)
                self._rests_until = time.monotonic() + REST_S
                return False
            self._fail(self._own(error))
            return True
        except Exception as error:
            self._fail(f"the profile could not be saved in {self.shown_logdir}: {error}")
            return True
        self._keep_aside(None)
        self._saved(self.saved)
        window = self.window
        taken = f"{window.seconds:.1f} s" if window.seconds >= 1 else f"{window.seconds * 1e3:.0f} ms"
        what = f"{counted(len(window.during), 'step')} in {taken}" if window.during else taken
        tell(f"captured {what}; profile in {self.shown(self.saved.run)}")
        return True

    def _keep_aside(self, refused: Recording | None) -> None:
        """Keep the window that was refused last, until there is a better one."""
        older, self._aside = self._aside, refused
        if older is not None:
            older.discard_aside()

    def yield_to_user(self, logdir: object) -> None:
        """The script is about to start its own profiler: give way, and wait for it to end."""
        self.user_logdir = os.fspath(logdir) if isinstance(logdir, (str, os.PathLike)) and str(logdir) else self.user_logdir
        recording, self._recording = self._recording, None
        if recording is None:
            return
        self.window.yield_to_user()
        self._end_sampling()
        recording.discard()
        self._once("yield", "the script starts its own profiler; ours gives way and waits until that one has ended")

    def complete(self) -> None:
        """Write into the record what was measured since the profile was saved: a program may be killed before its end."""
        with quietly():
            if self.saved is not None:
                self._note(self, self.saved)

    def tell(self, text: str) -> None:
        """Tell the user something."""
        tell(text)

    def may_train(self) -> bool:
        """Whether the program's text speaks of training."""
        if self._may_train is None:
            self._may_train = may_train()
        return self._may_train

    def stop(self) -> None:
        """End the script, unless it has come to its end meanwhile, or this is a forked child of it."""
        with self._ending:
            if not self._ended and os.getpid() == self.pid:
                self._stop()

    def _end_sampling(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            self.samples = sampler.stop()

    def end(self) -> None:
        """The script has come to its end by itself: nothing stops it any more."""
        with self._ending:
            self._ended = True

    def finish(self, exit_code: int, stopped: bool) -> Outcome:
        """The script is over: save an open window, complete the record, and say what came of the capture."""
        if os.getpid() != self.pid:  # a forked child of the script leaves through here too
            return Outcome()
        self.end()
        with contextlib.suppress(BaseException):
            self.window.close()
        self.window.disable()
        if self.saved is None and self._aside is not None:
            with contextlib.suppress(OutpaceError, OSError):
                self.saved = self._aside.publish_aside()
                tell(f"no other window came: the one that was not kept is in {self.shown(self.saved.run)}")
        if self.saved:
            try:
                self._note(self, self.saved)
            except Exception as error:
                tell(f"the record beside the profile is incomplete: {error}")
            return Outcome(self.saved.run, self.saved.host, None, stopped, exit_code)
        return Outcome(None, None, self.reason or self._why_nothing(exit_code), stopped, exit_code)

    def shown(self, path: str) -> str:
        """A path inside the log directory, in the form the user gave the log directory in."""
        return self.shown_logdir + path[len(self.logdir) :] if path.startswith(self.logdir) else path

    def _own(self, error: OutpaceError) -> str:
        """An error of ours, with the log directory as the user knows it."""
        return str(error).replace(self.logdir, self.shown_logdir)

    def _expected(self, candidate: Candidate | None) -> str:
        options = self.options
        seconds = f"{options.seconds:g} s" if options.seconds is not None else ""
        if candidate is None or candidate.mode == "seconds":
            alone = f"{candidate.seconds:.2g} s, as no step can be seen" if candidate and candidate.seconds is not None else ""
            return seconds or alone
        first = candidate.count
        if options.steps is None:
            return f"{seconds} from step {first} on, {describe(candidate)}"
        limit = f", {seconds} at most" if seconds else ""
        each = candidate.steps_per_execution
        what = (
            f"calls {first}-{first + options.steps - 1} of {each} steps each"
            if each > 1
            else f"steps {first}-{first + options.steps - 1}"
        )
        return f"{what}, {describe(candidate)}{limit}"

    def _why_nothing(self, exit_code: int) -> str:
        window, options = self.window, self.options
        ended = f"The script ended with exit code {exit_code}" if exit_code else "The script ended"
        if self.user_logdir:
            return f"The script profiled itself all the time; its own profile is in {self.user_logdir}."
        if not self.profilers and exit_code:
            return f"{ended} before it imported TensorFlow or JAX: no profile was captured. If that import failed, run 'outpace doctor'."
        if not self.profilers:
            return "The script imported neither TensorFlow nor JAX, so there was nothing to profile."
        if (window.most is None or window.most.count == 0) and exit_code:
            return f"{ended} before a training step could be seen: no profile was captured. What it failed with is above."
        if window.most is None or window.most.count == 0:
            return (
                f"{ended} without a training step that could be seen (a Keras batch, a repeated tf.function call, "
                "an eager loop over a tf.data iterator, or a step marker), or too early for a capture by time. "
                "Let it run longer, or use --seconds to capture by time." + self.seen
            )
        seen = window.most.count
        if seen > options.warmup:
            what = describe(window.most)
            return f"The script ran {seen} steps ({what}), but none was certain to be a training step. Use --seconds to capture by time."
        warmup = min(options.warmup, seen // 2)
        when = f"{ended} after {counted(seen, 'step')} ({describe(window.most)}), within the warm-up of {options.warmup}"
        if exit_code:
            return f"{when}: no profile was captured. What it failed with is above."
        return f"{when}. Let it run longer, or use --warmup {warmup} --steps {max(1, seen - warmup - 1)}."

    def _fail(self, reason: str) -> bool:
        self.reason = reason[0].upper() + reason[1:] + ("" if reason.endswith(".") else ".")
        tell(f"{reason.rstrip('.')}; the script runs on without a capture")
        self.window.disable()
        return False

    def _once(self, key: str, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            tell(text)
