# SPDX-License-Identifier: Apache-2.0
"""Advice on computation that the program requests and could do without: the same results, from less
work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from outpace._lazy import compile_lazily
from outpace.metrics.actions.model_work import GPU, ActionContext
from outpace.metrics.facts.graph_costs import graph_costs
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE as ON_DEVICE
from outpace.metrics.facts.hlo_instructions import InstructionStats, instruction_stats
from outpace.metrics.facts.op_locations import LAYER
from outpace.metrics.facts.workload import Workload
from outpace.metrics.views.float64_ops import emulated_half_ops, float64_ops
from outpace.metrics.views.model_parts import located_ops, model_parts, op_locators
from outpace.model import Certainty, Effort, Evidence, Finding, Row, Severity, Threshold, Unit
from outpace.model.text import format_largest_part, join_names
from outpace.timeline import Run
from outpace.timeline.hlo.transfers import COLLECTIVE
from outpace.tools.model_time.parts import format_source
from outpace.tools.model_time.work_summary import compute_needless_saving, compute_saving, format_lines

_DOUBLE = Threshold(
    "products in float64", 0.10, Unit.FRACTION, "our choice: half of it, which float32 saves at least, can be measured"
)
_SCORES = Threshold(
    "attention in several kernels", 0.15, Unit.FRACTION, "our choice: fused ones take about half of it, which can be measured"
)
_AGAIN = Threshold("computed again", 0.10, Unit.FRACTION, "our choice: a smaller saving is not worth the memory")
_EACH = Threshold("products repeated by a loop", 0.10, Unit.FRACTION, "our choice: a smaller saving is not worth the memory")
_UNUSED = Threshold("results that nothing reads", 0.10, Unit.FRACTION, "our choice: a smaller gain is not worth moving code")
_MOSTLY_UNUSED = 0.5  # maximum share of an op's work that anything needs, for the op to count
_VECTORISED = compile_lazily(
    r"vmap\((?:transpose\()?jvp\("
)  # in names of ops of jax.jacobian and jax.hessian: all directions at once
_DIRECTIONS = (
    "Take only the derivatives that are used{at}: jax.jvp along one direction (of jax.grad for second ones), instead of a whole jax.hessian or "
    "jax.jacobian."
)
_IDLE_ROWS = Threshold(
    "updates of rows without gradient", 0.10, Unit.FRACTION, "our choice: less is the price of a plain update"
)
_HALF = Threshold("computed in 16 bits without instructions", 0.10, Unit.FRACTION, "our choice: less is the price of a cast")
_HOT = Threshold("products with one-hot matrices", 0.10, Unit.FRACTION, "our choice: labels of a loss take less")


def iter_findings(run: Run, host: str, context: ActionContext) -> Iterator[Finding]:
    """Yield all findings on one host."""
    yield from _float64_findings(run, host, context.program)
    yield from _half_findings(run, host, context.program)
    yield from _remat_findings(run, host)
    yield from _one_hot_findings(run, host)
    yield from _loop_findings(run, host)
    yield from _needed_part_findings(run, host)
    yield from _zero_weight_findings(run, host)
    yield from _idle_update_findings(run, host, context.program)
    yield from _attention_findings(run, host, context)


def _attention_findings(run: Run, host: str, context: ActionContext) -> Iterator[Finding]:
    """Yield the finding on attention that a device computes in several kernels (a product, a
    softmax, a product), which pass the scores on through memory.
    """
    ran = [r for r in instruction_stats(run).get(host, ()) if r.side == ON_DEVICE and r.op.is_attention]
    share = min(1.0, sum(r.share for r in ran))
    if share < _SCORES.value or context.hardware != GPU:
        return
    lines: dict[str, float] = {}
    for instruction in ran:
        lines[format_source(instruction.op.source)] = lines.get(format_source(instruction.op.source), 0.0) + instruction.share
    sources = sorted((line for line in lines if line), key=lambda line: -lines[line])
    moves = sum(instruction.share for instruction in ran if not instruction.op.has_product)
    where = f", at {format_lines(sources)}" if sources else ""
    yield Finding(
        id="unfused_attention",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step goes to attention whose scores are written to memory and read again{where}: {moves:.0%} to the "
        "softmax between its products.",
        action=context.program.select_text(
            keras="Use a fused implementation: MultiHeadAttention(flash_attention=True), where the backend has one.",
            tensorflow="Use a fused implementation instead of MatMul, Softmax and MatMul.",
            jax="Use a fused implementation: jax.nn.dot_product_attention(..., implementation='cudnn') in bfloat16, or a Pallas kernel.",
        ),
        evidence=(
            Evidence("its share of the step, forward and backward", share, Unit.FRACTION, "hlo_lines"),
            Evidence("of the step, without its matrix products", moves, Unit.FRACTION, "hlo_lines"),
        ),
        threshold=_SCORES,
        counter_evidence=("Fused kernels have conditions: the size of a head, the kind of a mask, 16 bits.",),
        saving=compute_saving(share, "if attention cost nothing"),
        location=sources[0] if sources else "",
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound"),
    )


def _remat_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on what the backward pass recomputes because the program requests it, to
    save memory.
    """
    ran = [r for r in instruction_stats(run).get(host, ()) if r.op.is_repeat]
    share = min(1.0, sum(r.share for r in ran))
    if share < _AGAIN.value:
        return
    yield Finding(
        id="recomputed",
        severity=Severity.MODERATE,
        sentence=f"{share:.0%} of the step computes the forward pass once more for the backward pass (jax.checkpoint, jax.remat).",
        action="Do not recompute where memory allows, or keep more: jax.checkpoint(..., policy=jax.checkpoint_policies.dots_saveable), and "
        "around fewer layers.",
        evidence=(Evidence("share of the step in what is recomputed", share, Unit.FRACTION, "hlo_lines"),),
        threshold=_AGAIN,
        saving=compute_saving(share, "if nothing was computed twice"),
        counter_evidence=("What is kept instead takes memory: look at the memory page before.",),
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
    )


