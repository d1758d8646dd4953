"""The op tables, computed from the metrics of the ops."""

from __future__ import annotations

import numpy as np

from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.op_scopes import scope_pattern
from outpace.metrics.slices import top_slices
from outpace.model import Table
from outpace.model.arrays import Column, Mask, Values
from outpace.tools.op_stats.schema import OPS, SHARES, TYPES

SIDES = (HOST, DEVICE)
_WAYS = {"op type": "type", "layer": "layer", "op": "name"}  # ways to sum up ops, with the column that each one groups by


def compute_ops(metrics: Table) -> Table:
    """Return table `OPS`: one row per op of a host and side, device first as in the guide's table,
    by self time. Each side's idle time, which is no op, follows its ops.
    """
    order = np.lexsort((-metrics["self_ps"].astype(np.float64), metrics["idle"].astype(bool), metrics["side"].astype(str)))
    table = metrics.take(order)
    side, idle = table["side"], table["idle"].astype(bool)
    own = table["self_ps"].astype(np.float64)
    count = np.maximum(table["count"], 1)
    columns: dict[str, Column] = {
        "rank": np.zeros(len(table), np.int64),
        "busy_fraction": np.zeros(len(table)),
    }
    for name in SIDES:
        mine = side == name
        share = _share(own, mine)
        columns["rank"][mine] = np.arange(1, int(mine.sum()) + 1)
        columns[f"{name.lower()}_fraction"] = share
        columns[f"{name.lower()}_cumulative"] = np.where(mine, np.cumsum(share), 0.0)
        columns["busy_fraction"] += _share(own, mine & ~idle)
    return Table.build(
        "ops",
        "Ops",
        OPS,
        {
            **columns,
            "side": side,
            "type": table["type"],
            "name": table["name"],
            "layer": [scope_pattern(name) for name in table["name"].tolist()],
            "occurrences": table["count"],
            "self_ps": table["self_ps"],
            "mean_self_ps": own / count,
            "total_ps": table["total_ps"],
            "mean_ps": table["total_ps"] / count,
            "idle": idle,
            "host": table["host"],
        },
    )


def _share(values: Values, mask: Mask) -> Values:
    total = float(values[mask].sum())
    return np.where(mask, values / total, 0.0) if total else np.zeros(len(values))


def compute_types(ops: Table) -> Table:
    """Return table `TYPES`: self time by op type and side, without idle time, longest first."""
    sums: dict[tuple[str, str], list[int]] = {}
    for row in ops.records():
        if not row["idle"]:
            known = sums.setdefault((row["side"], row["type"]), [0, 0, 0])
            known[0] += 1
            known[1] += row["occurrences"]
            known[2] += row["self_ps"]
    busy = {side: sum(v[2] for (s, _), v in sums.items() if s == side) for side in SIDES}
    rows = [(side, name, *v, v[2] / busy[side] if busy[side] else 0.0) for (side, name), v in sums.items()]
    return Table.from_rows("types", "Op types", TYPES, sorted(rows, key=lambda r: -r[4]))


def compute_shares(ops: Table) -> Table:
    """Return table `SHARES`: the largest self times of each side by op type, layer and op, with the
    rest as one row; devices first.
    """
    rows: list[tuple[str, str, str, int]] = []
    for side in reversed(SIDES):
        mine = (ops["side"] == side) & ~ops["idle"].astype(bool)
        own = ops["self_ps"][mine].tolist()
        for way, column in _WAYS.items():
            sums: dict[str, int] = {}
            for label, size in zip(ops[column][mine].tolist(), own, strict=True):
                sums[label] = sums.get(label, 0) + size
            rows += [(side, way, label, size) for label, size in top_slices(sums)]
    return Table.from_rows("shares", "Self time", SHARES, rows)
