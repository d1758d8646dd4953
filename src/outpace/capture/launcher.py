# SPDX-License-Identifier: Apache-2.0
"""Hooks the frameworks and runs the script, in its own process.

Nothing but the standard library is imported before the script runs, so that the script can still
set environment variables that TensorFlow or NumPy read at import. The interpreter ends the way it
always does (threads joined, exit handlers run, files flushed); a pipeline that hangs there is ended
by the waiting parent process, see `runner`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from types import ModuleType
from typing import Any

from outpace.capture import ticks
from outpace.capture.compilations import CompilationRecorder, cache_settings
from outpace.capture.exhaustion import describe_failure, find_largest_program, is_exhaustion
from outpace.capture.faults import suppress_faults
from outpace.capture.function_traces import FunctionTraceRecorder
from outpace.capture.messages import print_message
from outpace.capture.options import Plan, ScriptOutcome
from outpace.capture.pipeline import PipelineRecorder
from outpace.capture.process_exit import end_process, exit_code, register_final_hook, write_final_outcome, write_outcome
from outpace.capture.record import build_window_summary, write_capture_record
from outpace.capture.recording import SavedProfile
from outpace.capture.script import hide_own_frames, run_as_main
from outpace.capture.session import CaptureSession
from outpace.capture.sources import SourceRecorder
from outpace.capture.startup import StartupRecorder
from outpace.capture.steps_keras import KerasSteps
from outpace.capture.steps_tf import LoopSteps, hook_jax_profiler, hook_marks, hook_profiler
from outpace.capture.timed_window import TimedWindow
from outpace.capture.window import WindowState
from outpace.store.startup import Startup


class ScriptLauncher:
    """Connects the imports of frameworks to one capture session."""

    def __init__(self, plan: Plan, launched_ns: int) -> None:
        """Create the session of a plan; nothing is hooked yet. launched_ns: when this process ran
        its first line, Unix time in ns.
        """
        self.plan = plan
        self.startup = StartupRecorder(launched_ns)
        self._startup: Startup | None = None
        self.session = CaptureSession(
            plan.options, plan.logdir, plan.shown_logdir, self._write_record, self._on_saved, self._stop
        )
        self.recorder = PipelineRecorder(plan.options.label)
        self.sources = SourceRecorder()
        self.tracing = FunctionTraceRecorder(self.sources.add_graph)
        self._loop_steps: LoopSteps | None = None
        self.compiles = CompilationRecorder(lambda: self.session.window.state is WindowState.OPEN)
        self._timed_window = TimedWindow(self.session, self.compiles, plan.questions)
        self.session.on_open = self._end_startup
        self._exit_code: int | None = None
        self._failure = ""
        os.register_at_fork(after_in_child=self.session.window.disable)

    def on_tensorflow(self, tf: ModuleType) -> None:
        """Hook of the import of TensorFlow."""
        self.session.add_framework("tensorflow", tf)
        self.recorder.install(tf)
        self.tracing.install(tf)
        self._loop_steps = LoopSteps(self.session, tf, self._timed_window)
        self._loop_steps.install(tf)
        hook_marks(self.session, self._loop_steps, tf.profiler.experimental, "Trace", "tensorflow")
        hook_profiler(self.session, tf)
        self._begin_waiting()

    def on_keras(self, keras: ModuleType) -> None:
        """Hook of the import of Keras. Keras 2 marks its own steps, which `hook_marks` sees."""
        if str(getattr(keras, "__version__", "")).startswith("2."):
            return
        backend = keras.backend.backend()
        self.sources.install_callbacks(keras.callbacks.Callback)
        if backend == "tensorflow":
            self.sources.install(keras)
        else:
            self.sources.install_layers(keras)
        KerasSteps(self.session, lambda: self._loop_steps, backend).install(keras.callbacks.CallbackList)

    def on_jax(self, jax: ModuleType) -> None:
        """Hook of the import of JAX."""
        self.session.add_framework("jax", jax)
        self.compiles.install(jax)
        hook_marks(self.session, self._loop_steps, jax.profiler, "StepTraceAnnotation", "jax")
        hook_jax_profiler(self.session, jax)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Start the window by time, which waits for a training without visible steps."""
        with suppress_faults():
            # claimed here on the main thread, because a window by time opens on another one
            ticks.claim_signal()
        self._timed_window.start()

    def run(self) -> int:
        """Run the script to its end and return 0; an exception of the script is raised after the
        capture is saved.
        """
        from outpace.capture.imports import ImportHooks

        hooks: dict[str, Any] = {"tensorflow": self.on_tensorflow, "keras": self.on_keras, "jax": self.on_jax}
        ImportHooks(
            hooks, lambda name, error: print_message(f"{name} could not be hooked, so nothing is captured: {error!r}")
        ).install()
        self.startup.begin()
        self._show_crashes()
        code = 1
        try:
            run_as_main(self.plan.script, self.plan.argv, self.plan.options.module)
            code = 0
        except SystemExit as error:
            code = exit_code(error.code)
            raise
        except KeyboardInterrupt:
            code = 130
            raise
        except Exception as error:
            self._failure = describe_failure(error)
            raise
        finally:
            self._finish(code)
        return 0

    @staticmethod
    def _show_crashes() -> None:
        """Let Python print all stacks when the process crashes: nothing else says where it was."""
        with suppress_faults():
            import faulthandler

            if not faulthandler.is_enabled():
                faulthandler.enable()

    def _finish(self, code: int) -> None:
        """End the session after the script's own end, and write the outcome."""
        hide_own_frames()
        self._exit_code = code
        if os.getpid() == self.session.pid:
            self.session.mark_script_ended()
            self._timed_window.end()
            self.session.activity_text = self._timed_window.describe_activity()
        program = find_largest_program() if is_exhaustion(self._failure) else ""
        outcome = replace(self.session.finish(code, stopped=False), failure=self._failure, program=program)
        if os.getpid() == self.session.pid:
            write_final_outcome(self.plan.outcome, outcome)

    def _end_startup(self) -> None:
        """The window opens for the first time."""
        self.startup.end()
        self.compiles.end_startup()

    def _build_startup(self) -> Startup | None:
        """Return what happened before the training was steady, built once."""
        with suppress_faults():
            if self._startup is None:
                chosen = self.session.window.chosen_candidate
                self._startup = self.startup.build(
                    chosen.first_ns if chosen else (), self.tracing.traces, self.compiles.first_compilations, cache_settings()
                )
        return self._startup

    def _stop(self) -> None:
        """End the script after its capture, at once and on whichever thread this is."""
        self._exit_code = 0
        write_outcome(self.plan.outcome, self.session.finish(0, stopped=True))
        end_process(0)

    def _write_record(self, session: CaptureSession, saved: SavedProfile) -> None:
        """Write the record: before the run becomes visible, and again when the script's exit code
        is known.
        """
        window, plan = session.window, self.plan
        write_capture_record(
            saved,
            build_window_summary(window),
            plan.script,
            plan.argv,
            stages=self.recorder.stages,
            samples=session.samples,
            compilations=self.compiles.compilations,
            startup=self._build_startup(),
            traces=self.tracing.traces,
            sources=self.sources.build_sources(),
            callbacks=self.sources.callbacks,
            exit_code=self._exit_code,
            secrets=plan.options.secrets,
            stopped=plan.options.stop and window.state is not WindowState.OPEN and window.stopping,
        )

    def _on_saved(self, saved: SavedProfile) -> None:
        """Write the outcome at once, because a script may end itself with `os._exit`, or be
        killed.
        """
        write_outcome(self.plan.outcome, ScriptOutcome(saved.run, saved.host))


def run_plan(path: str, launched_ns: int) -> int:
    """Run the plan at a path, and return its exit code. launched_ns: when this process ran its
    first line, Unix time in ns.
    """
    with open(path, encoding="utf-8") as file:
        plan = Plan.from_json(file.read())
    register_final_hook()
    return ScriptLauncher(plan, launched_ns).run()
