"""Which arguments made JAX compile, from the call of its own that is on the stack; a stand-in has
what JAX's has.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from outpace.capture import jit_arguments
from outpace.capture.compilations import EVENT_PREFIX, CompilationRecorder
from outpace.capture.jit_arguments import ArgumentChange, JitArguments

INFO = SimpleNamespace(static_argnums=(), static_argnames=())


def jitted(seen: JitArguments, fun: Callable[..., Any], jit_info: Any = INFO) -> Callable[..., ArgumentChange | None]:
    """What JAX makes of a function, as far as a compilation is concerned."""

    def cache_miss(*args: Any, **kwargs: Any) -> ArgumentChange | None:
        assert fun is not None and jit_info is not None  # JAX uses them here, and so they are on the stack
        return compiling()

    def compiling() -> ArgumentChange | None:
        return seen.find_change(sys._getframe())

    return cache_miss


def update(params: Any, tokens: Any, scale: float = 1.0, *rest: Any, **named: Any) -> None:
    """A function that is compiled."""


X, Y = np.zeros((16, 119), np.int32), np.zeros((16, 118), np.int32)


@pytest.mark.parametrize(
    ("first", "then", "before", "now"),
    [
        (((1, X), {}), ((1, Y), {}), {"tokens": "int32[16,119]"}, {"tokens": "int32[16,118]"}),
        (((1, X), {}), ((1, X.astype("int64")), {}), {"tokens": "int32[16,119]"}, {"tokens": "int64[16,119]"}),
        (((1, X), {}), ((1,), {"tokens": X}), {}, {}),
        (((1, X), {}), ((2, X), {}), {}, {}),  # its value is not compiled in
        (((1, X), {}), ((1.0, X), {}), {"params": "Python int"}, {"params": "Python float"}),
        (
            ((1, X), {}),
            ((1, X, 2, X), {"mask": Y}),
            {},
            {"scale": "Python int", "rest[0]": "int32[16,119]", "mask": "int32[16,118]"},
        ),
    ],
)
def test_what_differs_is_told_by_name(first: Any, then: Any, before: dict[str, str], now: dict[str, str]) -> None:
    call = jitted(JitArguments(), update)
    assert call(*first[0], **first[1]) == ArgumentChange(None, {})
    assert call(*then[0], **then[1]) == ArgumentChange(before, now)


@pytest.mark.parametrize(
    "info",
    [SimpleNamespace(static_argnums=(2,), static_argnames=()), SimpleNamespace(static_argnums=(), static_argnames=("scale",))],
)
def test_a_static_argument_is_told_by_its_value(info: Any) -> None:
    call = jitted(JitArguments(), update, info)
    call(1, X, 2)
    assert call(1, X, 3) == ArgumentChange({"scale": "Literal[2]"}, {"scale": "Literal[3]"})


def test_a_function_that_is_made_anew_is_the_same_code() -> None:
    seen = JitArguments()
    for number in range(2):
        found = jitted(seen, lambda x: x)(X)
        assert found == (ArgumentChange({}, {}) if number else ArgumentChange(None, {}))
    assert jitted(seen, functools.partial(update, 1))(X) == ArgumentChange(None, {})
    assert jitted(seen, functools.partial(update, 2))(Y) == ArgumentChange(
        {"tokens": "int32[16,119]"}, {"tokens": "int32[16,118]"}
    )


def test_pytrees_are_told_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def flatten(tree: dict[str, Any]) -> tuple[list[tuple[str, Any]], None]:
        return list(tree.items()), None

    trees = SimpleNamespace(tree_flatten_with_path=flatten, keystr=lambda path: f"[{path!r}]")
    monkeypatch.setitem(sys.modules, "jax.tree_util", trees)
    call = jitted(JitArguments(), update)
    call({"w": X, "b": Y}, X)
    assert call({"w": X, "c": Y}, X) == ArgumentChange({"params['b']": "int32[16,118]"}, {"params['c']": "int32[16,118]"})


def test_without_the_call_on_the_stack_nothing_is_known() -> None:
    assert JitArguments().find_change(sys._getframe()) is None


def test_no_more_than_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_arguments, "MAX_CHANGES", 2)
    monkeypatch.setattr(jit_arguments, "MAX_ARRAYS", 5)
    call = jitted(JitArguments(), update)
    call(*(X,) * 9)
    assert call(*(Y,) * 9) == ArgumentChange(
        {"params": "int32[16,119]", "tokens": "int32[16,119]"}, dict.fromkeys(("params", "tokens"), "int32[16,118]")
    )


def test_the_watch_notes_them_and_an_argument_that_fails_does_no_harm() -> None:
    watch = CompilationRecorder(lambda: True)

    class Odd:
        @property
        def shape(self) -> tuple[int, ...]:
            raise RuntimeError("deleted")

    def cache_miss(*args: Any, **kwargs: Any) -> None:
        assert fun is not None
        watch.on_event(EVENT_PREFIX + "backend_compile_duration", 0.2, fun_name="jit(update)")

    fun = update
    cache_miss(1, X)
    cache_miss(1, Y)
    cache_miss(1, Odd())
    assert [(c.before, c.arguments) for c in watch.compilations] == [
        (None, {}),
        ({"tokens": "int32[16,119]"}, {"tokens": "int32[16,118]"}),
        (None, None),
    ]


@dataclass(frozen=True)
class Config:
    layers: tuple[int, ...] = tuple(range(40))  # its text is longer than what is kept
    schedule: Any = None
    learning_rate: float = 1e-3


class Rates(NamedTuple):
    first: float
    last: float


FIXED = SimpleNamespace(static_argnums=(0,), static_argnames=("params",))


def test_the_field_of_a_static_value_that_changes_is_named() -> None:
    call = jitted(JitArguments(), update, FIXED)
    call(Config(), X)
    assert call(Config(learning_rate=2e-3), X) == ArgumentChange(
        {"params.learning_rate": "Literal[0.001]"}, {"params.learning_rate": "Literal[0.002]"}
    )
    call(Config(schedule=Rates(1.0, 0.1)), X)
    assert call(Config(schedule=Rates(1.0, 0.2)), X) == ArgumentChange(
        {"params.schedule.last": "Literal[0.1]"}, {"params.schedule.last": "Literal[0.2]"}
    )


def test_long_texts_are_shown_where_they_differ() -> None:
    call = jitted(JitArguments(), update, FIXED)
    call(tuple(range(300)), X)
    change = call((*range(299), "other"), X)
    assert change is not None and change.before is not None
    before, now = change.before["params"], change.now["params"]
    assert before != now and before.endswith("298, 299)]") and now.endswith("298, 'other')]") and len(now) <= 80
