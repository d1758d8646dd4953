# SPDX-License-Identifier: Apache-2.0
"""The model's time by part: a row per layer, line or scope, forward and backward together, per
step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.facts.model_ops import ModelOps, model_ops
from outpace.metrics.facts.op_locations import LINE, OPTIMIZER, OpLocation, OpLocator
from outpace.metrics.facts.roofs import NEAR_ROOF
from outpace.metrics.spans import merge_spans
from outpace.model import Row, Table, TableType
from outpace.model.arrays import Indices
from outpace.timeline import Run
from outpace.timeline.function_calls import called_functions
from outpace.timeline.work_kinds import WorkKind, classify_work
from outpace.trace.algorithms import distinct

MODEL_PARTS = TableType("model_parts", "Parts of the model").columns("""
    * host        | text     | host that ran the model
    * side        | text     | Host (threads) or Device (accelerators)
    * part        | text     | layer, or line of the program, or scope of ops where neither is known; the optimizer is one part
      kind        | text     | layer, line or op: what the part is named after
      source      | text     | file and line that made the part, or, for a layer of the program's own, its slowest line
      text        | text     | that source line | Code
      layer_type  | text     | class of the layer; empty for other parts | Class
    + forward_ps  | ps       | time per step in forward ops, wall clock: threads at work at once share a moment
    + backward_ps | ps       | time per step in gradient ops and in the optimizer's updates of its variables, wall clock
    + self_ps     | ps       | both together
    + overhead_ps | ps       | time per step that the executor spends around these ops, and in ops too cheap for an event
    + share       | fraction | share of the step time that ops and overhead take: what the part can save at most | Of step
      work        | text     | kind of op that takes the largest part of it: convolutions, matrix products, casts, ...
      top_op      | text     | type of op that runs for most of its time, whatever runs at once with it
      top_op_name | text     | name of the op that takes the largest part of that
      top_op_ps   | ps       | time per step of that type of op, wall clock, shared likewise | Top op time
    + count       | ratio    | op executions per step | Ops per step
      above_ps    | ps       | time per step above the roofs of its ops; empty where they are not known for most of its time | Above roof
      far_ps      | ps       | the same, of ops below 30% of their roofs alone; empty where it is | Far above roof
