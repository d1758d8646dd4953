# SPDX-License-Identifier: Apache-2.0
"""Sentences of a comparison: headline, remedy and changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outpace.compare.changes import MIN_CAPTURES, Change, ChangeKind
from outpace.compare.facts import EXAMPLES_FACT
from outpace.compare.gate import format_growth
from outpace.compare.line_changes import compute_line_changes, find_main_line, find_suspect
from outpace.compare.machine_model import MIN_PARTS
from outpace.compare.side import is_waiting
from outpace.compare.verdict import Comparison, Verdict, VerdictBasis
from outpace.model import Unit, humanize
from outpace.model.units import format_count

_SUSPECT = 0.25  # minimum share of the step's change in one part for it to be named as the suspect
_ALIKE = 0.5  # minimum share of the log of the step's ratio in a change common to all work for that change to be named
_REST = 0.03  # minimum share of a step of a change common to all work for it to be named


def render_headline(comparison: Comparison) -> str:
    """Return the verdict as a sentence, with its explanation."""
    says = {
        Verdict.IDENTICAL: _identical,
        Verdict.FASTER: _changed,
        Verdict.SLOWER: _changed,
        Verdict.MACHINE: _machine_changed,
        Verdict.SAME: _no_difference,
        Verdict.OPEN: _inconclusive if comparison.is_comparable else _not_comparable,
    }
    return says[comparison.verdict](comparison)


def format_change(change: Change) -> str:
    """Return the change of a part as the end of a sentence that begins with the part's name."""
    if change.kind is ChangeKind.NEW or change.before.value == 0:
        return f"is new ({humanize(change.after.value, Unit.PS)})"
    if change.kind is ChangeKind.GONE or change.after.value == 0:
        return f"is gone ({humanize(change.before.value, Unit.PS)})"
    return f"takes {humanize(change.after.value, Unit.PS)} instead of {humanize(change.before.value, Unit.PS)}"


def render_remedy(comparison: Comparison) -> str:
    """Return the sentence on what would decide an inconclusive comparison."""
    count = min(len(comparison.before.captures), len(comparison.after.captures))
    times = "three times" if count < MIN_CAPTURES else f"{2 * count} times"
    return f"Capture each side {times}, in turns (--captures with --run and --against; --before and --after): their own spread then decides."


def _identical(comparison: Comparison) -> str:
    return f"The same run: both sides are {comparison.before.size_text} of {comparison.before.name}, and there is nothing to compare."


def _not_comparable(comparison: Comparison) -> str:
    what = ", ".join(comparison.blocking_facts)
    return f"Not to be compared by the step: the runs differ in {what}. The step takes {_longer(comparison.ratio)}{_per_example(comparison)}."


def _per_example(comparison: Comparison) -> str:
    """Return the sentence on the time per example, where the sides have different numbers of
    examples per step and nothing else forbids the comparison.
    """
    if comparison.blocking_facts != [EXAMPLES_FACT]:
        return ""
    one, two = (int(side.facts[EXAMPLES_FACT]) for side in (comparison.before, comparison.after))
    return f", an example {_longer(comparison.ratio * one / two)}"


def _changed(comparison: Comparison) -> str:
    if comparison.basis in (VerdictBasis.IN_TURNS, VerdictBasis.FEW_SHARED):
        percent = f"{abs(comparison.program_share.value):.1%}"
        interval = f"95% CI of the step's ratio {comparison.ratio_low:.2f} to {comparison.ratio_high:.2f}"
        shift = comparison.evidence.log_shift
        machine = f" where the machine alone makes {math.exp(shift):.2f}" if shift else ""
        return (
            f"{comparison.after.name} is {percent} {comparison.verdict.value} ({interval}{machine}); {_as_a_whole(comparison)}."
        )
    time = humanize(abs(comparison.program_share.value) * comparison.step_expected_ps, Unit.PS)
    share = f"{abs(comparison.program_share.value):.1%} of a step {'more' if comparison.program_share.value > 0 else 'less'} ({time})"
    return (
        f"{comparison.after.name} is {comparison.verdict.value}: {share}; {_parts(comparison)}."
        f"{_straggler(comparison)}{_remainder(comparison)}"
    )


def _machine_changed(comparison: Comparison) -> str:
    slower = "slower" if comparison.ratio > 1 else "faster"
    bound = f"the program adds or saves at most {comparison.max_program_share:.1%} of it"
    if comparison.max_program_share > comparison.min_effect:
        bound = (
            f"what the program changes beside it is not seen up to {comparison.max_program_share:.0%} of a step. "
            f"{render_remedy(comparison)}"
        )
    return f"The machine is {slower} ({_outside_evidence(comparison)}): the step takes {_longer(comparison.ratio)}, and {bound.rstrip('.')}."


def _no_difference(comparison: Comparison) -> str:
    bound = f"the program adds or saves at most {comparison.max_program_share:.1%} of it"
    return f"No difference: the step takes {_longer(comparison.ratio)}, and {bound}.{_background_change(comparison)}"


def _inconclusive(comparison: Comparison) -> str:
    bound = f"the program may add or save up to {comparison.max_program_share:.0%} of it"
    return f"Inconclusive: the step takes {_longer(comparison.ratio)}, and {bound}.{_suspect(comparison)} {render_remedy(comparison)}"


