# SPDX-License-Identifier: Apache-2.0
"""Advice where the model's own computation takes the step: which part takes it, what could be
faster, and the proof where nothing can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.metrics.actions.model_work import CPU, GPU, TPU, ActionContext, advises_half, reaches_roof, render_actions
from outpace.metrics.facts.device_specs import device_specs
from outpace.metrics.facts.hlo_instructions import busy_module_counts, instruction_stats
from outpace.metrics.facts.python_callbacks import find_callback_line
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.best_case import format_contention
from outpace.metrics.savings.bounds import background_bound, fusion_bound, half_precision_bound
from outpace.metrics.savings.budget import Budget, build_saving
from outpace.metrics.views.float64_ops import emulated_half_ops, float64_ops
from outpace.metrics.views.host_copies import host_copies
from outpace.metrics.views.host_time import EXECUTOR, OPS, WAITING, mean_host_time
from outpace.metrics.views.misplaced_ops import AUGMENTATION, IMAGE, PREPROCESSING, PYTHON, RANDOM, misplaced_ops
from outpace.metrics.views.model_work import model_work
from outpace.metrics.views.small_ops import FUSIBLE_WORK, small_ops
from outpace.model import Category, Certainty, Effort, Evidence, Finding, Saving, Severity, Threshold, Unit, humanize
from outpace.model.text import format_largest_part, is_majority
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import ONEDNN_PREFIX
from outpace.timeline.work_kinds import WorkKind
from outpace.tools.model_time import work_summary
from outpace.tools.model_time.parts import ModelPart, find_parts, format_source
from outpace.tools.model_time.work_summary import (
    COMPUTE_CATEGORIES,
    WorkTotals,
    can_reach_roof,
    compute_op_speed,
    compute_roof_saving,
    compute_saving,
    compute_short_ops,
    compute_traits,
    compute_work_totals,
    find_fusible_lines,
    format_flop_rate,
    format_lines,
    render_part_actions,
    sum_shares_by_line,
)
from outpace.trace import dialect

if TYPE_CHECKING:
    from outpace.timeline.hlo.slow_cases import SlowCase

_ODD = Threshold("input work inside the model", 0.05, Unit.FRACTION, "our choice: a smaller saving could not be measured")
_MUCH_ODD = Threshold(
    "much input work inside the model", 0.20, Unit.FRACTION, "our choice: four times the smallest share worth a look"
)
_UNDONATED = Threshold("copies of arguments", 0.05, Unit.FRACTION, "our choice: a smaller saving could not be measured")
_MOSTLY = 0.5  # minimum share of a part, a kind of work or the step, to stand for the whole
_SLOW = Threshold(
    "one part of the model", 0.25, Unit.FRACTION, "our choice: a part that takes a quarter of the step decides its length"
)
_METRICS = Threshold("metrics in the step", 0.15, Unit.FRACTION, "our choice: metrics are no part of the training")
_SHORT_OPS = Threshold("time in short ops", 0.30, Unit.FRACTION, "our choice: what fusing saves at most must pay for compiling")
_CHAINS = Threshold(
    "element-wise ops", 0.45, Unit.FRACTION, "our choice: near half of the step, so that fusing is the first thing to try"
)
_EXECUTOR = Threshold(
    "time in the executor, outside of ops", 0.20, Unit.FRACTION, "our choice: less is what any step of large ops shows"
)
_TINY = Threshold("tiny compiled op", 10e6, Unit.PS, "our choice: starting an op costs XLA about a microsecond")
_MANY_COMPILED = 1000  # minimum executions of compiled ops per step
_ROUND = 20e6  # maximum cost of one round of the executor, ps: a longer one waits for a core
_MANY = 150  # minimum rounds of the executor per step, from which their cost adds up
_MOST = 0.5  # minimum share of the short ops made by one line, for that line to be where to begin
_LOOP_SHARE = 0.75  # minimum share of the executor's time around ops that belongs to loops
_COMPUTES = Threshold("the model computes", 0.50, Unit.FRACTION, "half of the step: nothing else can save more")
_MOST_PARTS = 3  # maximum number of parts in a sentence
_UNEQUAL = 1.5  # ratio to the fastest op with as many FLOPs, from which equal ops are reported as unequal
_MIN_SHARE = 0.01  # minimum share of the step to be mentioned
_OVERHEAD_SHARE = 0.2  # minimum share of the step around ops, from which a larger batch spreads it over more examples
_ROOM = 0.5  # minimum share of the work that idle cores must take, for it to be moved to them
_CONVOLVES = (WorkKind.CONVOLUTION, WorkKind.POOLING)
_BY_ONEDNN = (WorkKind.CONVOLUTION, WorkKind.MATMUL)
_MOVES = Threshold(
    "copies and reshapes", 0.20, Unit.FRACTION, "our choice: more than twice what models without a needless layout spend"
)
_SOME = 0.01  # minimum share of the step in convolutions for a model that convolves
_ODD_KINDS = {
    AUGMENTATION: "augments the data",
    PREPROCESSING: "prepares the data",
    IMAGE: "processes images",
    RANDOM: "draws random numbers",
    PYTHON: "runs Python inside the graph",
}


def iter_findings(run: Run, budgets: dict[str, Budget], program: Workload) -> Iterator[Finding]:
    """Yield all findings, host by host."""
    for timeline in run.hosts:
        budget = budgets.get(timeline.host)
        if budget is None:
            continue
        parts = find_parts(run, timeline.host, program)
        work = compute_work_totals(run, timeline.host)
        outside = _outside_ops(run, timeline.host, budget)
        here = _action_context(run, timeline, budget, program, work, outside)
        above = _above_roof(run, timeline, parts, here)
        in_loops = {
            format_source(line) for part in parts if part.is_loop and part.share >= _SLOW.value for line in part.members
        }
        elsewhere = in_loops | {f.location for f in above}
        odd = [f for f in _odd_ops(run, timeline.host, program, parts) if f.location not in elsewhere]
        yield from odd
        yield from _undonated(run, timeline.host, here, parts, work)
        yield from _frozen_layers(run, timeline.host)
        avoidable = _avoidable_work(run, timeline.host, here)
        attends = any(finding.id == "unfused_attention" for finding in avoidable)
        yield from avoidable
        fusible = _find_fusible(run, timeline.host, budget, here)
        starts = list(_short_ops(run, timeline.host, fusible, here)) if fusible else []
        if _is_made_by_loops(run, timeline.host, parts):
            starts = []  # the loops that make the short ops are reported as parts of the model
        launching = budget.category_shares[Category.KERNEL_LAUNCH.value]
        starts = starts or list(_compiled_short_ops(run, timeline.host, here, parts, launching))
        yield from starts
        metrics = [part for part in parts if part.is_metrics and part.share >= _METRICS.value]
        yield from _slow_part(run, timeline.host, metrics, here, set(), 0.0)
        # With short ops, parts of many short ops belong to the finding on the executor.
        large = [part for part in parts if part not in metrics and (not starts or not part.has_short_ops)]
        named = {name for f in odd for name in (f.location, f.sentence.split(" ", 1)[0])}
        slow = above
        if not above and not attends:
            slow = list(_slow_part(run, timeline.host, large, here, named, fusible.share if fusible else 0.0))
        yield from slow or ([] if starts or attends or metrics else _slow_kind(run, timeline.host, work, here))
        yield from _model_bound(timeline.host, budget, parts, work, here, outside)


def _avoidable_work(run: Run, host: str, here: ActionContext) -> list[Finding]:
    """Return the findings on work that a program could do without, and on types."""
    shapes = run.record(host).get("graph_shapes") or {}
    found: list[Finding] = []
    if shapes.get("texts"):
        from outpace.tools.model_time import all_pairs, idle_rows, repeated_gradients  # most profiles have no graphs

        found = [
            *repeated_gradients.iter_findings(run, host),
            *idle_rows.iter_findings(run, host, here.program),
            *all_pairs.iter_findings(run, host),
        ]
    by_type = (float64_ops(run), emulated_half_ops(run))
    is_of_type = any(len(table.filter_by("host", host)) for table in by_type)
    if not shapes.get("needed") and not instruction_stats(run).get(host) and not is_of_type:
        return found
    from outpace.tools.model_time.avoidable_work import iter_findings  # most reports are of no such program

    return [*found, *iter_findings(run, host, here)]


def _frozen_layers(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on layers that do not train, if the capture saw any."""
    if any(layer.get("is_frozen") for layer in (run.record(host).get("layers") or {}).values()):
        from outpace.tools.model_time.frozen_layers import iter_frozen_layer_findings  # few models have such layers

        yield from iter_frozen_layer_findings(run, host)


