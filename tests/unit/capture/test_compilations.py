"""What JAX's monitoring says of compilations, with the user's line."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

from outpace.capture import compilations
from outpace.capture.compilations import EVENT_PREFIX, CompilationRecorder


def heard(watch: CompilationRecorder, event: str, seconds: float = 0.25, **details: Any) -> int:
    watch.on_event(EVENT_PREFIX + event, seconds, **details)
    return sys._getframe().f_lineno - 1


def test_the_users_line_and_the_program_are_noted() -> None:
    watch = CompilationRecorder(lambda: True)
    line = heard(watch, "backend_compile_duration", fun_name="step")
    (seen,) = watch.compilations
    assert (seen.file, seen.line, seen.function) == (__file__, line, "heard")
    assert (seen.event, seen.duration_ns, seen.program) == (EVENT_PREFIX + "backend_compile_duration", 250_000_000, "step")
    assert watch.pending is None


def test_what_was_lowered_is_pending_until_it_is_compiled() -> None:
    watch = CompilationRecorder(lambda: False)
    heard(watch, "jaxpr_to_mlir_module_duration")
    assert watch.pending is not None and watch.last_event_s is not None
    heard(watch, "backend_compile_duration")
    heard(watch, "jaxpr_trace_duration")  # jax.eval_shape traces, and nothing is compiled
    assert watch.pending is None
    assert watch.compilations == []  # nothing was recorded meanwhile


def test_what_is_compiled_for_the_third_time_comes_round() -> None:
    watch = CompilationRecorder(lambda: False)
    seen = []
    for program in ("jit(step)", "jit(init)", "jit(step)", "jit(step)"):
        heard(watch, "jaxpr_to_mlir_module_duration", fun_name=program)
        seen.append(watch.is_pending_again)
        heard(watch, "backend_compile_duration", fun_name=program)
    assert seen == [False, False, False, True] and not watch.is_pending_again


def test_other_events_and_short_traces_are_no_news() -> None:
    watch = CompilationRecorder(lambda: True)
    watch.on_event("/jax/checkpoint/write", 3.0)
    heard(watch, "jaxpr_trace_duration", 1e-5)
    assert watch.compilations == []


def test_no_more_than_the_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(compilations, "MAX_COMPILATIONS", 3)
    watch = CompilationRecorder(lambda: True)
    for _ in range(5):
        heard(watch, "backend_compile_duration")
    assert len(watch.compilations) == 3


def test_it_listens_where_jax_can_tell() -> None:
    listeners: list[Any] = []
    jax = SimpleNamespace(monitoring=SimpleNamespace(register_event_duration_secs_listener=listeners.append))
    watch = CompilationRecorder(lambda: True)
    watch.install(jax)
    assert listeners == [watch.on_event]


def test_a_function_of_jax_that_the_line_called_is_noted(tmp_path: Any) -> None:
    """Between the user's line and JAX's own call of a compiled function."""
    files = {name: f"/lib/site-packages/jax/_src/{name}.py" for name in ("traceback_util", "pjit", "numpy")}

    def called(watch: CompilationRecorder, *frames: tuple[str, str]) -> str:
        inner: Any = partial(watch.on_event, EVENT_PREFIX + "backend_compile_duration", 0.25)
        for file, name in reversed(frames):
            scope: dict[str, Any] = {"inner": inner}
            exec(compile(f"def {name}():\n    inner()", files[file], "exec"), scope)
            inner = scope[name]
        inner()
        return watch.compilations[-1].library_call

    watch = CompilationRecorder(lambda: True)
    assert called(watch, ("traceback_util", "reraise"), ("pjit", "cache_miss")) == ""
    assert called(watch, ("numpy", "pad"), ("traceback_util", "reraise"), ("pjit", "cache_miss")) == "pad"
    assert called(watch, ("traceback_util", "reraise"), ("numpy", "power")) == "power"
    assert called(watch) == ""
