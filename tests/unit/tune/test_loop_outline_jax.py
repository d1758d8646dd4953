"""Statements of a JAX loop that become a function of their own."""

from __future__ import annotations

import linecache
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("libcst")
pytest.importorskip("jax", exc_type=ImportError)

import jax

from outpace.tune.loop.effects import effect_of
from outpace.tune.loop.outline import outlined
from outpace.tune.loop.statement import Statement
from outpace.tune.loop.step import Outline
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.step_edit import write_outline
from outpace.tune.patch.written import Edits

pytestmark = pytest.mark.usefixtures("calls")

HEAD = """import jax, jax.numpy as jnp
import numpy as np
from typing import NamedTuple, Any

class Momentum(NamedTuple):
    init: Any
    update: Any

def update(grads, state):
    state = jax.tree.map(lambda v, g: 0.9 * v + g, state, grads)
    return jax.tree.map(lambda v: -0.1 * v, state), state

optimizer = Momentum(lambda tree: jax.tree.map(jnp.zeros_like, tree), update)
data = np.random.default_rng(0).standard_normal((12, 8, 4)).astype("float32")
params = {"w": jnp.ones(4), "b": jnp.zeros(())}
state, key, losses = optimizer.init(params), jax.random.key(0), []

def loss_of(params, x):
    return jnp.mean((x @ params["w"] + params["b"] - 1) ** 2)

grad_fn = jax.jit(jax.value_and_grad(loss_of))

"""
LOOP = """for epoch in range(2):
    for x in data:
        hook()
        key, noise = jax.random.split(key)
        # the step
        loss, grads = jax.value_and_grad(loss_of)(params, x + jax.random.normal(noise, x.shape))
        updates, state = optimizer.update(grads, state)
        params = jax.tree.map(jnp.add, params, updates)
        losses.append(float(loss))
"""
TAIL = """
outcome = np.asarray(params["w"]), np.asarray(state["b"]), losses
"""
COMPILED = LOOP.replace("jax.value_and_grad(loss_of)(", "grad_fn(")
WHOLE = """@jax.jit
def train(params, state, x, key):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    updates, state = optimizer.update(grads, state)
    return jax.tree.map(jnp.add, params, updates), state, loss

for x in data:
    hook()
    params, state, loss = train(params, state, x, key)
    key = jax.random.fold_in(key, 1)
    losses.append(float(loss))
"""


def run(path: Path, text: str) -> tuple[Outline | None, Any]:
    """The outline that is made in the second step, and what the script comes to."""
    found: list[Outline | None] = []
    steps: list[int] = []

    def hook() -> None:
        steps.append(1)
        if len(steps) == 2:
            statement = Statement.around(sys._getframe(1))
            assert statement is not None
            found.append(outlined(statement, sys._getframe(1), jax=True))

    linecache.clearcache()
    path.write_text(text, encoding="utf-8")
    outcome = runpy.run_path(str(path), {"hook": hook})["outcome"]
    return found[0], outcome


def written(tmp_path: Path, outline: Outline, options: dict[str, str] | None = None) -> str:
    """The file with it."""
    edits = Edits(SourceFile(str(tmp_path / "train.py")))
    write_outline(outline, lambda _: edits, options, "jax.jit")
    return edits.text()


def outlined_step(tmp_path: Path, text: str) -> tuple[Outline, str | None, str]:
    """The step from its random numbers to its weights, what it would freeze, and the file with it,
    which does the same.
    """
    outline, before = run(tmp_path / "train.py", text)
    assert outline is not None and set(outline.given) == {"key", "x", "params", "state"}
    kept, changed = effect_of(outline.function), written(tmp_path, outline)
    leaves = zip(jax.tree.leaves(before), jax.tree.leaves(run(tmp_path / "patched.py", changed)[1]), strict=True)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in leaves)
    return outline, kept, changed


@pytest.mark.parametrize("loop", [LOOP, COMPILED], ids=["eager gradients", "compiled gradients"])
@pytest.mark.parametrize("inside", [False, True], ids=["in the file", "in a function"])
def test_the_step_from_its_random_numbers_to_its_weights(tmp_path: Path, loop: str, inside: bool) -> None:
    if inside:
        body = "".join(f"    {line}\n" for line in loop.splitlines())
        loop = f"def main(params, state, key):\n{body}    return params, state\n\nparams, state = main(params, state, key)\n"
    outline, kept, changed = outlined_step(tmp_path, HEAD + loop + TAIL)
    assert set(outline.returned) == {"key", "loss", "state", "params"}
    assert "split(key)" in outline.text and "append" not in outline.text
    assert kept is None  # `updates, state = optimizer.update(...)` changes nothing
    assert "@jax.jit\n" in changed and "    # the step" in changed


