# SPDX-License-Identifier: Apache-2.0
"""Advice on a line that a device computes far more slowly than its arithmetic and its memory
allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.metrics.actions.model_work import CPU, ActionContext
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, InstructionStats, instruction_stats
from outpace.metrics.facts.roofs import Bound
from outpace.metrics.views.model_parts import located_ops, op_locators
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit, humanize
from outpace.model.text import is_majority
from outpace.model.units import format_count
from outpace.timeline import Run
from outpace.timeline.work_kinds import classify_work
from outpace.tools.model_time.parts import ModelPart, format_source
from outpace.tools.model_time.work_summary import (
    can_reach_roof,
    compute_roof_saving,
    compute_saving,
    compute_traits,
    render_part_actions,
)

if TYPE_CHECKING:
    from outpace.timeline.hlo.ops import HloOp
    from outpace.timeline.hlo.slow_cases import SlowCase

_MOVING = ("carried_copy", "copy", "layout", "order")  # names of cases that only move arrays: a waste however fast they are
_PART = 0.1  # minimum share of a line's time above the roof in a known slow case, for that to be what the line is
_BESIDE = 0.25  # minimum time above the roof of a function's other lines, as a multiple of that of its slowest line, to be told with it
_MOST_LINES = 3  # maximum number of lines in a sentence
_ABOVE = Threshold(
    "time above the roof", 0.10, Unit.FRACTION, "our choice: a smaller gain is not worth writing an op in another way"
)


def iter_above_roof_findings(run: Run, host: str, parts: list[ModelPart], here: ActionContext) -> Iterator[Finding]:
    """Yield the finding on the part with a known line that took most time above the device's roofs;
    none where that is little.
    """
    known = (part for part in parts if part.source)
    top = max(known, key=lambda part: part.share if part.is_loop else part.above_share, default=None)
    if top is None or top.is_loop or top.above_share < _ABOVE.value:
        return  # of a loop of short ops, what is around them counts as well
    slow = find_slow_op(run, host, top.source) or _find_slow_graph_op(run, host, top)
    if slow is None:
        return
    top = replace(top, op=slow.op, work=classify_work(slow.op)) if slow.op else top
    lines = _find_slow_lines(run, host, top, slow, parts)
    share, above_share = sum(part.share for part in lines), sum(part.above_share for part in lines)
    bound = sum(max(part.bound or 0.0, part.above_share) for part in lines)
    steps = run.by_host[host].steps
    above = slow.above + (above_share - top.above_share) * float(steps.duration[steps.steady_rows].mean())
    device = "processor" if here.hardware == CPU else "device"
    inside, case = format_source(slow.case.source) if slow.case is not None else "", slow.case
    place = (
        f"{inside} (compiled into {top})"
        if inside and inside != top.source and len(lines) == 1
        else _format_place(run, host, lines)
    )
    what = slow.description or top.op if case is None else case.reason
    fits = replace(
        here, gains_from_half=here.gains_from_half and here.hardware != CPU, traits=compute_traits(run, host, top.source)
    )
    roof_saving = compute_roof_saving(bound) if case is not None or can_reach_roof(top, fits) else None
    part = f"in {what}" if f"{slow.share:.0%}" == f"{share:.0%}" else f"{slow.share:.0%} in {what}"
    takes = top.takes if len(lines) == 1 else "take"
    yield Finding(
        id="slow_part",
        severity=Severity.HIGH,
        sentence=f"{place} {takes} {share:.0%} of the step, {part}: {humanize(above, Unit.PS)} per step more than "
        f"the {device} needs for its operations and bytes ({slow.of_roof:.1%} of its roof).",
        action=render_part_actions(top, fits) if case is None else case.advice,
        evidence=(
            Evidence("above the roof, of the step", above_share, Unit.FRACTION, top.table),
            Evidence("its share of the step, forward and backward", share, Unit.FRACTION, top.table),
        ),
        threshold=_ABOVE,
        saving=compute_saving(_case_share(run, host, lines, slow), "if it cost nothing")
        if case is not None and case.does_less
        else roof_saving,
        location=inside or top.source,
        host=host,
        certainty=Certainty.LIKELY,
        effort=Effort.LARGE,
        explains=("model_bound", "slow_kind", "low_16_bit_share", "tensor_cores_unused"),
    )


def _case_share(run: Run, host: str, lines: list[ModelPart], slow: SlowOp) -> float:
    """Return the share of the step in the slow ops of some lines, of which one has the slow op
    `slow`: what else the lines compute stays.
    """
    if len(lines) == 1:
        return slow.share
    return sum(found.share for part in lines if (found := find_slow_op(run, host, part.source)) is not None)


def _find_slow_lines(run: Run, host: str, top: ModelPart, slow: SlowOp, parts: list[ModelPart]) -> list[ModelPart]:
    """Return the lines of the program's function that holds a line, of those that are slow for the
    same reason, in order; the line alone where the others are little: who writes a function in
    another way writes all of it.
    """
    functions = _functions_by_line(run, host)
    function = functions.get(top.source)
    lines = [
        part
        for part in parts
        if part is not top
        and part.above_share
        and not part.is_loop
        and function is not None
        and functions.get(part.source) == function
        and _is_slow_alike(slow, find_slow_op(run, host, part.source))
    ]
    if sum(part.above_share for part in lines) < _BESIDE * top.above_share:
        return [top]
    return sorted((top, *lines), key=lambda part: int(part.source.rpartition(":")[2] or 0))


def _is_slow_alike(slow: SlowOp, other: SlowOp | None) -> bool:
    """Whether two lines' slow ops are of one known case; without one, whether they compute the same
    thing.
    """
    if other is None or slow.case is None or other.case is None:
        return other is not None and slow.case is other.case and slow.description == other.description
    return slow.case.name == other.case.name


def _functions_by_line(run: Run, host: str) -> dict[str, tuple[str, str]]:
    """Return the file and the function that hold each source line; not of lines of files with the
    same name, of modules and of lambdas, which have no function of one name.
    """
    places: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for r in instruction_stats(run).get(host, ()):
        if r.op.function:
            places[format_source(r.op.source)].add((r.op.source.rpartition(":")[0], r.op.function))
    named = {line: min(found) for line, found in places.items() if len(found) == 1}
    return {line: place for line, place in named.items() if not place[1].endswith(">")}


def _format_place(run: Run, host: str, lines: list[ModelPart]) -> str:
    """Return lines of one function in words: `train.py:31 and 34 (in loss())`."""
    if len(lines) == 1:
        return str(lines[0])
    longest = sorted(lines, key=lambda part: -part.share)[:_MOST_LINES]
    numbers = [part.source.rpartition(":")[2] for part in lines if part in longest]
    further = len(lines) - len(numbers)
    also = f" and {format_count(further, 'more line')}" if further else ""
    joined = ", ".join(numbers) if further else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    name = max(
        (r for r in instruction_stats(run).get(host, ()) if format_source(r.op.source) == longest[0].source),
        key=lambda r: r.share,
    ).op.function.rpartition(".")[2]
    return f"{lines[0].source.rpartition(':')[0]}:{joined}{also} (in {name}())"


@dataclass(frozen=True)
class SlowOp:
    """The op of a source line that took most time above its roof.

    description: what it computes, in words.
    of_roof: least time that the device needs for these ops of the line, as a share of their time.
    case: the known slow case that it is, else what it is with another way to compute it; None where
        neither is known.
    above: time of the line above the roof per step, ps.
    share: share of the step of the line's ops of that case.
    op: type of an op of TensorFlow; "" for ops of compiled programs.
    """

    description: str
    of_roof: float
    case: SlowCase | None
    above: float
    share: float
    op: str = ""


def find_slow_op(run: Run, host: str, source: str) -> SlowOp | None:
    """Return the op of a source line that took most time above its roof; None where none is far
    above it.
    """
    far = (r for r in instruction_stats(run).get(host, ()) if r.roof.bound is Bound.NEITHER)
    ran = [r for r in far if source in _sources(run, host, r.op)]
    whole = sum(r.above_share for r in ran)
    if not whole:
        return None
    groups: dict[str, list[InstructionStats]] = {}
    for r in ran:
        case = r.op.slow_case or _alternative(r)
        groups.setdefault(case.name if case is not None else "", []).append(r)
    sums = {name: sum(r.above_share for r in group) for name, group in groups.items()}
    main = groups[max(sums, key=sums.__getitem__)]
    product = max(main, key=lambda r: r.above_share).op.product  # gradients of a slow convolution are no slow case themselves
    known = [
        name
        for name, group in groups.items()
        if any(r.op.slow_case and (sums[name] >= _PART * whole or r.op.product == product != "") for r in group)
    ]
    main = groups[max(known, key=sums.__getitem__)] if known else main
    top = max(main, key=lambda r: r.above_share)
    steps = run.by_host[host].steps
    # another way to do a small part of what is slow would leave the line slow
    is_cause = bool(known) or is_majority(sum(r.above_share for r in main), whole)
    return SlowOp(
        top.op.description,
        1 - whole / sum(r.share for r in ran),
        (top.op.slow_case or _alternative(top)) if is_cause else None,
        whole * float(steps.duration[steps.steady_rows].mean()),
        sum(r.share for r in main),
    )


def _find_slow_graph_op(run: Run, host: str, part: ModelPart) -> SlowOp | None:
    """Return the type of TensorFlow's ops of a part that took most time above its roof; None where
    none is far above it.
    """
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    far: dict[str, float] = defaultdict(float)
    for ops, ran in located_ops(run):
        for op in ran if ops.host == host else ():
            if op.location.part in part.members and op.least_ps == op.least_ps:
                step = op.wall_ps / ops.step_count, op.least_ps / ops.step_count, ops.step_share(op.wall_ps)
                times[op.type] = [a + b for a, b in zip(times[op.type], step, strict=True)]
                far[op.type] += step[0] - step[1] if op.is_far_above else 0.0
    kind = max(far, key=far.__getitem__, default="")
    wall, least, share = times[kind]
    if not far[kind] or share * (1 - least / wall) < _ABOVE.value:
        return None
    return SlowOp(kind, least / wall, None, wall - least, share, kind)


def find_known_case(run: Run, host: str, part: ModelPart) -> SlowCase | None:
    """Return what the op that takes most of a part's time is, with what to do instead; None where
    no other way is known, or where that depends on a roof: the op neither moves data nor sorts,
    loops or solves.
    """
    ran = [r for r in instruction_stats(run).get(host, ()) if part.source in _sources(run, host, r.op)]
    if not part.source or not ran:
        return None
    top = max(ran, key=lambda r: r.time_ps)
    case = top.op.slow_case or _alternative(top)
    return case if case is not None and (part.is_slow or case.name in _MOVING) else None


def _sources(run: Run, host: str, op: HloOp) -> tuple[str, str]:
    """Return the source line of an op, and that of the layer it belongs to; "" where not known."""
    place = op_locators(run)[host].locate(op.framework_op, op.opcode, op.source)
    return format_source(op.source), format_source(place.source)


def _alternative(ran: InstructionStats) -> SlowCase | None:
    """Return another way to compute an op on its side; None where none is known."""
    other = ran.op.alternative
    return None if other is None or (other.is_of_processors and ran.side == DEVICE_SIDE) else other
