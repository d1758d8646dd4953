"""Loops of TensorFlow with several steps in one call do what they did, or are refused."""

from __future__ import annotations

import linecache
import logging
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("libcst")
pytest.importorskip("tensorflow", exc_type=ImportError)

import tensorflow as tf

from outpace.tune.loop.taken import Taken
from outpace.tune.loop.tensors import TensorBody
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.loop_edit import write_loop
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits

HEAD = """import logging
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
data = tf.data.Dataset.from_tensor_slices(rng.standard_normal((42, 4)).astype("float32")).batch(4)
weights, count = tf.Variable(tf.ones(4)), tf.Variable(0)
losses, rate, total, log = [], 0.1, 0.0, logging.getLogger("loop")

@tf.function
def step(x, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(x, weights) - 1) ** 2)
    weights.assign_sub(rate * tape.gradient(loss, weights))
    count.assign_add(1)
    return loss, tf.reduce_max(x)

"""
LOOP = """for epoch in range(3):
    for i, x in enumerate(data):
        log.warning("a step")
        # the step
        loss, most = step(x, rate)
        total += float(loss)
        losses.append((i, float(loss), most.numpy()))  # as numbers
"""
TAIL = """
outcome = weights.numpy(), count.numpy(), total, losses
"""


def run(path: Path, text: str) -> tuple[TensorBody | str, Any]:
    """The loop as it is found in its second step, and what the script comes to."""
    found: list[TensorBody | str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            frame = sys._getframe(1)
            while frame.f_code.co_filename != str(path) and frame.f_back is not None:
                frame = frame.f_back
            body = TensorBody.around(frame)
            found.append(body if isinstance(body, TensorBody) else str(body))

    handler = Handler()
    logging.getLogger("loop").addHandler(handler)
    linecache.clearcache()
    path.write_text(text, encoding="utf-8")
    try:
        outcome = runpy.run_path(str(path))["outcome"]
    finally:
        logging.getLogger("loop").removeHandler(handler)
    return found[1], outcome


def patched(path: Path, body: TensorBody, *, compiles: bool = False, inside: bool = True) -> str:
    loop = SimpleNamespace(taken=Taken(body, inside), per_call=4, compiles=compiles, gives_away=False)
    edits = Edits(SourceFile(str(path)))
    write_loop(loop, lambda _: edits)  # type: ignore[arg-type]  # all that it asks for
    return edits.text()


def same(one: Any, other: Any) -> None:
    leaves = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
    assert all(np.allclose(a, b, atol=1e-6) for a, b in leaves)


def rewritten(tmp_path: Path, text: str, **options: Any) -> tuple[TensorBody, str]:
    """A loop whose steps can be put together, and its script with that, which comes to the same."""
    body, before = run(tmp_path / "train.py", text)
    assert isinstance(body, TensorBody) and body.several == "", body
    changed = patched(tmp_path / "train.py", body, **options)
    same(before, run(tmp_path / "patched.py", changed)[1])
    return body, changed


@pytest.mark.parametrize("compiles", [False, True])
def test_a_loop_comes_to_the_same(tmp_path: Path, compiles: bool) -> None:
    body, text = rewritten(tmp_path, HEAD + LOOP + TAIL, compiles=compiles)
    assert body.fixed == ("rate",)
    assert text.count("jit_compile=True") == compiles and "# the step" in text and "# as numbers" in text
    assert "several_steps(stack, rate)" in text and "fn_output_signature=(tf.float32, tf.float32)" in text


UNREAD = LOOP[: LOOP.index("        loss, most")] + "        step(x, rate)\n" + TAIL
MADE = "def made():\n    import numpy as np\n    return np.random.default_rng(0)\n"
OTHERS = {
    "names of the last step that are read behind the loop": (HEAD + UNREAD + "outcome = (*outcome, i, x.numpy())\n")
    .replace("42, 4", "40, 4")
    .replace("batch(4)", "batch(5)"),
    "batches that a function of the program gives": f"{HEAD}def made():\n    for x in data:\n        yield x\n\n"
    + LOOP.replace("(data)", "(made())")
    + TAIL,
    "a rate of each epoch": HEAD + LOOP.replace("    for i", "    rate = rate * 0.9\n    for i") + TAIL,
    "a file that imports NumPy in a function alone": MADE
    + HEAD.replace("import numpy as np\n", "").replace("np.random.default_rng(0)\ndata", "made()\ndata")
    + LOOP
    + TAIL,
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_loops_come_to_the_same(tmp_path: Path, text: str) -> None:
    rewritten(tmp_path, text)


def test_a_step_whose_results_nobody_reads(tmp_path: Path) -> None:
    assert "each_of" not in rewritten(tmp_path, HEAD + UNREAD)[1]


@pytest.mark.parametrize("fixed", ["fixed", "inputs", "stack"])
def test_a_step_that_needs_no_batch(tmp_path: Path, fixed: str) -> None:
    loop = "for i in range(10):\n    log.warning(i)\n    loss, most = step(FIXED, rate)\n    losses.append(float(loss))\n"
    body, _ = rewritten(tmp_path, (HEAD + "FIXED = tf.ones((2, 4))\n" + loop + TAIL).replace("FIXED", fixed))
    assert body.fixed == (fixed, "rate")


@pytest.mark.parametrize("rows", ["rows", "items", "inputs", "group", "results"])
def test_arguments_that_numpy_makes_are_made_before_the_step(tmp_path: Path, rows: str) -> None:
    loop = """for epoch in range(2):
    order = rng.permutation(40)
    for at in range(0, 40, 4):
        log.warning("a step")
        # of these rows
        loss, most = step(tf.constant(ROWS[order[at : at + 4]]), rate=rate)
        losses.append(float(loss))
"""
    text = (HEAD + 'ROWS = rng.standard_normal((40, 4)).astype("float32")\n' + loop + TAIL).replace("ROWS", rows)
    body, changed = rewritten(tmp_path, text)
    assert body.inputs == ("x",), body
    assert f"        x = tf.constant({rows}[order[at:at + 4]])\n" in changed and "step(x, rate=rate)" in changed


END = "        number += 1\n        if {}:\n            {}\n"
ENDS = {
    "== end": (END.format("number == end", "break"), "(number + n) == end"),
    "> end": (END.format("number > end", "break"), "(number + n) > end"),
    ">= before": (
        "        if number >= end:\n            print('end')\n            break\n        number += 1\n",
        "(number + n - 1) >= end",
    ),
    "a metric": (END.format("i % 3 == 0", "losses.append(weights.numpy().sum())"), "item[1] % 3 == 0"),
    "a counter": (END.format("number % 7 == 0", "weights.assign(weights * 0.5)"), "(number + n) % 7 == 0"),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_looks_at_the_weights_now_and_then_comes_in_time(tmp_path: Path, name: str) -> None:
    tail, ends = ENDS[name]
    after = "    if number >= end:\n        break\n" if "break" in tail else ""
    text = HEAD + "number, end = 0, 17\n" + LOOP + tail + after + TAIL + "outcome = (*outcome, number)\n"
    body, changed = rewritten(tmp_path, text)
    assert body.ends == ends and f"lambda item, n: {body.ends})" in changed


WRONG = ("number += 2", "number = number + 1", "number += 1\n        number += 1", "end -= 1; number += 1")


@pytest.mark.parametrize("wrong", [*WRONG, "number += int(loss > 0)"])
def test_a_loop_whose_end_cannot_be_foreseen(tmp_path: Path, wrong: str) -> None:
    tail = f"        {wrong}\n        if number >= end:\n            break\n"
    body, _ = run(tmp_path / "train.py", HEAD + "number, end = 0, 17\n" + LOOP + tail + TAIL)
    assert isinstance(body, TensorBody) and "can be left" in body.several


def test_what_only_a_function_knows_stays_in_it(tmp_path: Path) -> None:
    head, _, step = HEAD.partition("@tf.function")
    inside = "".join(f"    {line}\n" if line else "\n" for line in ("@tf.function" + step + LOOP).splitlines())
    text = f"{head}def main(rate, total):\n{inside}    return total\n\ntotal = main(rate, total)\n" + TAIL
    body, changed = rewritten(tmp_path, text)
    assert changed.index("def main") < changed.index("    def several_steps") < changed.index("    for epoch")
    with pytest.raises(Unpatchable, match="step, which only the function around the loop knows"):
        patched(tmp_path / "train.py", body, inside=False)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("loss, most = step(x, rate)", "loss, most = step(x, rate)\n        print(i, file=sink)\n        step(x, rate)", "more than calls"),
        ("        total", "        if float(loss) < 0: raise ValueError\n        total", "can be left"),
        ("# the step", "if i > 99: break", "can be left"),
        ("        total", "        if float(loss) < 0: break\n        total", "can be left"),
        ("        # the step\n", "        rate = rate * 0.9\n", "rate, which the step needs, is counted on"),
        ("step(x, rate)", "step(x, 0.1 * i)", "i, which the step needs, is no tensor"),
        ("loss, most = step(x, rate)", "loss, most = seen = step(x, rate)", ""),
        ("loss, most = step(x, rate)", "box[0] = loss, most = step(x, rate)", "more than calls of functions"),
        ("# the step", "noise = tf.random.normal((2,)) * np.float32(rate)", ""),
        ("        total", "        mean.update_state(loss)\n        total", ""),
        ("        total", "        print(mean.result(), file=sink)\n        total", ""),
        ("        total", "        print(plain(loss), file=sink)\n        total", ""),
    ],
)  # fmt: skip
def test_which_steps_can_be_put_together(tmp_path: Path, old: str, new: str, why: str) -> None:
    more = "import io\nsink, box = io.StringIO(), [0]\nmean = tf.keras.metrics.Mean()\n"
    more += "def plain(value):\n    return round(float(value), 2)\n"
    body, _ = run(tmp_path / "train.py", HEAD + more + LOOP.replace(old, new, 1) + TAIL)
    assert isinstance(body, TensorBody), body
    assert why in body.several and bool(body.several) == bool(why), body.several


def test_a_loop_inside_of_a_step_has_its_own_length(tmp_path: Path) -> None:
    inner = "        for _ in range(2):\n            log.warning(i)\n            loss, most = step(x, rate)\n"
    body, _ = run(tmp_path / "train.py", HEAD + "for i, x in enumerate(data):\n    if True:\n" + inner + TAIL)
    assert isinstance(body, TensorBody) and Taken(body, True).per_call(tf.data.Dataset.range(30)) == 2


def test_what_metrics_say_after_each_step_is_asked_for_in_it(tmp_path: Path) -> None:
    counted = HEAD.replace("    count.assign_add(1)", "    count.assign_add(1)\n    mean.update_state(loss)")
    head = f"import tensorflow as tf\nmean = tf.keras.metrics.Mean()\n{counted}"
    body, changed = rewritten(tmp_path, head + LOOP.replace("most.numpy()", "mean.result().numpy()") + TAIL)
    assert body.results == ("loss", "mean_result"), body
    assert "            mean_result = mean.result()\n" in changed
    assert "losses.append((i, float(loss), mean_result.numpy()))" in changed


METRICS = """gen, disc = (tf.keras.metrics.Mean(name=name) for name in "gd")
class Box: pass
box, two = Box(), Box()
box.loss, two.loss = gen, disc

"""


@pytest.mark.parametrize(
    ("after", "results"),
    [
        ("losses.append((float(box.loss.result()), float(two.loss.result())))", ("loss", "box_loss_result", "two_loss_result")),
        ("gen.update_state(loss)\n        losses.append(float(gen.result()))", ("loss",)),  # is changed behind the step
        ("losses.append(float(gen.result()) if i > 3 else -1.0)", ("loss",)),
    ],
)
def test_metrics_with_other_names_and_other_changes(tmp_path: Path, after: str, results: tuple[str, ...]) -> None:
    step = "" if len(results) == 1 else "    box.loss.update_state(loss)\n    two.loss.update_state(-loss)\n"
    head = HEAD.replace("    return loss", step + "    return loss").replace("@tf.function", METRICS + "@tf.function")
    text = head + LOOP[: LOOP.index("        losses")] + f"        {after}\n" + TAIL
    body, _ = rewritten(tmp_path, text)
    assert body.results == results, body


def test_groups_of_equal_shapes_and_their_results(tmp_path: Path) -> None:
    body, _ = run(tmp_path / "train.py", HEAD + LOOP + TAIL)
    assert isinstance(body, TensorBody)
    (tmp_path / "patched.py").write_text(patched(tmp_path / "train.py", body), encoding="utf-8")
    made = runpy.run_path(str(tmp_path / "patched.py"))
    in_groups, each_of = made["in_groups"], made["each_of"]
    items = [(tf.zeros(4), at) for at in range(5)] + [(tf.zeros(3), 5)]
    found = [(len(group), None if stack is None else tuple(stack[0].shape)) for group, stack in in_groups(items, 2, 1)]
    assert found == [(2, (2, 4)), (2, (2, 4)), (2, None)]
    rows = each_of((tf.range(3), {"a": tf.range(3, 6)}), 3)
    assert [(int(one), int(other["a"])) for one, other in rows] == [(0, 3), (1, 4), (2, 5)]
