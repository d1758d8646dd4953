"""Times of paths (stacks of Python, scopes of kernels) as a tree, for a flame graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outpace._dataclass import dataclass
from outpace.model import Field, Table, Unit

_ID = Field("id", Unit.COUNT, "number of the node, as `parent` names it")
_PARENT = Field("parent", Unit.COUNT, "node above it; 0 at the top")


@dataclass
class _Node:
    number: int
    parent: int
    name: str
    own: int = 0
    total: int = 0
    count: int = 0


def fields(name: str, total: str, own: str, count: str) -> tuple[Field, ...]:
    """Columns of a tree; the four texts say what a name, its two times and its count mean."""
    return (
        Field("name", Unit.TEXT, name),
        Field("total_ps", Unit.PS, total, "Total"),
        Field("fraction", Unit.FRACTION, "the same as a share of the whole tree", "Of all"),
        Field("self_ps", Unit.PS, own, "Self"),
        Field("occurrences", Unit.COUNT, count, "Count"),
        Field("depth", Unit.COUNT, "levels above it"),
        _ID,
        _PARENT,
    )


def call_tree(name: str, title: str, schema: Sequence[Field], paths: Iterable[tuple[Sequence[str], int, int]]) -> Table:
    """A table of `fields`: a row per node, parents first. `paths` are (names from the top down, time of the last one itself, its count)."""
    root = _Node(0, 0, "")
    nodes: dict[tuple[int, str], _Node] = {}
    for path, time, count in paths:
        node = root
        root.total += time
        for part in path:
            node = nodes.setdefault((node.number, part), _Node(len(nodes) + 1, node.number, part))
            node.total += time
            node.count += count
        node.own += time
    depths = {0: -1}
    rows = []
    for node in nodes.values():  # a parent is met before what is below it
        depths[node.number] = depth = depths[node.parent] + 1
        share = node.total / root.total if root.total else 0.0
        rows.append((node.name, node.total, share, node.own, node.count, depth, node.number, node.parent))
    return Table.from_rows(name, title, schema, rows)
