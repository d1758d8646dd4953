"""What JAX compiles: when, for how long, and for which line of the user's. Told by JAX's own monitoring; standard library only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.capture.sampler import owner_of
from outpace.store.record import Compilation

EVENTS = "/jax/core/compile/"  # tracing, lowering to MLIR, and the compiler proper
LOWERED, DONE = "jaxpr_to_mlir_module_duration", "backend_compile_duration"  # the last two
MOST = 500
LEAST_S = 1e-3  # tracing a small function is no news


class CompileWatch:
    """Listens to JAX's compile events. `wanted` says whether an event is to be kept, as while a profile is recorded."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.compilations: list[Compilation] = []
        self.last_s: float | None = None  # when the last event came, on the monotonic clock
        self.pending = False  # something was lowered, and is not compiled yet
        self._wanted = wanted
        self._owners: dict[str, str] = {}

    def install(self, jax: Any) -> None:
        """Begin to listen; a JAX without monitoring is left alone."""
        monitoring = getattr(jax, "monitoring", None) or sys.modules.get("jax._src.monitoring")
        listen = getattr(monitoring, "register_event_duration_secs_listener", None)
        if listen is not None:
            listen(self.heard)

    def heard(self, event: str, duration: float, **details: Any) -> None:
        """JAX tells of something that took `duration` seconds and has just ended."""
        if not event.startswith(EVENTS):
            return
        with contextlib.suppress(Exception):
            self.last_s = time.monotonic()
            done = event.endswith(DONE)
            self.pending = not done and (self.pending or event.endswith(LOWERED))
            if self._wanted() and len(self.compilations) < MOST and (done or duration >= LEAST_S):
                self.compilations.append(self._noted(event, duration, str(details.get("fun_name", ""))))

    def _noted(self, event: str, duration: float, program: str) -> Compilation:
        now = time.time_ns()
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and self._owner(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return Compilation(now, round(duration * 1e9), event, "", 0, "", program)
        code = frame.f_code
        function = getattr(code, "co_qualname", code.co_name)
        return Compilation(now, round(duration * 1e9), event, code.co_filename, frame.f_lineno, function, program)

    def _owner(self, file: str) -> str:
        owner = self._owners.get(file)
        if owner is None:
            owner = self._owners[file] = owner_of(file)
        return owner
