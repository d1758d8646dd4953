"""What the rules of the model look at: its parts in one form, whether ops of TensorFlow or lines of
a compiled program.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import Any

from outpace._dataclass import dataclass
from outpace.metrics.facts.device_specs import memory_bandwidth, peak_flops
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE as ON_DEVICE
from outpace.metrics.facts.hlo_instructions import (
    InstructionStats,
    attention_ops,
    hlo_source_lines,
    instruction_stats,
    short_op_name,
    strip_transforms,
)
from outpace.metrics.facts.model_ops import COMPILED
from outpace.metrics.facts.op_locations import COLLECTIVES, LAYER, LOGS, TRANSFER_OPS
from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.best_case import best_case_ops
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.source_line import shorten_source_path
from outpace.metrics.views.model_parts import model_parts, op_locators
from outpace.metrics.views.model_work import WAITING_OPCODES, model_work
from outpace.metrics.views.small_ops import FUSIBLE_WORK, small_ops
from outpace.model import Category, Saving, Table, Unit, humanize
from outpace.model.text import format_largest_part
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import WorkKind, classify_work
from outpace.tools.model_time.actions import OpTraits

# Ops that loop, sort, search or move data, run on one thread, or call Python: mostly there is a
# cheaper way. Dense arithmetic hardware does well, and of element-wise chains a profile does not
# tell.
_SLOW = re.compile(
    r"(?<!un)sort|top_?k|unique|where|cumsum|cumprod|cumulative|scatter|scan|while|map_fn|TensorList|LRN|PyFunc|Svd|svd|Qr\b|qr\b|cholesky|inverse|"
    r"triangular_solve|NonMaxSuppression|EditDistance|CTC|reverse_sequence|histogram|bincount|erf_inv|igamma|lgamma|digamma|betainc",
    re.IGNORECASE,
)
_SCATTERS = re.compile(r"scatter")
_SHORT = 50e6  # ps per op: shorter ones cost about as much to start
_MANY = 150  # executions per step, as a loop over a sequence makes them
_IN_LOOP = re.compile(r"/while/")
_NO_PART = (COMPILED, LOGS, TRANSFER_OPS, COLLECTIVES)  # no layer, or nothing is known of what is in it
_NAMED = 3  # parts in a sentence
_TOLD = 0.01  # of the step: a part with less is not named
LARGE_SHARE = 0.10  # of the step, from where a part stands out
_TERA = 1e12
_GIGA = 1e12 / 1e9  # GFLOP/s of one FLOP per ps
_COMPANY = 0.1  # of a thread: less cannot be noticed in the time of an op
_NEAR = 1.15  # times its best: runs of an op that has the cores to itself differ by as much
_REPLICA = re.compile(r"(.*/)?replica_\d+")  # a copy of the whole model, and no part of it
COMPUTE_CATEGORIES = (Category.HOST_COMPUTE, Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)
"""Categories of the step that the model's ops take."""


def compute_saving(share: float, assumes: str) -> Saving | None:
    """What computing that share of the step less saves at most."""
    return build_saving(share, *COMPUTE_CATEGORIES, assumes=assumes)