def _above_roof(run: Run, timeline: Timeline, parts: list[ModelPart], here: ActionContext) -> list[Finding]:
    """Return the finding on a line far above its roofs, if there is one."""
    if not any(part.above_share for part in parts):
        return []
    from outpace.tools.model_time.above_roof import iter_above_roof_findings  # most reports know no roofs

    return list(iter_above_roof_findings(run, timeline.host, parts, here))


def _outside_ops(run: Run, host: str, budget: Budget) -> dict[str, float]:
    """Return the shares of the step that count as computation on the host but in which no op of the
    model runs, by what the host does during that time.
    """
    copied = sum(row["share"] for row in host_copies(run).filter_by("host", host).records())
    time = mean_host_time(run, host)
    between = max(0.0, sum(share for part, share in time.shares.items() if part not in (OPS, EXECUTOR)) - copied)
    return {
        "copying arguments": copied,
        "calls and waiting between ops": min(between, budget.category_shares[Category.HOST_COMPUTE.value]),
    }


def _action_context(
    run: Run, timeline: Timeline, budget: Budget, program: Workload, work: list[WorkTotals], outside: dict[str, float]
) -> ActionContext:
    """Return what advice on the model must fit."""
    devices = device_specs(run)
    row = next(small_ops(run).filter_by("host", timeline.host).records(), {})
    half, full = (budget.category_shares[c.value] for c in COMPUTE_CATEGORIES[1:])
    planes = [plane.name for plane in timeline.device_planes]
    able = not planes and not program.is_jax and any(kind.work in _BY_ONEDNN for kind in work)
    hardware = CPU if not planes else TPU if planes[0].startswith(f"{dialect.DEVICE_PREFIX}{TPU}") else GPU
    return ActionContext(
        program,
        hardware,
        uses_xla=program.is_jax or bool(row.get("xla")),
        uses_half=half > full,
        gains_from_half=devices.has_tensor_cores if planes else bool(run.record(timeline.host).get("cpu_flags")),
        has_bfloat16=devices.has_bfloat16,
        uses_onednn=not able or _runs_onednn(run, timeline.host),
        has_convolutions=any(kind.work in _CONVOLVES and kind.share >= _SOME for kind in work),
        shares_cores=bool(format_contention(run, timeline.host)),
        program_count=busy_module_counts(run).get(timeline.host, 1) if planes and program.is_jax else 1,
        has_short_ops=sum(outside.values()) + budget.category_shares[Category.ALL_OTHERS.value] >= _OVERHEAD_SHARE,
    )


