# SPDX-License-Identifier: Apache-2.0
"""Operations and bytes of TensorFlow's ops, by the shapes in the graphs that a capture saw.

A graph leaves the batch open where it takes batches of any size. The profile tells it: TensorFlow
records the shape of what an op allocates, else the input pipeline has the size of its batches. An
op of which a dimension stays unknown has no cost, and so has one whose arithmetic this module does
not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from outpace._caching import memoize
from outpace.metrics.facts.batch_size import examples_per_step
from outpace.metrics.facts.graph_ops import find_graph_op, solve_batch
from outpace.metrics.facts.op_locations import choose_functions, count_replicas, iter_tails
from outpace.timeline import Run, Timeline
from outpace.timeline.allocators import find_allocator_events
from outpace.timeline.function_calls import called_functions
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.timeline.op_names import Op
from outpace.trace import dialect
from outpace.trace.algorithms import intersect_indices

_MOST = 0.9  # minimum share of the allocations that agree in the size of a batch


class GraphCosts:
    """Costs of the ops of one host, by their names and types in the profile.

    shapes: `graph_shapes` of the host's record.
    functions: names of the functions that the host's steps call.
    batch: size of a batch; 0 where not known.
    """

    def __init__(self, shapes: Mapping[str, Any], functions: Iterable[str], batch: int) -> None:
        self._texts = shapes.get("texts") or ()
        self._ops = _merge(shapes.get("by_function") or {}, set(functions))
        self._batch = batch
        self._known: dict[Op, HloOp] = {}

    def find(self, op: Op) -> HloOp:
        """Return an op with its cost, in the form of an op of a program; `NO_OP` where it is not
        known.
        """
        if op not in self._known:
            text = self.find_text(op.name)
            self._known[op] = find_graph_op(text, op.type, self._batch) if text else NO_OP
        return self._known[op]

    def find_text(self, name: str) -> str:
        """Return the text of the op of a name; "" where it is not known."""
        for tail in iter_tails(name) if self._ops else ():
            if (number := self._ops.get(tail)) is not None:
                return str(self._texts[number]) if number >= 0 else ""
        return ""


@memoize
def graph_costs(run: Run) -> dict[str, GraphCosts]:
    """Return the costs of TensorFlow's ops, by host; of the hosts whose capture saw their
    graphs.
    """
    sizes = examples_per_step(run)
    found = {}
    for timeline in run.hosts:
        shapes = run.record(timeline.host).get("graph_shapes") or {}
        if shapes.get("texts"):
            functions = called_functions(timeline.trace)
            unsized = GraphCosts(shapes, functions, 0)
            batch = _allocated_batch(timeline, unsized)
            if not batch and count_replicas(timeline.trace.names) == 1:
                batch = sizes.get(timeline.host, 0)
            found[timeline.host] = GraphCosts(shapes, functions, batch)
    return found


def _merge(by_function: Mapping[str, Mapping[str, int]], called: set[str]) -> dict[str, int]:
    """Return the number of the text of each op, merged over the functions; -1 where they differ."""
    merged: dict[str, int] = {}
    for function in choose_functions(by_function, called):
        for name, number in by_function[function].items():
            if merged.setdefault(name, number) != number:
                merged[name] = -1
    return merged


def _allocated_batch(timeline: Timeline, costs: GraphCosts) -> int:
    """Return the size of a batch by the shapes of what the ops allocated; 0 where they do not
    agree, or none are recorded.
    """
    trace = timeline.trace
    rows = find_allocator_events(timeline)
    names, shapes = trace.stat(dialect.TF_OP), trace.stat(dialect.SHAPE)
    at, place = intersect_indices(names.rows, shapes.rows)
    chosen, _ = intersect_indices(names.rows[at], rows)
    name_code, name_texts = names.encode_texts(at[chosen])
    shape_code, shape_texts = shapes.encode_texts(place[chosen])
    sizes: Counter[int] = Counter()
    for (name, shape), count in Counter(zip(name_code.tolist(), shape_code.tolist(), strict=True)).items():
        if size := solve_batch(costs.find_text(name_texts[name]), shape_texts[shape]):
            sizes[size] += count
    size, count = max(sizes.items(), key=lambda item: item[1], default=(0, 0))
    return size if count >= _MOST * sum(sizes.values()) else 0
