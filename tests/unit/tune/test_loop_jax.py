"""Loops of JAX written anew: each option's patch, and all together, do what the loop did."""

from __future__ import annotations

import itertools
import linecache
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("libcst")
pytest.importorskip("jax")

import jax

from outpace.tune.loop.body import Body
from outpace.tune.loop.donation import Donation
from outpace.tune.loop.jax_calls import JaxCalls
from outpace.tune.loop.later import later_of
from outpace.tune.loop.options import AHEAD, DONATED, LATER, SEVERAL
from outpace.tune.patch.loop_edit import write_donation, write_loop
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits

HEAD = """import jax, jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
data = rng.standard_normal((40, 4)).astype("float32")
params, momentum = {"w": jnp.ones(4), "b": jnp.zeros(())}, jnp.zeros(4)
rate = 0.1
losses, total = [], 0.0

def loss_of(params, x):
    return jnp.mean((x @ params["w"] + params["b"] - 1) ** 2)

@jax.jit
def step(params, momentum, x, rate):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    momentum = 0.9 * momentum + grads["w"]
    return {"w": params["w"] - rate * momentum, "b": params["b"] - rate * grads["b"]}, momentum, loss

def batches():
    for at in range(0, 40, 4):
        yield data[at : at + 4]

"""
LOOP = """for epoch in range(3):
    for i, x in enumerate(batches()):
        hook()
        # the step
        params, momentum, loss = step(params, momentum, x, rate)
        total += float(loss)
        losses.append((i, loss.item()))  # as a number
    rate = rate * 0.5
"""
TAIL = """
outcome = np.asarray(params["w"]), np.asarray(momentum), total, losses
"""
OPTIONS = (SEVERAL, AHEAD, LATER, DONATED)
SETS = [each for size in range(1, 5) for each in itertools.combinations(OPTIONS, size)]


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[JaxCalls]:
    """JAX, whose functions tell where they were made."""
    before = {name: getattr(jax, name) for name in ("jit", "pmap", "grad", "value_and_grad")}
    made = JaxCalls(jax)
    made.install()
    yield made
    for name, value in before.items():
        setattr(jax, name, value)


def run(path: Path, text: str) -> tuple[Body | str, Any]:
    """The loop as it is found in its first step, and what the script comes to."""
    found: list[Body | str] = []

    def hook() -> None:
        if not found:
            found.append(Body.around(sys._getframe(1)))

    linecache.clearcache()
    path.write_text(text, encoding="utf-8")
    outcome = runpy.run_path(str(path), {"hook": hook})["outcome"]
    return found[0], outcome


def found(body: Body, size: int = 4) -> Any:
    """What the patch reads of a loop that is tuned."""
    woven = SimpleNamespace(body=body, later=later_of(body), per_call=size)
    return SimpleNamespace(woven=woven, donation=Donation(body))


def patched(path: Path, loop: Any, options: tuple[str, ...]) -> str:
    edits = Edits(SourceFile(str(path)))
    for option in options:
        if option == DONATED:
            write_donation(loop, lambda _: edits)
        else:
            write_loop(loop, lambda _: edits, option)
    return edits.text()


def same(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in leaves)


@pytest.mark.parametrize("options", SETS, ids="+".join)
def test_a_loop_comes_to_the_same(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "train.py"
    body, before = run(path, HEAD + LOOP + TAIL)
    assert isinstance(body, Body)
    text = patched(path, found(body), options)
    assert ("several_steps" in text) == (SEVERAL in options) and ("ahead(" in text) == (AHEAD in options)
    assert ("kept.append" in text) == (LATER in options) and ("donate_argnums=(0, 1)" in text) == (DONATED in options)
    _, after = run(tmp_path / "patched.py", text)
    same(before, after)
