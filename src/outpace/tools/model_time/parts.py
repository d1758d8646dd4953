# SPDX-License-Identifier: Apache-2.0
"""The parts of a model, layers or source lines, in one form for ops of TensorFlow and for lines of
a compiled program. The rules on the model use it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE as ON_DEVICE
from outpace.metrics.facts.hlo_instructions import attention_ops, hlo_source_lines, short_op_name
from outpace.metrics.facts.model_ops import COMPILED, model_ops
from outpace.metrics.facts.op_locations import COLLECTIVES, LAYER, LINE, LOGS, METRICS, OPTIMIZER, ROLES, TRANSFER_OPS
from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.facts.roofs import NO_ROOF_BOUNDS, Bound
from outpace.metrics.facts.workload import Workload
from outpace.metrics.source_line import shorten_source_path
from outpace.metrics.views.model_parts import model_parts, op_locators
from outpace.metrics.views.model_work import WAITING_OPCODES
from outpace.metrics.views.small_ops import small_ops
from outpace.model import Table
from outpace.model.text import format_largest_part, join_names
from outpace.timeline import Run
from outpace.timeline.work_kinds import WorkKind, classify_work

# Ops that loop, sort, search or move data, run on one thread, or call Python: for these there is
# mostly a cheaper way. Dense arithmetic is what hardware does well, and a profile does not show
# whether chains of element-wise ops could be cheaper.
_SLOW = compile_lazily(
    r"(?<!un)sort|top_?k|unique|where|cumsum|cumprod|cumulative|scatter|scan|while|map_fn|TensorList|LRN|PyFunc|Svd|svd|Qr\b|qr\b|cholesky|inverse|"
    r"triangular_solve|NonMaxSuppression|EditDistance|CTC|reverse_sequence|histogram|bincount|erf_inv|igamma|lgamma|digamma|betainc",
    re.IGNORECASE,
)
_SCATTERS = compile_lazily(r"scatter")
SHORT_OP = 50e6  # length of a short op, ps: shorter ones cost about as much to start as they take
_MANY = 150  # minimum executions per step in a loop over a sequence
_MOSTLY_KNOWN = 0.9  # minimum share of the time of ops with known roofs, for a bound from them
_JITTED = compile_lazily(r"\bjit\(([A-Za-z_]\w*)\)")
_FEEDS = ("IteratorGetNext", "OptionalFromValue", "IteratorGetNextAsOptional")  # ops that take an element of a data set
_PRODUCT_WORK = (WorkKind.MATMUL, WorkKind.CONVOLUTION, WorkKind.ATTENTION)
_NO_PART = (COMPILED, LOGS, TRANSFER_OPS, COLLECTIVES)  # names of parts that are no layer, or whose content is not known
REPLICA = compile_lazily(r"(.*/)?replica_\d+")  # a replica: a copy of the whole model, and no part of it


@dataclass(frozen=True)
class ModelPart:
    """A part of the model: a layer, several that one line made, or a source line.

    name: layers, line, or framework op.
    source: source line; "" where not known.
    share: share of the step.
    time: time of its ops and of the executor around them, ps.
    op: op that takes most of the time.
    is_slow: whether this op could mostly be made cheaper, or the part is a loop of short ops.
    table: table with the numbers of the part.
    mean_op: mean time of one of its ops, ps; 0 where not known.
    is_loop: whether it has a source line and consists of many short ops.
    overhead_share: share of the step in the executor around its ops, and in ops too short for an
        event.
    sure: whether what makes it slow takes most of its time; in a loop of short ops, starting them
        may be the smaller part.
    work: kind of work that takes most of the time.
    op_name: name of the op that takes most of the time.
    flops_per_s: rate of that op where it multiplies matrices or convolves, FLOP/s; else 0.
    op_share: share of the part's time in `op`.
    work_share: share of the part's time in `work`.
    above_share: share of the step that its ops took above their roofs, of those that came to less
        than 30 % of both roofs; 0 where no roof is known.
    bound: share of the step that all of its ops took above their roofs; None where the roofs of
        much of its time are not known.
    members: names of the layers or lines that it is, as `OpLocation.part` has them.
    loop: line of the loop of a graph whose body holds its ops; "" where there is none, or unknown.
    is_map: whether that is tf.map_fn, whose iterations do not need each other.
    """

    name: str
    source: str
    share: float
    time: float
    op: str
    is_slow: bool
    table: str
    mean_op: float = 0.0
    is_loop: bool = False
    overhead_share: float = 0.0
    sure: bool = True
    work: WorkKind = WorkKind.OTHER
    op_name: str = ""
    flops_per_s: float = 0.0
    op_share: float = 1.0
    work_share: float = 1.0
    above_share: float = 0.0
    bound: float | None = None
    members: tuple[str, ...] = ()
    loop: str = ""
    is_map: bool = False

    @property
    def takes(self) -> str:
        """The verb behind the part's name."""
        return "take" if self.is_metrics or (len(self.members) > 1 and self.name != self.source) else "takes"

    @property
    def is_metrics(self) -> bool:
        """Whether the part is what updates Keras' metrics."""
        return self.name == METRICS

    @property
    def is_attention(self) -> bool:
        """Whether the part is an attention whose ops have names of other kinds of work."""
        return self.work is WorkKind.ATTENTION and classify_work(self.op) is not WorkKind.ATTENTION

    @property
    def top_op_text(self) -> str:
        """What takes most of the part's time, or the largest share of it, in words."""
        if self.is_loop:
            function = _inner_function(self.op_name)
            loop = "the loop" if self.loop else f"a loop of {function}" if function else "a loop over a sequence"
            return f"in many short ops, {'in' if self.loop or function else 'as in'} {loop}"
        return (
            format_largest_part(f"in {self.work.value}", self.work_share, 1.0)
            if self.is_attention
            else format_largest_part(f"in {self.op}", self.op_share, 1.0)
        )

    @property
    def has_short_ops(self) -> bool:
        """Whether starting an op of the part costs about as much as the op takes."""
        return self.mean_op < SHORT_OP

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source and self.source != self.name else ""
        return f"{self.name}{where}"


