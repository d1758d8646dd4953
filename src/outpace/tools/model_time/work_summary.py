# SPDX-License-Identifier: Apache-2.0
"""The parts and kinds of work of a model, in one form for ops of TensorFlow and for lines of a
compiled program. The rules on the model use it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.facts.device_peaks import peak_flops
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE as ON_DEVICE
from outpace.metrics.facts.hlo_instructions import (
    InstructionStats,
    attention_ops,
    hlo_source_lines,
    instruction_stats,
    short_op_name,
    strip_transforms,
)
from outpace.metrics.facts.model_ops import COMPILED, model_ops
from outpace.metrics.facts.op_locations import COLLECTIVES, LAYER, LINE, LOGS, TRANSFER_OPS
from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.facts.roofs import NO_ROOF_BOUNDS, Bound
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.best_case import best_case_ops
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.source_line import format_source_line, shorten_source_path
from outpace.metrics.views.model_parts import model_parts, op_locators
from outpace.metrics.views.model_work import WAITING_OPCODES, model_work
from outpace.metrics.views.small_ops import FUSIBLE_WORK, small_ops
from outpace.model import Category, Saving, Table, Unit, humanize
from outpace.model.text import format_largest_part
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.timeline.work_kinds import WorkKind, classify_work
from outpace.tools.model_time.actions import ActionContext, OpTraits, render_actions

# Ops that loop, sort, search or move data, run on one thread, or call Python: for these there is
# mostly a cheaper way. Dense arithmetic is what hardware does well, and a profile does not show
# whether chains of element-wise ops could be cheaper.
_SLOW = compile_lazily(
    r"(?<!un)sort|top_?k|unique|where|cumsum|cumprod|cumulative|scatter|scan|while|map_fn|TensorList|LRN|PyFunc|Svd|svd|Qr\b|qr\b|cholesky|inverse|"
    r"triangular_solve|NonMaxSuppression|EditDistance|CTC|reverse_sequence|histogram|bincount|erf_inv|igamma|lgamma|digamma|betainc",
    re.IGNORECASE,
)
_SCATTERS = compile_lazily(r"scatter")
_SHORT = 50e6  # length of a short op, ps: shorter ones cost about as much to start as they take
_MANY = 150  # minimum executions per step in a loop over a sequence
_MOSTLY_KNOWN = 0.9  # minimum share of the time of ops with known roofs, for a bound from them
_JITTED = compile_lazily(r"\bjit\(([A-Za-z_]\w*)\)")
_FEEDS = ("IteratorGetNext", "OptionalFromValue", "IteratorGetNextAsOptional")  # ops that take an element of a data set
_PRODUCT_WORK = (WorkKind.MATMUL, WorkKind.CONVOLUTION, WorkKind.ATTENTION)
_NO_PART = (COMPILED, LOGS, TRANSFER_OPS, COLLECTIVES)  # names of parts that are no layer, or whose content is not known
_MOST_PARTS = 3  # maximum number of parts in a sentence
_MIN_SHARE = 0.01  # minimum share of the step for a part to be named
LARGE_SHARE = 0.10  # share of the step from which a part stands out
_TERA = 1e12  # FLOP/s per TFLOP/s
_GIGA = 1e12 / 1e9  # GFLOP/s per FLOP/ps
_COMPANY = 0.1  # mean number of input threads below which they do not affect the time of an op
_NEAR = 1.15  # ratio to the best run within which runs of an op that has the cores to itself differ
_REPLICA = compile_lazily(r"(.*/)?replica_\d+")  # a replica: a copy of the whole model, and no part of it
COMPUTE_CATEGORIES = (Category.HOST_COMPUTE, Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)
"""Step categories that contain the time of the model's ops."""


_AT_THE_ROOF = "if the same work ran as fast as the units and the memory allow"
"""Assumption of a saving of the time above the roofs."""


def compute_saving(share: float, assumes: str) -> Saving | None:
    """Return the upper bound of what a step saves by `share` (of the step) less computation;
    `assumes` is the assumption in words.
    """
    return build_saving(share, *COMPUTE_CATEGORIES, assumes=assumes)