def _straggler(comparison: Comparison) -> str:
    """Return the sentence on the host with a part that takes longer than on the other hosts, which
    wait for it.
    """
    slowed_parts = [(host, find_slowed_part(host)) for host in comparison.host_comparisons]
    late = [(host, change) for host, change in slowed_parts if change is not None and change.kind is not ChangeKind.MACHINE]
    if not late or comparison.ratio <= 1:
        return ""
    host, change = max(late, key=lambda item: item[1].delta_ps)
    other_hosts = [other for other, _ in slowed_parts if other is not host]
    growths = [
        next((other_change.delta_ps for other_change in other.changes if other_change.part == change.part), 0.0)
        for other in other_hosts
    ]
    if any(2 * growth > change.delta_ps for growth in growths):
        return ""
    return (
        f" On {host.after.name} {change.label} {format_change(change)}, "
        f"and the other {'hosts wait' if len(other_hosts) > 1 else 'host waits'} for it."
    )


def find_slowed_part(host: Comparison) -> Change | None:
    """Return the part of a host with the largest growth that is not waiting for other hosts; None
    where there is none.
    """
    return max(
        (change for change in host.changes if not is_waiting(change.part)), key=lambda change: change.delta_ps, default=None
    )


def _background_change(comparison: Comparison) -> str:
    """Return the sentence on changes that did not change the step time."""
    if comparison.basis is not VerdictBasis.BESIDE or not comparison.own_changes:
        return ""
    return f" {comparison.main_change.label} {format_change(comparison.main_change)}, on threads that work beside the step."


def _suspect(comparison: Comparison) -> str:
    """Return the sentence on the part that seems to hold most of the change, though it is not
    significant.
    """
    growth_ps = comparison.step_after.value - comparison.step_before.value
    change, line = find_suspect(comparison, growth_ps)
    straggler = _straggler(comparison)
    if straggler:
        return straggler
    if change is not None and abs(change.delta_ps) >= _SUSPECT * abs(growth_ps):
        captures = format_count(min(len(comparison.before.captures), len(comparison.after.captures)), "capture")
        where = f"Python in {line.label}" if line is not None else change.label
        amount = abs((line or change).delta_ps)
        growth = f"{humanize(abs(growth_ps), Unit.PS)} {'more' if growth_ps > 0 else 'less'}"
        part = f"{humanize(amount, Unit.PS)} of the {growth}" if amount <= abs(growth_ps) else f"The {growth}"
        return f" {part} may be {where}, which {format_change(line or change)}: {captures} a side cannot tell."
    if comparison.machine_may_explain or abs(math.log(comparison.ratio)) <= math.log1p(comparison.min_effect):
        return _background_change(comparison)
    return (
        _common_change(comparison.ratio)
        if comparison.common_share >= _ALIKE
        else f" No part explains it.{_background_change(comparison)}"
    )


def _common_change(ratio: float) -> str:
    """Return the sentence that all work changed by one ratio, with possible causes."""
    if ratio > 1:
        return f" All work takes {ratio:.2g} times as long, and nothing says that the machine is slower: threads, precision, debug options?"
    return f" All work takes {1 - ratio:.0%} less, and nothing says that the machine is faster: threads, precision?"


def _as_a_whole(comparison: Comparison) -> str:
    """Return the sentence on what is known besides the step's ratio, where the verdict rests on the
    step alone.
    """
    if comparison.basis is VerdictBasis.FEW_SHARED:
        reason = "too few ops are known to tell where, and whether it was the machine"
    elif not comparison.factors or not any(factor.part_count >= MIN_PARTS for factor in comparison.factors.values()):
        reason = f"captures in turns rule the machine out{'' if comparison.own_changes else ', and too few ops are known to tell where'}"
    else:
        reason = (
            f"captures in turns rule the machine out, so that whole classes of work are the program's ({_largest(comparison)})"
        )
    return f"{reason}; {_parts(comparison)}" if comparison.own_changes else reason


def _largest(comparison: Comparison) -> str:
    """Return the work classes that hold most of the step, with their ratios."""
    work_ps = {
        work: sum(change.before.value for change in comparison.changes if change.work_class == work)
        for work in comparison.factors
    }
    works = sorted(
        (work for work in work_ps if comparison.factors[work].part_count >= MIN_PARTS), key=lambda work: -work_ps[work]
    )
    return ", ".join(f"{work} {math.exp(comparison.factors[work].log_factor):.2f} times" for work in works[:2])


def _parts(comparison: Comparison) -> str:
    """Return the sentence on the parts that make most of the program's change."""
    first = comparison.main_change
    line = find_main_line(first, compute_line_changes(comparison))
    main_text = f"{first.label} {format_change(first)}{f', above all {line.label}' if line else ''}"
    rest = len(comparison.own_changes) - (first in comparison.own_changes)
    return f"{main_text}{f', and {rest} more changes' if rest > 1 else ', and one more change' if rest else ''}"


def _remainder(comparison: Comparison) -> str:
    """Return the sentence on the step's change beyond the program's, with its cause."""
    whole_step = f" The step as a whole takes {_longer(comparison.ratio)}"
    if comparison.basis is VerdictBasis.MORE:
        return f"{whole_step}: nothing tells whose the rest is."
    if abs(comparison.step_expected_ps / comparison.step_before.value - 1) <= _REST:
        return ""
    if comparison.machine_may_explain:
        return f"{whole_step}: the rest may be the machine's ({_outside_evidence(comparison)})."
    return f"{whole_step}: the rest changed all work alike, and nothing says whether the machine did that."


def _outside_evidence(comparison: Comparison) -> str:
    """Return the sentence on the evidence about the machine from outside the parts."""
    evidence = comparison.evidence
    loops = [f"{loop} {ratio:.2f}" for loop, ratio in evidence.loop_ratios.items()]
    clauses = [f"loops take {_join(loops)} times as long"] if loops else []
    if evidence.others_shares is not None:
        clauses.append(f"other programs used {evidence.others_shares[1]:.0%} of it instead of {evidence.others_shares[0]:.0%}")
    return "; ".join(clauses)


def _join(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _longer(ratio: float) -> str:
    return format_growth(ratio - 1)