def _loop_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on products that a loop computes in each iteration though once would do."""
    share, sources = _sum_by_line(r for r in instruction_stats(run).get(host, ()) if r.op.is_hoistable)
    if share < _EACH.value:
        return
    yield Finding(
        id="loop_repeats",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step multiplies in each iteration of a loop what could be multiplied once"
        f"{f', at {format_lines(sources)}' if sources else ''}: the loop only reads one of the factors, and adds the results up at most.",
        action="Compute once, before the loop, what is the same in each iteration (the product of an array that the loop only reads), and "
        "let the loop read that: its gradient then is one product as well.",
        evidence=(Evidence("share of the step in such products", share, Unit.FRACTION, "hlo_lines"),),
        threshold=_EACH,
        saving=compute_saving(share, "if they cost nothing"),
        counter_evidence=("What is computed before the loop takes memory while it runs.",),
        location=sources[0] if sources else "",
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound", "low_16_bit_share"),
    )


class _PartlyRead(NamedTuple):
    """An op that computes more than anything reads.

    step_share: share of the step that it takes.
    needed: share of its work that anything needs.
    line, taker: source lines of the op, and of what takes the part that is needed; "" where
        unknown.
    name: name of the op.
    """

    step_share: float
    needed: float
    line: str
    taker: str
    name: str


def _needed_part_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on ops that compute whole arrays of which little is read, and on their
    gradients, which multiply by zeros for the rest.
    """
    compiled = [
        _PartlyRead(r.share, r.op.needed_share, format_source(r.op.source), format_source(r.op.needed_at), r.op.framework_op)
        for r in _partly_unused(run, host)
        if r.op.needed_share
    ]
    ran = [*compiled, *_partly_read_graph_ops(run, host)]
    share = min(1.0, sum(op.step_share * (1 - op.needed) for op in ran))
    if share < _UNUSED.value:
        return
    largest = max(ran, key=lambda op: op.step_share)
    lines, takers = defaultdict[str, float](float), defaultdict[str, float](float)
    for op in ran:
        lines[op.line] += op.step_share
        takers[op.taker] += op.step_share
    sources = sorted((line for line in lines if line), key=lambda line: -lines[line])
    taker = max(takers, key=takers.__getitem__)
    by = f", where {taker} takes a part" if taker and taker not in sources[:1] else ""
    yield Finding(
        id="unused_results",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step computes what nothing needs{f', at {format_lines(sources)}' if sources else ''}: "
        f"{largest.needed:.1%} of the results is read{by}; the gradient of the rest is 0, and is multiplied all the same.",
        action=_DIRECTIONS.format(at=f" ({taker})" if by else "")
        if _VECTORISED.search(largest.name)
        else f"Take that part first{f' ({taker})' if by else ''}: move the index or slice up, to before the layers and "
        "products that work on each position by itself.",
        evidence=(
            Evidence(
                "share of the step in what nothing needs", share, Unit.FRACTION, "hlo_lines" if compiled else "model_parts"
            ),
        ),
        threshold=_UNUSED,
        saving=compute_needless_saving(share, "if only the part was computed that is read"),
        location=sources[0] if sources else taker,
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound", "low_16_bit_share", "tensor_cores_unused"),
    )