def compute_roof_saving(share: float) -> Saving | None:
    """Return what a step saves where `share` of it is above the roofs, and comes down to them."""
    saving = compute_saving(share, _AT_THE_ROOF)
    return replace(saving, at_roof=True) if saving is not None else None


def compute_needless_saving(share: float, assumes: str) -> Saving | None:
    """Return what a step saves at least where `share` of it is known to be needless."""
    saving = compute_saving(share, assumes)
    return replace(saving, at_least=True) if saving is not None else None


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
    layer_count: number of layers that it is; 1 for other parts.
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
    layer_count: int = 1
    loop: str = ""
    is_map: bool = False

    @property
    def takes(self) -> str:
        """The verb behind the part's name."""
        return "takes" if self.layer_count == 1 else "take"

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
        return self.mean_op < _SHORT

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
    rows = [row for row in shown if row["share"] > 0 and not _REPLICA.fullmatch(row["part"])]
    rounds = sum(row["dispatches"] for row in small_ops(run).filter_by("host", host).records())
    around = max(sum(row["overhead_ps"] for row in rows), 1)
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
                bound=_bound([row]),
                layer_count=row["layers"],
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
    return bool(row["source"]) and most >= _MANY and (row["overhead_ps"] > row["self_ps"] or mean < _SHORT)


def _join_layers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the rows of layers of one class that one line of the program made: who changes that line
    changes all of them. Each row gets the number of its layers (`layers`).
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
    locator, groups = op_locators(run)[host], defaultdict[str, list[dict[str, Any]]](list)
    # A loop that takes elements of a data set is the training itself.
    trains = {
        locator.locate_loop(name)[0]
        for ops in model_ops(run)
        if ops.host == host
        for name, kind, _ in ops.ops
        if kind in _FEEDS
    }
    for row in rows:
        loop, text = locator.locate_loop(row["top_op_name"])
        loop = "" if loop in trains else loop
        groups[loop if loop and row["kind"] == LINE else row["part"]].append(
            {**row, "loop": loop, "is_map": bool(loop) and "map_fn" in text}
        )
    joined = []
    for place, group in groups.items():
        whole = {
            **_join_rows(sorted(group, key=lambda row: -row["share"])),
            "layers": 1,
            "part": format_source(place),
            "source": place,
        }
        joined += [whole] if len(group) > 1 and _is_loop(whole, rounds_per_ps) else group
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
        "layers": len(rows),
    }


def join_names(names: list[str]) -> str:
    """Return the first three names, and the number of further ones: `dense_1, dense_2 and 3 more`
    for parts of a model.
    """
    shown = names[:_MOST_PARTS]
    shown += [f"{len(names) - len(shown)} more"] * (len(names) > len(shown))
    return " and ".join(text for text in (", ".join(shown[:-1]), shown[-1]) if text)


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
            cells = of_layer if place.kind == LAYER else {"layer": "", "layer_type": ""}
            yield {**row, **cells, "attends": (host, row["op"], row["source"]) in attends}


def _work_of(row: dict[str, Any]) -> WorkKind:
    """Return the kind of work of a row of `_compiled_rows`."""
    return WorkKind.ATTENTION if row["attends"] else classify_work(row["product"] or row["opcode"], row["op"], row["layer"])


def _bound(rows: list[dict[str, Any]], time: str = "self_ps") -> float | None:
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
        bool(source) and inside > share / 2 and count >= _MANY and mean < _SHORT,
        work=work,
        op_name=top["op"],
        flops_per_s=(top["flops_per_s"] or 0.0) if top_work in _PRODUCT_WORK else 0.0,
        op_share=by_op[op] / max(time, 1),
        work_share=by_work[work] / max(time, 1),
        above_share=_above_share(rows),
        bound=_bound(rows, "time_ps"),
        layer_count=max(len(names), 1),
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