def test_a_loss_that_is_defined_in_each_step_is_a_part_of_it(tmp_path: Path) -> None:
    """Of another step's batch it would compute something else."""
    loop = LOOP.replace(
        "        # the step\n",
        "        noise_of = lambda key: jax.random.normal(key, (8,))\n"
        "        def loss_here(params):\n            return jnp.mean((x @ params['w'] - noise_of(noise)) ** 2)\n\n",
    ).replace("(loss_of)(params, x + jax.random.normal(noise, x.shape))", "(loss_here)(params)")
    outlined_step(tmp_path, HEAD + loop + TAIL)


def test_what_only_looks_follows_the_step(tmp_path: Path) -> None:
    between = LOOP.replace(
        "        updates, state", "        if epoch:\n            losses.append(float(loss))\n        updates, state"
    )
    outline, _ = run(tmp_path / "train.py", HEAD + between + TAIL)
    assert outline is not None and outline.returned == ("key", "loss", "state", "params") and "losses" not in outline.text
    body = written(tmp_path, outline).partition("hook()\n")[2].splitlines()
    assert [line.strip() for line in body[:3]] == [outline.call, "if epoch:", "losses.append(float(loss))"]


def test_options_of_the_compiled_function(tmp_path: Path) -> None:
    outline, _ = run(tmp_path / "train.py", HEAD + LOOP + TAIL)
    assert outline is not None
    text = written(tmp_path, outline, {"static_argnames": "('x',)"})
    assert "@functools.partial(jax.jit, static_argnames=('x',))\ndef train_step(" in text


OTHERS = {
    "a compiled step": WHOLE,
    "a step that is one function": WHOLE.replace("@jax.jit\n", ""),
    "weights that are kept in between": LOOP.replace(
        "        updates, state", "        losses.append(params)\n        updates, state"
    ),
    "an end in between": LOOP.replace("        updates, state", "        if loss < 0: break\n        updates, state"),
    "no gradient": "for x in data:\n    hook()\n    params = jax.tree.map(lambda leaf: leaf * 0.9, params)\n",
    "weights of an object": LOOP.replace("        params = jax", "        hook.params = params = jax"),
}


@pytest.mark.parametrize("loop", OTHERS.values(), ids=OTHERS)
def test_what_is_left_alone(tmp_path: Path, loop: str) -> None:
    assert run(tmp_path / "train.py", HEAD + loop + TAIL)[0] is None


LISTS = """from jax import value_and_grad
import jax.numpy as jnp
import numpy as np
data = np.random.default_rng(0).standard_normal((12, 8, 4)).astype("float32")
theta = [(np.ones((4, 4), "float32"), np.zeros(4, "float32")), (np.ones((4, 1), "float32"), np.zeros(1, "float32"))]

def loss_of(theta, x):
    for w, b in theta:
        x = jnp.tanh(x @ w + b)
    return jnp.mean((x - 0.5) ** 2)

losses = []
for x in data:
    hook()
    loss, gradient = value_and_grad(loss_of)(theta, x)
    new_theta = []
    for layer, slopes in zip(theta, gradient):
        w, b = layer
        dw, db = slopes
        w, b = w - 0.1 * dw, b - 0.1 * db
        new_theta.append((w, b))
    theta = new_theta
    losses.append(float(loss))
outcome = [np.asarray(w) for w, _ in theta], losses
"""


def test_parameters_that_a_loop_puts_into_a_new_list_are_a_part_of_the_step(tmp_path: Path) -> None:
    """The file has no name for `jax.jit`: it is imported."""
    outline, before = run(tmp_path / "train.py", LISTS)
    assert outline is not None and set(outline.given) == {"theta", "x"} and {"loss", "theta"} <= set(outline.returned)
    assert "new_theta.append((w, b))" in outline.text and "losses" not in outline.text
    changed = written(tmp_path, outline)
    assert "\nimport jax\n" in changed and "@jax.jit\n" in changed
    leaves = zip(jax.tree.leaves(before), jax.tree.leaves(run(tmp_path / "patched.py", changed)[1]), strict=True)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in leaves)


@pytest.mark.parametrize("more", ["kept.append(w)", "print(w)", "if step == 3: break", "params['w'] = w"])
def test_a_loop_of_a_step_that_does_more_than_fill_its_own_lists_is_none(tmp_path: Path, more: str) -> None:
    text = LISTS.replace("        new_theta.append((w, b))\n", f"        new_theta.append((w, b))\n        {more}\n")
    outline, _ = run(tmp_path / "train.py", text.replace("losses = []", "losses, kept, params, step = [], [], {}, 0"))
    assert outline is None or "new_theta.append" not in outline.text


def test_another_jax_of_the_scripts_is_no_name_for_it(tmp_path: Path) -> None:
    outline, _ = run(tmp_path / "train.py", LISTS.replace("losses = []", "losses, jax = [], 3"))
    assert outline is not None
    with pytest.raises(Unpatchable, match=r"no name for jax\.jit"):
        written(tmp_path, outline)