def _runs_onednn(run: Run, host: str) -> bool:
    """Whether oneDNN computes the op that takes most time in any part of the model on a host."""
    return any(op.startswith(ONEDNN_PREFIX) for op in model_work(run).filter_by("host", host)["top_op"])


def _is_made_by_loops(run: Run, host: str, parts: list[ModelPart]) -> bool:
    """Whether the step's short ops are mostly those of loops, and the largest part of the model is
    such a loop with a known line.
    """
    overhead = sum(row["overhead_share"] for row in small_ops(run).filter_by("host", host).records())
    loops = sum(part.overhead_share for part in parts if part.is_loop and part.source)
    return bool(parts and parts[0].is_loop and parts[0].source and loops >= _LOOP_SHARE * overhead)


def _odd_ops(run: Run, host: str, program: Workload, parts: list[ModelPart]) -> Iterator[Finding]:
    """Yield a finding for each part of the model with work that belongs in the input pipeline.

    Findings are by part, since a layer that augments also draws random numbers. The saving includes
    what else the same line or layer takes, since a random draw is fused with the ops that use it.
    """
    by_part: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in misplaced_ops(run).filter_by("host", host).records():
        if not row["dropout"]:
            by_part.setdefault((row["source"] or row["part"], row["source"]), []).append(row)
    called_back = sum(any(row["kind"] == PYTHON for row in rows) for rows in by_part.values())
    for (_, line), rows in by_part.items():
        names = list(dict.fromkeys(format_source(row["part"]) for row in rows))
        part, source = names[0] + (f" (and {len(names) - 1} more)" if len(names) > 1 else ""), format_source(line)
        share, top = min(1.0, sum(r["share"] for r in rows)), max(rows, key=lambda r: r["share"])
        if share < _ODD.value:
            continue
        where = f"({source}) " if source and source != names[0] else ""
        kind = f" ({top['type']})" if top["type"] != names[0] else ""
        python = top["kind"] == PYTHON
        below, mostly = _callback_line(run, host) if python and called_back == 1 else ("", "")
        much = share >= _MUCH_ODD.value
        same = (part.share for part in parts if part.name in names or (source and source == part.source))
        whole = min(1.0, max(share, sum(same)))
        room = whole if python else background_bound(run, host, whole, whole)
        inside = "beside the model's step, in programs of its own" if top["apart"] else "inside the model's step"
        fits = room >= _ROOM * whole
        yield Finding(
            id="python_in_model" if python else "odd_ops",
            severity=Severity.HIGH if much else Severity.MODERATE,
            sentence=f"{part} {where}{_ODD_KINDS[top['kind']]} {inside}{kind}: "
            f"{humanize(sum(r['self_ps'] for r in rows), Unit.PS)} per step, {share:.0%} of it{mostly}.",
            action=_move(names[0], python, program, top["apart"]) if fits else _advise_no_room(names[0]),
            evidence=(Evidence("its share of the step", share, Unit.FRACTION, "odd_ops"),),
            threshold=_MUCH_ODD if much else _ODD,
            saving=compute_saving(room, "if it did not run in the step, as far as other cores are idle")
            if fits
            else compute_saving(whole, "if it, and what its line or layer makes of it, cost nothing"),
            location=below or source,
            host=host,
            certainty=Certainty.CERTAIN,
        )