def format_source(source: str) -> str:
    """Return a source line without its folders, such as `train.py:41`."""
    return shorten_source_path(source)


def find_parts(run: Run, host: str, program: Workload) -> list[ModelPart]:
    """Return the parts of one host's model, the largest first, without rows that are no part of the
    model.
    """
    parts = (_compiled_parts(run, host) if program.is_jax else []) or _op_parts(run, host)
    return [part for part in parts if part.name not in _NO_PART]


def _op_parts(run: Run, host: str) -> list[ModelPart]:
    """Return the parts of a model, largest first, from table `model_parts`: for models of which no
    compiled program is known (`_compiled_parts` has those).
    """
    shown = select_compute_rows(model_parts(run).filter_by("host", host))
    rows = [row for row in shown if row["share"] > 0 and not REPLICA.fullmatch(row["part"])]
    rounds = sum(row["dispatches"] for row in small_ops(run).filter_by("host", host).records())
    around = max(sum(row["overhead_ps"] for row in shown if row["share"] > 0), 1)
    parts = []
    for row in _join_loops(run, host, _join_layers(rows), rounds / around):
        time, starts = row["self_ps"] + row["overhead_ps"], row["overhead_ps"] > row["self_ps"]
        slow, loops = bool(_SLOW.search(row["top_op"])), _is_loop(row, rounds / around)
        parts.append(
            ModelPart(
                row["part"],
                format_source(row["loop"] if loops and row["loop"] else row["source"]),
                row["share"],
                time,
                row["top_op"],
                slow or loops,
                "model_parts",
                time / max(row["count"], 1.0),
                loops,
                row["share"] * row["overhead_ps"] / max(time, 1),
                slow or starts or not loops,
                WorkKind(row["work"]) if row["work"] else WorkKind.OTHER,
                row["top_op_name"],
                op_share=row["top_op_ps"] / max(time, 1),
                above_share=row["share"] * (row["far_ps"] or 0.0) / max(time, 1),
                bound=compute_bound([row]),
                members=row["members"],
                loop=row["loop"] if loops else "",
                is_map=row["is_map"],
            )
        )
    return sorted(parts, key=lambda part: -part.share)


def _is_loop(row: dict[str, Any], rounds_per_ps: float) -> bool:
    """Whether a row of table `model_parts` with a source line consists of many short ops, as in a
    loop over a sequence.

    rounds_per_ps: rounds of the executor per picosecond that it spends around ops. Most ops of a
        loop are too short for an event, so that the rounds count as well.
    """
    most = max(row["count"], rounds_per_ps * row["overhead_ps"])
    mean = (row["self_ps"] + row["overhead_ps"]) / max(row["count"], 1.0)
    return bool(row["source"]) and most >= _MANY and (row["overhead_ps"] > row["self_ps"] or mean < SHORT_OP)