""")
_MOSTLY_KNOWN = 0.9  # minimum share of the time in ops with known roofs, for a sum to stand for all of them


class TimeAboveRoof:
    """The sum of the time that ops took above their roofs."""

    def __init__(self) -> None:
        self._above = self._far = self._known = self._time = 0.0

    def add(self, op: LocatedOp) -> None:
        """Add the executions of an op."""
        self._time += op.wall_ps
        if op.least_ps == op.least_ps:
            above = max(0.0, op.wall_ps - op.least_ps)
            self._known += op.wall_ps
            self._above += above
            self._far += above if op.is_far_above else 0.0

    def per_step(self, ops: ModelOps) -> float:
        """Return the time per step, ps; NaN where the roofs are not known for most of the time."""
        return self._above / ops.step_count if self._is_known else float("nan")

    def far_per_step(self, ops: ModelOps) -> float:
        """Return the time per step of ops far below their roofs, ps; NaN likewise."""
        return self._far / ops.step_count if self._is_known else float("nan")

    @property
    def _is_known(self) -> bool:
        return self._known >= _MOSTLY_KNOWN * self._time > 0


@dataclass
class _Part:
    layer_type: str = ""
    forward: float = 0.0
    backward: float = 0.0
    overhead: float = 0.0
    count: int = 0
    lines: dict[tuple[bool, str, str], float] = field(default_factory=lambda: defaultdict(float))
    work: dict[WorkKind, float] = field(default_factory=lambda: defaultdict(float))
    types: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    names: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    indices: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    above: TimeAboveRoof = field(default_factory=TimeAboveRoof)


@memoize
def op_locators(run: Run) -> dict[str, OpLocator]:
    """Return the `OpLocator` of each host, by host."""
    return {t.host: OpLocator(run.record(t.host), called_functions(t.trace)) for t in run.hosts}


@memoize
def model_parts(run: Run) -> Table:
    """Return a table with one row per host, side and part, the largest share first."""
    return MODEL_PARTS.build(row for ops, ran in located_ops(run) for row in _rows(ops, ran)).sort_by("share")


@dataclass(frozen=True)
class LocatedOp:
    """An op that computed in the steps that count, with its location; times are sums over them.

    location: the part of the model that it belongs to.
    name, type: of the op.
    count: executions.
    wall_ps, overhead_ps, alone_ps: attributed, executor and exclusive time of `ModelOps`, ps.
    least_ps: least time of the executions by the roofs, ps; NaN where unknown.
    is_counted: whether that tells of the op's arithmetic, not of its bytes alone.
    index: the op's index among those of its side.
    """

    location: OpLocation
    name: str
    type: str
    count: int
    wall_ps: float
    overhead_ps: float
    alone_ps: float
    least_ps: float
    is_counted: bool = True
    index: int = 0

    @property
    def is_far_above(self) -> bool:
        """Whether it comes to little of its roof."""
        return self.is_counted and self.least_ps < NEAR_ROOF * self.wall_ps


@memoize
def located_ops(run: Run) -> tuple[tuple[ModelOps, tuple[LocatedOp, ...]], ...]:
    """Return the ops of every host and side, with the location and times of each
    (`iter_located_ops`).
    """
    return tuple((ops, tuple(iter_located_ops(ops, op_locators(run)[ops.host]))) for ops in model_ops(run))


def iter_located_ops(ops: ModelOps, locator: OpLocator) -> Iterator[LocatedOp]:
    """Yield every op that computed, with its location.

    A device's copies and collectives are left out: they have categories of their own in the step.
    """
    computes = ops.is_compute
    least = ops.least_ps if ops.least_ps is not None else np.full(len(ops.op_index), np.nan)
    every = (ops.execution_count, ops.attributed_ps, ops.executor_ps, ops.exclusive_ps, least)
    sums = np.array([np.bincount(ops.op_index[computes], values[computes], len(ops.ops)) for values in every])
    ran = distinct(ops.op_index[computes]).tolist()
    for index in sorted(ran, key=lambda i: ops.ops[i]):  # sorted, so that the result does not depend on the order in the file
        name, op_type, source = ops.ops[index]
        count, wall, overhead, alone, least_ps = sums[:, index].tolist()
        yield LocatedOp(
            locator.locate(name, op_type, source),
            name,
            op_type,
            int(count),
            wall,
            overhead,
            alone,
            least_ps,
            bool(ops.is_counted[index]),
            index,
        )


def work_kind(location: OpLocation, op_type: str, name: str) -> WorkKind:
    """Return the kind of work of an op at a location; an optimizer's arithmetic counts as the
    optimizer's.
    """
    layer = location.layer_type or ("" if location.kind == LINE else location.part)
    kind = classify_work(op_type, name, layer)
    return WorkKind.OPTIMIZER if location.part == OPTIMIZER or (location.is_update and kind is not WorkKind.EMBEDDING) else kind


class _RunTimes:
    """How long ops of a side ran, whatever ran at once with them: of two that share a moment each
    has half of it in `attributed_ps`, so that another one may have more.
    """

    def __init__(self, ops: ModelOps) -> None:
        self._ops = ops
        self._lengths = np.bincount(ops.op_index, ops.duration[:], len(ops.ops)).astype(np.int64)

    @once
    def _rows(self) -> tuple[Indices, Indices]:
        """Rows that compute, by op, and where those of each op begin among them."""
        rows = np.flatnonzero(self._ops.is_compute)
        rows = rows[np.argsort(self._ops.op_index[rows], kind="stable")]
        return rows, np.searchsorted(self._ops.op_index[rows], np.arange(len(self._ops.ops) + 1))

    def find_longest_type(self, part: _Part) -> str:
        """Return the type of op that ran for most of a part's time."""
        top = max(part.types, key=part.types.__getitem__)
        longer = [kind for kind, indices in part.indices.items() if self._lengths[indices].sum() > part.types[top]]
        return max((top, *longer), key=lambda kind: self._measure(part.indices[kind])) if longer != [top] else top

    def _measure(self, indices: list[int]) -> int:
        """Return the time in which any of some ops ran, ps."""
        rows, first = self._rows
        own = np.concatenate([rows[first[at] : first[at + 1]] for at in indices])
        starts, ends = merge_spans(self._ops.start[own], self._ops.start[own] + self._ops.duration[own])
        return int((ends - starts).sum())


def _rows(ops: ModelOps, ran: tuple[LocatedOp, ...]) -> Iterator[Row]:
    parts: dict[tuple[str, str], _Part] = defaultdict(_Part)
    for op in ran:
        place, wall = op.location, op.wall_ps
        part = parts[place.part, place.kind]
        part.layer_type = part.layer_type or place.layer_type
        part.backward += wall if place.is_backward else 0.0
        part.forward += 0.0 if place.is_backward else wall
        part.overhead += op.overhead_ps
        part.count += op.count
        part.lines[place.is_in_call, place.source, place.text] += (wall + op.overhead_ps) if place.source else 0.0
        part.work[work_kind(place, op.type, op.name)] += wall
        part.types[op.type] += wall
        part.names[op.name, op.type] += wall
        part.indices[op.type].append(op.index)
        part.above.add(op)
    times = _RunTimes(ops)
    for (label, kind), part in parts.items():
        self_ps = part.forward + part.backward
        top = times.find_longest_type(part)
        # Gradients have no lines of their own: a layer's call comes before the line that made it.
        _, source, text = max(part.lines, key=lambda line: (line[0], part.lines[line]))
        yield MODEL_PARTS.row(
            part,
            host=ops.host,
            side=ops.side,
            part=label,
            kind=kind,
            source=source,
            text=text,
            forward_ps=round(part.forward / ops.step_count),
            backward_ps=round(part.backward / ops.step_count),
            self_ps=round(self_ps / ops.step_count),
            overhead_ps=round(part.overhead / ops.step_count),
            share=ops.step_share(self_ps + part.overhead),
            work=max(part.work, key=part.work.__getitem__).value,
            top_op=top,
            top_op_name=max((n for n in part.names if n[1] == top), key=part.names.__getitem__)[0],
            top_op_ps=round(part.types[top] / ops.step_count),
            count=part.count / ops.step_count,
            above_ps=part.above.per_step(ops),
            far_ps=part.above.far_per_step(ops),
        )
