# SPDX-License-Identifier: Apache-2.0
"""The op tables, computed from the metrics of the ops."""

from __future__ import annotations

import numpy as np

from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.op_scopes import scope_pattern
from outpace.metrics.slices import top_slices
from outpace.model import Row, Table
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
    self_ps = table["self_ps"].astype(np.float64)
    count = np.maximum(table["count"], 1)
    columns: dict[str, Column] = {
        "rank": np.zeros(len(table), np.int64),
        "busy_fraction": np.zeros(len(table)),
    }
    for name in SIDES:
        of_side = side == name
        share = _share(self_ps, of_side)
        columns["rank"][of_side] = np.arange(1, int(of_side.sum()) + 1)
        columns[f"{name.lower()}_fraction"] = share
        columns[f"{name.lower()}_cumulative"] = np.where(of_side, np.cumsum(share), 0.0)
        columns["busy_fraction"] += _share(self_ps, of_side & ~idle)
    columns |= {name: table[name] for name in ("side", "type", "name", "self_ps", "total_ps", "host")}
    return OPS.from_columns(
        {
            **columns,
            "layer": [scope_pattern(name) for name in table["name"].tolist()],
            "occurrences": table["count"],
            "mean_self_ps": self_ps / count,
            "mean_ps": table["total_ps"] / count,
            "idle": idle,
        }
    )


def _share(values: Values, mask: Mask) -> Values:
    total = float(values[mask].sum())
    return np.where(mask, values / total, 0.0) if total else np.zeros(len(values))


def compute_types(ops: Table) -> Table:
    """Return table `TYPES`: self time by op type and side, without idle time, longest first."""
    sums: dict[tuple[str, str], Row] = {}
    for row in ops.records():
        if not row["idle"]:
            totals = sums.setdefault((row["side"], row["type"]), {"ops": 0, "occurrences": 0, "self_ps": 0})
            totals["ops"] += 1
            totals["occurrences"] += row["occurrences"]
            totals["self_ps"] += row["self_ps"]
    busy = {side: sum(totals["self_ps"] for (of, _), totals in sums.items() if of == side) for side in SIDES}
    rows = (
        TYPES.row(sums_of, side=side, type=name, busy_fraction=sums_of["self_ps"] / busy[side] if busy[side] else 0.0)
        for (side, name), sums_of in sums.items()
    )
    return TYPES.build(rows).sort_by("self_ps")


def compute_shares(ops: Table) -> Table:
    """Return table `SHARES`: the largest self times of each side by op type, layer and op, with the
    rest as one row; devices first.
    """
    busy = ops.take(~ops["idle"].astype(bool))
    sides = {side: busy.filter_by("side", side) for side in reversed(SIDES)}
    return SHARES.build(
        {"side": side, "by": way, "label": label, "self_ps": size}
        for side, side_ops in sides.items()
        for way, column in _WAYS.items()
        for label, size in top_slices(side_ops[column].tolist(), side_ops["self_ps"].tolist())
    )
