"""What JAX compiles: when, for how long, and for which line of the user's. Told by JAX's own
monitoring; standard library only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.capture.faults import suppress_faults
from outpace.capture.jit_arguments import ArgumentChange, JitArguments
from outpace.capture.stacks import owner_of
from outpace.store.record import Compilation

EVENT_PREFIX = "/jax/core/compile/"  # tracing, lowering to MLIR, and the compiler proper
LOWERING_EVENT, COMPILE_EVENT = "jaxpr_to_mlir_module_duration", "backend_compile_duration"  # the last two
MAX_COMPILATIONS = 500
MIN_DURATION_S = 1e-3  # tracing a small function is no news


class CompilationRecorder:
    """Listens to JAX's compile events. `is_recording` says whether an event is to be kept, as while
    a profile is recorded.
    """

    def __init__(self, is_recording: Callable[[], bool]) -> None:
        self.compilations: list[Compilation] = []
        self.last_event_s: float | None = None  # when the last event came, on the monotonic clock
        self.is_pending = False  # something was lowered, and is not compiled yet
        self._wanted = is_recording
        self._owners: dict[str, str] = {}
        self._arguments = JitArguments()

    def install(self, jax: Any) -> None:
        """Begin to listen; a JAX without monitoring is left alone."""
        listen = getattr(getattr(jax, "monitoring", None), "register_event_duration_secs_listener", None)
        if listen is not None:
            listen(self.on_event)

    def on_event(self, event: str, duration: float, **details: Any) -> None:
        """JAX tells of something that took `duration` seconds and has just ended."""
        if not event.startswith(EVENT_PREFIX):
            return
        with suppress_faults():
            self.last_event_s = time.monotonic()
            done = event.endswith(COMPILE_EVENT)
            self.is_pending = not done and (self.is_pending or event.endswith(LOWERING_EVENT))
            change = self._changed(sys._getframe(1)) if done else None  # also before the capture: the next one differs from it
            if self._wanted() and len(self.compilations) < MAX_COMPILATIONS and (done or duration >= MIN_DURATION_S):
                self.compilations.append(self._noted(event, duration, str(details.get("fun_name", "")), change))

    def _changed(self, frame: FrameType) -> ArgumentChange | None:
        """Which arguments made JAX compile; None where JAX, or an argument of the user's own
        making, does not tell.
        """
        try:
            return self._arguments.find_change(frame)
        except Exception:
            return None

    def _noted(self, event: str, duration: float, program: str, change: ArgumentChange | None) -> Compilation:
        now = time.time_ns()
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and self._owner(frame.f_code.co_filename):
            frame = frame.f_back
        file, line, function = "", 0, ""
        if frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            function = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        before, arguments = (change.before, change.now) if change else (None, None)
        return Compilation(now, round(duration * 1e9), event, file, line, function, program, before, arguments)

    def _owner(self, file: str) -> str:
        owner = self._owners.get(file)
        if owner is None:
            owner = self._owners[file] = owner_of(file)
        return owner