@dataclass(frozen=True)
class ModelPart:
    """A layer or line: its share of the step, which op takes most of it, and whether that is one
    that mostly could be cheaper.

    mean_op: mean time of one of its ops, ps; 0 where that is not known. loops: it has a line, and
    is many short ops. starting: share of the step that the executor spends around its ops, and in
    those too short for an event. sure: whether what makes it slow takes most of its time; of a loop
    of short ops, starting them may be the smaller part. work: kind of op that takes most of it.
    op_name: name of the op that does; rate: its FLOP/s, 0 unknown. op_share, work_share: of its
    time, what the op and this kind of op take.
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

    @property
    def is_attention(self) -> bool:
        """Whether it is an attention, whose ops are of other kinds by their names."""
        return self.work is WorkKind.ATTENTION and classify_work(self.op) is not WorkKind.ATTENTION

    @property
    def top_op_text(self) -> str:
        """In words: what takes most of it, or the largest part of it."""
        if self.is_loop:
            return "in many short ops, as in a loop over a sequence"
        return (
            format_largest_part(f"in {self.work.value}", self.work_share, 1.0)
            if self.is_attention
            else format_largest_part(f"in {self.op}", self.op_share, 1.0)
        )

    @property
    def has_short_ops(self) -> bool:
        """Whether starting its ops costs about as much as they take."""
        return self.mean_op < _SHORT

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source and self.source != self.name else ""
        return f"{self.name}{where}"


def format_source(source: str) -> str:
    """`train.py:41` of a source line with its folders."""
    return shorten_source_path(source)


def find_parts(run: Run, host: str, program: Workload) -> list[ModelPart]:
    """The parts of one host's model, the largest first, without what is none."""
    found = (_compiled(run, host) if program.is_jax else []) or _ops(run, host)
    return [part for part in found if part.name not in _NO_PART]


def _ops(run: Run, host: str) -> list[ModelPart]:
    found = []
    rows = [row for row in select_compute_rows(model_parts(run).filter_by("host", host)) if row["share"] > 0]
    rounds = sum(row["dispatches"] for row in small_ops(run).filter_by("host", host).records())
    around = max(sum(row["overhead_ps"] for row in rows), 1)
    for row in rows:
        time = row["self_ps"] + row["overhead_ps"]
        slow = bool(_SLOW.search(row["top_op"]))
        if not _REPLICA.fullmatch(row["part"]):
            mean = time / max(row["count"], 1.0)
            named = (format_source(row["part"]), format_source(row["source"]))
            most = max(row["count"], rounds * row["overhead_ps"] / around)  # most ops of a loop are too short for an event
            starts = row["overhead_ps"] > row["self_ps"]
            loops = bool(row["source"]) and most >= _MANY and (starts or mean < _SHORT)
            starting = row["share"] * row["overhead_ps"] / max(time, 1)
            sure = slow or starts or not loops
            found.append(
                ModelPart(
                    *named,
                    row["share"],
                    time,
                    row["top_op"],
                    slow or loops,
                    "model_parts",
                    mean,
                    loops,
                    starting,
                    sure,
                    WorkKind(row["work"]) if row["work"] else WorkKind.OTHER,
                    row["top_op_name"],
                    op_share=row["top_op_ps"] / max(time, 1),
                )
            )
    return sorted(found, key=lambda part: -part.share)


def _compiled(run: Run, host: str) -> list[ModelPart]:
    """By layer where the capture knows them (Keras), else by source line, or by framework op where
    the program holds no lines; shares of ops that ran side by side are scaled to the step.
    """
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    places, attends = op_locators(run)[host], attention_ops(run)
    for row in hlo_source_lines(run).filter_by("host", host).records():
        if not row["opcode"].endswith(WAITING_OPCODES):
            place = places.locate(row["op"], row["opcode"], row["source"])
            known = {"layer": place.part, "source": place.source} if place.kind == LAYER else {"layer": ""}
            row = {**row, **known, "attends": (host, row["op"], row["source"]) in attends}
            groups[row["layer"] or row["source"] or row["op"]].append(row)
    steps = max(len(run.by_host[host].steps.steady_rows), 1)
    scale = 1 / max(1.0, sum(row["share"] for rows in groups.values() for row in rows))
    return sorted((_part(rows, scale, steps) for rows in groups.values()), key=lambda part: -part.share)


