"""Names that source reads and assigns."""

from __future__ import annotations

import ast

import pytest

from outpace.pyscope.first_use import FirstUse, first_use
from outpace.pyscope.names import (
    assigned_names,
    imported_names,
    outer_names,
    read_names,
    read_names_outside,
    required_names,
    stored_names,
    stored_texts,
    unused_name,
    used_names,
)


@pytest.mark.parametrize(
    ("text", "required", "assigned"),
    [
        ("x = y", ["y"], ["x"]),
        ("x = x + 1", ["x"], ["x"]),
        ("x += 1", ["x"], ["x"]),
        ("x = 1\ny = x", [], ["x", "y"]),
        ("for x in data:\n    y = x", ["data"], ["x", "y"]),
        ("y = [x * scale for x in data]", ["scale", "data"], ["y"]),
        ("def f(x):\n    z = x\n    return w", ["w"], ["f"]),
        ("f = lambda x: x + w", ["w"], ["f"]),
        ("a.b = c", ["c", "a"], []),
        ("del x", [], ["x"]),
    ],
)
def test_statements_require_what_they_read_before_they_assign_it(text: str, required: list[str], assigned: list[str]) -> None:
    body = ast.parse(text).body
    assert sorted(required_names(body)) == sorted(required)
    assert assigned_names(body) == assigned
    assert set(required) <= read_names(body)


def test_names_are_counted_as_often_as_they_stand() -> None:
    nodes = list(ast.walk(ast.parse("x = y\nx, z.a = y, x")))
    assert sorted(stored_names(nodes)) == ["x", "x"]
    assert sorted(used_names(nodes)) == ["x", "x", "x", "y", "y", "z"]
    assert stored_texts(ast.parse("a.b = c[0] = d")) == ["a.b", "c[0]"]


def test_declared_names_are_of_the_kinds_that_are_asked_for() -> None:
    nodes = list(ast.walk(ast.parse("def f():\n    global a, b\n    def g():\n        nonlocal c")))
    assert outer_names(nodes) == {"a", "b", "c"}
    assert outer_names(nodes, (ast.Nonlocal,)) == {"c"}


def test_imports_say_what_their_names_stand_for() -> None:
    text = "import os.path\nimport tensorflow as tf\nfrom jax import jit as compiled, grad\nfrom . import near"
    assert imported_names(ast.walk(ast.parse(text))) == {
        "os": "os", "tf": "tensorflow", "compiled": "jax.jit", "grad": "jax.grad",
    }  # fmt: skip


def test_readers_outside_of_lines_bind_their_own_names() -> None:
    text = "for x in data:\n    y = step(x)\nprint(y)\ndef f(y):\n    return y + z\n"
    assert sorted(read_names_outside(ast.parse(text), 1, 2)) == ["print", "y", "z"]


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("x = 1\nprint(x)", FirstUse.SET),
        ("print(x)\nx = 1", FirstUse.READ),
        ("if a:\n    x = 1\nprint(x)", FirstUse.READ),
        ("if a:\n    x = 1\nelse:\n    x = 2", FirstUse.SET),
        ("for y in data:\n    x = y", FirstUse.NONE),
        ("y = 1", FirstUse.NONE),
    ],
)
def test_the_first_use_holds_whichever_way_is_taken(text: str, use: FirstUse) -> None:
    assert first_use(ast.parse(text).body, "x") is use


def test_a_name_that_is_used_gets_a_number() -> None:
    assert unused_name("step", ["batch"]) == "step"
    assert unused_name("step", ["step", "step_2"]) == "step_3"
