"""Writes statements that read values of each step as functions that read those of many steps."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from outpace.tune.loop.later import AT_ONCE, Movable, Syncs
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.written import Edits


def write_reads(syncs: Syncs, edits_of: Callable[[str], Edits]) -> None:
    """Edit the file of a loop. Raises Unpatchable where a statement is not found."""
    edits = edits_of(syncs.file)
    loop = edits.file.starting(syncs.line, (cst.For, cst.While))
    if loop is None:
        raise Unpatchable(f"the loop at {edits.file.name}:{syncs.line} was not found: the file was edited since")
    for at, each in enumerate(syncs.movable, start=1):
        _write(each, loop, edits, str(at) if at > 1 else "")


def _write(each: Movable, loop: cst.CSTNode, edits: Edits, number: str) -> None:
    file: SourceFile = edits.file
    statement = file.starting(each.line, (cst.SimpleStatementLine,))
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        raise Unpatchable(f"the statement at {file.name}:{each.line} was not found, or is not alone on its line")
    kept, reader = file.unused(f"kept{number}"), file.unused(f"read_kept{number}")
    names = ", ".join(name for name, _ in each.given)
    values = ", ".join(said for _, said in each.given)
    comma = "," if len(each.given) == 1 else ""
    edits.outlined[statement] = (
        1,
        (
            cst.parse_statement(f"{kept}.append(({values}{comma}))"),
            cst.parse_statement(f"if len({kept}) == {AT_ONCE}:\n    {reader}()"),
        ),
    )
    edits.before.setdefault(loop, []).extend([
        cst.parse_statement(f"{kept} = []"),
        cst.parse_statement(f"def {reader}():\n    for {names}{comma} in {kept}:\n        {each.later}\n    {kept}.clear()"),
    ])  # fmt: skip
    edits.behind.setdefault(loop, []).append(cst.parse_statement(f"{reader}()"))
