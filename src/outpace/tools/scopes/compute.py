# SPDX-License-Identifier: Apache-2.0
"""The tree of name scopes, built from the names of the ops."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from outpace.metrics.facts.op_locations import OpLocator
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.op_scopes import parse_scopes
from outpace.model import Table
from outpace.model.arrays import Codes, Numbers
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.tools.scopes.schema import OPS, SCOPES
from outpace.trace import dialect
from outpace.trace.algorithms import intersect_indices

MAX_DEPTH = 8  # default number of levels of the tree


@dataclass(slots=True)  # slots, because a large model has thousands of scopes
class ScopeTotals:
    """The sums of one scope.

    self_ps: self time of the ops directly in the scope, ps.
    total_ps: self time of the ops in the scope and in the scopes below, ps.
    count: executions of ops in it and below.
    op_count: distinct ops in it and below.
    allocated_bytes: bytes that ops in it and below allocated.
    op_types: (count, self time in ps, bytes) of the ops directly in the scope, by op type.
    """

    self_ps: int = 0
    total_ps: int = 0
    occurrences: int = 0
    ops: int = 0
    allocated_bytes: int = 0
    op_types: dict[str, tuple[int, int, int]] = field(default_factory=dict)


ScopeKey = tuple[str, tuple[str, ...]]
"""Side, and the scope names from the outermost on; no names for the side as a whole."""
ScopeTree = dict[ScopeKey, ScopeTotals]


def build_scope_tree(run: Run, max_depth: int = MAX_DEPTH) -> ScopeTree:
    """Return every scope by (side, path), including all levels above each; ops deeper than
    `max_depth` count for the scope at that depth.
    """
    tree: ScopeTree = defaultdict(ScopeTotals)
    memory = sum_allocated_bytes(run)
    for row in op_metrics(run).records():
        if row["idle"] or row["type"] == "Dataset":  # tf.data iterators have a tool of their own
            continue
        path = parse_scopes(row["name"])[:max_depth]
        size = memory.pop(row["name"], 0) if row["side"] == "Host" else 0
        for depth in range(len(path) + 1):
            node = tree[row["side"], path[:depth]]
            node.total_ps += row["self_ps"]
            node.occurrences += row["count"]
            node.ops += 1
            node.allocated_bytes += size
        node = tree[row["side"], path]
        node.self_ps += row["self_ps"]
        count, self_ps, nbytes = node.op_types.get(row["type"], (0, 0, 0))
        node.op_types[row["type"]] = count + row["count"], self_ps + row["self_ps"], nbytes + size
    return tree


def sum_allocated_bytes(run: Run) -> Counter[str]:
    """Return the bytes allocated in the capture, by the op that requested them; empty when the
    profile has no memory events.
    """
    totals: Counter[str] = Counter()
    for timeline in run.hosts:
        totals.update(_allocated_bytes(timeline))
    return totals


def _allocated_bytes(timeline: Timeline) -> dict[str, int]:
    """Return the bytes allocated on one host by op name, freed ones included."""
    trace = timeline.trace
    rows = timeline.event_names.rows(EventFlag.ALLOCATION)
    op = trace.stat(dialect.TF_OP)
    at, place = intersect_indices(rows, op.rows)
    code, texts = op.encode_texts(place)
    size = trace.stat(dialect.ALLOCATION_BYTES).take_ints(rows[at], 0)
    sums: dict[str, int] = defaultdict(int)
    for text, nbytes in zip(texts, _sums(code, size, len(texts)), strict=True):
        sums[text.partition(":")[0]] += nbytes
    return sums


def _sums(code: Codes, size: Numbers, count: int) -> list[int]:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, code, size)
    return [int(value) for value in sums]


def compute_scopes(tree: ScopeTree, places: Collection[OpLocator] = ()) -> Table:
    """Return table `SCOPES`: a row per scope, parents first, the largest branch first. `places`
    find the Keras layers that opened the scopes.
    """
    whole = {side: node.total_ps for (side, path), node in tree.items() if not path}
    remembered = any(node.allocated_bytes for node in tree.values())
    rows = []
    for side, path in _iter_by_branch(tree):
        node = tree[side, path]
        parent = _id(side, path[:-1]) if len(path) > 1 else ""
        share = node.total_ps / whole[side] if whole[side] else 0.0
        memory = float(node.allocated_bytes) if remembered else float("nan")
        keras, source = next((owner for locator in places if any(owner := locator.find_owner("/".join(path)))), ("", ""))
        row = SCOPES.row(
            node,
            id=_id(side, path),
            parent=parent,
            scope=path[-1],
            keras=keras,
            source=source,
            side=side,
            depth=len(path) - 1,
            fraction=share,
            allocated_bytes=memory,
        )
        rows.append(row)
    return SCOPES.build(rows)


def _iter_by_branch(tree: ScopeTree) -> Iterator[ScopeKey]:
    """Yield the keys of all scopes, each before the scopes inside it, and the larger siblings
    first.
    """
    inside: dict[ScopeKey, list[ScopeKey]] = defaultdict(list)
    for side, path in tree:
        if path:
            inside[side, path[:-1]].append((side, path))
    waiting = sorted((key for key in tree if not key[1]), reverse=True)
    while waiting:
        key = waiting.pop()
        if key[1]:
            yield key
        waiting += sorted(inside.pop(key, ()), key=lambda inner: (-tree[inner].total_ps, inner[1]), reverse=True)


def _id(side: str, path: tuple[str, ...]) -> str:
    return f"{side}:{'/'.join(path)}"


def compute_scope_ops(tree: ScopeTree) -> Table:
    """Return table `OPS`: a row per scope and op type, longest first."""
    remembered = any(node.allocated_bytes for node in tree.values())
    rows = []
    for (side, path), node in tree.items():
        for name, (count, self_ps, memory) in node.op_types.items():
            named = {"scope": "/".join(path), "side": side, "type": name}
            allocated = float(memory) if remembered else float("nan")
            rows.append(OPS.row(named, occurrences=count, self_ps=self_ps, allocated_bytes=allocated))
    return OPS.build(rows).sort_by("self_ps")
