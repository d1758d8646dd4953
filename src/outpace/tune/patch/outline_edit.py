"""Writes statements of a loop as a function of their own, which is a graph: its definition before the loop, its call in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from outpace.tune.loop.step import Outline
from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.function_edit import MAKER
from outpace.tune.patch.written import Edits


def write_outline(outline: Outline, edits_of: Callable[[str], Edits], options: Mapping[str, str] | None = None) -> None:
    """Edit the file of a loop; `options` of the graph, once more where it is known already. Raises Unpatchable where the statements are not
    found."""
    edits = edits_of(outline.file)
    file, maker = edits.file, edits.file.spelled(MAKER)
    where = f"{file.name}:{outline.first}"
    if maker is None:
        raise Unpatchable(f"{file.name} has no name for {MAKER}")
    loop = file.starting(outline.loop_line, (cst.For, cst.While))
    first = file.starting(outline.first, (cst.BaseCompoundStatement, cst.SimpleStatementLine))
    if loop is None or first is None:
        raise Unpatchable(f"the statements at {where} were not found: the file was edited since")
    edits.outlined[first] = outline.statements, [cst.parse_statement(outline.call)]
    said = f"({', '.join(f'{name}={value}' for name, value in options.items())})" if options else ""
    others = [each for each in edits.before.get(loop, []) if getattr(getattr(each, "name", None), "value", "") != outline.name]
    edits.before[loop] = [cst.parse_statement(f"@{maker}{said}\n{outline.text}"), *others]
