"""Scopes, and the nodes and names that belong to them."""

from __future__ import annotations

import ast

from outpace.pyscope.names import stored_names, used_names
from outpace.pyscope.nodes import FUNCTIONS, code_line, contains, iter_calls, iter_scope, parameter_names
from outpace.pyscope.scopes import enclosing_scope, iter_visible

TEXT = """\
@cached(limit)
def outer(a, /, b=start, *rest, c, **more):
    x = 1
    class Inner:
        y = 2
    def inner(z=x):
        w = x
    return [v for v in x]
"""
TREE = ast.parse(TEXT)
OUTER = TREE.body[0]
assert isinstance(OUTER, ast.FunctionDef)


def test_a_scope_ends_where_others_begin() -> None:
    assert list(stored_names(iter_scope(OUTER))) == ["x", "v"]
    assert list(stored_names(iter_scope(OUTER, FUNCTIONS))) == ["x", "y", "v"]
    assert list(stored_names(iter_scope(OUTER, (*FUNCTIONS, ast.ClassDef, ast.ListComp)))) == ["x"]
    assert list(used_names(iter_scope(TREE))) == ["cached", "limit"], "decorators stand outside of their function"


def test_parameters_come_in_their_order() -> None:
    assert parameter_names(OUTER) == ["a", "b", "rest", "c", "more"]
    assert parameter_names(TREE) == []


def test_python_knows_a_function_by_its_first_decorator() -> None:
    names: dict[str, int] = {"start": 0, "limit": 0}
    exec(compile(TEXT.replace("@cached(limit)", "@(lambda function: function)"), "<text>", "exec"), names)
    assert code_line(OUTER) == names["outer"].__code__.co_firstlineno == 1  # type: ignore[arg-type, attr-defined]


def test_the_scope_around_a_node_is_the_innermost_one() -> None:
    inner = OUTER.body[2]  # type: ignore[attr-defined]
    assert isinstance(inner, ast.FunctionDef)
    assert enclosing_scope(TREE, inner.body[0]) is inner
    assert enclosing_scope(ast.parse(""), ast.Pass()).__class__ is ast.Module
    assert contains(OUTER, inner) and not contains(inner, OUTER)


def test_a_function_that_binds_a_name_hides_it_but_in_its_defaults() -> None:
    tree = ast.parse("x = 1\ndef f(x=x):\n    return x\ndef g():\n    return x\ndef h():\n    x = 2\n    return x")
    assert [node.lineno for node in iter_visible(tree, "x") if isinstance(node, ast.Name)] == [1, 2, 5]


def test_calls_of_several_trees() -> None:
    assert [ast.unparse(call) for call in iter_calls(*ast.parse("f(g(x))\nh()").body)] == ["f(g(x))", "g(x)", "h()"]
