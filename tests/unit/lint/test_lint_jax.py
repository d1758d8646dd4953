"""Rules about JAX: functions that are compiled again and again, and reads of results."""

from __future__ import annotations

import pytest

from tests.unit.lint.test_lint_pipeline import warnings

HEAD = """import jax
import jax.numpy as jnp
from functools import partial
@jax.jit
def train_step(w, x):
    return w, jnp.mean(x)
def loss_of(w):
    return jnp.sum(w)
"""
MAKE = """
def make(n):
    @partial(jax.jit, static_argnums=0)
    def f(y):
        return y * n
    return f
"""
SOLVE = """
def solve(x):
    def inner(y):
        return y
    return jax.jit(inner)(x)
def outer(x):
    return solve(x)
"""
SEARCH = """
def update(x):
    def body(c):
        return c + x
    return jax.lax.while_loop(lambda c: c < 3, body, x)
"""
COUNT = """
def count(t):
    for k in range(9):
        mask = t == k
        n = int(mask.sum())
t = jnp.ones(3)
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for x in xs:\n    f = jax.jit(lambda y: y + 1)\n    f(x)", {"JX301"}),
        ("for x in xs:\n    g = jax.jit(jax.grad(loss_of))(x)", {"JX301"}),
        ("for x in xs:\n    @jax.jit\n    def f(y):\n        return y\n    f(x)", {"JX301"}),
        (MAKE + "for x in xs:\n    make(3)(x)", {"JX301"}),
        (SOLVE + "while True:\n    outer(x)", {"JX301"}),
        # the same function each time, before the loop, over models, or inside a program
        ("for x in xs:\n    jax.jit(loss_of)(x)", set()),
        ("f = jax.jit(lambda y: y + 1)\nfor x in xs:\n    f(x)", set()),
        ("for rate in rates:\n    f = jax.jit(lambda y: y * rate)\n    for x in xs:\n        f(x)", set()),
        ("@jax.jit\ndef steps(x):\n    for _ in range(3):\n        x = jax.jit(lambda y: y + 1)(x)\n    return x", set()),
        # loops of lax
        (SEARCH + "for x in xs:\n    update(x)", {"JX302"}),
        ("@jax.jit\ndef update(x):\n    return jax.lax.fori_loop(0, 3, lambda i, c: c + x, x)\nfor x in xs:\n    update(x)", set()),
        ("def body(c, x):\n    return c, x\ndef update(x):\n    return jax.lax.scan(body, 0, x)\nfor x in xs:\n    update(x)", set()),
    ],
)  # fmt: skip
def test_what_is_compiled_in_each_iteration(body: str, expected: set[str]) -> None:
    assert warnings(body, HEAD) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for x in xs:\n    w, loss = train_step(w, x)\n    history.append(float(loss))", {"JX303"}),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    total += (loss * 2).item()", {"JX303"}),
        ("fast = jax.jit(loss_of)\nfor x in xs:\n    hits += int(fast(x))", {"JX303"}),
        (COUNT + "for x in xs:\n    count(t)\n    train_step(w, x)", {"JX303"}),
        ("import pickle\nfor f in files:\n    x = pickle.load(f)\n    train_step(w, x)", {"LP106"}),
        # every few steps, after the epoch, of the step before, of shapes, and of what is no array
        ("for i, x in enumerate(xs):\n    w, loss = train_step(w, x)\n    if i % 50 == 0:\n        print(float(loss))", set()),
        ("for epoch in range(9):\n    for x in xs:\n        w, loss = train_step(w, x)\n    print(float(loss))", set()),
        ("for epoch in range(9):\n    for x in xs:\n        w, loss = train_step(w, x)\n    print(float(train_step(w, x)[1]))", set()),
        ("before = None\nfor x in xs:\n    w, loss = train_step(w, x)\n    curve.append(float(before))\n    before = loss", set()),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    n = int(loss.shape[0])", set()),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    rate = float(rates[0])", set()),
        ("for name in names:\n    print(float(jnp.sum(scores[name])))", set()),
    ],
)  # fmt: skip
def test_results_that_each_iteration_waits_for(body: str, expected: set[str]) -> None:
    assert warnings(body, HEAD) == expected


def test_nothing_is_said_of_files_without_jax() -> None:
    assert warnings("for x in xs:\n    f = jit(lambda y: y)\n    float(f(x))", "import numba\n") == set()