def _partly_read_graph_ops(run: Run, host: str) -> Iterator[_PartlyRead]:
    """Yield the ops of TensorFlow's graphs of which at most half of the work is needed."""
    costs = graph_costs(run).get(host) if run.record(host).get("graph_shapes") else None
    for ops, located in located_ops(run) if costs is not None else ():
        for op in located if ops.host == host else ():
            needed, taker = costs.find_needed(op.name) if costs is not None else (1.0, "")
            if needed <= _MOSTLY_UNUSED:
                at = op_locators(run)[host].locate(taker).source
                yield _PartlyRead(
                    ops.step_share(op.wall_ps), needed, format_source(op.location.source), format_source(at), op.name
                )


def _partly_unused(run: Run, host: str) -> list[InstructionStats]:
    """Return the instructions of which at most half of the work is needed."""
    ran = (r for r in instruction_stats(run).get(host, ()) if r.op.transfer != COLLECTIVE and r.op.filled_share == 1)
    return [r for r in ran if r.op.needed_share <= _MOSTLY_UNUSED]


def _zero_weight_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on products with arrays of zeros alone, and on what is only multiplied by 0
    afterwards.
    """
    ran = [r for r in _partly_unused(run, host) if not r.op.needed_share]
    share = min(1.0, sum(r.share for r in ran))
    if share < _UNUSED.value:
        return
    locator, parts = op_locators(run)[host], defaultdict[tuple[str, str], float](float)
    for r in ran:
        place = locator.locate(r.op.framework_op, r.op.opcode, r.op.source)
        source = format_source(place.source or r.op.source)
        parts[place.part if place.kind == LAYER else source, source] += r.share
    places = sorted(parts, key=lambda part: -parts[part])
    names = list(dict.fromkeys(name for name, _ in places if name))
    yield Finding(
        id="unused_results",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step computes with zeros alone{f', in {join_names(names)}' if names else ''}: what it is for is "
        "multiplied by 0.",
        action="Leave out what is weighted with 0 (a loss, a branch of the model, a coefficient), and the layers that only it needs.",
        evidence=(Evidence("share of the step in what nothing needs", share, Unit.FRACTION, "hlo_lines"),),
        threshold=_UNUSED,
        saving=compute_needless_saving(share, "if it was left out"),
        location=places[0][1],
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound", "low_16_bit_share", "tensor_cores_unused"),
    )


def _idle_update_findings(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on updates that go over all rows of a table though a step reads, and has
    gradients of, few of them.
    """
    ran = [r for r in instruction_stats(run).get(host, ()) if r.op.filled_share < 1]
    share = min(1.0, sum(r.share * (1 - r.op.filled_share) for r in ran))
    if share < _IDLE_ROWS.value:
        return
    _, sources = _sum_by_line(ran)
    largest = max(ran, key=lambda r: r.share)
    by_hand = (
        "Update only the rows that a step reads (with Adam or momentum it changes the training): differentiate with respect to them "
        "(rows = table[ids]), and add their update with table.at[ids].add(...)."
    )
    yield Finding(
        id="idle_updates",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step updates all rows of a table{f', at {format_lines(sources)}' if sources else ''}, though "
        f"{largest.op.filled_share:.1%} of them at most have a gradient other than 0 in a step.",
        action=program.select_text(
            tensorflow="Update only the rows that a batch reads: plain SGD does with tf.IndexedSlices, Adam goes over the whole table (it "
            "changes the training).",
            jax=by_hand,
            keras_jax="Make the table smaller (fewer rows for rare ids: keras.layers.Hashing), or train it in a loop of your own that updates "
            "only the rows that a step reads (table.at[ids].add).",
        ),
        evidence=(Evidence("share of the step in updates of other rows", share, Unit.FRACTION, "hlo_lines"),),
        threshold=_IDLE_ROWS,
        saving=compute_saving(share, "if only the rows with a gradient were updated"),
        location=sources[0] if sources else "",
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.MEDIUM,
        explains=("slow_part", "slow_kind", "model_bound", "low_16_bit_share"),
    )


