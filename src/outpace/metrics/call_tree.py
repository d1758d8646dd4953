# SPDX-License-Identifier: Apache-2.0
"""Build a call tree from stacks of Python or scopes of kernels with their times, for a flame
graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.model import Row, Table, TableType


@dataclass
class _Node:
    name: str
    self_ps: int = 0
    total_ps: int = 0
    occurrences: int = 0
    below: dict[str, _Node] = field(default_factory=dict)


def call_tree_type(name: str, title: str, *, node: str, total: str, own: str, count: str) -> TableType:
    """Return the type of a call tree's table.

    The last four texts describe columns: `node` a node's name, `total` its time with its children,
    `own` its time without them, `count` its occurrences.
    """
    return TableType(name, title).columns(f"""
          name        | text     | {node}
          total_ps    | ps       | {total} | Total
          fraction    | fraction | the same as a share of the whole tree | Of all
        + self_ps     | ps       | {own} | Self
          occurrences | count    | {count} | Count
          depth       | count    | levels above it
        * id          | count    | number of the node, as `parent` names it
          parent      | count    | node above it; 0 at the top
    """)


def build_call_tree(tree: TableType, paths: Iterable[tuple[Sequence[str], int, int]]) -> Table:
    """Return a table with one row per node of the call tree.

    Parents come before their children, and the longest of siblings first.

    tree: type of the table, from `call_tree_type`
    paths: (names from the root down, time in ps of the last name without its children, count)
    """
    root = _Node("")
    for path, time, count in paths:
        root.total_ps += time
        node = root
        for part in path:
            node = node.below.setdefault(part, _Node(part))
            node.total_ps += time
            node.occurrences += count
        node.self_ps += time
    rows: list[Row] = []
    stack = [(root, -1, 0)]
    while stack:  # an explicit stack: a recorded stack may be deeper than Python's recursion limit
        node, depth, parent = stack.pop()
        number = len(rows) + 1 if node is not root else 0
        if node is not root:
            share = node.total_ps / root.total_ps if root.total_ps else 0.0
            rows.append(tree.row(node, fraction=share, depth=depth, id=number, parent=parent))
        stack += [(child, depth + 1, number) for child in sorted(node.below.values(), key=lambda child: child.total_ps)]
    return tree.build(rows)
