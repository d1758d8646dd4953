"""Build a call tree from stacks of Python or scopes of kernels with their times, for a flame
graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.model import Field, Table, parse_schema


@dataclass
class _Node:
    name: str
    own: int = 0
    total: int = 0
    count: int = 0
    below: dict[str, _Node] = field(default_factory=dict)


def call_tree_fields(name: str, total: str, own: str, count: str) -> tuple[Field, ...]:
    """Return the columns of a call tree's table.

    The four texts are the columns' descriptions: `name` of a node's name, `total` of its time with
    its children, `own` of its time without them, `count` of its occurrences.
    """
    return parse_schema(f"""
          name        | text     | {name}
          total_ps    | ps       | {total} | Total
          fraction    | fraction | the same as a share of the whole tree | Of all
        + self_ps     | ps       | {own} | Self
          occurrences | count    | {count} | Count
          depth       | count    | levels above it
        * id          | count    | number of the node, as `parent` names it
          parent      | count    | node above it; 0 at the top
    """)


def build_call_tree(name: str, title: str, fields: Sequence[Field], paths: Iterable[tuple[Sequence[str], int, int]]) -> Table:
    """Return a table with one row per node of the call tree (columns: see `call_tree_fields`).

    Parents come before their children, and the longest of siblings first.

    name: name of the table
    title: title of the table
    fields: columns, from `call_tree_fields`
    paths: (names from the root down, time in ps of the last name without its children, count)
    """
    root = _Node("")
    for path, time, count in paths:
        root.total += time
        node = root
        for part in path:
            node = node.below.setdefault(part, _Node(part))
            node.total += time
            node.count += count
        node.own += time
    rows: list[tuple[object, ...]] = []
    stack = [(root, -1, 0)]
    while stack:  # an explicit stack: a recorded stack may be deeper than Python's recursion limit
        node, depth, parent = stack.pop()
        number = len(rows) + 1 if node is not root else 0
        if node is not root:
            share = node.total / root.total if root.total else 0.0
            rows.append((node.name, node.total, share, node.own, node.count, depth, number, parent))
        stack += [(child, depth + 1, number) for child in sorted(node.below.values(), key=lambda child: child.total)]
    return Table.from_rows(name, title, fields, rows)
