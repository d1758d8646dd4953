# SPDX-License-Identifier: Apache-2.0
"""Op profile: compiled ops as trees, by program and category, and by program and source line.

A node has the sums of the ops below it. Its colour is the time that they took above their roofs, as
a share of their time. Equal ops of several devices are one node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.metrics.call_tree import iter_nodes
from outpace.metrics.facts.roofs import Bound
from outpace.metrics.source_line import shorten_source_path
from outpace.model import Category, Chart, ChartKind, IcicleColumns, Row, Table, TableType

_MOSTLY, _PARTLY = 0.7, 0.3  # limits of the colours, as shares of the time
_UNKNOWN = 0.5  # share of a node's time without a known roof, from which its colour says so
_FAR, _SOME, _NEAR, _NO_ROOF = "far above", "partly above", "near the roof", "unknown"
COLORS = {
    _FAR: Category.INPUT.value,
    _SOME: Category.KERNEL_LAUNCH.value,
    _NEAR: Category.DEVICE_COMPUTE_32.value,
    _NO_ROOF: Category.ALL_OTHERS.value,
}
_REMARK = f"Width: self time. Colour: how much of it is above the roof, far above from {_MOSTLY:.0%} on, near the roof below {_PARTLY:.0%}."
_COLUMNS = """
      name        | text     | program, {group}, or op
      self_ps     | ps       | self time of the ops in it, on all devices | Time
      fraction    | fraction | the same as a share of all ops' | Of ops
      above_ps    | ps       | time of them above their roofs | Above roof
      heat        | text     | how much of their time is above their roofs, in words
      flops       | ratio    | floating-point operations of all executions | FLOPs
      bytes       | bytes    | bytes that all executions read and write at least | Bytes
      occurrences | count    | executions of the ops in it | Count
      depth       | count    | levels above it
    * id          | count    | number of the node, as `parent` names it
      parent      | count    | node above it; 0 at the top
"""
BY_CATEGORY = TableType("op_profile", "Op profile by category").columns(_COLUMNS.format(group="category of ops"))
BY_LINE = TableType("op_profile_lines", "Op profile by source line").columns(_COLUMNS.format(group="source line"))


@dataclass
class _Node:
    """Sums of the ops below a node; `without_ps` is the time of those whose roof is not known."""

    name: str
    self_ps: float = 0.0
    above_ps: float = 0.0
    without_ps: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    occurrences: int = 0
    below: dict[str, _Node] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add the executions of an op, a row of table `hlo_ops`."""
        self.self_ps += row["self_ps"]
        self.above_ps += row["above_ps"]
        self.without_ps += row["self_ps"] if row["bound"] == Bound.UNKNOWN.value else 0.0
        self.flops += (row["flops"] or 0.0) * row["occurrences"]
        self.bytes += (row["bytes"] or 0.0) * row["occurrences"]
        self.occurrences += row["occurrences"]

    @property
    def heat(self) -> str:
        """How much of the time is above the roofs, in words."""
        if self.without_ps > _UNKNOWN * self.self_ps:
            return _NO_ROOF
        share = self.above_ps / self.self_ps if self.self_ps else 0.0
        return _FAR if share >= _MOSTLY else _SOME if share >= _PARTLY else _NEAR


def build_op_profiles(ops: Table) -> tuple[Chart, ...]:
    """Return the op profile by category and by source line, from table `hlo_ops`."""
    trees = (
        (BY_CATEGORY, lambda row: row["category"]),
        (BY_LINE, lambda row: shorten_source_path(row["source"]) or "no source line"),
    )
    return tuple(_chart(_build_tree(kind, group, ops)) for kind, group in trees)


def _chart(table: Table) -> Chart:
    columns = IcicleColumns("parent", "name", "self_ps", ("above_ps", "flops", "bytes", "occurrences"))
    return Chart(table.title, ChartKind.ICICLE, table, "id", columns.series, COLORS, _REMARK, state="heat")


def _build_tree(kind: TableType, group: Callable[[Row], str], ops: Table) -> Table:
    """Return the table of a tree, parents before their children and the longest of siblings
    first.
    """
    root = _Node("")
    for row in ops.records():
        node = root
        node.add(row)
        for part in (row["program"] or "no program", group(row), row["op"]):
            node = node.below.setdefault(part, _Node(part))
            node.add(row)
    whole = root.self_ps or 1.0
    return kind.build(
        kind.row(node, fraction=node.self_ps / whole, **place) for node, place in iter_nodes(root, _longest_first)
    )


def _longest_first(node: _Node) -> list[_Node]:
    return sorted(node.below.values(), key=lambda child: -child.self_ps)
