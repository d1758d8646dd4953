"""One capture in the script's process: its profiler, where the profile goes, and what the user is told.

Whatever goes wrong here becomes a reason and a line on stderr; the script never sees it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from outpace.capture.options import Outcome, Plan
from outpace.capture.profilers import JaxProfiler, Profiler, ProfilerBusy, TensorFlowProfiler
from outpace.capture.window import Candidate, StepWindow, describe

_MAKERS: dict[str, Callable[..., Profiler]] = {"tensorflow": TensorFlowProfiler, "jax": JaxProfiler}


def tell(text: str) -> None:
    """One line for the user, on the stderr that the process started with: the script may have replaced sys.stderr."""
    stream = sys.__stderr__
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(f"outpace: {text}\n")
            stream.flush()


class Session:
    """Opens and closes the profiler for the window, saves the profile as a whole, and writes the outcome."""

    def __init__(self, plan: Plan, saved: Callable[[Session, int | None], None]) -> None:
        """A session of one plan; `saved` is called when a profile is in place (None) and at the script's end (its exit code)."""
        self.plan = plan
        self.window = StepWindow(plan.options, self)
        self.pid = os.getpid()
        self.profilers: dict[str, Profiler] = {}
        self.run: str | None = None
        self.host: str | None = None
        self.reason: str | None = None
        self.user_logdir: str | None = None
        self._saved = saved
        self._active: Profiler | None = None
        self._temporary = ""
        self._told: set[str] = set()

    def add_framework(self, name: str, module: Any) -> None:
        """A framework was imported: keep its profiler's original functions before they are hooked."""
        self.profilers[name] = _MAKERS[name](module, self.plan.options)

    def open(self, candidate: Candidate | None) -> bool:
        """Start the profiler into a temporary folder of the log directory; False when it cannot start now."""
        framework = candidate.framework if candidate else "tensorflow"
        profiler = self.profilers.get(framework)
        if profiler is None:
            return self._fail(f"the profiler of {framework} cannot be reached")
        self._temporary = os.path.join(self.plan.logdir, f".outpace-{self.pid}")
        try:
            os.makedirs(self._temporary, exist_ok=True)
            profiler.sync()
            profiler.start(self._temporary)
        except ProfilerBusy:
            self._once("busy", "the script is profiling itself; its capture is left alone, ours waits until it has ended")
            return self._clean(False)
        except Exception as error:
            return self._clean(self._fail(f"the profiler could not be started in {self.plan.shown_logdir}: {error}"))
        self._active = profiler
        if getattr(profiler, "ignores_levels", False):
            self._once("levels", "this TensorFlow ignores tracer levels and captures with its defaults")
        tell(f"capturing {self._expected(candidate)} …")
        return True

    def mark(self, name: str, number: int) -> Callable[[], None]:
        """Open a step mark of the running profiler; the answer closes it."""
        assert self._active is not None
        return self._active.mark(name, number)

    def close(self) -> None:
        """Stop the profiler and move the finished run folder into place, record included."""
        profiler, self._active = self._active, None
        if profiler is None:
            return
        try:
            profiler.sync()
            profiler.stop(save=True)
            self.run, self.host = self._publish()
            self._saved(self, None)
        except Exception as error:
            self._fail(f"the profile could not be saved in {self.plan.shown_logdir}: {error}")
        self._clean(True)
        if self.run:
            window = self.window
            taken = f"{window.seconds:.1f} s" if window.seconds >= 1 else f"{window.seconds * 1e3:.0f} ms"
            what = f"{len(window.during)} steps in {taken}" if window.during else taken
            tell(f"captured {what}; profile in {self.shown(self.run)}")

    def yield_to_user(self, logdir: object) -> None:
        """The script is about to start its own profiler: give way, and wait for it to end."""
        self.user_logdir = os.fspath(logdir) if isinstance(logdir, (str, os.PathLike)) and str(logdir) else self.user_logdir
        profiler, self._active = self._active, None
        if profiler is None:
            return
        self.window.yield_to_user()
        with contextlib.suppress(Exception):
            profiler.stop(save=False)
        self._clean(True)
        self._once("yield", "the script starts its own profiler; ours gives way and waits until that one has ended")

    def finish(self, exit_code: int, stopped: bool) -> Outcome:
        """The script is over: save an open window, complete the record, and say what came of the capture."""
        if os.getpid() != self.pid:  # a forked child of the script leaves through here too
            return Outcome()
        with contextlib.suppress(BaseException):
            self.window.close()
        self.window.disable()
        if self.run:
            try:
                self._saved(self, exit_code)
            except Exception as error:
                tell(f"the record beside the profile is incomplete: {error}")
        reason = None if self.run else self.reason or self._why_nothing(exit_code)
        return Outcome(self.run, self.host, reason, stopped, exit_code)

    def shown(self, path: str) -> str:
        """A path inside the log directory, in the form the user gave the log directory in."""
        return self.plan.shown_logdir + path[len(self.plan.logdir) :] if path.startswith(self.plan.logdir) else path

    def _publish(self) -> tuple[str, str]:
        found = sorted(glob.glob(os.path.join(glob.escape(self._temporary), "plugins", "profile", "*", "*.xplane.pb")))
        if not found:
            raise OSError("the profiler wrote no file")
        folder, name = os.path.split(found[0])
        target = os.path.join(self.plan.logdir, "plugins", "profile", os.path.basename(folder))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        for attempt in range(100):  # two captures within one second get the same name
            place = target if attempt == 0 else f"{target}_{attempt}"
            if not os.path.exists(place):
                os.rename(folder, place)
                return place, name[: -len(".xplane.pb")]
        raise OSError(f"{target} exists already")

    def _expected(self, candidate: Candidate | None) -> str:
        options = self.plan.options
        seconds = f"{options.seconds:g} s" if options.seconds is not None else ""
        if candidate is None or candidate.mode == "seconds":
            return seconds
        first = candidate.count
        if options.steps is None:
            return f"{seconds} from step {first} on, {describe(candidate)}"
        limit = f", {seconds} at most" if seconds else ""
        return f"steps {first}-{first + options.steps - 1}, {describe(candidate)}{limit}"

    def _why_nothing(self, exit_code: int) -> str:
        window, options = self.window, self.plan.options
        ended = f"The script ended with exit code {exit_code}" if exit_code else "The script ended"
        if self.user_logdir:
            return f"The script profiled itself all the time; its own profile is in {self.user_logdir}."
        if not self.profilers:
            return "The script imported neither TensorFlow nor JAX, so there was nothing to profile."
        if window.most is None or window.most.count == 0:
            return (
                f"{ended} without a training step that could be seen (a Keras batch, a repeated tf.function call, "
                "an eager loop over a tf.data iterator, or a step mark). Use --seconds to capture by time."
            )
        seen = window.most.count
        if seen > options.warmup:
            what = describe(window.most)
            return f"The script ran {seen} steps ({what}), but none was sure to be a training step; use --seconds."
        warmup = min(options.warmup, seen // 2)
        return (
            f"{ended} after {seen} step{'s' * (seen != 1)} ({describe(window.most)}), within the warm-up of "
            f"{options.warmup}. Let it run longer, or use --warmup {warmup} --steps {max(1, seen - warmup - 1)}."
        )

    def _fail(self, reason: str) -> bool:
        self.reason = reason[0].upper() + reason[1:] + ("" if reason.endswith(".") else ".")
        tell(f"{reason}; the script runs on without a capture")
        self.window.disable()
        return False

    def _clean(self, answer: bool) -> bool:
        shutil.rmtree(self._temporary, ignore_errors=True)
        return answer

    def _once(self, key: str, text: str) -> None:
        if key not in self._told:
            self._told.add(key)
            tell(text)
