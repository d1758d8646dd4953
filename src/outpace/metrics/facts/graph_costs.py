# SPDX-License-Identifier: Apache-2.0
"""Operations and bytes of TensorFlow's ops, by the shapes in the graphs that a capture saw.

A graph leaves dimensions open, such as the batch: symbols in the texts of its ops. The profile
tells their sizes, for TensorFlow records the shape of what ops allocate. A symbol counts as known
where all of these agree, at each execution, so that a training whose last batch is smaller has no
rates rather than wrong ones. Nothing is known of a host that calls a function of which there are no
shapes: its ops may have the names of others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.metrics.facts.graph_ops import count_elements, find_graph_op, find_pair_sizes, solve_symbols
from outpace.model.arrays import Indices, Mask
from outpace.store.record import AFTER
from outpace.timeline import Run, Timeline
from outpace.timeline.allocators import find_allocator_events
from outpace.timeline.function_calls import called_functions
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.timeline.op_names import Op
from outpace.trace import dialect
from outpace.trace.algorithms import intersect_indices

# what TensorFlow puts before the name of an op where it writes a function's ops out in the caller
_INLINED = compile_lazily(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?|_\d+|(?:body|cond|then|else)(?:_\d+)?)$")
_FORWARD = compile_lazily(r"^.*(?:^|/)gradient_tape/")  # what stands before the forward op in the name of a gradient op
_LOOKUP = compile_lazily(r"(?:Resource)?Gather|ResourceScatter|ReadVariableOp")  # ops that touch single rows, or none
_BROADCAST = 1  # size at which an operand may take that of another


class Pairs(NamedTuple):
    """An array of all pairs of the rows of two arrays.

    shape: its shape, as it stands in the texts of ops.
    sizes: its sizes, `16 x 128 x 48 x 64`.
    kind: type of the op that makes it.
    """

    shape: str
    sizes: str
    kind: str

    @property
    def is_difference(self) -> bool:
        """Whether each pair is subtracted, and not multiplied."""
        return self.kind != "Mul"


class LookupTable(NamedTuple):
    """A variable of which a graph looks up rows, or several of one shape.

    shape: its shape (`f32[100000,64]`).
    share: share of its rows that a step looks up at most, in all of its look-ups; NaN where
        unknown.
    lookup, reader: names of the ops that look up rows, and that take all of it in the forward pass;
        "" for no reader.
    """

    shape: str
    share: float
    lookup: str
    reader: str


class GraphCosts:
    """Costs of the ops of one host, by their names and types in the profile.

    by_function: text of each op of each function that the host calls; None where ops of one name
        differ.
    needed: for each of these functions, (share of its result that is read, op that takes that part)
        of each op of whose result not all is read.
    tables: for each of these functions, (shape, op that looks up rows, op that takes all of it) of
        each variable of which it looks up rows.
    """

    def __init__(
        self,
        by_function: Mapping[str, Mapping[str, str | None]],
        needed: Mapping[str, Mapping[str, tuple[float, str]]] = {},
        tables: Mapping[str, Sequence[tuple[str, str, str]]] = {},
    ) -> None:
        self._places: dict[str, tuple[str, str]] = {}
        for function, ops in by_function.items():
            for name, text in ops.items():
                place = (function, text or "")
                if self._places.setdefault(name, place) != place:
                    self._places[name] = ("", "")
        self._needed, self._tables = needed, tables
        self._sizes: dict[str, dict[int, int]] = {}
        self._known: dict[Op, HloOp] = {}

    def learn_sizes(self, allocated: Set[tuple[str, str]]) -> None:
        """Learn the sizes of the functions' symbols from the shapes that ops allocated: (op, shape)
        of each.
        """
        found: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for name, shape in allocated:
            function, text = self._find(name)
            for number, size in solve_symbols(text, shape).items() if text else ():
                found[function][number].add(size)
        self._sizes = {
            function: {number: sizes.pop() for number, sizes in symbols.items() if len(sizes) == 1 and _BROADCAST not in sizes}
            for function, symbols in found.items()
        }

    def find(self, op: Op) -> HloOp:
        """Return an op with its cost, in the form of an op of a program; `NO_OP` where it is not
        known.
        """
        if op not in self._known:
            function, text = self._find(op.name)
            self._known[op] = find_graph_op(text, op.type, self._sizes.get(function, {})) if text else NO_OP
        return self._known[op]

    def find_needed(self, name: str) -> tuple[float, str]:
        """Return (share of an op's work that anything needs, op that takes the part that is needed;
        "" where all of it is). A gradient op needs as much as the op in its name: for the rest it
        multiplies by 0.
        """
        forward = _FORWARD.sub("", name)
        # A gradient op has the scope of its forward op, and a name of its own.
        forward = forward if forward == name else forward.rpartition("/")[0]
        while forward:
            function, _ = self._find(forward)
            parts = self._needed.get(function, {})
            if found := next((parts[own] for own in _iter_names(forward) if own in parts), None):
                return found
            forward = forward.rpartition("/")[0] if function == "" and forward != name else ""
        return 1.0, ""

    def find_pairs(self, name: str) -> Pairs | None:
        """Return the array of all pairs that an op makes; None for other ops."""
        function, text = self._find(name)
        found = find_pair_sizes(text, self._sizes.get(function, {})) if text else ()
        shape = text.partition(f" {AFTER} ")[0].rpartition(" ")[2]
        return Pairs(shape, " x ".join(map(str, found)), text.partition(" ")[0]) if found else None

    def find_text(self, name: str) -> str:
        """Return the text of an op; "" where it is not known."""
        return self._find(name)[1]

    def find_tables(self) -> list[LookupTable]:
        """Return the variables of which a step looks up rows, those of one shape as one."""
        found: dict[str, LookupTable] = {}
        for function, tables in self._tables.items():
            for shape, lookup, reader in tables:
                share = self._looked_up(function, shape, lookup)
                other = found.get(shape, LookupTable(shape, 0.0, lookup, reader))
                found[shape] = other._replace(share=other.share + share, reader=other.reader or reader)
        return list(found.values())

    def takes_table(self, name: str, table: LookupTable) -> bool:
        """Whether an op goes over all rows of a table, by the shapes that it takes and makes."""
        _, text = self._find(name)
        return table.shape in text.split(" ") and not _LOOKUP.match(text)

    def _looked_up(self, function: str, shape: str, lookup: str) -> float:
        _, text = self._find(lookup)
        sizes = self._sizes.get(function, {})
        rows, whole = count_elements(text, sizes) if text else (), count_elements(f"Variable -> {shape}", sizes)
        return rows[0] / whole[0] if rows and whole and whole[0] else float("nan")

    def _find(self, name: str) -> tuple[str, str]:
        """Return (function, text) of the op of a name; ("", "") where it is not known."""
        return next((self._places[own] for own in _iter_names(name) if own in self._places), ("", ""))


@memoize
def graph_costs(run: Run) -> dict[str, GraphCosts]:
    """Return the costs of TensorFlow's ops, by host; of the hosts whose capture saw the graphs that
    they call in steps. A validation between steps has ops of the same names and other sizes.
    """
    found = {}
    for timeline in run.hosts:
        shapes = run.record(timeline.host).get("graph_shapes") or {}
        by_function = shapes.get("by_function") or {}
        called = called_functions(timeline.trace, partial(_in_steps, timeline))
        if called and called <= by_function.keys():
            texts = {function: _texts(by_function[function], shapes["texts"]) for function in called}
            needed = {function: _parts(shapes, function) for function in called}
            costs = GraphCosts(texts, needed, {f: (shapes.get("tables") or {}).get(f, ()) for f in called})
            costs.learn_sizes(_allocated_shapes(timeline))
            found[timeline.host] = costs
    return found


def _texts(ops: Mapping[str, int], texts: Any) -> dict[str, str | None]:
    return {name: str(texts[number]) if number >= 0 else None for name, number in ops.items()}


def _parts(shapes: Mapping[str, Any], function: str) -> dict[str, tuple[float, str]]:
    return {op: (float(share), str(taker)) for op, (share, taker) in (shapes.get("needed") or {}).get(function, {}).items()}


def _iter_names(name: str) -> Iterator[str]:
    """Yield the name of an op, and what it is without what stands before a function's own names."""
    segments = name.split("/")
    yield name
    last = max((at for at, segment in enumerate(segments[:-1]) if _INLINED.match(segment)), default=-1)
    if last >= 0:
        yield "/".join(segments[last + 1 :])