def _part(rows: list[dict[str, Any]], scale: float, steps: int) -> ModelPart:
    top = max(rows, key=lambda row: row["time_ps"])
    share, time = sum(row["share"] for row in rows), sum(row["time_ps"] for row in rows)
    slow = sum(row["share"] for row in rows if _slow(row))
    source = format_source(top["source"])
    by_work: dict[WorkKind, float] = defaultdict(float)
    by_op: dict[str, float] = defaultdict(float)
    for row in rows:
        by_op[short_op_name(row["op"], row["product"])] += row["time_ps"]
        work = WorkKind.ATTENTION if row["attends"] else classify_work(row["product"] or row["opcode"], row["op"], row["layer"])
        by_work[work] += row["time_ps"]
    op, work = max(by_op, key=by_op.__getitem__), max(by_work, key=by_work.__getitem__)
    top = max((row for row in rows if short_op_name(row["op"], row["product"]) == op), key=lambda row: row["time_ps"])
    count = sum(row["count"] for row in rows) / steps
    mean = time / max(count, 1 / steps)
    inside = sum(row["share"] for row in rows if _IN_LOOP.search(f"{row['op']}/{row['opcode']}/"))
    return ModelPart(
        top["layer"] or source or top["op"],
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
        flops_per_s=top["flops_per_s"] or 0.0,
        op_share=by_op[op] / max(time, 1),
        work_share=by_work[work] / max(time, 1),
    )


def _slow(row: dict[str, Any]) -> bool:
    """Whether a compiled op mostly could be cheaper: one of these, but for sums by group on a
    device, which adds them up side by side.
    """
    what = f"{row['opcode']} {row['op'].rpartition('/')[2]}"
    return bool(_SLOW.search(what)) and not (row["side"] == ON_DEVICE and _SCATTERS.search(what))


def select_compute_rows(table: Table) -> list[dict[str, Any]]:
    """The rows of the side that computes: where devices ran ops, what their host did is launching
    them.
    """
    rows = list(table.records())
    return [row for row in rows if row["side"] == DEVICE] or [row for row in rows if row["side"] in (HOST, "")]


@dataclass(frozen=True)
class WorkTotals:
    """A kind of op, added up over the whole model: its share of the step, the op that takes most of
    it, in how many parts of the model it is, and the largest of these in words (equal names are
    one); `is_half`: whether it computes in 16 bits, as far as is known. `line_shares`: the share of
    each of the user's lines that made it, the largest first; `mean_op`: mean time of one of its
    ops, ps; `op_share`: of its time, what the op takes at least.
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

    @property
    def top_op_text(self) -> str:
        """In words: which op takes most of it, or the largest part of it."""
        return format_largest_part(f"in {self.op}", self.op_share, 1.0)

    @property
    def has_short_ops(self) -> bool:
        """Whether starting its ops costs about as much as they take, as far as is known."""
        return 0 < self.mean_op < _SHORT


def sum_shares_by_line(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Share of the step by the line (`train.py:41`) that made the rows' ops, the largest first;
    without those of no known line.
    """
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["source"]:
            found[format_source(row["source"])] += row["share"]
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def format_lines(lines: list[str]) -> str:
    """Up to three lines in their order, and how many others there are: `train.py:38, train.py:40
    and 2 more line_shares`.
    """
    others = len(lines) - _NAMED
    told = [*sorted(lines[:_NAMED], key=lambda line: (line.rpartition(":")[0], int(line.rpartition(":")[2] or 0)))]
    told += [format_count(others, "more line")] * (others > 0)
    return " and ".join(part for part in (", ".join(told[:-1]), told[-1]) if part)


def find_fusible_lines(run: Run, host: str) -> dict[str, float]:
    """Share of the step, by line, of what a compiler fuses: element-wise ops, and ops that are
    short.
    """
    rows = select_compute_rows(model_work(run).filter_by("host", host))
    return sum_shares_by_line([r for r in rows if WorkKind(r["work"]) in FUSIBLE_WORK or r["self_ps"] < _SHORT * r["count"]])


