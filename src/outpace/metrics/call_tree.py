# SPDX-License-Identifier: Apache-2.0
"""Build a call tree from stacks of Python or scopes of kernels with their times, for a flame
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TypeVar

from outpace._dataclass import dataclass
from outpace.model import Table, TableType

Node = TypeVar("Node")


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
    whole = root.total_ps or 1
    return tree.build(
        tree.row(node, fraction=node.total_ps / whole, **place) for node, place in iter_nodes(root, _longest_first)
    )


def _longest_first(node: _Node) -> list[_Node]:
    return sorted(node.below.values(), key=lambda child: child.total_ps)[::-1]


def iter_nodes(root: Node, children: Callable[[Node], Sequence[Node]]) -> Iterator[tuple[Node, dict[str, int]]]:
    """Yield the nodes below a root with their place in a table (`depth`, `id` and `parent`),
    parents before their children. `children` returns those of a node, in order.
    """
    number, stack = 0, [(child, 0, 0) for child in reversed(children(root))]
    while stack:  # an explicit stack: a recorded stack may be deeper than Python's recursion limit
        node, depth, parent = stack.pop()
        number += 1
        yield node, {"depth": depth, "id": number, "parent": parent}
        stack += [(child, depth + 1, number) for child in reversed(children(node))]