def render_part_actions(top: ModelPart, here: ActionContext) -> str:
    """Return the actions that make a part of the model cheaper."""
    if top.is_loop and top.work is not WorkKind.RECURRENT:
        unlooped = render_actions(WorkKind.RECURRENT, replace(here, has_short_ops=True))
        ways = here.program.select_text(
            tensorflow="batched products, einsum, cumsum", jax="batched products, einsum, cumsum, jax.vmap"
        )
        if top.is_map:
            return f"Compute the whole batch at once ({ways}, tf.vectorized_map) instead of element by element in tf.map_fn. Or: {unlooped}"
        iterates = "; where a function iterates (a special function, a sampler), take a closed form, or a cheaper one"
        return f"Vectorise {top}: all iterations at once, as far as none needs the one before it ({ways}){iterates}. Or: {unlooped}"
    if not top.is_slow or top.is_loop:
        return render_actions(top.work, replace(here, op=top.op, has_short_ops=here.has_short_ops or top.has_short_ops))
    return here.program.select_text(
        keras=f"Replace {top.op} with something cheaper, in {top}: fewer elements, one op instead of a loop, or "
        "once per epoch instead of in every step.",
        tensorflow=f"Replace {top.op} with something cheaper, in {top}: fewer elements, one op instead of a loop, or "
        "outside the step.",
        jax=f"Replace {top.op} with something cheaper, in {top}: fewer elements, one op instead of a loop (lax.scan, fori_loop), or outside "
        "the step.",
    )


def select_compute_rows(table: Table) -> list[dict[str, Any]]:
    """Return the rows of the side that computes. Where devices ran ops, the host only launches
    them.
    """
    rows = list(table.records())
    return [row for row in rows if row["side"] == DEVICE] or [row for row in rows if row["side"] in (HOST, "")]


@dataclass(frozen=True)
class WorkTotals:
    """A kind of work, summed over the whole model.

    work: kind of work.
    share: share of the step.
    op: op that takes most of the time.
    part_count: number of parts of the model with this kind of work.
    largest_parts: the largest of these parts, in words; parts of equal name are one.
    is_half: whether most of it computes in 16 bits, as far as known.
    line_shares: share of the step by source line, the largest first.
    mean_op: mean time of one op, ps.
    op_share: minimum share of the time in `op`.
    bound: share of the step above the roofs; None where those of much of the time are not known.
    """

    work: WorkKind
    share: float
    op: str
    part_count: int
    largest_parts: str
    is_half: bool
    line_shares: dict[str, float]
    mean_op: float
    op_share: float
    bound: float | None

    @property
    def top_op_text(self) -> str:
        """The op that takes most of the time, or the largest share of it, in words."""
        return format_largest_part(f"in {self.op}", self.op_share, 1.0)

    @property
    def has_short_ops(self) -> bool:
        """Whether starting an op costs about as much as the op takes, as far as known."""
        return 0 < self.mean_op < _SHORT


