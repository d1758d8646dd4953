"""What JAX's monitoring says of compilations, with the user's line."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from outpace.capture import compiles
from outpace.capture.compiles import EVENTS, CompileWatch


def heard(watch: CompileWatch, event: str, seconds: float = 0.25, **details: Any) -> int:
    watch.heard(EVENTS + event, seconds, **details)
    return sys._getframe().f_lineno - 1


def test_the_users_line_and_the_program_are_noted() -> None:
    watch = CompileWatch(lambda: True)
    line = heard(watch, "backend_compile_duration", fun_name="step")
    (seen,) = watch.compilations
    assert (seen.file, seen.line, seen.function) == (__file__, line, "heard")
    assert (seen.event, seen.duration_ns, seen.program) == (EVENTS + "backend_compile_duration", 250_000_000, "step")
    assert not watch.pending


def test_what_was_lowered_is_pending_until_it_is_compiled() -> None:
    watch = CompileWatch(lambda: False)
    heard(watch, "jaxpr_to_mlir_module_duration")
    assert watch.pending and watch.last_s is not None
    heard(watch, "backend_compile_duration")
    heard(watch, "jaxpr_trace_duration")  # jax.eval_shape traces, and nothing is compiled
    assert not watch.pending
    assert watch.compilations == []  # nothing was recorded meanwhile


def test_other_events_and_short_traces_are_no_news() -> None:
    watch = CompileWatch(lambda: True)
    watch.heard("/jax/checkpoint/write", 3.0)
    heard(watch, "jaxpr_trace_duration", 1e-5)
    assert watch.compilations == []


def test_no_more_than_the_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(compiles, "MOST", 3)
    watch = CompileWatch(lambda: True)
    for _ in range(5):
        heard(watch, "backend_compile_duration")
    assert len(watch.compilations) == 3


def test_it_listens_where_jax_can_tell() -> None:
    listeners: list[Any] = []
    jax = SimpleNamespace(monitoring=SimpleNamespace(register_event_duration_secs_listener=listeners.append))
    watch = CompileWatch(lambda: True)
    watch.install(jax)
    assert listeners == [watch.heard]
