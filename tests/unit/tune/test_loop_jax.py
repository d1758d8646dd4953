"""Loops of JAX written anew, with each option and with two together, do what they did."""

from __future__ import annotations

import linecache
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("libcst")
pytest.importorskip("jax", exc_type=ImportError)

import jax

from outpace.tune.loop.body import Body
from outpace.tune.loop.jax_calls import compiled_functions
from outpace.tune.loop.taken import Taken
from outpace.tune.patch.loop_edit import write_loop
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits

pytestmark = pytest.mark.usefixtures("calls")

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
    gives_away = any(each.gives_away for step in body.steps for each in compiled_functions(step, body.names))
    return SimpleNamespace(taken=Taken(body, True), per_call=size, gives_away=gives_away, compiles=False)


def patched(path: Path, loop: Any) -> str:
    edits = Edits(SourceFile(str(path)))
    write_loop(loop, lambda _: edits)
    return edits.text()


def same(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in leaves)


def body_of(tmp_path: Path, text: str) -> Body:
    """The loop of a script, as it is found."""
    body, _ = run(tmp_path / "train.py", text)
    assert isinstance(body, Body)
    return body


def rewritten(tmp_path: Path, text: str) -> tuple[Body, str]:
    """A loop, and its script with several steps per call, which comes to the same."""
    body, before = run(tmp_path / "train.py", text)
    assert isinstance(body, Body)
    changed = patched(tmp_path / "train.py", found(body))
    same(before, run(tmp_path / "patched.py", changed)[1])
    return body, changed


def test_a_loop_comes_to_the_same(tmp_path: Path) -> None:
    _, text = rewritten(tmp_path, HEAD + LOOP + TAIL)
    assert "several_steps" in text


def test_a_patch_keeps_comments_and_the_rest_of_the_file(tmp_path: Path) -> None:
    text = patched(tmp_path / "train.py", found(body_of(tmp_path, HEAD + LOOP + TAIL)))
    assert "        # the step\n" in text and "# as a number" in text and text.endswith(TAIL)
    for begin in ("def in_groups(", "@jax.jit\ndef several_steps(", "for epoch in range(3):\n"):
        assert f"\n\n\n{begin}" in text


def test_a_loop_in_a_function_is_written_with_its_functions_before_that(tmp_path: Path) -> None:
    loop = "".join(f"    {line}\n" for line in LOOP.splitlines())
    inside = f"def main(params, momentum, rate, total):\n{loop}    return params, momentum, total\n\nouter = params\n"
    end = "outcome = main(params, momentum, rate, total), losses, outer\n"
    _, text = rewritten(tmp_path, HEAD + inside + end)
    assert text.index("def several_steps") < text.index("def main")


def test_slices_among_the_arguments_are_made_before_the_step(tmp_path: Path) -> None:
    loop = """for epoch in range(3):
    for at in range(0, 40, 4):
        hook()
        # of these rows
        params, momentum, loss = step(params, momentum, data[at : at + 4], rate)
        losses.append(loss)
"""
    body, text = rewritten(tmp_path, HEAD + loop + TAIL)
    assert body.several == "" and body.inputs == ("x",) and "        x = data[at:at + 4]\n" in text
    assert text.count("# of these rows\n    ") == text.count("= step(params, momentum, x, rate)")


LOOKS = {
    "the state": "        if i % 3 == 0:\n            losses.append((i, float(params['b'])))\n",
    "a counter": "        count += 1\n        if count % 7 == 0:\n            losses.append((i, float(momentum.sum())))\n",
    "the end": "        count += 1\n        if count >= 17:\n            break\n",
}


@pytest.mark.parametrize("name", LOOKS)
def test_what_looks_at_the_state_now_and_then_comes_in_time(tmp_path: Path, name: str) -> None:
    body, _ = rewritten(tmp_path, HEAD + "count = 0\n" + LOOP.replace("    rate =", LOOKS[name] + "    rate =") + TAIL)
    assert body.several == "" and body.ends


OPENINGS = {
    "the state": "        if i % 3 == 0:\n            losses.append((i, float(params['b'])))\n",
    "an evaluation": "        if i % 4 == 1:\n            value = measure(params, x)\n            losses.append((i, float(value)))\n",
    "a counter": "        if count % 7 == 0:\n            losses.append((i, float(momentum.sum())))\n",
}


