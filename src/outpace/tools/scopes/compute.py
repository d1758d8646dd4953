"""The tree of name scopes, from the ops' names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from outpace.metrics.model.op_metrics import op_metrics
from outpace.metrics.model.op_places import OpPlaces
from outpace.metrics.model.op_scopes import scope_of
from outpace.model import Table
from outpace.model.arrays import Codes, Numbers
from outpace.timeline import Run, Timeline
from outpace.timeline.names import Is
from outpace.tools.scopes.schema import OPS, SCOPES
from outpace.trace import dialect
from outpace.trace.algorithms import common

MAX_DEPTH = 8


@dataclass(slots=True)  # a large model has thousands
class Node:
    """One scope while it is summed up; times in ps. `types`: count, self time and bytes by type of op."""

    own: int = 0
    total: int = 0
    count: int = 0
    ops: int = 0
    memory: int = 0
    types: dict[str, tuple[int, int, int]] = field(default_factory=dict)


Key = tuple[str, tuple[str, ...]]
"""Side, and the scopes from the outermost on; none for the side as a whole."""
Tree = dict[Key, Node]


def tree(run: Run, max_depth: int = MAX_DEPTH) -> Tree:
    """Every scope by (side, path), the levels above each included; ops deeper than `max_depth` count for the scope at that depth."""
    found: Tree = defaultdict(Node)
    memory = allocations(run)
    for row in op_metrics(run).records():
        if row["idle"] or row["type"] == "Dataset":  # tf.data iterators have a tool of their own
            continue
        path = scope_of(row["name"])[:max_depth]
        size = memory.pop(row["name"], 0) if row["side"] == "Host" else 0
        for depth in range(len(path) + 1):
            node = found[row["side"], path[:depth]]
            node.total += row["self_ps"]
            node.count += row["count"]
            node.ops += 1
            node.memory += size
        node = found[row["side"], path]
        node.own += row["self_ps"]
        count, own, nbytes = node.types.get(row["type"], (0, 0, 0))
        node.types[row["type"]] = count + row["count"], own + row["self_ps"], nbytes + size
    return found


def allocations(run: Run) -> Counter[str]:
    """Bytes allocated in the capture by the op that asked for them; empty when the profile has no memory events."""
    found: Counter[str] = Counter()
    for timeline in run.hosts:
        found.update(_allocated(timeline))
    return found


def _allocated(timeline: Timeline) -> dict[str, int]:
    trace = timeline.trace
    rows = timeline.names.rows(Is.ALLOCATION)
    op = trace.stat(dialect.TF_OP)
    at, place = common(rows, op.row)
    code, texts = op.codes(place)
    size = trace.stat(dialect.ALLOCATION_BYTES).ints_of(rows[at], 0)
    sums: dict[str, int] = defaultdict(int)
    for text, nbytes in zip(texts, _sums(code, size, len(texts)), strict=True):
        sums[text.partition(":")[0]] += nbytes
    return sums


def _sums(code: Codes, size: Numbers, count: int) -> list[int]:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, code, size)
    return [int(value) for value in sums]


def scopes(found: Tree, places: Collection[OpPlaces] = ()) -> Table:
    """`SCOPES`: a row per scope, parents first, the largest branch first. `places` know which layers opened them."""
    whole = {side: node.total for (side, path), node in found.items() if not path}
    remembered = any(node.memory for node in found.values())
    rows = []
    for side, path in _by_branch(found):
        node = found[side, path]
        parent = _id(side, path[:-1]) if len(path) > 1 else ""
        share = node.total / whole[side] if whole[side] else 0.0
        memory = float(node.memory) if remembered else float("nan")
        numbers = (node.total, share, node.own, node.count, node.ops, memory)
        owner = next((known for each in places if any(known := each.owner("/".join(path)))), ("", ""))
        rows.append((_id(side, path), parent, path[-1], *owner, side, len(path) - 1, *numbers))
    return Table.from_rows("scopes", "Scopes", SCOPES, rows)


def _by_branch(found: Tree) -> Iterator[Key]:
    """All scopes, each before what is inside of it; of those beside each other the largest first."""
    inside: dict[Key, list[Key]] = defaultdict(list)
    for side, path in found:
        if path:
            inside[side, path[:-1]].append((side, path))
    waiting = sorted((key for key in found if not key[1]), reverse=True)
    while waiting:
        key = waiting.pop()
        if key[1]:
            yield key
        waiting += sorted(inside.pop(key, ()), key=lambda inner: (-found[inner].total, inner[1]), reverse=True)


def _id(side: str, path: tuple[str, ...]) -> str:
    return f"{side}:{'/'.join(path)}"


def by_type(found: Tree) -> Table:
    """`OPS`: the op view, a row per scope and type of op, longest first."""
    remembered = any(node.memory for node in found.values())
    rows = [
        ("/".join(path), side, name, count, own, float(memory) if remembered else float("nan"))
        for (side, path), node in found.items()
        for name, (count, own, memory) in node.types.items()
    ]
    return Table.from_rows("scope_ops", "Ops by scope", OPS, rows).sorted_by("self_ps")
