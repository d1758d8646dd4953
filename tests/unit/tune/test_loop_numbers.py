"""Which function of JAX makes the steps of a loop, and what its trace must know."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", exc_type=ImportError)

import jax
import jax.numpy as jnp

from outpace.tune.loop.jax_calls import COMPILED, JaxCalls, JaxSteps, static_arguments


def test_a_compiled_gradient_stays_compiled(calls: JaxCalls) -> None:
    traced: list[int] = []

    def loss(w: Any) -> Any:
        traced.append(1)
        return w * w

    made: Any = jax.jit(jax.grad(loss))
    assert [float(made(at)) for at in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert len(traced) == 1, "it is traced once, and not run op by op"
    assert (made.maker, made.kind, made.code.co_name) == ("jit", COMPILED, "loss")


def test_an_update_of_each_parameter_is_no_step(calls: JaxCalls) -> None:
    told: list[str] = []
    steps = JaxSteps(calls, 10, lambda code, count: told.append(code.co_name if code is not None else ""))

    def gradients_of(w: Any, x: Any) -> Any:
        return jax.grad(lambda v: (v[0] * x + v[1]) ** 2)(w)

    def update(state: Any, grad: Any) -> Any:
        return state[0] - 0.1 * grad, state[1] + 1

    gradients, updated = jax.jit(gradients_of), jax.jit(update)
    parameters = [(jnp.ones(()), jnp.zeros(()))] * 30
    for _ in range(8):
        gradients((jnp.ones(()), jnp.ones(())), 1.0)
        parameters = [updated(each, 0.5) for each in parameters]
    assert told == []
    for _ in range(3):
        gradients((jnp.ones(()), jnp.ones(())), 1.0)
    steps.rest()
    assert told == ["gradients_of"]


def test_a_trace_must_know_what_it_cannot_do_without() -> None:
    def step(state: Any, batch: Any, size: int, scale: int, kind: str, deep: bool = False, loss: Any = jnp.sum) -> Any:
        noise = jnp.ones((size, 2))
        return state + loss(batch) * scale + noise.sum() * (kind == "a") + (1.0 if deep else 0.0)

    def calls(*at: int, size: int = 4) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [((jnp.ones(()), jnp.ones(3), size, each, "a"), {"deep": True, "loss": jnp.sum}) for each in at]

    found = static_arguments(jax, step, calls(1, 2, 3))
    assert set(found) == {"size", "kind", "deep", "loss"}
    jax.jit(step, static_argnames=found)(*calls(1)[0][0])
    assert static_arguments(jax, lambda state, size: state * size, [((jnp.ones(()), 3), {})] * 3) == ()
    assert static_arguments(jax, step, [calls(1)[0], calls(1, size=5)[0]]) == (), "a size that changes would compile again"
