# SPDX-License-Identifier: Apache-2.0
"""Differential flame graph: widths are times of the second run, colours show how the program
changed the times of the first.

A node of the tree contains the changes of its parts. Its colour is the sum of the changes
attributed to the program, as a share of the time expected if only the machine had changed, so that
the picture agrees with the verdict.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.compare.changes import PROGRAM_KINDS, Change, ChangeKind, sum_changes
from outpace.compare.side import INPUT, STEP_SIDE
from outpace.compare.verdict import Comparison
from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.op_scopes import scope_path
from outpace.model import Category, Chart, ChartKind, IcicleColumns, Row, TableType

FLAME_COLUMNS = TableType("flame", "Where the second run's step goes, and what changed").columns("""
    * id        | text | place in the tree: its names from the top down | Place
      parent    | text | place that it is in; empty at the top
      name      | text | scope, op, stage of the input pipeline, or line of Python
      depth     | count | places above it
      became    | text | what the program made of it; the machine's share is left out
      time_ps   | ps   | self time per step of all in it in the second run; of what is gone, in the first
      before_ps | ps   | the same in the first run | Before
      after_ps  | ps   | the same in the second run | After
      delta_ps  | ps   | what the second run takes more than the machine explains | More than expected
      low_ps    | ps   | lower end of the 95% CI of that | From (95% CI)
      high_ps   | ps   | upper end | To (95% CI)
      gone      | bool | whether the second run has none of it | What is gone
""")

_GROUPS = {HOST: "Host ops", DEVICE: "Device ops", STEP_SIDE: "Python and gaps"}
_INPUT = "Input pipeline"
_GAPS = (_GROUPS[STEP_SIDE], Category.ALL_OTHERS.label)  # node below which lines of Python appear

_MUCH, _SLIGHT = 0.25, 0.01  # limits of the colour classes, as shares of the expected time
_MUCH_MORE, _MORE, _LESS, _MUCH_LESS = f"over {_MUCH:.0%} more", "more", "less", f"over {_MUCH:.0%} less"
_NEW, _GONE, _MOVED, _AS = "new", "gone", "moved", "as expected"
_LEAST = {_MUCH_MORE: _MUCH, _MORE: _SLIGHT, _AS: -_SLIGHT, _LESS: -_MUCH, _MUCH_LESS: -math.inf}
COLORS = {
    _MUCH_MORE: Category.INPUT.value,
    _MORE: Category.KERNEL_LAUNCH.value,
    _AS: Category.ALL_OTHERS.value,
    _MOVED: Category.ALL_OTHERS.value,
    _LESS: Category.DEVICE_TO_DEVICE.value,
    _MUCH_LESS: Category.HOST_COMPUTE.value,
    _NEW: Category.COMPILATION.value,
    _GONE: Category.DEVICE_COMPUTE_16.value,
}
"""Colours from the colour-blind-safe palette: warm ones for more time, cold ones for less."""

_REMARK = (
    "Width: self time per step in the second run; threads at work at once add up. Colour: what the program changed against the first run, "
    "without what the machine explains, as a share of the time that was to be expected."
)

_Path = tuple[str, ...]


@dataclass
class _Place:
    """A node of the flame graph.

    held: the changes of its parts
    width: time of the node and all nodes below it, ps
    """

    held: list[Change] = field(default_factory=list)
    width: float = 0.0

    @property
    def before(self) -> float:
        return sum(change.before.value for change in self.held)

    @property
    def after(self) -> float:
        return sum(change.after.value for change in self.held)


def build_flame_graph(comparison: Comparison, lines: Sequence[Change]) -> Chart:
    """Return the flame graph of all parts, with the changes of Python `lines` below the time in
    which no op runs.
    """
    table = FLAME_COLUMNS.build(_rows(_tree(comparison, lines)))
    columns = IcicleColumns("parent", "name", "time_ps", ("before_ps", "after_ps", "delta_ps", "low_ps", "high_ps"))
    return Chart(table.title, ChartKind.ICICLE, table, "id", columns.series, COLORS, _REMARK, state="became", aside="gone")


def _tree(comparison: Comparison, lines: Sequence[Change]) -> dict[_Path, _Place]:
    places: dict[_Path, _Place] = defaultdict(_Place)
    for change in comparison.changes:
        path = _path(change)
        for depth in range(1, len(path) + 1):
            places[path[:depth]].held.append(change)
    for line in lines if _GAPS in places else ():
        # only in this node, since its parents contain the time already
        places[(*_GAPS, line.name_after)].held.append(line)
    _widen(places)
    return places


def _path(change: Change) -> _Path:
    """Return the path of a part in the tree, by its name in the second run."""
    side, name = change.part[0], change.name_after
    if change.work_class == INPUT:
        stages = name.split("::")
        return (_INPUT, *(stages[1:] or stages))
    return _GROUPS[side], *(scope_path(name) if side != STEP_SIDE else (name,))


def _widen(places: Mapping[_Path, _Place]) -> None:
    """Set the width of each node. Samples are imprecise, so the lines below a node may together
    take more time than the node.
    """
    inner: dict[_Path, float] = defaultdict(float)
    for path in sorted(places, key=len, reverse=True):
        place = places[path]
        place.width = max(place.after or place.before, inner[path])
        if place.after:
            inner[path[:-1]] += place.width


def _rows(places: Mapping[_Path, _Place]) -> Iterator[Row]:
    """Yield the rows of the tree, parents first and siblings by decreasing width."""
    children: dict[_Path, list[_Path]] = defaultdict(list)
    for path in places:
        children[path[:-1]].append(path)
    waiting: list[_Path] = [()]
    while waiting:
        path = waiting.pop()
        waiting += sorted(children[path], key=lambda child: places[child].width)
        if not path or not (place := places[path]).width:
            continue
        delta, low, high = sum_changes(place.held)
        yield {
            "id": "/".join(path),
            "parent": "/".join(path[:-1]),
            "name": path[-1],
            "depth": len(path) - 1,
            "became": _became(place),
            "time_ps": place.width,
            "before_ps": place.before,
            "after_ps": place.after,
            "delta_ps": delta,
            "low_ps": low,
            "high_ps": high,
            "gone": not place.after,
        }


def _became(place: _Place) -> str:
    """Return the word for the program's change of a node, which selects its colour."""
    if all(change.kind is ChangeKind.MOVED for change in place.held):
        return _MOVED
    if not place.before or not place.after:
        return _GONE if place.before else _NEW
    own_ps = sum(change.delta_ps for change in place.held if change.kind in PROGRAM_KINDS)
    share = own_ps / sum(change.expected_ps for change in place.held)
    return next(word for word, least in _LEAST.items() if share >= least)