def _join_layers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the rows of layers of one class that one line of the program made: who changes that line
    changes all of them. Each row gets the names of the parts that it is (`members`).
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        named = row["source"] and row["layer_type"]
        groups[(row["source"], row["layer_type"]) if named else (row["part"], "")].append(row)
    return [_join_rows(sorted(group, key=lambda row: -row["share"])) for group in groups.values()]


def _join_loops(run: Run, host: str, rows: list[dict[str, Any]], rounds_per_ps: float) -> list[dict[str, Any]]:
    """Join the rows of lines in the body of one loop of a graph, where it is one of short ops: the
    loop's own line is what there is to change. Each row gets the line of its loop (`loop`, "" for
    none), and whether that is tf.map_fn (`is_map`).
    """
    locator = op_locators(run)[host]
    executed = [op for ops in model_ops(run) if ops.host == host for op in ops.ops]
    # A loop that takes elements of a data set is the training itself.
    trains = {locator.locate_loop(name)[0] for name, kind, _ in executed if kind in _FEEDS}
    joined, by_loop = list[dict[str, Any]](), defaultdict[str, list[dict[str, Any]]](list)
    for row in rows:
        loop, text = locator.locate_loop(row["top_op_name"])
        loop = "" if loop in trains else loop
        row = {**row, "loop": loop, "is_map": bool(loop) and "map_fn" in text}
        (by_loop[loop] if loop and row["kind"] == LINE else joined).append(row)
    for loop, lines in by_loop.items():
        whole = _join_rows(sorted(lines, key=lambda row: -row["share"])) | {"part": loop, "source": loop}
        joined += [whole] if len(lines) > 1 and _is_loop(whole, rounds_per_ps) else lines
    return joined


def _join_rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of rows of table `model_parts`, the largest of which comes first."""
    first = rows[0]
    sums = {name: sum(row[name] for row in rows) for name in ("self_ps", "overhead_ps", "share", "count")}
    above = {
        name: sum(row[name] for row in rows) for name in ("above_ps", "far_ps") if all(row[name] is not None for row in rows)
    }
    top = sum(row["top_op_ps"] for row in rows if row["top_op"] == first["top_op"])
    unknown = dict.fromkeys(("above_ps", "far_ps"))
    return {
        **first,
        **sums,
        **unknown,
        **above,
        "top_op_ps": top,
        "part": join_names([format_source(row["part"]) for row in rows]),
        "members": tuple(member for row in rows for member in row.get("members", (row["part"],))),
    }


def _compiled_parts(run: Run, host: str) -> list[ModelPart]:
    """Return the parts of a compiled program: by layer where the capture knows the layers (Keras),
    else by source line, or by framework op where the program has no lines. The shares of ops that
    ran in parallel are scaled so that they sum to at most the step.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in _compiled_rows(run, host):
        named = row["source"] and row["layer_type"]
        groups[(row["source"], row["layer_type"]) if named else (row["layer"] or row["source"] or row["op"], "")].append(row)
    steps = max(len(run.by_host[host].steps.steady_rows), 1)
    scale = 1 / max(1.0, sum(row["share"] for rows in groups.values() for row in rows))
    return sorted((_part(rows, scale, steps) for rows in groups.values()), key=lambda part: -part.share)


