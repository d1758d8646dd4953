# SPDX-License-Identifier: Apache-2.0
"""Kinds of nodes that have names of their own, and a walk that stays inside of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def iter_scope(scope: ast.AST, closed: tuple[type[ast.AST], ...] = SCOPES) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in text order; of `closed` nodes in it their decorators alone."""
    body = [scope.body] if isinstance(scope, ast.Lambda) else getattr(scope, "body", [])
    todo: list[ast.AST] = list(reversed(body))
    while todo:
        node = todo.pop()
        yield node
        inner = getattr(node, "decorator_list", []) if isinstance(node, closed) else list(ast.iter_child_nodes(node))
        todo += reversed(inner)


def parameter_names(function: ast.AST) -> list[str]:
    """Return the names of a function's parameters, in order; none for other nodes."""
    if not isinstance(function, FUNCTIONS):
        return []
    args = function.args
    nodes = (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
    return [node.arg for node in nodes if node is not None]


def code_line(function: Function) -> int:
    """Return the line by which Python knows a function's code: that of its first decorator."""
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return min(node.lineno for node in (function, *decorators))


def contains(node: ast.AST, part: ast.AST) -> bool:
    """Whether one node is the other, or a part of it."""
    return any(below is part for below in ast.walk(node))


def is_read(node: ast.AST) -> bool:
    """Whether a name, attribute or item is read."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def is_stored(node: ast.AST) -> bool:
    """Whether a name, attribute or item is assigned."""
    return isinstance(getattr(node, "ctx", None), ast.Store)


def iter_calls(*trees: ast.AST) -> Iterator[ast.Call]:
    """Yield all calls in trees, the outer ones first."""
    return (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