def _callback_line(run: Run, host: str) -> tuple[str, str]:
    """Return (line of the Python that the program calls back, its part of that Python as the end of
    a sentence); ("", "") where it is not known.
    """
    line, function, part, whole = find_callback_line(run, host)
    return (line, f", {format_largest_part(f'in {function}() ({line})', part, whole)}") if line else ("", "")


def _undonated(run: Run, host: str, here: ActionContext, parts: list[ModelPart], work: list[WorkTotals]) -> Iterator[Finding]:
    """Yield the finding on arguments of compiled functions that XLA copies before it updates them,
    because the caller may still need the old values.
    """
    ran = [r for r in instruction_stats(run).get(host, ()) if r.op.undonated_argument]
    share = min(1.0, sum(r.share for r in ran))
    if not here.program.is_jax or here.program.is_keras or not share >= _UNDONATED.value:
        return
    names = list(dict.fromkeys(r.op.undonated_argument for r in sorted(ran, key=lambda r: -r.time_ps)))
    arguments = ", ".join(names[:_MOST_PARTS]) + f" and {len(names) - _MOST_PARTS} more" * (len(names) > _MOST_PARTS)
    line = next(iter(sum_shares_by_line([{"source": r.op.source, "share": r.share} for r in ran])), "")
    # The runtime of a device keeps its memory in a pool, so that copies allocate nothing there.
    around = mean_host_time(run, host).shares if here.hardware == CPU else {}
    allocated = sum(around.get(part, 0.0) for part in (EXECUTOR, WAITING))
    top_kind = _find_top_kind(work)
    symptoms = {
        "slow_part": parts[0].share if parts and parts[0].source == line else 1.0,
        "slow_kind": top_kind.share if top_kind and top_kind.work is WorkKind.MOVEMENT else 1.0,
        "model_bound": 1.0,
    }
    yield Finding(
        id="undonated",
        severity=Severity.HIGH if share >= _SLOW.value else Severity.MODERATE,
        sentence=f"{share:.0%} of the step copies arguments that the program updates but must not overwrite: {arguments}"
        f"{f', at {line}' if line else ''}.",
        action="Donate what the step returns anew (jax.jit(..., donate_argnums=...)), so that XLA updates it in place.",
        evidence=(Evidence("these copies, of the step", share, Unit.FRACTION, "hlo_lines"),),
        threshold=_UNDONATED,
        counter_evidence=("A donated array cannot be used after the call: keep what it returns.",),
        saving=build_saving(
            share + allocated,
            *COMPUTE_CATEGORIES,
            Category.DEVICE_TO_DEVICE,
            assumes="if nothing was copied, and needed no memory of its own",
        ),
        location=line,
        host=host,
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=tuple(id for id, whole in symptoms.items() if share >= _MOSTLY * whole),
    )


def _advise_no_room(what: str) -> str:
    return (
        f"Make {what} cheaper: fewer elements, or once for several steps. The cores are busy, so that in the input pipeline it would take "
        "most of the time all the same."
    )


