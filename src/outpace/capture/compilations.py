# SPDX-License-Identifier: Apache-2.0
"""Records what JAX compiles: when, for how long, and for which line of the user's, from the events
of JAX's own monitoring. Standard library only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.capture.faults import suppress_faults
from outpace.capture.jit_arguments import ArgumentChange, JitArguments
from outpace.capture.stacks import owner_of
from outpace.frameworks.jax import CACHE_MISS, TRACEBACK_FILE
from outpace.frameworks.keras import TRACEBACK_FILE as KERAS_TRACEBACK_FILE
from outpace.store.record import Compilation

# prefix of the events of tracing, of lowering to MLIR and of compiling
EVENT_PREFIX = "/jax/core/compile/"
CACHE_EVENTS = {"/jax/compilation_cache/cache_hits": "hit", "/jax/compilation_cache/cache_misses": "miss"}
# endings of the events of lowering and of compiling
LOWERING_EVENT, COMPILE_EVENT = "jaxpr_to_mlir_module_duration", "backend_compile_duration"
_WRAPPERS = (TRACEBACK_FILE, KERAS_TRACEBACK_FILE)  # files of functions that only pass calls on
MAX_COMPILATIONS = 500  # of the window, and of the start-up
MIN_BUILDS = 2  # compilations of a function, after which one more is part of what comes round
MIN_DURATION_S = 1e-3  # tracing a small function takes less, and is not recorded


def cache_settings() -> tuple[str, float]:
    """Return the folder of JAX's persistent compilation cache, "" where it is off, and the shortest
    compilation that it stores, s.
    """
    config = getattr(sys.modules.get("jax"), "config", None)
    if not getattr(config, "jax_enable_compilation_cache", True):
        return "", 0.0
    folder = getattr(config, "jax_compilation_cache_dir", None) or ""
    return str(folder), float(getattr(config, "jax_persistent_cache_min_compile_time_secs", 0.0) or 0.0)


class CompilationRecorder:
    """Records JAX's compile events while `is_recording()` is true, as while a profile is recorded,
    and those of the start-up.

    compilations: recorded events, in order.
    first_compilations: events on the main thread until `end_startup`.
    last_event_s: time of the last compile event, monotonic clock, seconds; None before the first.
    pending: name of a program that was lowered and is not compiled yet; None where there is none.
    """

    def __init__(self, is_recording: Callable[[], bool]) -> None:
        self.compilations: list[Compilation] = []
        self.first_compilations: list[Compilation] = []
        self._is_startup = True
        self._cache = ""  # what the persistent cache said of the program that is being compiled
        self.last_event_s: float | None = None
        self.pending: str | None = None
        self._builds: Counter[str] = Counter()  # compilations by the program's name
        self._is_recording = is_recording
        self._owners: dict[str, str] = {}
        self._jit_arguments = JitArguments()

    def install(self, jax: Any) -> None:
        """Register with JAX's monitoring; does nothing where this JAX has none."""
        listen = getattr(getattr(jax, "monitoring", None), "register_event_duration_secs_listener", None)
        if listen is not None:
            listen(self.on_event)
        listen = getattr(getattr(jax, "monitoring", None), "register_event_listener", None)
        if listen is not None:
            listen(self.on_cache_event)

    def end_startup(self) -> None:
        """The start-up is over."""
        self._is_startup = False

    def on_cache_event(self, event: str, **_: Any) -> None:
        """Listener of JAX's monitoring: the persistent cache was asked for a program."""
        self._cache = CACHE_EVENTS.get(event, self._cache)

    @property
    def is_pending_again(self) -> bool:
        """Whether the pending program was compiled several times before, as one that is compiled
        anew for each new value.
        """
        return self.pending is not None and self._builds[self.pending] >= MIN_BUILDS

    def on_event(self, event: str, duration: float, **details: Any) -> None:
        """Listener of JAX's monitoring: something that took `duration` seconds has just ended."""
        if not event.startswith(EVENT_PREFIX):
            return
        with suppress_faults():
            self.last_event_s = time.monotonic()
            done = event.endswith(COMPILE_EVENT)
            program = str(details.get("fun_name", ""))
            if done:
                self.pending = None
                self._builds[program] += 1
            elif event.endswith(LOWERING_EVENT):
                self.pending = program
            # also outside a capture, because the next compilation is compared with this one
            change = self._find_change(sys._getframe(1)) if done else None
            lists = [self.compilations] if self._is_recording() else []
            if self._is_startup and threading.current_thread() is threading.main_thread():
                lists.append(self.first_compilations)
            lists = [each for each in lists if len(each) < MAX_COMPILATIONS]
            if lists and (done or duration >= MIN_DURATION_S):
                compilation = self._build_compilation(event, duration, program, change)
                for each in lists:
                    each.append(compilation)
            if done:
                self._cache = ""

    def _find_change(self, frame: FrameType) -> ArgumentChange | None:
        """Return which arguments made JAX compile; None where JAX, or an argument's own code,
        raises.
        """
        try:
            return self._jit_arguments.find_change(frame)
        except Exception:
            return None

    def _build_compilation(self, event: str, duration: float, program: str, change: ArgumentChange | None) -> Compilation:
        """Return the record of a compilation that has just ended, with the innermost line of the
        user on the stack.
        """
        now = time.time_ns()
        frame: FrameType | None = sys._getframe(2)
        called: FrameType | None = None  # what the user's line called
        while frame is not None and self._find_owner(frame.f_code.co_filename):
            if not frame.f_code.co_filename.endswith(_WRAPPERS):
                called = frame
            frame = frame.f_back
        file, line, function = "", 0, ""
        if frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            function = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        before, arguments = (change.before, change.now) if change else (None, None)
        library_call = library = ""
        if called is not None and not called.f_code.co_filename.endswith(CACHE_MISS.file):
            library_call, library = called.f_code.co_name, self._find_owner(called.f_code.co_filename)
        cache = self._cache if event.endswith(COMPILE_EVENT) else ""
        return Compilation(
            now, round(duration * 1e9), event, file, line, function, program, before, arguments, library_call, cache, library
        )

    def _find_owner(self, file: str) -> str:
        """Return the owner of a file (see `owner_of`), from a cache."""
        owner = self._owners.get(file)
        if owner is None:
            owner = self._owners[file] = owner_of(file)
        return owner
