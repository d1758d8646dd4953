# SPDX-License-Identifier: Apache-2.0
"""The kinds of work of a model, how fast its ops run, and what less of them saves. The rules on the
model use it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.actions.model_work import ActionContext, OpTraits, reaches_roof, render_actions
from outpace.metrics.facts.device_peaks import peak_flops
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE as ON_DEVICE
from outpace.metrics.facts.hlo_instructions import (
    InstructionStats,
    hlo_source_lines,
    instruction_stats,
    strip_transforms,
)
from outpace.metrics.facts.roofs import Bound
from outpace.metrics.savings.best_case import best_case_ops
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.source_line import format_source_line
from outpace.metrics.views.model_work import model_work
from outpace.metrics.views.small_ops import FUSIBLE_WORK
from outpace.model import Category, Saving, Unit, humanize
from outpace.model.text import MOST_NAMES, format_largest_part
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.timeline.work_kinds import WorkKind
from outpace.tools.model_time.parts import (
    REPLICA,
    SHORT_OP,
    ModelPart,
    compute_bound,
    format_source,
    select_compute_rows,
)

_MIN_SHARE = 0.01  # minimum share of the step for a part to be named
LARGE_SHARE = 0.10  # share of the step from which a part stands out
_TERA = 1e12  # FLOP/s per TFLOP/s
_GIGA = 1e12 / 1e9  # GFLOP/s per FLOP/ps
_COMPANY = 0.1  # mean number of input threads below which they do not affect the time of an op
_NEAR = 1.15  # ratio to the best run within which runs of an op that has the cores to itself differ
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


def can_reach_roof(top: ModelPart, here: ActionContext) -> bool:
    """Whether an action could bring a part of the model nearer to the device's limits: a saving is
    promised with an action that could bring it.
    """
    return top.is_metrics or top.is_loop or top.is_slow or reaches_roof(top.work, _op_context(top, here))


def _op_context(top: ModelPart, here: ActionContext) -> ActionContext:
    """Return what an action on the part's largest op must fit."""
    return replace(here, op=top.op, flops_per_s=top.flops_per_s, has_short_ops=here.has_short_ops or top.has_short_ops)


def render_part_actions(top: ModelPart, here: ActionContext) -> str:
    """Return the actions that make a part of the model cheaper."""
    if top.is_metrics:
        return here.program.select_text(
            keras="Compute metrics in the evaluation alone: each one of compile(metrics=...) is updated in every training step. Or give "
            "them fewer thresholds or classes.",
            tensorflow="Update metrics every few steps, or in the evaluation alone. Or give them fewer thresholds or classes.",
            jax="Compute metrics every few steps, or in the evaluation alone. Or give them fewer thresholds or classes.",
        )
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
        return render_actions(top.work, _op_context(top, here))
    return here.program.select_text(
        keras=f"Replace {top.op} with something cheaper, in {top}: fewer elements, one op instead of a loop, or "
        "once per epoch instead of in every step.",
        tensorflow=f"Replace {top.op} with something cheaper, in {top}: fewer elements, one op instead of a loop, or "
        "outside the step.",
        jax=f"Replace {top.op} with something cheaper, in {top}: fewer elements, one op instead of a loop (lax.scan, fori_loop), or outside "
        "the step.",
    )


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
        return 0 < self.mean_op < SHORT_OP


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
    further = len(lines) - MOST_NAMES
    texts = [*sorted(lines[:MOST_NAMES], key=lambda line: (line.rpartition(":")[0], int(line.rpartition(":")[2] or 0)))]
    texts += [format_count(further, "more line")] * (further > 0)
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def find_fusible_lines(run: Run, host: str) -> dict[str, float]:
    """Return the share of the step, by line, in ops that a compiler fuses: element-wise ops, and
    short ops.
    """
    rows = select_compute_rows(model_work(run).filter_by("host", host))
    return sum_shares_by_line([r for r in rows if WorkKind(r["work"]) in FUSIBLE_WORK or r["self_ps"] < SHORT_OP * r["count"]])


def compute_work_totals(run: Run, host: str) -> list[WorkTotals]:
    """Return the kinds of work of one host's model, the largest first."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in select_compute_rows(model_work(run).filter_by("host", host)):
        if not REPLICA.fullmatch(row["part"]):
            groups[row["work"]].append(row)
    return sorted((_work_totals(WorkKind(work), rows) for work, rows in groups.items()), key=lambda kind: -kind.share)


def _work_totals(work: WorkKind, rows: list[dict[str, Any]]) -> WorkTotals:
    """Return the totals of one kind of work, from its rows of table `model_work`."""
    share = sum(row["share"] for row in rows)
    named: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        named[format_source(row["part"])].append(row["share"])
    most = sorted(named, key=lambda name: -sum(named[name]))[:MOST_NAMES]
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
    return WorkTotals(work, share, op, places, largest, half, sum_shares_by_line(rows), mean, of_op, compute_bound(rows))


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