def _move(what: str, python: bool, program: Workload, apart: bool) -> str:
    """Return the action that moves work out of the model; for Python inside the graph, the action
    that replaces it.
    """
    if python:
        gil = "it runs on one thread, under the interpreter lock (GIL)."
        ops = f"Write {what} with TensorFlow ops, without Python: {gil}"
        jax = f"Write {what} in jax.numpy, or call the Python outside of the jitted step: {gil}"
        return program.select_text(keras=ops, tensorflow=ops, jax=jax)
    return program.select_text(
        keras=f"Move {what} out of the model, into dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE), before .prefetch(). It then overlaps "
        "the step. Or cache its results.",
        tensorflow=f"Move {what} out of the step, into dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE), before .prefetch(). It then "
        "overlaps the step. Or draw cheaper random numbers.",
        jax=f"Move {what}{'' if apart else ' out of the jitted step,'} into the input thread, or do it once for several steps. Or make it "
        "cheaper: fewer or smaller random draws, jax_default_prng_impl='rbg'.",
    )


def _slow_part(
    run: Run, host: str, parts: list[ModelPart], here: ActionContext, reported_names: set[str], fusible: float
) -> Iterator[Finding]:
    """Yield the finding on one part that takes a large share of the step.

    Only a part of ops that can mostly be made cheaper gets a saving, or one that gets shorter in 16
    bits. `fusible` is the share of the step in ops that could be fused. Where the part has a kind
    of work of its own (an embedding, and its updates) and is most of `fusible`, it is the cause of
    the many short ops.
    """
    threshold = _METRICS if parts and parts[0].is_metrics else _SLOW
    if not parts or parts[0].share < threshold.value or {parts[0].source, parts[0].name} & (reported_names - {""}):
        return
    top = parts[0]
    here = replace(here, traits=compute_traits(run, host, top.source))
    limit = f", {here.traits.limit_text}" if here.traits.limit_text else ""
    next_parts = "; next " + ", ".join(f"{part} {part.share:.0%}" for part in parts[1:_MOST_PARTS]) if len(parts) > 1 else ""
    runs = "" if top.is_loop else _pace(run, host, top.op, top.op_name, top.flops_per_s)
    case = _known_case(run, host, top)
    saving = compute_saving(top.share, "if it cost nothing") if case is not None else _part_saving(run, host, top, here)
    narrower_first = not top.is_slow and saving is not None
    makes_them = (
        top.work not in FUSIBLE_WORK and top.work is not WorkKind.OTHER and is_majority(top.share, fusible) and fusible > 0
    )
    yield Finding(
        id="slow_part",
        severity=Severity.HIGH,
        sentence=f"{top} {top.takes} {top.share:.0%} of the step, {f'in {case.reason}' if case else top.top_op_text}"
        f"{runs}{limit}{next_parts}.",
        action=render_part_actions(top, here) if case is None else case.advice,
        evidence=(Evidence("its share of the step, forward and backward", top.share, Unit.FRACTION, top.table),),
        threshold=threshold,
        saving=saving,
        counter_evidence=_limits_of(top, here),
        location=top.source,
        host=host,
        certainty=Certainty.LIKELY if top.sure else Certainty.POSSIBLE,
        effort=Effort.LARGE,
        explains=(
            "model_bound",
            *("low_16_bit_share", "tensor_cores_unused") * narrower_first,
            *("small_ops",) * (makes_them or top.is_metrics),
        ),
    )


def _limits_of(top: ModelPart, here: ActionContext) -> tuple[str, ...]:
    """Return what is not known of a part of the model, in sentences."""
    if top.is_slow:
        return ()
    measure = "How far it is from what this processor can do is known after 'outpace doctor --peaks' and another capture."
    is_measurable = top.table == "hlo_lines" and here.hardware == CPU and top.bound is None
    return ("A profile cannot say whether a smaller layer, or another op, would do.", *(measure,) * is_measurable)


def _known_case(run: Run, host: str, top: ModelPart) -> SlowCase | None:
    """Return what a part of a compiled program moves, sorts or solves, with what to do instead;
    None where it computes what devices are made for.
    """
    if top.table != "hlo_lines" or top.is_loop or not (top.is_slow or top.work is WorkKind.MOVEMENT):
        return None
    from outpace.tools.model_time.above_roof import find_known_case  # most reports are of no such program

    return find_known_case(run, host, top)


