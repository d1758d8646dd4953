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
READ = """
for x in xs:
    {early}
    w, loss = train_step(w, x)
    history.append(float(loss))
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for x in xs:\n    f = jax.jit(lambda y: y + 1)\n    f(x)", {"JX301"}),
        ("for x in xs:\n    g = jax.jit(jax.grad(loss_of))(x)", {"JX301"}),
        ("for x in xs:\n    @jax.jit\n    def f(y):\n        return y\n    f(x)", {"JX301"}),
        (MAKE + "for x in xs:\n    make(3)(x)", {"JX301"}),
        (SOLVE + "while True:\n    outer(x)", {"JX301"}),
        (MAKE + "for x in xs:\n    f = make(3)\n    x = f(x)", {"JX301"}),
        # stages and sweeps: what is compiled is handed on to what loops, or made for each of few
        (MAKE + "for n in folds:\n    train(make(n), n)", set()),
        (MAKE + "for n in (64, 128, 224):\n    make(n)(x)", set()),
        (MAKE.replace("def", "from functools import cache\n@cache\ndef", 1) + "for n in ns:\n    make(n)(x)", set()),
        ("def run(step):\n    for x in xs:\n        step(x)\nfor rate in rates:\n    run(jax.jit(lambda y: y * rate))", set()),
        ("for s in shapes:\n    kept[s] = jax.jit(lambda x: x + 1).lower(s).compile()", set()),
        # the same function each time, before the loop, over models, or inside a program
        ("for x in xs:\n    jax.jit(loss_of)(x)", set()),
        ("f = jax.jit(lambda y: y + 1)\nfor x in xs:\n    f(x)", set()),
        ("for rate in rates:\n    f = jax.jit(lambda y: y * rate)\n    for x in xs:\n        f(x)", set()),
        ("@jax.jit\ndef steps(x):\n    for _ in range(3):\n        x = jax.jit(lambda y: y + 1)(x)\n    return x", set()),
        # loops of lax
        (SEARCH + "for _ in xs:\n    x = update(x)", {"JX302"}),
        (SEARCH + "for x in folds:\n    scores.append(update(x))", set()),
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
        ("for x in xs:\n    w, loss = train_step(w, x)\n    loss = loss.item()", {"JX303"}),
        ("fast = jax.jit(loss_of)\nfor x in xs:\n    hits += int(fast(x))", {"JX303"}),
        (COUNT + "for x in xs:\n    count(t)\n    train_step(w, x)", {"JX303"}),
        ("import pickle\nfor f in files:\n    x = pickle.load(f)\n    train_step(w, x)", {"LP106"}),
        (READ.format(early="if x is None:\n        continue"), {"JX303"}),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    logs.append(jax.device_get(loss))", {"JX303"}),
        # seldom: under a branch of the loop that trains
        (
            "for i, x in enumerate(xs):\n    w, loss = train_step(w, x)\n    if i % 9 == 0:\n        for y in splits:\n"
            "            print(float(train_step(w, y)[1]))",
            set(),
        ),
        ("for e in epochs:\n    if training:\n        for x in xs:\n            float(train_step(w, x)[1])", {"JX303"}),
        # behind a way out
        ("for i, x in enumerate(xs):\n    w, loss = train_step(w, x)\n    if i % 9:\n        continue\n    print(float(loss))", set()),
        ("for i, x in enumerate(xs):\n    w, loss = train_step(w, x)\n    i % 9 == 0 and print(float(loss))", set()),
        (
            "for i, x in enumerate(xs):\n    w, loss = train_step(w, x)\n    match i % 9:\n        case 0:\n            print(float(loss))",
            set(),
        ),
        (
            "def log(i, loss):\n    if i % 9:\n        return\n    print(float(loss))\nfor i, x in enumerate(xs):\n"
            "    w, loss = train_step(w, x)\n    log(i, loss)",
            set(),
        ),
        # what the host needs, measured waits, and what takes as long as a training
        ("while not done:\n    a = int(jnp.argmax(train_step(w, x)[1]))\n    x, done = env.step(a)", set()),
        ("for x in xs:\n    w, loss = jax.block_until_ready(train_step(w, x))\n    float(loss)", set()),
        (
            "@jax.jit\ndef epoch(w):\n    return jax.lax.scan(train_step, w, xs)\nfor n in range(9):\n    w, losses = epoch(w)\n"
            "    print(float(losses.mean()))",
            set(),
        ),
        ("for name in ['a', 'b']:\n    print(name, float(train_step(w, data[name])[1]))", set()),
        # every few steps, after the epoch, of the step before, of shapes, and of what is no array
        ("for i, x in enumerate(xs):\n    w, loss = train_step(w, x)\n    if i % 50 == 0:\n        print(float(loss))", set()),
        ("for epoch in range(9):\n    for x in xs:\n        w, loss = train_step(w, x)\n    print(float(loss))", set()),
        ("for epoch in range(9):\n    for x in xs:\n        w, loss = train_step(w, x)\n    print(float(train_step(w, x)[1]))", set()),
        ("before = None\nfor x in xs:\n    w, loss = train_step(w, x)\n    curve.append(float(before))\n    before = loss", set()),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    n = int(loss.shape[0])", set()),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    n = int(jnp.size(loss)), float(jnp.finfo(loss.dtype).eps)", set()),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    n = int(jax.tree.reduce(lambda n, v: n + v.size, w, 0))", set()),
        ("for x in xs:\n    w, loss = train_step(w, x)\n    rate = float(rates[0])", set()),
        ("for name in names:\n    print(float(jnp.sum(scores[name])))", set()),
    ],
)  # fmt: skip
def test_results_that_each_iteration_waits_for(body: str, expected: set[str]) -> None:
    assert warnings(body, HEAD) == expected


def test_nothing_is_said_of_files_without_jax() -> None:
    assert warnings("for x in xs:\n    f = jit(lambda y: y)\n    float(f(x))", "import numba\n") == set()
