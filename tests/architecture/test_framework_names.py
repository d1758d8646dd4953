"""Private names of TensorFlow, Keras and JAX stand in `frameworks/` alone, each once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from outpace.frameworks.probe import NAMES
from tests.architecture.source import FILES, imported, literals, place, tree

PRIVATE_MODULE = re.compile(r"/?(tensorflow[./]python|keras[./]src|tf_keras[./]src|jax[./]_src)\b")
PRIVATE_NAMES = {part for each in NAMES for part in each.path.split(".") if part.startswith("_")}
INSIDE = [path for path in FILES if place(path).startswith("frameworks/")]
OUTSIDE = [path for path in FILES if path not in INSIDE]
OWNERS = {
    "self",
    "cls",
    "sys",
    "os",
    "atexit",
    "threading",
    "ctypes",
    "random",
    "tempfile",
    "python",
    "store",
    "ray",
    "self.fs",
}
"""Whose private names are no framework's: Outpace's own, and those of Python, Ray and fsspec."""


def own_names() -> frozenset[str]:
    """Private names that Outpace's own classes, functions and objects have."""
    nodes = [node for path in OUTSIDE for node in ast.walk(tree(path))]
    made = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    made |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls")}
    return frozenset(name for name in made if re.match("_[^_]", name))


OWN = own_names()


def private_names(module: ast.Module) -> Iterator[str]:
    """Attributes whose name is private and none of Outpace's, and names that are made private where
    they are asked for.
    """
    for node in ast.walk(module):
        owner, name = "self", ""
        if isinstance(node, ast.Attribute) and node.attr not in OWN:
            owner, name = ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
            owner, name = ast.unparse(node.args[0]), ast.unparse(node.args[1]).removeprefix("f'")
        if owner not in OWNERS and re.match("_(?!_|outpace_)", name):
            yield f"{owner}.{name}"


@pytest.mark.parametrize("path", OUTSIDE, ids=place)
def test_no_other_file_names_what_is_private(path: Path) -> None:
    assert not [text for text in (*imported(path), *literals(path)) if PRIVATE_MODULE.match(text)]
    assert not PRIVATE_NAMES.intersection(literals(path))
    assert not list(private_names(tree(path)))


@pytest.mark.parametrize(
    "text", ["dataset._map_func", 'getattr(node, f"_{name}")', "model.layers[0]._outbound_nodes", "tf.function(f)._jit_compile"]
)
def test_a_private_name_is_met(text: str) -> None:
    assert list(private_names(ast.parse(text)))


def test_each_stands_once() -> None:
    names = [(each.module, each.path) for each in NAMES]
    assert [each for each, count in Counter(names).items() if count > 1] == []


def test_each_is_used() -> None:
    texts = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    constants = {
        target.id
        for path in INSIDE
        for node in tree(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }
    assert {each for each in constants if len(re.findall(rf"\b{each}\b", texts)) < 2} == set()
