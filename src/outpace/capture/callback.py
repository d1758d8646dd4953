"""`outpace.ProfilerCallback`: captures a range of batches of Keras `fit`, `evaluate` or `predict`,
with marked steps.

Loaded by the user's access to that name only, because a callback class needs Keras.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outpace.capture.frameworks import keras_backend, keras_framework
from outpace.capture.function_traces import FunctionTraceRecorder
from outpace.capture.marks import MARK_FACTORIES
from outpace.capture.messages import print_message
from outpace.capture.options import DEFAULT_LOGDIR, CaptureOptions
from outpace.capture.profilers import PROFILER_CLASSES
from outpace.capture.record import build_window_summary, write_capture_record
from outpace.capture.recording import SavedProfile, print_run_report
from outpace.capture.session import CaptureSession
from outpace.capture.sources import SourceRecorder
from outpace.capture.steps_keras import KerasSteps, is_keras_2, steps_per_execution
from outpace.capture.window import StepCandidate, WindowState
from outpace.frameworks.keras import PACKAGE, START_BATCH_TRACE
from outpace.model.errors import UsageError
from outpace.store.tree import is_url

if TYPE_CHECKING:
    from keras.callbacks import Callback
elif "tf_keras" in sys.modules and PACKAGE not in sys.modules:
    from tf_keras.callbacks import Callback
else:
    from keras.callbacks import Callback


class ProfilerCallback(Callback):  # type: ignore[misc]  # Keras is not followed (pyproject.toml), so its class is Any
    """Captures batches `first` to `last` (counted from 1 over all epochs, both included) into a log
    directory.

    The training never fails because of a capture. When nothing can be captured (training that ends
    before the first batch, a log directory that is read-only) a line on stderr says why; when it
    ends inside the range, the batches until then are saved.

    Args:
        logdir: in TensorBoard's layout; a path, or a URL that fsspec understands. Open it with
            `outpace report`, TensorBoard or XProf.
        batches: first and last batch; what runs before the first one is warm-up. With
            `steps_per_execution` whole calls are captured.
        seconds: the capture ends after this time at the latest, because a profiler keeps every
            event in memory.
        host_level: the profiler's tracer level of the host, 0 to 3.
        python_level: 1 also records Python calls, where the framework's version takes it.
        device_level: 0 leaves devices out.
        report: when the training ends, print the first screen of `outpace report` to stderr.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str] = DEFAULT_LOGDIR,
        batches: tuple[int, int] = (10, 25),
        *,
        seconds: float = 60.0,
        host_level: int = 2,
        python_level: int = 0,
        device_level: int = 1,
        report: bool = True,
    ) -> None:
        super().__init__()
        first, last = batches
        if not 1 <= first <= last:
            raise UsageError(
                f"batches={batches!r} is no range: give the first and the last batch, counted from 1, such as (10, 25)."
            )
        self.batches = (first, last)
        self._options = CaptureOptions(
            seconds=seconds, stop=False, host_level=host_level, python_level=python_level, device_level=device_level
        )
        self._logdir = os.fspath(logdir)
        self._session: CaptureSession | None = None
        self._sources = SourceRecorder()
        self._steps: KerasSteps | None = None
        self._unreported = report

    @property
    def run(self) -> str | None:
        """The run folder (path or URL) of the profile, or None as long as there is none."""
        saved = self._session.saved_profile if self._session else None
        return saved.run if saved else None

    def attach(self, model: Any) -> ProfilerCallback:
        """Watch the model's `train_on_batch`, which calls no callbacks; a step then runs from the
        end of one call to the end of the next.
        """
        session, original = self._begin(model), model.train_on_batch
        step = StepCandidate("keras train_on_batch", framework=keras_framework(), count=1)

        @functools.wraps(original)
        def train_on_batch(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            session.window.end(step)
            session.window.begin(step)
            return result

        model.train_on_batch = train_on_batch
        atexit.register(self._ended)
        return self

    def _begin(self, model: Any) -> CaptureSession:
        """The session, made when the model (and so the number of batches per call) is known."""
        if self._session is None:
            per_call = steps_per_execution(model)
            first, last = ((batch - 1) // per_call + 1 for batch in self.batches)
            options = replace(self._options, warmup=first, steps=last - first + 1)
            self._session = CaptureSession(options, self._logdir, self._logdir, self._note, lambda saved: None, lambda: None)
            framework = keras_framework()
            if framework in sys.modules:
                self._session.profilers[framework] = PROFILER_CLASSES[framework](sys.modules[framework], options)
            self._steps = KerasSteps(
                self._session, lambda: None, keras_backend(), first=1, mark=not is_keras_2(model), explicit=True
            )
            if framework == "tensorflow" and not is_keras_2(model):
                self._sources.install(sys.modules["keras"])  # layers exist by now: their names are noted, not their lines
                FunctionTraceRecorder(self._sources.add_graph).install(sys.modules[framework])
        return self._session

    def _note(self, session: CaptureSession, saved: SavedProfile) -> None:
        write_capture_record(
            saved,
            build_window_summary(session.window),
            sys.argv[0],
            sys.argv[1:],
            samples=session.samples,
            sources=self._sources.build_sources(),
        )

    def _phase_begins(self, kind: str, logs: Any = None) -> None:
        self._begin(self.model)
        if self._steps is not None:
            self._steps.on_phase_begin(kind, self)

    def _phase_ends(self, kind: str, logs: Any = None) -> None:
        if self._steps is not None and self._steps.on_phase_end(kind, self):
            self._ended()

    def _batch_begins(self, kind: str, batch: int, logs: Any = None) -> None:
        if self._steps is not None:
            self._steps.on_batch_begin(kind, self)

    def _batch_ends(self, kind: str, batch: int, logs: Any = None) -> None:
        if self._steps is not None:
            self._steps.on_batch_end(kind, self)

    on_train_begin = functools.partialmethod(_phase_begins, "train")
    on_train_end = functools.partialmethod(_phase_ends, "train")
    on_train_batch_begin = functools.partialmethod(_batch_begins, "train")
    on_train_batch_end = functools.partialmethod(_batch_ends, "train")
    on_test_begin = functools.partialmethod(_phase_begins, "test")
    on_test_end = functools.partialmethod(_phase_ends, "test")
    on_test_batch_begin = functools.partialmethod(_batch_begins, "test")
    on_test_batch_end = functools.partialmethod(_batch_ends, "test")
    on_predict_begin = functools.partialmethod(_phase_begins, "predict")
    on_predict_end = functools.partialmethod(_phase_ends, "predict")
    on_predict_batch_begin = functools.partialmethod(_batch_begins, "predict")
    on_predict_batch_end = functools.partialmethod(_batch_ends, "predict")

    def _ended(self) -> None:
        """Training is over: save an open window, complete the record with the steps after it, or
        say why there is nothing.
        """
        session = self._session
        if session is None or os.getpid() != session.pid:
            return
        window = session.window
        wanted = self.batches[1] - self.batches[0] + 1
        if window.state is WindowState.OPEN:
            window.close()
            if session.saved_profile:
                print_message(f"training ended inside the range of {wanted} batches: the profile holds those until then")
        elif window.state is WindowState.WAITING:
            self._say_nothing(window.top_candidate)
        elif session.saved_profile and window.after_ns and not is_url(session.saved_profile.run):
            self._note(session, session.saved_profile)
        if session.saved_profile and self._unreported:
            self._unreported = False
            print_run_report(session.saved_profile.run)

    def _say_nothing(self, most: StepCandidate | None) -> None:
        batches = (most.count - 1) * most.steps_per_execution if most else 0
        first, last = self.batches
        text = f"training ended after {batches} batches, before batch {first}, so nothing was captured"
        if batches > 1:
            begin = max(1, min(first, batches // 3))
            text += f"; use ProfilerCallback(batches=({begin}, {min(batches, begin + last - first)}))"
        print_message(text)


def mark_tensorboard_steps() -> None:
    """Make the stock `TensorBoard(profile_batch=...)` callback of Keras 3 mark its steps, which it
    does not do by itself.

    Without it, XProf and TensorBoard find no step in its profile ("No step time measured"). Call it
    once before `fit`.
    """

    def start_batch_trace(batch: int) -> Any:
        mark = MARK_FACTORIES[keras_framework()]("train", batch)
        mark.__enter__()
        return mark

    START_BATCH_TRACE.replace(start_batch_trace)
