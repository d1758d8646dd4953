"""Functions of maps divided in their source, with TensorFlow's own trace of them to tell what is
impure.
"""

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


def test_an_expression_is_divided_around_its_pure_part(divide: Any) -> None:
    first, second, border = divide(
        """
        def load(a, b):
            a = tf.reshape(a, [2, 2]) * scale
            return tf.image.random_flip_left_right(a[..., None]), b
        """
    )
    assert body(first) == ["def load_cached(a, b):", "a = tf.reshape(a, [2, 2])", "return a, b"]
    assert body(second) == ["def load(a, b):", "a = a * scale", "return tf.image.random_flip_left_right(a[..., None]), b"]
    assert border == ("a", "b")


def test_the_border_follows_first_use(divide: Any) -> None:
    _, second, border = divide(
        """
        def load(a, b):
            c = tf.reshape(a, [2, 2])
            d = tf.cast(b, tf.float32) * 2.0
            return d * scale, c, b
        """
    )
    assert border == ("d", "c", "b")
    assert body(second)[0] == "def load(d, c, b):"


def test_helpers_are_what_their_traced_operations_say(divide: Any) -> None:
    first, second, _ = divide(
        """
        def load(a, b):
            a = decode(a)
            a = jitter(a)
            return a, b
        """
    )
    assert "a = decode(a)" in first and "decode" not in second
    assert "a = jitter(a)" in second and "jitter" not in first


def test_random_numbers_that_no_name_tells_of_are_seen_in_the_trace(divide: Any) -> None:
    first, second, _ = divide(
        """
        def load(a, b):
            a = tf.exp(a)
            a = tf.nn.dropout(a, 0.5)
            return a, b
        """
    )
    assert "tf.exp" in first and "dropout" in second and "dropout" not in first


def test_tables_generators_and_stateless_random_numbers(divide: Any) -> None:
    first, second, border = divide(
        """
        def load(a, b):
            a = a + tf.random.stateless_normal([4], [1, 2])
            a = a + generator.uniform([4])
            return a, table.lookup(b), counts.lookup(b)
        """
    )
    assert "stateless_normal" in first and "generator.uniform([4])" in second
    assert body(second)[-1] == "return a, b_cached, counts.lookup(b)"
    assert border == ("a", "b_cached", "b")


def test_python_functions_that_repeat_themselves_are_cached(divide: Any) -> None:
    first, second, _ = divide(
        """
        def twice(a):
            return a * 2

        def load(a, b):
            a = tf.py_function(twice, [a], tf.float32)
            return a * scale, b
        """
    )
    assert "tf.py_function(twice, [a], tf.float32)" in first and "py_function" not in second


def test_python_functions_that_may_not_repeat_themselves_are_not(divide: Any) -> None:
    first, second, _ = divide(
        """
        import random

        def noisy(a):
            return a * random.random()

        def load(a, b):
            a = tf.exp(a)
            a = tf.py_function(noisy, [a], tf.float32)
            return a, b
        """
    )
    assert "tf.exp" in first and "py_function" not in first and "py_function" in second


def test_constants_are_made_where_they_are_used(divide: Any) -> None:
    first, second, border = divide(
        """
        def load(a, b):
            '''Reads.'''
            size = [2, 2]
            rate = half * 2
            mean = 0.5
            a = tf.reshape(a, size)
            a = a * rate + tf.random.normal(size, mean)
            return a, b
        """
    )
    assert body(first) == [
        "def load_cached(a, b):", "size = [2, 2]", "rate = half * 2", "a = tf.reshape(a, size)", "a = a * rate", "return a, b",
    ]  # fmt: skip
    assert body(second) == [
        "def load(a, b):", "'''Reads.'''", "size = [2, 2]", "mean = 0.5", "a = a + tf.random.normal(size, mean)",
        "return a, b",
    ]  # fmt: skip
    assert border == ("a", "b")


def test_a_name_that_is_needed_twice_gets_another_beside_it(divide: Any) -> None:
    first, second, border = divide(
        """
        def load(a, b):
            a = tf.sqrt(a) * scale + a
            return a, b
        """
    )
    assert body(first) == ["def load_cached(a, b):", "a_cached = tf.sqrt(a)", "return a_cached, a, b"]
    assert body(second) == ["def load(a_cached, a, b):", "a = a_cached * scale + a", "return a, b"]
    assert border == ("a_cached", "a", "b")


def test_augmented_assignments_and_decorators(divide: Any) -> None:
    first, second, _ = divide(
        """
        @tf.function
        def load(a: tf.Tensor, b) -> tuple:
            a = tf.exp(a)
            a *= scale
            return a, b
        """
    )
    assert first.startswith("@tf.function\ndef load_cached(a: tf.Tensor, b):") and "scale" not in first
    assert second.startswith("@tf.function\ndef load(a: tf.Tensor, b) -> tuple:") and body(second)[2] == "a *= scale"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def load(a, b):\n    if half:\n        a = tf.exp(a)\n    return a * scale, b\n", "straight-line"),
        ("def load(a, b, c=1):\n    a = tf.exp(a)\n    return a * scale, b\n", "other arguments"),
        ("def load(a, b):\n    tf.print(a)\n    return tf.exp(a) * scale, b\n", "for its effect"),
        ("def load(a, b):\n    c = {}\n    c['a'] = tf.exp(a)\n    return c['a'] * scale, b\n", "something else than a name"),
        ("def load(a, b):\n    return a * scale, b\n", "nothing of load could be cached"),
        ("def load(a, b):\n    s = a.shape\n    a = tf.exp(a) * scale\n    return tf.reshape(a, s), b\n", "no tensor"),
        (
            "def load(a, b):\n    c = tf.exp(a)\n    d = c * scale\n    c = tf.sqrt(c)\n    return c + d, b\n",
            "assigns c again between the parts",
        ),
    ],
)
def test_what_is_not_divided_says_why(divide: Any, source: str, reason: str) -> None:
    from outpace.tune.patch.calls import Unpatchable

    with pytest.raises(Unpatchable) as refused:
        divide(source)
    assert reason in str(refused.value)