def _in_steps(timeline: Timeline, rows: Indices) -> Mask:
    """Return whether events are in steps."""
    return np.asarray(timeline.step_index[rows] >= 0)


def _allocated_shapes(timeline: Timeline) -> set[tuple[str, str]]:
    """Return (op, shape) of the ops that allocated an array of one shape each time that they ran in
    a step. Of small arrays TensorFlow records nothing, so that of an op whose sizes vary there may
    be one shape, and fewer records of it than executions.
    """
    trace = timeline.trace
    names, shapes = trace.stat(dialect.TF_OP), trace.stat(dialect.SHAPE)
    at, place = intersect_indices(names.rows, shapes.rows)
    rows = find_allocator_events(timeline)
    chosen, _ = intersect_indices(names.rows[at], rows[_in_steps(timeline, rows)])
    name_code, name_texts = names.encode_texts(at[chosen])
    shape_code, shape_texts = shapes.encode_texts(place[chosen])
    counts = Counter(zip(name_code.tolist(), shape_code.tolist(), strict=True))
    executions = _executions(timeline, {name_texts[name] for name, _ in counts})
    pairs = ((name_texts[name], shape_texts[shape], count) for (name, shape), count in counts.items())
    return {(name, shape) for name, shape, count in pairs if count == executions[name]}


def _executions(timeline: Timeline, ops: set[str]) -> Counter[str]:
    """Return how often each of several ops ran in steps."""
    trace = timeline.trace
    rows = trace.find_rows_by_mask(np.array([op.name in ops for op in timeline.ops], bool))
    counts = np.bincount(trace.name[rows[_in_steps(timeline, rows)]], minlength=len(trace.names))
    found: Counter[str] = Counter()
    for op, count in zip(timeline.ops, counts.tolist(), strict=True):
        found[op.name] += count
    return found
