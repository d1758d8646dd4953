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
        Verdict.MACHINE: _of_machine,
        Verdict.SAME: _same,
        Verdict.OPEN: _open if comparison.is_comparable else _apart,
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


def _identical(found: Comparison) -> str:
    return f"The same run: both sides are {found.before.size_text} of {found.before.name}, and there is nothing to compare."


def _apart(found: Comparison) -> str:
    what = ", ".join(found.blocking_facts)
    return f"Not to be compared by the step: the runs differ in {what}. The step takes {_longer(found.ratio)}{_per_example(found)}."


def _per_example(found: Comparison) -> str:
    """Return the sentence on the time per example, where the sides have different numbers of
    examples per step and nothing else forbids the comparison.
    """
    if found.blocking_facts != [EXAMPLES_FACT]:
        return ""
    one, two = (int(side.facts[EXAMPLES_FACT]) for side in (found.before, found.after))
    return f", an example {_longer(found.ratio * one / two)}"


def _changed(found: Comparison) -> str:
    if found.basis in (VerdictBasis.IN_TURNS, VerdictBasis.FEW_SHARED):
        by = f"{abs(found.program_share.value):.1%}"
        interval = f"95% CI of the step's ratio {found.ratio_low:.2f} to {found.ratio_high:.2f}"
        shift = found.evidence.log_shift
        machine = f" where the machine alone makes {math.exp(shift):.2f}" if shift else ""
        return f"{found.after.name} is {by} {found.verdict.value} ({interval}{machine}); {_as_a_whole(found)}."
    time = humanize(abs(found.program_share.value) * found.step_expected_ps, Unit.PS)
    share = f"{abs(found.program_share.value):.1%} of a step {'more' if found.program_share.value > 0 else 'less'} ({time})"
    return f"{found.after.name} is {found.verdict.value}: {share}; {_parts(found)}.{_straggler(found)}{_rest(found)}"


def _of_machine(found: Comparison) -> str:
    slower = "slower" if found.ratio > 1 else "faster"
    bound = f"the program adds or saves at most {found.max_program_share:.1%} of it"
    if found.max_program_share > found.min_effect:
        bound = f"what the program changes beside it is not seen up to {found.max_program_share:.0%} of a step. {render_remedy(found)}"
    return f"The machine is {slower} ({_outside(found)}): the step takes {_longer(found.ratio)}, and {bound.rstrip('.')}."


def _same(found: Comparison) -> str:
    bound = f"the program adds or saves at most {found.max_program_share:.1%} of it"
    return f"No difference: the step takes {_longer(found.ratio)}, and {bound}.{_beside(found)}"


def _open(found: Comparison) -> str:
    bound = f"the program may add or save up to {found.max_program_share:.0%} of it"
    return f"Inconclusive: the step takes {_longer(found.ratio)}, and {bound}.{_suspect(found)} {render_remedy(found)}"


def _straggler(found: Comparison) -> str:
    """Return the sentence on the host with a part that takes longer than on the other hosts, which
    wait for it.
    """
    told = [(each, find_slowed_part(each)) for each in found.host_comparisons]
    late = [(each, change) for each, change in told if change is not None and change.kind is not ChangeKind.MACHINE]
    if not late or found.ratio <= 1:
        return ""
    host, change = max(late, key=lambda each: each[1].delta_ps)
    others = [other for other, _ in told if other is not host]
    growths = [next((each.delta_ps for each in other.changes if each.part == change.part), 0.0) for other in others]
    if any(2 * growth > change.delta_ps for growth in growths):
        return ""
    return (
        f" On {host.after.name} {change.label} {format_change(change)}, "
        f"and the other {'hosts wait' if len(others) > 1 else 'host waits'} for it."
    )


def find_slowed_part(host: Comparison) -> Change | None:
    """Return the part of a host with the largest growth that is not waiting for other hosts; None
    where there is none.
    """
    return max((each for each in host.changes if not is_waiting(each.part)), key=lambda each: each.delta_ps, default=None)


def _beside(found: Comparison) -> str:
    """Return the sentence on changes that did not change the step time."""
    if found.basis is not VerdictBasis.BESIDE or not found.own_changes:
        return ""
    return f" {found.main_change.label} {format_change(found.main_change)}, on threads that work beside the step."