@pytest.mark.parametrize("name", OPENINGS)
def test_what_looks_at_the_state_before_a_step_comes_in_time(tmp_path: Path, name: str) -> None:
    head = HEAD + "count = 0\nmeasure = jax.jit(loss_of)\n"
    loop = LOOP.replace("        # the step\n", OPENINGS[name]).replace("    rate =", "        count += 1\n    rate =")
    body, text = rewritten(tmp_path, head + loop + TAIL)
    assert body.several == "" and body.begins and not body.ends and "begins=lambda item, n: " in text


def test_an_evaluation_now_and_then_is_no_part_of_the_steps(tmp_path: Path) -> None:
    look = OPENINGS["an evaluation"] + "        losses.append(i)\n"
    body, text = rewritten(
        tmp_path, HEAD + "measure = jax.jit(loss_of)\n" + LOOP.replace("    rate =", look + "    rate =") + TAIL
    )
    assert body.several == "" and body.ends and not body.begins and "begins" not in text


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "        # the step\n",
            "        if float(params['b']) > 9:\n            print(params)\n",
            "is not known before the steps",
        ),
        (
            "        # the step\n",
            "        if i % 2:\n            print(params)\n        else:\n            pass\n",
            "is not known",
        ),
        ("hook()", "hook()\n        if i > 99: break", "can be left"),
        ("        # the step\n", "        rate = rate * 0.99\n", "rate, which the step needs, is counted on"),
        ("x, rate)\n", "x, rate)\n        jax.debug.callback(print)\n", ""),
        ("params, momentum, loss =", "hook.w = params, momentum, loss =", "more than assignments of names"),
    ],
)
def test_steps_that_cannot_be_put_together(tmp_path: Path, old: str, new: str, why: str) -> None:
    body = body_of(tmp_path, HEAD + LOOP.replace(old, new) + TAIL)
    assert why in body.several and bool(body.several) == bool(why)


def test_arrays_that_a_statement_carries_are_a_part_of_the_step(tmp_path: Path) -> None:
    split = LOOP.replace("        # the step\n", "        key, used = jax.random.split(key)\n")
    text = HEAD + "key = jax.random.key(0)\n" + split.replace("x, rate)", "x, jax.random.uniform(used))") + TAIL
    body, _ = rewritten(tmp_path, text)
    assert not body.several and body.carried == ("key", "params", "momentum")


def test_a_step_that_gives_its_state_away_does_so_in_several_steps_too(tmp_path: Path) -> None:
    head = HEAD.replace("@jax.jit\n", "from functools import partial\n@partial(jax.jit, donate_argnums=(0, 1))\n")
    body = body_of(tmp_path, head + LOOP + TAIL)
    assert patched(tmp_path / "train.py", found(body)).count("donate_argnums") == 2


def test_groups_of_equal_shapes_are_put_together(tmp_path: Path) -> None:
    body = body_of(tmp_path, HEAD + LOOP + TAIL)
    (tmp_path / "patched.py").write_text(patched(tmp_path / "train.py", found(body)), encoding="utf-8")
    in_groups = runpy.run_path(str(tmp_path / "patched.py"), {"hook": lambda: None})["in_groups"]
    items = [(np.zeros(4), at) for at in range(5)] + [(np.zeros(3), 5)]
    groups = [(len(group), None if stack is None else stack[0].shape) for group, stack in in_groups(items, 2, 1)]
    assert groups == [(2, (2, 4)), (2, (2, 4)), (2, None)]


def test_a_step_that_needs_no_batch(tmp_path: Path) -> None:
    loop = LOOP.replace("for i, x in enumerate(batches()):", "for i in range(10):")
    body, _ = rewritten(tmp_path, HEAD + "x = data\n" + loop + TAIL)
    assert body.several == "" and not body.inputs


EPOCH = """
@jax.jit
def gradients(params, x):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    return grads, loss

@jax.jit
def update(params, grads):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

def train_epoch(params, data, order):
    found = []
    for rows in order:
        hook()
        batch = data[rows, ...]
        grads, loss = gradients(params, batch)
        params = update(params, grads)
        found.append(loss)
    return params, np.mean(found)

means = []
for epoch in range(3):
    params, mean = train_epoch(params, data, rng.permutation(40).reshape(10, 4))
    means.append(mean)
outcome = params, means
"""


def test_an_epoch_in_a_function_with_two_compiled_calls(tmp_path: Path) -> None:
    body, _ = rewritten(tmp_path, HEAD + EPOCH)
    assert body.carried == ("params",) and body.inputs == ("batch",) and body.results == ("loss",) and not body.several