def _part_saving(run: Run, host: str, top: ModelPart, here: ActionContext) -> Saving | None:
    """Return what a part of the model could save at most: its time above the roofs where they are
    known and it is not near them, or what 16 bits save where that is advised and more; all of it
    for a loop of short ops, and for ops that can mostly be made cheaper; else None.
    """
    if top.is_metrics:
        return compute_saving(top.share, "if they were computed in the evaluation alone")
    if top.bound is None:
        return compute_saving(top.share, "if it cost nothing") if top.is_slow else _narrower(run, host, top, here)
    if top.is_loop:
        return compute_saving(top.share, "if it cost nothing")
    above = compute_roof_saving(top.bound) if not here.traits.limit_text and can_reach_roof(top, here) else None
    savings = (saving for saving in (above, _narrower(run, host, top, here)) if saving is not None)
    return max(savings, key=lambda saving: saving.high, default=None)


def _narrower(run: Run, host: str, top: ModelPart, here: ActionContext) -> Saving | None:
    """Return the upper bound of what 16 bits save for a line that a device computes in 32 bits,
    where computing in 16 bits is the first advice; else None.
    """
    fits = replace(here, op=top.op, has_short_ops=here.has_short_ops or top.has_short_ops)
    if here.hardware == CPU or top.is_loop or not top.source or not advises_half(top.work, fits):
        return None
    line_ops = (r for r in instruction_stats(run).get(host, ()) if format_source(r.op.source) == top.source)
    share = half_precision_bound(line_ops, run.by_host[host])
    return build_saving(share, Category.DEVICE_COMPUTE_32, assumes="if what 16 bits can make shorter of it took half as long")


def _pace(run: Run, host: str, op: str, name: str = "", rate: float = 0.0) -> str:
    """Return in words how fast an op runs: on a CPU compared with its own best and with other ops
    of its size, on a device its rate in FLOP/s compared with the peak; "" where it is not known.
    """
    speed = compute_op_speed(run, host, op, name)
    if speed is None:
        return f" ({format_flop_rate(run.by_host[host], rate)})" if rate else ""
    low, high = speed.peer_range
    peers = f"; equal ones take {humanize(low, Unit.PS)} to {humanize(high, Unit.PS)}" if high >= _UNEQUAL * low else ""
    return f" ({speed}{peers})"


def _has_many_copies(kind: WorkTotals) -> bool:
    """Whether the user's own lines request copies that take a large share of the step."""
    return kind.work is WorkKind.MOVEMENT and sum(kind.line_shares.values()) >= _MOVES.value


def _find_top_kind(work: list[WorkTotals]) -> WorkTotals | None:
    """Return the kind of work to report, where one takes a large share of the step; else None.
    Copies by the user's lines come first: of all kinds, only they compute nothing.
    """
    moved = next(filter(_has_many_copies, work), None)
    large = bool(work) and work[0].share >= _SLOW.value and work[0].work is not WorkKind.OTHER
    return moved or (work[0] if large else None)


def _slow_kind(run: Run, host: str, work: list[WorkTotals], here: ActionContext) -> Iterator[Finding]:
    """Yield the finding on one kind of work that takes a large share of the step without being in
    one part of the model.
    """
    top = _find_top_kind(work)
    if top is None:
        return
    moved = _has_many_copies(top)
    named = top.work.value
    where = f"in {top.part_count} parts of the model: {top.largest_parts}" if top.part_count > 1 else f"in {top.largest_parts}"
    if moved:
        where = "at " + ", ".join(
            f"{line} {share:.0%}" for line, share in list(top.line_shares.items())[:_MOST_PARTS] if share >= _MIN_SHARE
        )
    line, share = next(iter(top.line_shares.items()), ("", 0.0))
    rest = [kind for kind in work if kind is not top][: _MOST_PARTS - 1]
    fits = replace(
        here, op=top.op, uses_half=here.uses_half or top.is_half, has_short_ops=here.has_short_ops or top.has_short_ops
    )
    next_kinds = "; next " + ", ".join(f"{kind.work.value} {kind.share:.0%}" for kind in rest) if rest else ""
    yield Finding(
        id="slow_kind",
        severity=Severity.HIGH,
        sentence=f"{top.share:.0%} of the step goes to {named}, {top.top_op_text}{_pace(run, host, top.op)}, {where}{next_kinds}.",
        action=render_actions(top.work, fits),
        evidence=(Evidence("its share of the step, forward and backward", top.share, Unit.FRACTION, "model_work"),),
        threshold=_MOVES if moved else _SLOW,
        saving=compute_saving(
            fusion_bound(run, host), "if fusing made all but the longer products and libraries' calls a part of others"
        )
        if here.program_count > 1 and top.work in FUSIBLE_WORK
        else compute_roof_saving(top.bound or 0.0)
        if reaches_roof(top.work, fits)
        else None,
        counter_evidence=("A profile cannot say what another implementation would take: measure it.",),
        location=line if moved or share >= top.share / 2 else "",
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.LARGE,
        explains=("model_bound",),
    )


