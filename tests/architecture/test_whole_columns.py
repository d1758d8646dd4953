"""Who asks for columns of all events of a trace: few, each with a reason, and no more than there
are now.

Everybody else asks for rows (`trace.start[rows]`, `trace.parent[rows]`, `stat.on(rows)`), for the
rows of some names (`rows_named`) or of a line, or goes over blocks of lines: what holds an event or
a block at a time can one day be read from the file as it is asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import outpace

ROOT = Path(outpace.__file__).parent
COLUMNS = {"name", "start", "duration", "end", "line", "parent"}
WALKS = {"compute_masked_subtree_ends", "compute_mask"}  # methods that make something of all of them
MAKERS = {"zeros", "ones", "full", "empty", "arange"}
WHOLE = {
    "metrics/facts/input_pipelines.py": "which stage caused each event, spread over subtrees and links",
    "metrics/facts/step_breakdown.py": "what kind of time each event is: a byte",
    "timeline/causality.py": "which step caused each event, spread over subtrees and links",
    "timeline/run_part.py": "which events are of a part, as a trace of their own",
    "viewer/trace_writer.py": "which events reach into the written time, for the core's writer",
}
"""Files above `trace`, and what they hold of all events."""


def is_trace(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == "trace") or (isinstance(node, ast.Attribute) and node.attr == "trace")


def of_all_events(tree: ast.AST) -> Iterator[str]:
    """What a module asks of all events of a trace."""
    around = {inner: outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_trace(node.value):
            outer = around[node]
            if isinstance(outer, ast.Attribute) and outer.attr == "searchsorted":  # which looks at a few rows
                continue
            rows = outer.slice if isinstance(outer, ast.Subscript) and outer.value is node else ast.Slice()
            everything = isinstance(rows, ast.Slice) and rows.lower is rows.upper is None
            if node.attr in WALKS or (node.attr in COLUMNS and everything):
                yield ast.unparse(outer)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
            sizes = (each for each in ast.walk(node) if isinstance(each, ast.Call) and ast.unparse(each.func) == "len")
            if any(is_trace(each.args[0]) for each in sizes):
                yield ast.unparse(node)


def found() -> dict[str, list[str]]:
    files = (path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("trace", "_native"))
    asked = {path.relative_to(ROOT).as_posix(): list(of_all_events(ast.parse(path.read_text("utf-8")))) for path in files}
    return {path: what for path, what in asked.items() if what}


def test_few_files_ask_for_columns_of_all_events() -> None:
    assert found().keys() == WHOLE.keys(), found()


@pytest.mark.parametrize(
    "text",
    [
        "f(trace.name)",
        "self.trace.start > 0",
        "timeline.trace.end[:]",
        "trace.compute_masked_subtree_ends(mask)",
        "self.trace.compute_mask(test)",
        "np.full(len(trace), -1, np.int32)",
        "np.zeros(len(timeline.trace) + 1, bool)",
        "parent = trace.parent",
    ],
)
def test_what_asks_is_found(text: str) -> None:
    assert list(of_all_events(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "trace.start[rows]",
        "trace.start.searchsorted(rows, times)",
        "trace.end[1:5]",
        "events = len(trace)",
        "np.zeros(len(trace.names), bool)",
        "x.name",
    ],
)
def test_what_asks_for_rows_is_not(text: str) -> None:
    assert not list(of_all_events(ast.parse(text)))
