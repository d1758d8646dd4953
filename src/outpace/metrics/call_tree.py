"""Times of paths (stacks of Python, scopes of kernels) as a tree, for a flame graph."""

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
    """Columns of a tree; the four texts say what a name, its two times and its count mean."""
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
    """A table of `call_tree_fields`: a row per node, parents first, and of those at one place the
    longest first.

    `paths` are (names from the top down, time of the last one itself, its count).
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
    while stack:  # without recursion: a stack may be deeper than ours
        node, depth, parent = stack.pop()
        number = len(rows) + 1 if node is not root else 0
        if node is not root:
            share = node.total / root.total if root.total else 0.0
            rows.append((node.name, node.total, share, node.own, node.count, depth, number, parent))
        stack += [(child, depth + 1, number) for child in sorted(node.below.values(), key=lambda child: child.total)]
    return Table.from_rows(name, title, fields, rows)