def _sum_by_line(ran: Iterable[InstructionStats]) -> tuple[float, list[str]]:
    """Return (share of the step of instructions, their source lines, the longest first)."""
    by_line: dict[str, float] = {}
    for instruction in ran:
        line = format_source(instruction.op.source)
        by_line[line] = by_line.get(line, 0.0) + instruction.share
    return min(1.0, sum(by_line.values())), sorted((line for line in by_line if line), key=lambda line: -by_line[line])


def _one_hot_findings(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on products with one-hot matrices, which select rows of a table. Indexing
    selects the same rows without the arithmetic.
    """
    share, sources = _sum_by_line(r for r in instruction_stats(run).get(host, ()) if r.op.is_one_hot)
    if share < _HOT.value:
        return
    yield Finding(
        id="one_hot_product",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step multiplies by one-hot matrices{f', at {format_lines(sources)}' if sources else ''}: "
        "0 but for one place in each row.",
        action="Take the rows by index instead (table[ids], jnp.take), and sums by group with jax.ops.segment_sum.",
        evidence=(
            Evidence("share of the step in such products, and in what makes their matrices", share, Unit.FRACTION, "hlo_lines"),
        ),
        threshold=_HOT,
        saving=compute_saving(share, "if taking rows cost nothing"),
        location=sources[0] if sources else "",
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound", "low_16_bit_share"),
    )


def _format_op_place(row: Row) -> tuple[str, str]:
    """Return (source line, layer with that line in words) of a row of ops of one type."""
    source, part = format_source(row["source"]), format_source(row["part"])
    return source, part + (f" ({source})" if source and source != part else "")


def _half_findings(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on ops in 16 bits that a processor has no instructions for."""
    rows = list(emulated_half_ops(run).filter_by("host", host).records())
    places = {row["part"] for row in rows}
    # An op that writes into an array of another one allocates none: a layer computes in one type.
    parts = [row for row in model_parts(run).filter_by("host", host).records() if row["part"] in places]
    share = min(1.0, max(sum(row["share"] for row in parts), sum(row["share"] for row in rows)))
    if share < _HALF.value:
        return
    top = rows[0]
    source, where = _format_op_place(top)
    yield Finding(
        id="emulated_half",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step goes to layers that compute in 16 bits, {format_largest_part(top['op'], top['share'], share)} in "
        f"{where}: this processor has no instructions for them, and converts each number to 32 bits and back.",
        action=program.select_text(
            keras="Compute in float32 on a processor: leave the policy 'mixed_float16' or 'mixed_bfloat16' out, or set it only where a GPU or "
            "TPU is found.",
            tensorflow="Compute in float32 on a processor: leave casts to 16 bits, and the policy 'mixed_float16', out.",
            jax="Compute in float32 on a processor: leave casts to 16 bits out.",
        ),
        evidence=(Evidence("share of the step in such ops", share, Unit.FRACTION, "half_ops"),),
        threshold=_HALF,
        saving=compute_saving(share, "if they cost nothing in float32"),
        location=source,
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound"),
    )


def _float64_findings(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on products in float64, which hardly any training needs and NumPy makes by
    default.
    """
    rows = list(float64_ops(run).filter_by("host", host).records())
    products = [row for row in rows if row["product"]]
    share, whole = (min(1.0, sum(row["share"] for row in ops)) for ops in (products, rows))
    if share < _DOUBLE.value:
        return
    top = products[0]
    source, where = _format_op_place(top)
    cast = "Give arrays and layers float32: NumPy's are float64 by default (x.astype('float32'))"
    yield Finding(
        id="float64",
        severity=Severity.HIGH,
        sentence=f"{share:.0%} of the step computes products in float64, {format_largest_part(top['op'], top['share'], share)} in {where}: "
        "at least twice as long as in float32.",
        action=program.select_text(
            keras=f"{cast}, and leave keras.config.set_floatx('float64') out.",
            tensorflow=f"{cast}, and tf.Variable and tf.constant a dtype of tf.float32.",
            jax=f"{cast}, and leave jax_enable_x64 off.",
        ),
        evidence=(Evidence("share of the step in such products", share, Unit.FRACTION, "double_ops"),),
        threshold=_DOUBLE,
        counter_evidence=("What needs more than seven digits stays in float64.",),
        saving=compute_saving(whole, "if they and all else in float64 cost nothing in float32"),
        location=source,
        host=host,
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        explains=("slow_part", "slow_kind", "model_bound"),
    )
