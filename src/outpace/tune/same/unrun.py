# SPDX-License-Identifier: Apache-2.0
"""Edited lines that did not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from outpace.pyscope.nodes import DEFINITIONS
from outpace.tune.texts.marks import first_line


def unrun(tree: ast.Module, edited: Set[int], ran: Set[int]) -> list[int]:
    """Lines of statements that are edited and stand in a branch, or in a function, that did not
    run. ran: first lines of those that did.
    """
    return sorted(line for line in _unrun(tree, ran) if line in edited)


def _unrun(node: ast.AST, ran: Set[int], runs: bool = True) -> Iterator[int]:
    if isinstance(node, ast.stmt) and not runs:
        yield node.lineno
    for name, each in ast.iter_fields(node):
        block = each if isinstance(each, list) and each and isinstance(each[0], ast.stmt) else []
        inside = runs and (not block or _has_run(node, name, block, ran))
        for child in each if isinstance(each, list) else [each]:
            if isinstance(child, ast.AST):
                yield from _unrun(child, ran, inside)


def _has_run(node: ast.AST, name: str, block: list[ast.stmt], ran: Set[int]) -> bool:
    """A block of a statement that runs itself; of a chain of conditions each link has a line of its
    own.
    """
    if isinstance(node, DEFINITIONS):
        return first_line(node) in ran
    if isinstance(node, (ast.If, ast.ExceptHandler)):
        return block[0].lineno in ran or (name == "orelse" and isinstance(block[0], ast.If))
    return True
