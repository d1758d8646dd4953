# SPDX-License-Identifier: Apache-2.0
"""Op profile: compiled ops as trees, by program and category, source line, or scope (layer).

A node has the sums of the ops below it. Its colour is the time that they took above their roofs, as
a share of their time. Equal ops of several devices are one node. Idle time of the devices, and what
the compiler ran to choose from, stand aside: no other node has them in its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.metrics.call_tree import iter_nodes
from outpace.metrics.facts.hlo_instructions import strip_transforms
from outpace.metrics.facts.roofs import Bound
from outpace.metrics.source_line import shorten_source_path
from outpace.model import Category, Chart, ChartKind, IcicleColumns, Row, Table, TableType

_MOSTLY, _PARTLY = 0.7, 0.3  # limits of the colours, as shares of the time
_UNKNOWN = 0.5  # share of a node's time without a known roof, from which its colour says so
_FAR, _SOME, _NEAR, _WAITS, _NO_ROOF = "far above", "partly above", "near the roof", "waiting", "unknown"
COLORS = {
    _FAR: Category.INPUT.value,
    _SOME: Category.KERNEL_LAUNCH.value,
    _NEAR: Category.DEVICE_COMPUTE_32.value,
    _WAITS: Category.DEVICE_TO_DEVICE.value,
    _NO_ROOF: Category.ALL_OTHERS.value,
}
_REMARK = f"Width: self time. Colour: how much of it is above the roof, far above from {_MOSTLY:.0%} on, near the roof below {_PARTLY:.0%}."
_COLUMNS = """
      name        | text     | program, {group}, or op
      self_ps     | ps       | self time of the ops in it, on all devices | Time
      fraction    | fraction | the same as a share of all ops', and of what stands aside, for that | Of ops
      above_ps    | ps       | time of them above their roofs | Above roof
      heat        | text     | how much of their time is above their roofs, in words
      flops       | ratio    | floating-point operations of all executions | FLOPs
      bytes       | bytes    | bytes that all executions read and write at least | Bytes
      occurrences | count    | executions of the ops in it | Count
      aside       | bool     | whether it is idle time, or what the compiler ran, and so no part of the ops | Idle
      depth       | count    | levels above it
    * id          | count    | number of the node, as `parent` names it
      parent      | count    | node above it; 0 at the top
"""
BY_CATEGORY = TableType("op_profile", "Op profile by category").columns(_COLUMNS.format(group="category of ops"))
BY_LINE = TableType("op_profile_lines", "Op profile by source line").columns(_COLUMNS.format(group="source line"))
BY_SCOPE = TableType("op_profile_scopes", "Op profile by scope").columns(_COLUMNS.format(group="scope (layer)"))


@dataclass
class _Node:
    """Sums of the ops below a node; `without_ps` is the time of those whose roof is not known, and
    `waiting_ps` of those that wait for a transfer.
    """

    name: str
    self_ps: float = 0.0
    above_ps: float = 0.0
    without_ps: float = 0.0
    waiting_ps: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    occurrences: int = 0
    aside: bool = False
    below: dict[str, _Node] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add the executions of an op, a row of table `hlo_ops`."""
        self.self_ps += row["self_ps"]
        self.above_ps += row["above_ps"]
        self.without_ps += row["self_ps"] if row["bound"] == Bound.UNKNOWN.value else 0.0
        self.waiting_ps += row["self_ps"] if row["bound"] == Bound.TRANSFER.value else 0.0
        self.flops += (row["flops"] or 0.0) * row["occurrences"]
        self.bytes += (row["bytes"] or 0.0) * row["occurrences"]
        self.occurrences += row["occurrences"]

    @property
    def heat(self) -> str:
        """How much of the time is above the roofs, in words."""
        if self.waiting_ps > _UNKNOWN * self.self_ps:
            return _WAITS
        if self.without_ps > _UNKNOWN * self.self_ps:
            return _NO_ROOF
        share = self.above_ps / self.self_ps if self.self_ps else 0.0
        return _FAR if share >= _MOSTLY else _SOME if share >= _PARTLY else _NEAR


def build_op_profiles(ops: Table, programs: Table, tuned: Table) -> tuple[Chart, ...]:
    """Return the op profile by category, by source line, and by scope where there are any, from
    tables `hlo_ops`, `programs` and `tuning`.
    """
    beside = [*_iter_idle(programs), *((("(autotuning)", row["program"]), row["self_ps"]) for row in tuned.records())]
    trees: tuple[tuple[TableType, Callable[[Row], tuple[str, ...]]], ...] = (
        (BY_CATEGORY, lambda row: (row["category"],)),
        (BY_LINE, lambda row: (shorten_source_path(row["source"]) or "no source line",)),
        (BY_SCOPE, lambda row: _scope(row["framework_op"])),
    )
    has_scopes = any(len(_scope(row["framework_op"])) > 1 for row in ops.records())
    return tuple(_chart(_build_tree(kind, group, ops, beside)) for kind, group in trees if has_scopes or kind is not BY_SCOPE)


def _scope(framework_op: str) -> tuple[str, ...]:
    """Return the scopes of a framework op, without its function and its primitive: `("MLP",
    "Dense_0")` for `jit(step)/jvp(MLP)/Dense_0/dot_general`.
    """
    scopes = strip_transforms(framework_op)[0].split("/")[:-1]
    return tuple(scope for scope in scopes if scope and "(" not in scope) or ("no scope",)


def _iter_idle(programs: Table) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield (path, ps) of the idle time of devices inside and before the runs of each program."""
    for row in programs.records():
        for column, where in (("inside_ps", "inside"), ("before_ps", "before")):
            if row[column]:
                yield ("(idle)", f"{where} {row['program'] or 'a program'}"), row[column] * row["runs"] * row["devices"]


def _chart(table: Table) -> Chart:
    columns = IcicleColumns("parent", "name", "self_ps", ("above_ps", "flops", "bytes", "occurrences"))
    aside = "aside" if table["aside"].any() else ""
    return Chart(table.title, ChartKind.ICICLE, table, "id", columns.series, COLORS, _REMARK, state="heat", aside=aside)


def _build_tree(
    kind: TableType,
    group: Callable[[Row], tuple[str, ...]],
    ops: Table,
    beside: Collection[tuple[tuple[str, ...], float]],
) -> Table:
    """Return the table of a tree, parents before their children and the longest of siblings
    first. `beside`: (path, ps) of nodes aside.
    """
    root = _Node("")
    for row in ops.records():
        node = root
        node.add(row)
        for part in (row["program"] or "no program", *group(row), row["op"]):
            node = node.below.setdefault(part, _Node(part))
            node.add(row)
    aside = sum(time for _, time in beside)
    whole, beside_whole = root.self_ps or 1.0, root.self_ps + aside or 1.0
    for path, time in beside:
        node = root
        for part in path:
            node = node.below.setdefault(part, _Node(part, aside=True))
            node.self_ps += time
            node.without_ps += time
    return kind.build(
        kind.row(node, fraction=node.self_ps / (beside_whole if node.aside else whole), **place)
        for node, place in iter_nodes(root, _longest_first)
    )


def _longest_first(node: _Node) -> list[_Node]:
    return sorted(node.below.values(), key=lambda child: -child.self_ps)