@dataclass(frozen=True)
class _Fusible:
    """What a compiler could fuse in a step of one host.

    elementwise: share of the step in element-wise ops.
    overhead: share of the step in the executor's work around ops, without what profiling added.
    most: upper bound of what fusing saves, as a share of the step.
    rounds: rounds of the executor per step.
    half: length of op, ps, for which half of the ops' time is in ops of this length or longer.
    chains: whether element-wise ops alone are worth fusing.
    """

    elementwise: float
    overhead: float
    most: float
    rounds: float
    half: float
    chains: bool

    @property
    def share(self) -> float:
        return min(1.0, self.elementwise + self.overhead)

    @property
    def told(self) -> bool:
        """Whether fusing is worth a finding: short ops with many rounds of the executor between
        them, or a few long ops that pass whole arrays on.
        """
        many = self.rounds >= _MANY and self.overhead >= _EXECUTOR.value and self.share >= _SHORT_OPS.value
        return self.chains or many


def _find_fusible(run: Run, host: str, budget: Budget, here: ActionContext) -> _Fusible | None:
    """Return what a compiler could fuse on one host; None where XLA compiles already, or fusing is
    not worth a finding. What profiling adds to a step is attributed to these ops, since it adds
    most to short events.
    """
    row = next(small_ops(run).filter_by("host", host).records(), None)
    if row is None or here.uses_xla:
        return None
    lost, rounds, elementwise = budget.profiling_share, row["dispatches"], row["elementwise_share"]
    overhead = min(row["overhead_share"], rounds * _ROUND * (1 - lost) / budget.step_ps)
    share = min(1.0, elementwise + overhead)
    unprofiled_share = max(0.0, share - lost) / (1 - lost)
    most = max(0.0, share - row["written_share"] - lost) / (1 - lost)
    chains = elementwise * unprofiled_share >= _CHAINS.value * share > 0
    fusible = _Fusible(elementwise, overhead, most, rounds, row["half_ps"], chains)
    return fusible if fusible.told else None


def _short_ops(run: Run, host: str, fusible: _Fusible, here: ActionContext) -> Iterator[Finding]:
    """Yield the finding on ops that XLA would fuse: many short ones, or chains over large
    arrays.
    """
    share, lines = fusible.share, find_fusible_lines(run, host)
    line_text = format_lines(list(lines)) if is_majority(sum(lines.values()), share) else ""
    origin = f"; {format_largest_part(f'made at {line_text}', sum(lines.values()), share)}" if line_text else ""
    what = "element-wise ops" + " and executor overhead" * (fusible.overhead >= _MIN_SHARE)
    rounds = f"{fusible.rounds:,.0f} rounds per step, " * (fusible.overhead >= _MIN_SHARE)
    yield Finding(
        id="small_ops",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step goes to {what}: {rounds}half of the ops' time in ops of {humanize(fusible.half, Unit.PS)} or "
        f"more{origin}.",
        action=render_actions(WorkKind.ELEMENTWISE, replace(here, has_short_ops=True)),
        evidence=(
            Evidence("share of the step in element-wise ops", fusible.elementwise, Unit.FRACTION, "small_ops"),
            Evidence("share of the step in the executor, outside of ops", fusible.overhead, Unit.FRACTION, "small_ops"),
        ),
        threshold=_CHAINS if fusible.chains else _SHORT_OPS,
        counter_evidence=("XLA can also be slower on a CPU, and takes long to compile: measure it before you keep it.",),
        saving=compute_saving(
            fusible.most, "if fused ops, and starting them, cost nothing but the reading and writing of variables"
        ),
        location=next(iter(lines)) if line_text else "",
        host=host,
        certainty=Certainty.POSSIBLE,
        effort=Effort.SMALL,
    )


