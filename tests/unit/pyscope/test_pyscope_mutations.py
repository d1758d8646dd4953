"""What statements change."""

from __future__ import annotations

import array
import ast
from collections import OrderedDict, deque

import pytest

from outpace.pyscope.mutations import (
    MUTATING_METHODS,
    VALUE_METHODS,
    Mutation,
    assignment_targets,
    iter_mutations,
    last_name,
    mutated_object,
    root_name,
)


def mutations(text: str) -> list[Mutation]:
    tree = ast.parse(text)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    return [found for node in ast.walk(tree) for found in iter_mutations(node, function)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = f()", Mutation("x", 1, is_variable=True)),
        ("def f():\n    x = 1", Mutation("x", 2, is_variable=True, is_local=True)),
        ("def f():\n    global x\n    x = 1", Mutation("x", 3, is_variable=True)),
        ("a.b += 1", Mutation("b", 1)),
        ("del a.b['c']", Mutation("c", 1, "b")),
        ("a.b[i] = 1", Mutation("b", 1, within="[")),
        ("setattr(a, 'b', 1)", Mutation("b", 1)),
        ("setattr(a, name, 1)", Mutation("a", 1, within=".")),
        ("a.b.appendleft(1)", Mutation("b", 1, within="[")),
    ],
)
def test_a_change_names_what_it_changes(text: str, found: Mutation) -> None:
    assert mutations(text) == [found]


def test_a_read_changes_nothing() -> None:
    assert mutations("print(a.b[0], a.get(1))") == []


@pytest.mark.parametrize(
    "container", [[1, 2, 3], {1: 2, 2: 1}, {1, 2, 3}, deque([1, 2, 3]), OrderedDict({1: 2, 2: 1}), array.array("i", [1, 2])]
)
def test_every_method_that_changes_a_container_is_known(container: object) -> None:
    """Each method of a container is called with arguments that fit most of them."""
    calls: list[tuple[object, ...]] = [(), (1,), (1, 1), ([1],), ({1},)]
    changing = set[str]()
    for name in (name for name in dir(container) if not name.startswith("_")):
        for arguments in calls:
            copy = type(container)("i", container) if isinstance(container, array.array) else type(container)(container)  # type: ignore[call-arg]
            before = repr(copy)
            try:
                getattr(copy, name)(*arguments)
            except (TypeError, ValueError, IndexError, KeyError, AttributeError):
                continue
            changing |= {name} if repr(copy) != before else set()
    assert changing - {"byteswap", "frombytes", "fromlist", "fromunicode"} <= MUTATING_METHODS
    assert changing


def test_methods_with_a_value_are_mutating_methods() -> None:
    assert VALUE_METHODS < MUTATING_METHODS


def test_chains_have_a_root_and_an_end() -> None:
    chain = ast.parse("a.b(c)['d'].e", mode="eval").body
    assert (root_name(chain), last_name(chain)) == ("a", "e")
    assert last_name(ast.parse("a['d']", mode="eval").body) == "d"
    assert root_name(ast.parse("[].a", mode="eval").body) == ""


def test_the_object_of_a_call_and_the_targets_of_a_statement() -> None:
    call = ast.parse("a.b.rotate(1)", mode="eval").body
    assert isinstance(call, ast.Call)
    changed = mutated_object(call)
    assert changed is not None and ast.unparse(changed) == "a.b"
    assert mutated_object(call, VALUE_METHODS) is None
    assert [ast.unparse(target) for target in assignment_targets(ast.parse("a = b.c = d").body[0])] == ["a", "b.c"]
    assert assignment_targets(ast.parse("f()").body[0]) == []
