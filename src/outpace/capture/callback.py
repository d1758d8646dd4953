# SPDX-License-Identifier: Apache-2.0
"""`outpace.ProfilerCallback`: captures a range of batches of Keras `fit`, `evaluate` or `predict`,
with marked steps.

The module is loaded when that name is first used, because a callback class needs Keras.
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

    The training never fails because of a capture. When nothing can be captured (the training ends
    before the first batch, or the log directory is read-only), a line on stderr says why; when the
    training ends inside the range, the batches until then are saved.

    Args:
        logdir: log directory in TensorBoard's layout; a path, or a URL that fsspec understands.
            Open it with `outpace report`, TensorBoard or XProf.
        batches: first and last batch; the batches before the first one are warm-up. With
            `steps_per_execution` whole calls are captured.
        seconds: maximum duration of the capture, because a profiler holds every event in memory.
        host_level: the profiler's tracer level of the host, 0 to 3.
        python_level: 1 also records Python calls, where the framework's version supports it.
        device_level: 0 leaves devices out.
        report: when the training ends, print the first screen of `outpace report` to stderr.

    Example: `model.fit(dataset, callbacks=[outpace.ProfilerCallback("logs", batches=(10, 25))])`.
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
        self._report_pending = report

    @property
    def run(self) -> str | None:
        """Run folder (path or URL) of the profile; None while there is none."""
        saved = self._session.saved_profile if self._session else None
        return saved.run if saved else None

    def attach(self, model: Any) -> ProfilerCallback:
        """Capture a model that is trained with `train_on_batch`, which calls no callbacks; returns
        this callback.

        A step runs from the end of one call to the end of the next.
        """
        session, original = self._ensure_session(model), model.train_on_batch
        step = StepCandidate("keras train_on_batch", framework=keras_framework(), count=1)

        @functools.wraps(original)
        def train_on_batch(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            session.window.end(step)
            session.window.begin(step)
            return result

        model.train_on_batch = train_on_batch
        atexit.register(self._finish_training)
        return self

    def _ensure_session(self, model: Any) -> CaptureSession:
        """Return the session. The first call creates it, because only the model knows the number of
        batches per call.
        """
        if self._session is None:
            per_call = steps_per_execution(model)
            first, last = ((batch - 1) // per_call + 1 for batch in self.batches)
            options = replace(self._options, warmup=first, steps=last - first + 1)
            self._session = CaptureSession(
                options, self._logdir, self._logdir, self._write_record, lambda saved: None, lambda: None
            )
            framework = keras_framework()
            if framework in sys.modules:
                self._session.profilers[framework] = PROFILER_CLASSES[framework](sys.modules[framework], options)
            self._steps = KerasSteps(
                self._session, lambda: None, keras_backend(), first=1, mark=not is_keras_2(model), explicit=True
            )
            if framework == "tensorflow" and not is_keras_2(model):
                # the layers exist already, so that their names are recorded, but not the lines that
                # made them
                self._sources.install(sys.modules["keras"])
                FunctionTraceRecorder(self._sources.add_graph).install(sys.modules[framework])
        return self._session

    def _write_record(self, session: CaptureSession, saved: SavedProfile) -> None:
        """Write the record next to a saved profile."""
        write_capture_record(
            saved,
            build_window_summary(session.window),
            sys.argv[0],
            sys.argv[1:],
            samples=session.samples,
            sources=self._sources.build_sources(),
        )

    def _on_phase_begin(self, kind: str, logs: Any = None) -> None:
        """Keras begins `fit`, `evaluate` or `predict` (`kind`: train, test, predict)."""
        self._ensure_session(self.model)
        if self._steps is not None:
            self._steps.on_phase_begin(kind, self)

    def _on_phase_end(self, kind: str, logs: Any = None) -> None:
        """Keras ends `fit`, `evaluate` or `predict`."""
        if self._steps is not None and self._steps.on_phase_end(kind, self):
            self._finish_training()

    def _on_batch_begin(self, kind: str, batch: int, logs: Any = None) -> None:
        """Keras begins a batch."""
        if self._steps is not None:
            self._steps.on_batch_begin(kind, self)

    def _on_batch_end(self, kind: str, batch: int, logs: Any = None) -> None:
        """Keras ends a batch."""
        if self._steps is not None:
            self._steps.on_batch_end(kind, self)

    on_train_begin = functools.partialmethod(_on_phase_begin, "train")
    on_train_end = functools.partialmethod(_on_phase_end, "train")
    on_train_batch_begin = functools.partialmethod(_on_batch_begin, "train")
    on_train_batch_end = functools.partialmethod(_on_batch_end, "train")
    on_test_begin = functools.partialmethod(_on_phase_begin, "test")
    on_test_end = functools.partialmethod(_on_phase_end, "test")
    on_test_batch_begin = functools.partialmethod(_on_batch_begin, "test")
    on_test_batch_end = functools.partialmethod(_on_batch_end, "test")
    on_predict_begin = functools.partialmethod(_on_phase_begin, "predict")
    on_predict_end = functools.partialmethod(_on_phase_end, "predict")
    on_predict_batch_begin = functools.partialmethod(_on_batch_begin, "predict")
    on_predict_batch_end = functools.partialmethod(_on_batch_end, "predict")

    def _finish_training(self) -> None:
        """Finish after the training: save an open window, add the steps after the window to the
        record, or print why nothing was captured.
        """
        session = self._session
        if session is None or os.getpid() != session.pid:
            return
        window = session.window
        batch_count = self.batches[1] - self.batches[0] + 1
        if window.state is WindowState.OPEN:
            window.close()
            if session.saved_profile:
                print_message(f"training ended inside the range of {batch_count} batches: the profile holds those until then")
        elif window.state is WindowState.WAITING:
            self._print_no_capture(window.top_candidate)
        elif session.saved_profile and window.after_ns and not is_url(session.saved_profile.run):
            self._write_record(session, session.saved_profile)
        if session.saved_profile and self._report_pending:
            self._report_pending = False
            print_run_report(session.saved_profile.run)

    def _print_no_capture(self, candidate: StepCandidate | None) -> None:
        """Print why nothing was captured, with a range of batches that would work."""
        batches = (candidate.count - 1) * candidate.steps_per_execution if candidate else 0
        first, last = self.batches
        text = f"training ended after {batches} batches, before batch {first}, so nothing was captured"
        if batches > 1:
            begin = max(1, min(first, batches // 3))
            text += f"; use ProfilerCallback(batches=({begin}, {min(batches, begin + last - first)}))"
        print_message(text)


def mark_tensorboard_steps() -> None:
    """Make the stock `TensorBoard(profile_batch=...)` callback of Keras 3 mark its steps, which it
    does not do by itself.

    Without the marks, XProf and TensorBoard find no step in its profile ("No step time measured").
    Call it once before `fit`::

        outpace.mark_tensorboard_steps()
        model.fit(dataset, callbacks=[keras.callbacks.TensorBoard("logs", profile_batch=(10, 20))])
    """

    def start_batch_trace(batch: int) -> Any:
        mark = MARK_FACTORIES[keras_framework()]("train", batch)
        mark.__enter__()
        return mark

    START_BATCH_TRACE.replace(start_batch_trace)
