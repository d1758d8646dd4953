# SPDX-License-Identifier: Apache-2.0
"""Where a name is the same name: the scope around a node, and what sees the scope's names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.pyscope.names import stored_names
from outpace.pyscope.nodes import COMPREHENSIONS, FUNCTIONS, SCOPES, Function, contains, iter_scope, parameter_names


def enclosing_scope(tree: ast.Module, node: ast.AST) -> ast.AST:
    """Return the innermost function or class around a node; the module where there is none."""
    around = [scope for scope in ast.walk(tree) if isinstance(scope, SCOPES) and contains(scope, node)]
    return around[-1] if around else tree  # outer ones come first


def iter_visible(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """Yield all nodes below a scope in which a name is the scope's own: of functions that bind it
    anew only what is evaluated outside of them.
    """
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, FUNCTIONS) and _binds(child, name):
            outer = [*child.args.defaults, *child.args.kw_defaults, *getattr(child, "decorator_list", [])]
            visible = [node for node in outer if node is not None]
        else:
            visible = [child]
        for node in visible:
            yield node
            yield from iter_visible(node, name)


def _binds(function: Function, name: str) -> bool:
    nodes = iter_scope(function, (*SCOPES, *COMPREHENSIONS))
    return name in parameter_names(function) or name in stored_names(nodes)