def _compiled_short_ops(
    run: Run, host: str, here: ActionContext, parts: list[ModelPart], launching: float
) -> Iterator[Finding]:
    """Yield the finding on loops of tiny compiled ops, such as a scan over few numbers. Where one
    line makes most of them, there is none: that line is a slow part.
    """
    ops = compute_short_ops(run, host, _TINY.value) if here.program.is_jax else None
    if ops is None or ops.count < _MANY_COMPILED or ops.share < _SHORT_OPS.value:
        return
    lines = [part for part in parts if part.has_short_ops and part.source][:_MOST_PARTS]
    if lines and lines[0].is_loop and lines[0].share >= _MOST * ops.share:
        return
    parts_text = ", ".join(f"{part} {part.share:.0%}" for part in lines)
    yield Finding(
        id="small_ops",
        severity=Severity.HIGH,
        sentence=f"{ops.share:.0%} of the step goes to {ops.count:,.0f} compiled ops of {humanize(ops.mean, Unit.PS)} each; starting "
        f"them, and the loop around them, costs as much as their computation{f': {parts_text}' if parts_text else ''}.",
        action="Compute for the whole sequence at once, before the loop, what does not need the iteration before. Or give each op more "
        "to do: a larger batch, fewer and larger iterations (jax.lax.scan(..., unroll=8)).",
        evidence=(Evidence("share of the step in such ops", ops.share, Unit.FRACTION, "hlo_lines"),),
        threshold=_SHORT_OPS,
        counter_evidence=("A larger batch changes the training: compare the time per example.",),
        saving=build_saving(
            ops.share + (launching if here.hardware == GPU else 0.0),
            *COMPUTE_CATEGORIES,
            *((Category.KERNEL_LAUNCH,) if here.hardware == GPU else ()),
            assumes="if starting them cost nothing, and what they compute as well",
        ),
        location=lines[0].source if lines else "",
        host=host,
        certainty=Certainty.POSSIBLE,
        effort=Effort.SMALL,
        explains=("high_kernel_launch", "tiny_kernels"),
    )


def _model_bound(
    host: str, budget: Budget, parts: list[ModelPart], work: list[WorkTotals], here: ActionContext, outside: dict[str, float]
) -> Iterator[Finding]:
    """Yield the finding for a host on which the model's computation takes the step: which parts or
    kinds of work take it, and the limits of what everything else can save.

    `outside` has the shares of the step that count as computation on the host but in which no op of
    the model runs.
    """
    has_device = here.hardware != CPU
    share = sum(budget.category_shares[c.value] for c in (COMPUTE_CATEGORIES[1:] if has_device else COMPUTE_CATEGORIES))
    share = share if has_device else max(0.0, share - sum(outside.values()))
    limits = {c: budget.category_shares[c.value] for c in (Category.INPUT, Category.ALL_OTHERS, Category.COMPILATION)}
    names = {
        Category.INPUT: "waiting for input",
        Category.ALL_OTHERS: "Python and untraced work",
        Category.COMPILATION: "compiling",
    }
    rest = ", ".join(f"{names[c]} {limit:.1%}" for c, limit in limits.items())
    rest += "".join(f", {what} {part:.1%}" for what, part in outside.items() if part >= _MIN_SHARE and not has_device)
    # No part stands out: the kinds of work, summed over all parts, say more.
    many = work and (not parts or parts[0].share < work_summary.LARGE_SHARE)
    shares = (
        [(kind.work.value, kind.share, "model_work") for kind in work] if many else [(str(p), p.share, p.table) for p in parts]
    )
    largest = ", ".join(f"{name} {part:.0%}" for name, part, _ in shares[:_MOST_PARTS])
    yield Finding(
        id="model_bound",
        severity=Severity.MODERATE if share >= _COMPUTES.value else Severity.INFO,
        sentence=f"The model's computation takes {share:.0%} of the step{f': {largest}' if largest else ''}. Everything else saves at most "
        f"its own share: {rest}.",
        action=render_actions(work[0].work, replace(here, op=work[0].op, has_short_ops=work[0].has_short_ops))
        if work
        else render_actions(WorkKind.OTHER, here),
        evidence=(
            *(Evidence(f"share of the step: {name}", part, Unit.FRACTION, table) for name, part, table in shares[:_MOST_PARTS]),
            *(Evidence(f"at most: {names[c]}", limit, Unit.FRACTION, "overview.average_step") for c, limit in limits.items()),
        ),
        threshold=_COMPUTES,
        location=parts[0].source if parts and not many else "",
        host=host,
        certainty=Certainty.CERTAIN,
        effort=Effort.LARGE,
    )