def sum_shares_by_line(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the share of the step by the source line (`train.py:41`) that made the rows' ops, the
    largest first. Rows without a known line are left out.
    """
    shares: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["source"]:
            shares[format_source(row["source"])] += row["share"]
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def format_lines(lines: list[str]) -> str:
    """Return up to three lines in their order, and the number of further lines: `train.py:38,
    train.py:40, train.py:52 and 2 more lines`.
    """
    further = len(lines) - _MOST_PARTS
    texts = [*sorted(lines[:_MOST_PARTS], key=lambda line: (line.rpartition(":")[0], int(line.rpartition(":")[2] or 0)))]
    texts += [format_count(further, "more line")] * (further > 0)
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def find_fusible_lines(run: Run, host: str) -> dict[str, float]:
    """Return the share of the step, by line, in ops that a compiler fuses: element-wise ops, and
    short ops.
    """
    rows = select_compute_rows(model_work(run).filter_by("host", host))
    return sum_shares_by_line([r for r in rows if WorkKind(r["work"]) in FUSIBLE_WORK or r["self_ps"] < _SHORT * r["count"]])


def compute_work_totals(run: Run, host: str) -> list[WorkTotals]:
    """Return the kinds of work of one host's model, the largest first."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in select_compute_rows(model_work(run).filter_by("host", host)):
        if not _REPLICA.fullmatch(row["part"]):
            groups[row["work"]].append(row)
    return sorted((_work_totals(WorkKind(work), rows) for work, rows in groups.items()), key=lambda kind: -kind.share)


def _work_totals(work: WorkKind, rows: list[dict[str, Any]]) -> WorkTotals:
    """Return the totals of one kind of work, from its rows of table `model_work`."""
    share = sum(row["share"] for row in rows)
    named: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        named[format_source(row["part"])].append(row["share"])
    most = sorted(named, key=lambda name: -sum(named[name]))[:_MOST_PARTS]
    most = [name for name in most if sum(named[name]) >= _MIN_SHARE] or most[:1]
    names = (f"{len(named[n])} x {n}" if len(named[n]) > 1 else n for n in most)
    largest = ", ".join(f"{text} {sum(named[n]):.0%}" for text, n in zip(names, most, strict=True))
    half = sum(row["share"] for row in rows if row["half"]) > share / 2
    mean = sum(row["self_ps"] for row in rows) / max(sum(row["count"] for row in rows), 1.0)
    time = sum(row["self_ps"] for row in rows)
    by_op: dict[str, float] = defaultdict(float)
    for row in rows:
        by_op[row["top_op"]] += row["top_op_ps"]
    op = max(by_op, key=by_op.__getitem__)
    places = len({row["part"] for row in rows})
    of_op = by_op[op] / max(time, 1)
    return WorkTotals(work, share, op, places, largest, half, sum_shares_by_line(rows), mean, of_op, _bound(rows))


# Masks by name (cuDNN), or by number (Transformer Engine's NVTE_Mask_Type).
_MASK = compile_lazily(r"mask_type\W+(?:(\w*CAUSAL\w*)|([2-5])\b|(\w+))")
_PADDING = compile_lazily(r"mask_type\W+(?:\w*PADDING|[135]\b)")
_DROPOUT = compile_lazily(r"dropout_(?:probability|rate)\W+([\d.]+(?:e[+-]?\d+)?)")
_MOSTLY = 0.9  # minimum share of the FLOPs in products with aligned sizes: an image's three channels are no fault
_NEAR_PEAK = 0.6  # minimum share of the peak to be near it; the best libraries reach three quarters for large products
_MEMORY_BOUND = 0.5  # share of the memory's bandwidth from which an op of large arrays has little else to wait for


def compute_traits(run: Run, host: str, source: str) -> OpTraits:
    """Return what the programs of one host show about the ops that a source line makes."""
    ran = [r for r in instruction_stats(run).get(host, ()) if source and format_source(r.op.source) == source]
    products = [r for r in ran if r.op.has_product]
    flops = [r.op.cost.product_flops * r.count for r in products]
    masks = [r.op.backend_config for r in ran if _MASK.search(r.op.backend_config)]
    drops = [float(match[1]) for r in ran if (match := _DROPOUT.search(r.op.backend_config))]
    memory, fast = _roof_share(ran, Bound.MEMORY), _roof_share(products, Bound.COMPUTE) >= _NEAR_PEAK
    device = "device" if any(r.side == ON_DEVICE for r in ran) else "processor"
    words = (
        f"moving its arrays at {memory:.0%} of the memory's speed, which limits it" * (memory >= _MEMORY_BOUND and not fast),
        f"near what the {device} can do" * fast,
    )
    layers = [
        layer
        for layer in (run.record(host).get("layers") or {}).values()
        if layer["file"] and format_source_line(layer["file"], layer["line"]) == source
    ]
    return OpTraits(
        is_aligned=sum(work for r, work in zip(products, flops, strict=True) if r.op.is_aligned) >= _MOSTLY * sum(flops) > 0,
        may_be_causal=any(not match[1] and not match[2] for text in masks if (match := _MASK.search(text))),
        has_padding=any(_PADDING.search(text) for text in masks),
        dropout_rate=max(drops, default=0.0),
        is_memory_bound=memory >= _MEMORY_BOUND,
        is_near_peak=fast,
        recurrent_dropout=max((layer.get("recurrent_dropout", 0.0) for layer in layers), default=0.0),
        is_joinable=any(r.op.is_joinable for r in products),
        limit_text="".join(words),
    )


def _roof_share(ran: list[InstructionStats], bound: Bound) -> float:
    """Return how near ops came to one of their roofs, as a share of the time that all of them took;
    0 where that is not known.
    """
    time = sum(r.time_ps for r in ran)
    return sum(r.roof.share * r.time_ps for r in ran if r.roof.bound is bound) / time if time else 0.0


@dataclass(frozen=True)
class OpSpeed:
    """How fast an op runs on a CPU.

    median: median time of a run, ps.
    best: best time of a run, ps.
    input_threads: input threads that worked during the best run.
    flops: FLOPs of a run; NaN where not known.
    peer_range: fastest and slowest median time of the ops with as many FLOPs, ps.
    """

    median: float
    best: float
    input_threads: float
    flops: float
    peer_range: tuple[float, float]

    @property
    def is_near_best(self) -> bool:
        """Whether the op's runs are about as fast as its fastest one, which had the cores to
        itself.
        """
        return self.median <= _NEAR * self.best and self.input_threads < _COMPANY

    def __str__(self) -> str:
        rates = [f"{self.flops / time * _GIGA:.3g}" for time in (self.median, self.best)] if self.flops > 0 else []
        median = f"{humanize(self.median, Unit.PS)} a run"
        if self.is_near_best:
            return f"{median}, near its best{f': {rates[0]} GFLOP/s' if rates else ''}"
        rate = f": {' and '.join(rates)} GFLOP/s" if rates else ""
        return f"{median}, {humanize(self.best, Unit.PS)} at best{rate}"


def compute_op_speed(run: Run, host: str, op: str, name: str = "") -> OpSpeed | None:
    """Return how fast the op that takes most of a part or kind of work runs; None where too few
    runs were recorded.

    It is the op with most time among those of type `op` (for compiled programs: whose name ends so)
    and, where one is given, with the name `name`.
    """
    rows = list(best_case_ops(run).filter_by("host", host).records())
    op_rows = [row for row in rows if _is_op(row, op, name)]
    if not op_rows:
        return None
    top = max(op_rows, key=lambda row: row["wall_ps"])
    flops = top["flops"] or math.nan
    equal = [row["median_ps"] for row in rows if row["flops"] == flops] or [top["median_ps"]]
    return OpSpeed(
        float(top["median_ps"]), float(top["best_ps"]), top["at_best"], flops, (float(min(equal)), float(max(equal)))
    )


def format_flop_rate(timeline: Timeline, rate: float) -> str:
    """Return a rate in FLOP/s in words, with its share of the device's peak where the device's
    plane states that.
    """
    peaks = [peak for plane in timeline.device_planes if (peak := peak_flops(plane))]
    share = f", {rate / min(peaks):.0%} of the peak" if peaks else ""
    return f"{rate / _TERA:.3g} TFLOP/s{share}"


def _is_op(row: dict[str, Any], op: str, name: str) -> bool:
    if not row["type"].islower():
        return bool(row["type"] == op and name in ("", row["name"]))
    plain = strip_transforms(row["name"])[0] or row["name"]
    return plain == name if name else f"/{plain}".endswith(f"/{op}")


@dataclass(frozen=True)
class ShortOps:
    """Compiled ops too short to be worth their start.

    count: executions per step.
    share: share of the step.
    mean: mean time of one op, ps.
    """

    count: float
    share: float
    mean: float


def compute_short_ops(run: Run, host: str, limit: float) -> ShortOps:
    """Return the compiled ops of one host whose mean time is below `limit`, ps."""
    steps = max(len(run.by_host[host].steps.steady_rows), 1)
    rows = [r for r in hlo_source_lines(run).filter_by("host", host).records() if r["time_ps"] * steps < limit * r["count"]]
    count, time = sum(r["count"] for r in rows) / steps, sum(r["time_ps"] for r in rows)
    return ShortOps(count, min(1.0, sum(r["share"] for r in rows)), time / count if count else 0.0)