def _suspect(found: Comparison) -> str:
    """Return the sentence on the part that seems to hold most of the change, though it is not
    significant.
    """
    more = found.step_after.value - found.step_before.value
    change, line = find_suspect(found, more)
    straggler = _straggler(found)
    if straggler:
        return straggler
    if change is not None and abs(change.delta_ps) >= _SUSPECT * abs(more):
        captures = format_count(min(len(found.before.captures), len(found.after.captures)), "capture")
        where = f"Python in {line.label}" if line is not None else change.label
        amount = abs((line or change).delta_ps)
        of = f"{humanize(abs(more), Unit.PS)} {'more' if more > 0 else 'less'}"
        part = f"{humanize(amount, Unit.PS)} of the {of}" if amount <= abs(more) else f"The {of}"
        return f" {part} may be {where}, which {format_change(line or change)}: {captures} a side cannot tell."
    if found.machine_may_explain or abs(math.log(found.ratio)) <= math.log1p(found.min_effect):
        return _beside(found)
    return _alike(found.ratio) if found.common_share >= _ALIKE else f" No part explains it.{_beside(found)}"


def _alike(ratio: float) -> str:
    """Return the sentence that all work changed by one ratio, with possible causes."""
    if ratio > 1:
        return f" All work takes {ratio:.2g} times as long, and nothing says that the machine is slower: threads, precision, debug options?"
    return f" All work takes {1 - ratio:.0%} less, and nothing says that the machine is faster: threads, precision?"


def _as_a_whole(found: Comparison) -> str:
    """Return the sentence on what is known besides the step's ratio, where the verdict rests on the
    step alone.
    """
    if found.basis is VerdictBasis.FEW_SHARED:
        known = "too few ops are known to tell where, and whether it was the machine"
    elif not found.factors or not any(factor.part_count >= MIN_PARTS for factor in found.factors.values()):
        known = (
            f"captures in turns rule the machine out{'' if found.own_changes else ', and too few ops are known to tell where'}"
        )
    else:
        known = f"captures in turns rule the machine out, so that whole classes of work are the program's ({_largest(found)})"
    return f"{known}; {_parts(found)}" if found.own_changes else known


def _largest(found: Comparison) -> str:
    """Return the work classes that hold most of the step, with their ratios."""
    held = {work: sum(each.before.value for each in found.changes if each.work_class == work) for work in found.factors}
    works = sorted((work for work in held if found.factors[work].part_count >= MIN_PARTS), key=lambda work: -held[work])
    return ", ".join(f"{work} {math.exp(found.factors[work].log_factor):.2f} times" for work in works[:2])


def _parts(found: Comparison) -> str:
    """Return the sentence on the parts that make most of the program's change."""
    first = found.main_change
    line = find_main_line(first, compute_line_changes(found))
    named = f"{first.label} {format_change(first)}{f', above all {line.label}' if line else ''}"
    rest = len(found.own_changes) - (first in found.own_changes)
    return f"{named}{f', and {rest} more changes' if rest > 1 else ', and one more change' if rest else ''}"


def _rest(found: Comparison) -> str:
    """Return the sentence on the step's change beyond the program's, with its cause."""
    whole = f" The step as a whole takes {_longer(found.ratio)}"
    if found.basis is VerdictBasis.MORE:
        return f"{whole}: nothing tells whose the rest is."
    if abs(found.step_expected_ps / found.step_before.value - 1) <= _REST:
        return ""
    if found.machine_may_explain:
        return f"{whole}: the rest may be the machine's ({_outside(found)})."
    return f"{whole}: the rest changed all work alike, and nothing says whether the machine did that."


def _outside(found: Comparison) -> str:
    """Return the sentence on the evidence about the machine from outside the parts."""
    known = found.evidence
    loops = [f"{loop} {ratio:.2f}" for loop, ratio in known.loop_ratios.items()]
    said = [f"loops take {_listed(loops)} times as long"] if loops else []
    if known.others_shares is not None:
        said.append(f"other programs used {known.others_shares[1]:.0%} of it instead of {known.others_shares[0]:.0%}")
    return "; ".join(said)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _longer(ratio: float) -> str:
    return format_growth(ratio - 1)
