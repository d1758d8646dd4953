"""What the program that runs has still to do: statements behind the line at which each of its functions, and its script, stands now."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

from outpace.capture.sampler import owner_of
from outpace.tune.data.purity import text
from outpace.tune.data.purity.abstract import bound_by

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_OWN_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def rest_of_program() -> dict[text.FileFacts, text.FileFacts]:
    """By file of the user's: what the code does that the calling thread has still to run outside of functions that it is to call; a loop
    that it is in counts as a whole. Functions can run at any time, so theirs are facts of the file itself."""
    found: dict[text.FileFacts, text.FileFacts] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        file = None if owner_of(os.path.abspath(code.co_filename)) else text.file_facts(code.co_filename)
        if file is not None:
            module = code.co_name == "<module>"
            scopes: Sequence[ast.AST] = [file.tree] if module else text.definitions(code)
            for scope in scopes:
                statements = (
                    list(_rest(getattr(scope, "body", []), frame.f_lineno)) if not isinstance(scope, ast.Lambda) else []
                )
                assigned = {name: line for name, line in _assigned(statements) if module or name in code.co_cellvars}
                text.collect(_as_function(statements, assigned), found.setdefault(file, text.FileFacts(file.tree)))
        frame = frame.f_back
    return found


def _rest(body: Sequence[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """The statements of a block that are not over at a line."""
    for statement in body:
        if (statement.end_lineno or statement.lineno) < line:
            continue
        blocks = list(_blocks(statement))
        if statement.lineno > line or isinstance(statement, _LOOPS) or not blocks:
            yield statement
        else:
            for block in blocks:
                yield from _rest(block, line)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _assigned(statements: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names that statements bind where they stand, with their lines: not those inside of functions and classes."""
    for node in statements:
        yield from ((name, getattr(node, "lineno", 0)) for name in bound_by(node))
        if not isinstance(node, _OWN_NAMES):
            yield from _assigned(list(ast.iter_child_nodes(node)))


def _as_function(statements: list[ast.stmt], assigned: dict[str, int]) -> ast.FunctionDef:
    """A function that does the same, so that both are read alike: it declares what it assigns."""
    declared: list[ast.stmt] = [ast.Global([name], lineno=line, col_offset=0) for name, line in assigned.items()]
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.FunctionDef("", nothing, [*declared, *statements], [], lineno=1, col_offset=0)
