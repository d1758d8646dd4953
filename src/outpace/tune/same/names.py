# SPDX-License-Identifier: Apache-2.0
"""Names of a loop that nobody reads before they are set anew: an edit may leave them out."""

from __future__ import annotations

import ast

from outpace.pyscope.first_use import FirstUse, first_use
from outpace.pyscope.names import mentions, outer_names, stored_names
from outpace.pyscope.nodes import SCOPES, is_read
from outpace.pyscope.scopes import enclosing_scope, iter_visible
from outpace.tune.texts.parsed import parsed
from outpace.tune.texts.place import Loop, Place, loops_of


def dead_names(text: str, place: Place) -> frozenset[str]:
    """Names whose every use stands in the body of a loop, in the loop's own scope, and none of
    which a pass may read before it sets it.
    """
    tree = parsed(text)
    for name, path, node in loops_of(tree):
        if (name, path) == (place.function, place.path):
            return frozenset(each for each in set(stored_names(ast.walk(node))) if _dead(tree, node, each))
    return frozenset()


def _dead(tree: ast.Module, loop: Loop, name: str) -> bool:
    inside = {id(each) for each in ast.walk(loop)}
    scope = enclosing_scope(tree, loop)
    if isinstance(scope, ast.ClassDef):  # its names are read as attributes
        return False
    if name in outer_names(ast.walk(tree)):
        return False
    for each in iter_visible(scope, name):
        if isinstance(each, SCOPES) and id(each) in inside and mentions(each, name):
            return False  # a closure may outlive the pass
        if isinstance(each, ast.Name) and each.id == name and is_read(each) and id(each) not in inside:
            return False
    is_target = isinstance(loop, ast.For) and mentions(loop.target, name)
    return is_target or first_use(loop.body, name) is not FirstUse.READ