def compute_work_totals(run: Run, host: str) -> list[WorkTotals]:
    """The kinds of work of one host's model, the largest first."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in select_compute_rows(model_work(run).filter_by("host", host)):
        if not _REPLICA.fullmatch(row["part"]):
            groups[row["work"]].append(row)
    return sorted((_kind(WorkKind(work), rows) for work, rows in groups.items()), key=lambda kind: -kind.share)


def _kind(work: WorkKind, rows: list[dict[str, Any]]) -> WorkTotals:
    share = sum(row["share"] for row in rows)
    named: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        named[format_source(row["part"])].append(row["share"])
    most = sorted(named, key=lambda name: -sum(named[name]))[:_NAMED]
    most = [name for name in most if sum(named[name]) >= _TOLD] or most[:1]
    said = (f"{len(named[n])} x {n}" if len(named[n]) > 1 else n for n in most)
    largest = ", ".join(f"{text} {sum(named[n]):.0%}" for text, n in zip(said, most, strict=True))
    half = sum(row["share"] for row in rows if row["half"]) > share / 2
    mean = sum(row["self_ps"] for row in rows) / max(sum(row["count"] for row in rows), 1.0)
    time = sum(row["self_ps"] for row in rows)
    by_op: dict[str, float] = defaultdict(float)
    for row in rows:
        by_op[row["top_op"]] += row["top_op_ps"]
    op = max(by_op, key=by_op.__getitem__)
    places = len({row["part"] for row in rows})
    return WorkTotals(work, share, op, places, largest, half, sum_shares_by_line(rows), mean, by_op[op] / max(time, 1))


_MASK = re.compile(
    r"mask_type\W+(?:(\w*CAUSAL\w*)|([2-5])\b|(\w+))"
)  # names (cuDNN), or numbers (Transformer Engine's NVTE_Mask_Type)
_PADDING = re.compile(r"mask_type\W+(?:\w*PADDING|[135]\b)")
_DROPOUT = re.compile(r"dropout_(?:probability|rate)\W+([\d.]+(?:e[+-]?\d+)?)")
_MOSTLY = 0.9  # of the FLOPs: an image's three channels are no fault
_NEAR_PEAK = 0.6  # of the peak, which the best libraries reach three quarters of for large products
_LIMITED = 0.5  # of the memory's speed, from where an op of large arrays has little else to wait for


def compute_traits(run: Run, host: str, source: str) -> OpTraits:
    """What the programs of one host say of the ops that a line makes."""
    ran = [r for r in instruction_stats(run).get(host, ()) if source and format_source(r.op.source) == source]
    products = [r for r in ran if r.op.flops > 0]
    flops = [r.op.flops * r.count for r in products]
    masks = [r.op.backend_config for r in ran if _MASK.search(r.op.backend_config)]
    drops = [float(found[1]) for r in ran if (found := _DROPOUT.search(r.op.backend_config))]
    memory, fast = _of_memory(run, host, ran), _of_peak(run, host, products) >= _NEAR_PEAK
    words = (
        f"moving its arrays at {memory:.0%} of the memory's speed, which limits it" * (memory >= _LIMITED and not fast),
        "near what the device can do" * fast,
    )
    return OpTraits(
        is_aligned=sum(work for r, work in zip(products, flops, strict=True) if r.op.is_aligned) >= _MOSTLY * sum(flops) > 0,
        is_causal=bool(masks) and all(found[1] or found[2] for text in masks if (found := _MASK.search(text))),
        has_padding=not masks or any(_PADDING.search(text) for text in masks),
        dropout_rate=max(drops, default=0.0),
        is_memory_bound=memory >= _LIMITED,
        is_near_peak=fast,
        limit_text="".join(words),
    )


def _of_peak(run: Run, host: str, products: list[InstructionStats]) -> float:
    """How fast a device multiplied while it ran these ops, as a share of its peak; 0 where that is
    not known.
    """
    mine = [r for r in products if r.side == ON_DEVICE]
    time = sum(r.time_ps for r in mine)
    peaks = [peak for plane in run.by_host[host].device_planes if (peak := peak_flops(plane))]
    return sum(r.flops_per_s * r.time_ps for r in mine) / time / min(peaks) if time and peaks else 0.0


def _of_memory(run: Run, host: str, ran: list[InstructionStats]) -> float:
    """How fast a device's memory was moved while it ran these ops, as a share of what its plane
    says it can do; 0 where that is not known.
    """
    mine = [r for r in ran if r.side == ON_DEVICE]
    time, planes = sum(r.time_ps for r in mine), run.by_host[host].device_planes
    speed = memory_bandwidth(planes[0]) if time and planes else 0.0
    return sum(r.bytes_per_s * r.time_ps for r in mine) / time / speed if speed else 0.0


@dataclass(frozen=True)
class OpSpeed:
    """How fast an op runs on a CPU: median and best time of a run, ps, threads of the input beside
    its best, FLOPs of a run (NaN unknown), and the medians of all ops with as many, the fastest and
    the slowest.
    """

    median: float
    best: float
    input_threads: float
    flops: float
    peer_range: tuple[float, float]

    @property
    def is_near_best(self) -> bool:
        """Whether its runs are about as fast as its fastest, which had the cores to themselves."""
        return self.median <= _NEAR * self.best and self.input_threads < _COMPANY

    def __str__(self) -> str:
        rates = [f"{self.flops / time * _GIGA:.3g}" for time in (self.median, self.best)] if self.flops > 0 else []
        median = f"{humanize(self.median, Unit.PS)} a run"
        if self.is_near_best:
            return f"{median}, near its best{f': {rates[0]} GFLOP/s' if rates else ''}"
        rate = f": {' and '.join(rates)} GFLOP/s" if rates else ""
        return f"{median}, {humanize(self.best, Unit.PS)} at best{rate}"


def compute_op_speed(run: Run, host: str, op: str, name: str = "") -> OpSpeed | None:
    """How fast the op that takes most of a part or kind runs: of those of type `op` (of compiled
    programs, whose name ends so), and with this name where one is given, the one with most time;
    None where too few runs were seen.
    """
    rows = list(best_case_ops(run).filter_by("host", host).records())
    mine = [row for row in rows if _is(row, op, name)]
    if not mine:
        return None
    top = max(mine, key=lambda row: row["wall_ps"])
    flops = top["flops"] or math.nan
    equal = [row["median_ps"] for row in rows if row["flops"] == flops] or [top["median_ps"]]
    return OpSpeed(
        float(top["median_ps"]), float(top["best_ps"]), top["at_best"], flops, (float(min(equal)), float(max(equal)))
    )


def format_flop_rate(timeline: Timeline, rate: float) -> str:
    """A rate in FLOP/s in words, and as a share of the device's peak where its plane tells that."""
    peaks = [peak for plane in timeline.device_planes if (peak := peak_flops(plane))]
    share = f", {rate / min(peaks):.0%} of the peak" if peaks else ""
    return f"{rate / _TERA:.3g} TFLOP/s{share}"


def _is(row: dict[str, Any], op: str, name: str) -> bool:
    if not row["type"].islower():
        return bool(row["type"] == op and name in ("", row["name"]))
    plain = strip_transforms(row["name"])[0] or row["name"]
    return plain == name if name else f"/{plain}".endswith(f"/{op}")


@dataclass(frozen=True)
class ShortOps:
    """Compiled ops too short to be worth their start: executions per step, their share of the step,
    and their mean time, ps.
    """

    count: float
    share: float
    mean: float


def compute_short_ops(run: Run, host: str, limit: float) -> ShortOps:
    """The compiled ops of one host with a mean time below `limit_text`, ps."""
    steps = max(len(run.by_host[host].steps.steady_rows), 1)
    rows = [r for r in hlo_source_lines(run).filter_by("host", host).records() if r["time_ps"] * steps < limit * r["count"]]
    count, time = sum(r["count"] for r in rows) / steps, sum(r["time_ps"] for r in rows)
    return ShortOps(count, min(1.0, sum(r["share"] for r in rows)), time / count if count else 0.0)