def _compiled_rows(run: Run, host: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of table `hlo_lines` of ops that compute, each with its layer ("" for none)
    and whether it is part of an attention.
    """
    places, attends = op_locators(run)[host], attention_ops(run)
    for row in hlo_source_lines(run).filter_by("host", host).records():
        if not row["opcode"].endswith(WAITING_OPCODES):
            place = places.locate(row["op"], row["opcode"], row["source"])
            of_layer = {"layer": place.part, "source": place.source, "layer_type": place.layer_type}
            is_named = place.kind == LAYER or place.part in ROLES.values()
            cells = of_layer if is_named else {"layer": "", "layer_type": ""}
            yield {**row, **cells, "attends": (host, row["op"], row["source"]) in attends}


def _work_of(row: dict[str, Any]) -> WorkKind:
    """Return the kind of work of a row of `_compiled_rows`."""
    if row["layer"] == OPTIMIZER:
        return WorkKind.OPTIMIZER
    return WorkKind.ATTENTION if row["attends"] else classify_work(row["product"] or row["opcode"], row["op"], row["layer"])


def compute_bound(rows: list[dict[str, Any]], time: str = "self_ps") -> float | None:
    """Return the share of the step that rows of a table took above their roofs; None where the
    roofs of much of their time are not known. `time`: column with the time that a row's share is
    of.
    """
    known = [row for row in rows if row["above_ps"] is not None and row.get("bound") not in NO_ROOF_BOUNDS and row[time]]
    if sum(row[time] for row in known) < _MOSTLY_KNOWN * sum(row[time] for row in rows) or not known:
        return None
    return min(1.0, float(sum(row["share"] * row["above_ps"] / row[time] for row in known)))


def _part(rows: list[dict[str, Any]], scale: float, steps: int) -> ModelPart:
    """Return the part of a compiled program that the rows of table `hlo_lines` form. `scale` is the
    factor of the shares, `steps` the number of steady steps.
    """
    top = max(rows, key=lambda row: row["time_ps"])
    share, time = sum(row["share"] for row in rows), sum(row["time_ps"] for row in rows)
    slow = sum(row["share"] for row in rows if _is_slow(row))
    source = format_source(top["source"])
    by_work: dict[WorkKind, float] = defaultdict(float)
    by_op: dict[str, float] = defaultdict(float)
    for row in rows:
        by_op[short_op_name(row["op"], row["product"])] += row["time_ps"]
        by_work[_work_of(row)] += row["time_ps"]
    op, work = max(by_op, key=by_op.__getitem__), max(by_work, key=by_work.__getitem__)
    top = max((row for row in rows if short_op_name(row["op"], row["product"]) == op), key=lambda row: row["time_ps"])
    top_work = classify_work(top["product"] or top["opcode"], top["op"])
    count = sum(row["count"] for row in rows) / steps
    mean = time / max(count, 1 / steps)
    inside = sum(row["share"] * row["loop_ps"] / row["time_ps"] for row in rows if row["time_ps"])
    layers: dict[str, float] = defaultdict(float)
    for row in rows:
        layers[row["layer"]] += row["share"]
    names = [format_source(layer) for layer in sorted(layers, key=lambda layer: -layers[layer]) if layer]
    return ModelPart(
        join_names(names) if names else source or top["op"],
        source,
        share * scale,
        time,
        op,
        slow > share / 2,
        "hlo_lines",
        mean,
        bool(source) and inside > share / 2 and count >= _MANY and mean < SHORT_OP,
        work=work,
        op_name=top["op"],
        flops_per_s=(top["flops_per_s"] or 0.0) if top_work in _PRODUCT_WORK else 0.0,
        op_share=by_op[op] / max(time, 1),
        work_share=by_work[work] / max(time, 1),
        above_share=_above_share(rows),
        bound=compute_bound(rows, "time_ps"),
        members=tuple(layers),
    )


def _inner_function(op_name: str) -> str:
    """Return the function of a library whose program an op belongs to, of a function that calls it:
    `gamma` for `jit(step)/jit(_gamma)/while`; "" for none.
    """
    functions = _JITTED.findall(op_name)[1:]
    return functions[-1].lstrip("_") if functions else ""


def _above_share(rows: list[dict[str, Any]]) -> float:
    """Return the share of the step that rows of table `hlo_lines` took above their roofs, of rows
    that are bound by neither.
    """
    slow = (row for row in rows if row["bound"] == Bound.NEITHER.value and row["time_ps"])
    return float(sum(row["share"] * row["above_ps"] / row["time_ps"] for row in slow))


def _is_slow(row: dict[str, Any]) -> bool:
    """Whether a compiled op could mostly be made cheaper. Sums by group (scatter) on a device are
    not among these ops, since a device adds them up in parallel.
    """
    what = f"{row['opcode']} {row['op'].rpartition('/')[2]}"
    return bool(_SLOW.search(what)) and not (row["side"] == ON_DEVICE and _SCATTERS.search(what))


def select_compute_rows(table: Table) -> list[dict[str, Any]]:
    """Return the rows of the side that computes. Where devices ran ops, the host only launches
    them.
    """
    rows = list(table.records())
    return [row for row in rows if row["side"] == DEVICE] or [row for row in rows if row["side"] in (HOST, "")]
