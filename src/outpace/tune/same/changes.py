# SPDX-License-Identifier: Apache-2.0
"""Lines of a script that may change what a traced function keeps, as its text tells.

Nothing is decided by them: not every change has a line that names it (`vars(cfg).update(...)`,
files, clocks). Who reads a patch of a training that was cut begins with these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from outpace._dataclass import dataclass
from outpace.pyscope.mutations import Mutation, iter_mutations
from outpace.pyscope.nodes import DEFINITIONS
from outpace.tune.texts.marks import first_line
from outpace.tune.texts.place import Loop


@dataclass(frozen=True)
class TraceRead:
    """What a traced function keeps. read: as its text has it. last: what an assignment that changes
    it names. owner: what that is taken of, empty for a name. is_free: whether it is a name of a
    function around.
    """

    read: str
    function: str
    last: str
    owner: str = ""
    is_free: bool = False


@dataclass(frozen=True)
class Ran:
    """First lines of the functions and branches of one file that ran before training, and in it."""

    before: frozenset[int]
    during: frozenset[int]


def iter_changes(tree: ast.Module, loop: Loop | None, ran: Ran, kept: Iterable[TraceRead]) -> Iterator[tuple[TraceRead, int]]:
    """Yield what is kept with each line that may change it once the script trains. loop: the
    outermost that trains, where it is in this file.
    """
    kept = list(kept)
    for change in _iter_mutations(tree, loop, ran, None, False):
        yield from ((each, change.line) for each in kept if _fits(change, each))


def _iter_mutations(node: ast.AST, loop: Loop | None, ran: Ran, function: Any, trains: bool) -> Iterator[Mutation]:
    """Yield what the statements below a node change, of those in the loop and behind it, and in
    functions that run in training or did not run before it.
    """
    if isinstance(node, DEFINITIONS):
        line = first_line(node)
        function, trains = node, line in ran.during or line not in ran.before
    elif loop is not None and isinstance(node, ast.stmt):
        trains = trains or node.lineno >= loop.lineno
    if trains:
        yield from iter_mutations(node, function)
    for child in ast.iter_child_nodes(node):
        yield from _iter_mutations(child, loop, ran, function, trains)


def _fits(change: Mutation, kept: TraceRead) -> bool:
    """Whether a change is one of what is kept, by their names."""
    if change.within:
        return change.name in (kept.last, kept.owner)
    if change.owner and change.owner == kept.last:
        return True
    if change.name != kept.last:
        return False
    if not change.is_variable:
        return bool(kept.owner) or not kept.is_free
    return not kept.owner and kept.is_free == change.is_local
