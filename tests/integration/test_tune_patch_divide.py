"""Functions of maps divided in their source; TensorFlow's trace of them tells what is impure."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow

pytest.importorskip("libcst")
pytestmark = needs_tensorflow

HEAD = """
import tensorflow as tf
scale = tf.Variable(0.5)
table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0, 1], [10, 20]), -1)
counts = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, -1)
generator = tf.random.Generator.from_seed(1)
half = 0.5

def decode(a):
    return tf.reshape(a, [2, 2])

def jitter(a):
    return a + tf.random.normal([2, 2])
"""
NUMBERS = itertools.count()


@pytest.fixture
def divide(tmp_path: Path) -> Iterator[Any]:
    """Divide the function `load(a, b)` of a source text; both parts as text, and the border."""

    def made(source: str) -> tuple[str, str, tuple[str, ...]]:
        import tensorflow as tf

        from outpace.tune.patch.divide import divided
        from outpace.tune.patch.impure import Purity
        from outpace.tune.patch.source import SourceFile
        from outpace.tune.purity import evidence

        path = tmp_path / f"module_{next(NUMBERS)}.py"
        path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        dataset = tf.data.Dataset.from_tensor_slices((tf.zeros([3, 4]), tf.range(3))).map(module.load)
        file = SourceFile(str(path))
        definition = next(each for each in file.functions() if each.name.value == "load")

        def lines(node: Any) -> range:
            found = file.position(node)
            return range(found.start.line, found.end.line + 1)

        evidence.see(dataset._map_func, dataset)
        function = getattr(module.load, "python_function", module.load)
        parts = divided(definition, Purity(function, dataset._map_func, lines), "load_cached", "load")
        first, second = (file.module.code_for_node(part).strip() for part in (parts.first, parts.second))
        ast.parse(f"{first}\n{second}")
        return first, second, parts.border

    yield made


def body(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def load(*lines: str) -> str:
    """The function that is divided."""
    return "def load(a, b):\n" + "".join(f"    {line}\n" for line in lines)


def test_an_expression_is_divided_around_its_pure_part(divide: Any) -> None:
    flipped = "return tf.image.random_flip_left_right(a[..., None]), b"
    first, second, border = divide(load("a = tf.reshape(a, [2, 2]) * scale", flipped))
    assert body(first) == ["def load_cached(a, b):", "a = tf.reshape(a, [2, 2])", "return a, b"]
    assert body(second) == ["def load(a, b):", "a = a * scale", flipped]
    assert border == ("a", "b")


def test_the_border_follows_first_use(divide: Any) -> None:
    lines = ("c = tf.reshape(a, [2, 2])", "d = tf.cast(b, tf.float32) * 2.0", "return d * scale, c, b")
    _, second, border = divide(load(*lines))
    assert border == ("d", "c", "b") and body(second)[0] == "def load(d, c, b):"


TWICE = "def twice(a):\n    return a * 2\n\n"
NOISY = "import random\n\ndef noisy(a):\n    return a * random.random()\n\n"
PARTS = {  # source, what is cached, what is not
    "helpers are what their traced operations say": (load("a = decode(a)", "a = jitter(a)", "return a, b"), "a = decode(a)", "a = jitter(a)"),
    "random numbers that no name tells of": (
        load("a = tf.exp(a)", "a = tf.nn.dropout(a, 0.5)", "return a, b"), "tf.exp(a)", "dropout",
    ),
    "a Python function that repeats itself": (
        TWICE + load("a = tf.py_function(twice, [a], tf.float32)", "return a * scale, b"), "tf.py_function(twice, [a], tf.float32)", "* scale",
    ),
    "a Python function that may not repeat itself": (
        NOISY + load("a = tf.exp(a)", "a = tf.py_function(noisy, [a], tf.float32)", "return a, b"), "tf.exp(a)", "py_function",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_what_is_pure_is_cached_and_the_rest_is_not(divide: Any, name: str) -> None:
    source, pure, impure = PARTS[name]
    first, second, _ = divide(source)
    assert pure in first and pure not in second
    assert impure in second and impure not in first


def test_tables_generators_and_stateless_random_numbers(divide: Any) -> None:
    stateless, drawn = "a = a + tf.random.stateless_normal([4], [1, 2])", "a = a + generator.uniform([4])"
    first, second, border = divide(load(stateless, drawn, "return a, table.lookup(b), counts.lookup(b)"))
    assert "stateless_normal" in first and "generator.uniform([4])" in second
    assert body(second)[-1] == "return a, b_cached, counts.lookup(b)"
    assert border == ("a", "b_cached", "b")


def test_constants_are_made_where_they_are_used(divide: Any) -> None:
    constants = ("'''Reads.'''", "size = [2, 2]", "rate = half * 2", "mean = 0.5", "a = tf.reshape(a, size)")
    first, second, border = divide(load(*constants, "a = a * rate + tf.random.normal(size, mean)", "return a, b"))
    cached = ["size = [2, 2]", "rate = half * 2", "a = tf.reshape(a, size)", "a = a * rate"]
    assert body(first) == ["def load_cached(a, b):", *cached, "return a, b"]
    rest = ["'''Reads.'''", "size = [2, 2]", "mean = 0.5", "a = a + tf.random.normal(size, mean)"]
    assert body(second) == ["def load(a, b):", *rest, "return a, b"]
    assert border == ("a", "b")


def test_a_name_that_is_needed_twice_gets_another_beside_it(divide: Any) -> None:
    first, second, border = divide(load("a = tf.sqrt(a) * scale + a", "return a, b"))
    assert body(first) == ["def load_cached(a, b):", "a_cached = tf.sqrt(a)", "return a_cached, a, b"]
    assert body(second) == ["def load(a_cached, a, b):", "a = a_cached * scale + a", "return a, b"]
    assert border == ("a_cached", "a", "b")


def test_augmented_assignments_and_decorators(divide: Any) -> None:
    head, typed = "@tf.function\ndef load(a: tf.Tensor, b) -> tuple:", load("a = tf.exp(a)", "a *= scale", "return a, b")
    first, second, _ = divide(typed.replace("def load(a, b):", head))
    assert first.startswith("@tf.function\ndef load_cached(a: tf.Tensor, b):") and "scale" not in first
    assert second.startswith(head) and body(second)[2] == "a *= scale"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("if half:", "    a = tf.exp(a)", "return a * scale, b"), "straight-line"),
        (("a = tf.exp(a)", "return a * scale, b", "c=1"), "other arguments"),
        (("tf.print(a)", "return tf.exp(a) * scale, b"), "for its effect"),
        (("c = {}", "c['a'] = tf.exp(a)", "return c['a'] * scale, b"), "something else than a name"),
        (("return a * scale, b",), "nothing of load could be cached"),
        (("s = a.shape", "a = tf.exp(a) * scale", "return tf.reshape(a, s), b"), "no tensor"),
        (("c = tf.exp(a)", "d = c * scale", "c = tf.sqrt(c)", "return c + d, b"), "assigns c again between the parts"),
    ],
)
def test_what_is_not_divided_says_why(divide: Any, lines: tuple[str, ...], reason: str) -> None:
    from outpace.tune.patch.calls import Unpatchable

    source = load(*lines[:-1]).replace("a, b)", "a, b, c=1)", 1) if lines[-1] == "c=1" else load(*lines)
    with pytest.raises(Unpatchable) as refused:
        divide(source)
    assert reason in str(refused.value)
