# SPDX-License-Identifier: Apache-2.0
"""`judge`: from samples to verdicts. Nothing is measured here, so a record can be judged again and
must give the same.
"""

from __future__ import annotations

import math
from statistics import median

from outpace._dataclass import dataclass
from outpace.stats.instances import compare_instances, spread_of
from outpace.stats.intervals import LEVEL
from outpace.stats.planning import POWER, minimal_detectable_effect
from outpace.stats.random_effects import Spread
from outpace.stats.ratios import Estimate, compare_rounds
from outpace.tune.trial.record import Decision, Experiment, Per, Phase, Protocol, Trial, Verdict

STRICT = 0.99  # level of intervals that the search looks at again and again
SUSPECT = 0.98  # level of the interval at the search's end that sends an arm to the confirmation
_MARGIN = 1.2  # of the rounds that are needed: preparations come on top, and rounds differ
_SENSIBLE = 20  # times a budget that anybody would give
_LONGER = 0.2  # of the baseline's first step, which happens only once and varies by as much


def judge(experiment: Experiment) -> tuple[Verdict, ...]:
    """A verdict for each treatment but the baseline, from the samples alone."""
    return tuple(_verdict(experiment, trial) for trial in experiment.compared if trial.arm != experiment.baseline)


def compared(
    experiment: Experiment, treatment: str, phase: Phase, level: float = LEVEL, most: int = 1_000_000
) -> Estimate | None:
    """A treatment against the baseline, in the first `most` rounds: between processes where both
    have several or are known to be such, else between rounds.
    """
    base, other = (_rates(experiment, name, phase, most) for name in (experiment.baseline, treatment))
    if min(len(base), len(other)) < 2 and not experiment.protocol.processes:
        reference = {at: rate for at, rate in experiment.reference(phase).items() if at < most}
        return compare_rounds(reference, other[0], level) if other else None
    return compare_instances(base, other, spreads(experiment, phase, experiment.baseline, treatment), level)


def spreads(experiment: Experiment, phase: Phase, *apart: str) -> list[Spread]:
    """What the treatments of a race, but those `apart`, say of how processes of one text differ."""
    names = (trial.arm for trial in experiment.compared if trial.arm not in apart)
    return [found for name in names if (found := spread_of(_rates(experiment, name, phase))) is not None]


def _rates(experiment: Experiment, treatment: str, phase: Phase, most: int = 1_000_000) -> list[dict[int, float]]:
    """Rates of a treatment's instances that ran in a phase, by round."""
    found = [experiment.rates(name, phase) for name in experiment.processes(treatment)]
    return [{at: rate for at, rate in each.items() if at < most} for each in found if each]


def claimed(estimate: Estimate | None, protocol: Protocol) -> Decision | None:
    """The difference that an estimate speaks for: an interval that excludes 1 and a ratio of at
    least the smallest effect; else None. Of few rounds the interval excludes whatever is not large,
    and is the strict one; between processes, whatever is below the smallest effect: texts that are
    the same program differ by that, by where their code and data lie.
    """
    if estimate is None or estimate.rounds < protocol.few_rounds:
        return None
    least = 1 + protocol.effect if protocol.processes else 1.0
    excluded = 1 + protocol.large if estimate.rounds < protocol.least_rounds else least
    if estimate.low > excluded and estimate.ratio >= 1 + protocol.effect:
        return Decision.FASTER
    if estimate.high < 1 / excluded and estimate.ratio <= 1 / (1 + protocol.effect):
        return Decision.SLOWER
    return None


def outrun(experiment: Experiment, arm: str, times: float) -> bool:
    """Whether the search shows an arm to be more than so many times as fast as the baseline, by the
    strict interval.
    """
    found = compared(experiment, arm, Phase.SEARCH, STRICT)
    return claimed(found, experiment.protocol) is Decision.FASTER and found is not None and found.low > times


def biased(control: Estimate | None) -> bool:
    """Whether the baseline differs from itself."""
    return control is not None and not control.contains(1.0)


@dataclass(frozen=True)
class _Basis:
    """The rounds that a verdict rests on. control: None also where processes were compared. alone:
    there is one process of a side.
    """

    processes: bool
    alone: bool
    estimate: Estimate | None
    control: Estimate | None
    rate: float | None
    base_rate: float | None
    confirmed: bool
    strict: Estimate | None = None  # a wider interval


def _basis(experiment: Experiment, arm: str) -> _Basis:
    phase = Phase.CONFIRM if arm in experiment.plan else Phase.SEARCH
    most = experiment.plan.get(arm, 1_000_000)
    reference = {at: rate for at, rate in experiment.reference(phase).items() if at < most}
    rates = experiment.together(arm, phase)
    common = reference.keys() & rates.keys()  # rounds that a dropped arm missed do not count for its control either
    rate, base_rate = (median(r[at] for at in common) if common else None for r in (rates, reference))
    alone, control = not several(experiment, arm), None
    processes = experiment.protocol.processes or not alone
    if not processes:
        base, again = experiment.itself(phase)
        both = common & base.keys() & again.keys()  # an arm that fails misses rounds of its own
        control = compare_rounds({at: base[at] for at in both}, {at: again[at] for at in both})
    found, strict = (compared(experiment, arm, phase, level, most) for level in (LEVEL, STRICT))
    return _Basis(processes, alone, found, control, rate, base_rate, phase is Phase.CONFIRM, strict)


def several(experiment: Experiment, treatment: str) -> bool:
    """Whether a treatment and the baseline both have several instances."""
    return all(len(experiment.processes(name)) > 1 for name in (experiment.baseline, treatment))


def _verdict(experiment: Experiment, trial: Trial) -> Verdict:
    basis = _basis(experiment, trial.arm)
    decision, reason = _decide(experiment, trial, basis)
    return Verdict(
        arm=trial.arm,
        decision=decision,
        reason=reason,
        estimate=basis.estimate,
        control=basis.control,
        confirmed=basis.confirmed and decision in (Decision.FASTER, Decision.SLOWER, Decision.SAME),
        rate=basis.rate,
        break_even_steps=_break_even(experiment, trial, basis) if decision is Decision.FASTER else None,
    )


def _decide(experiment: Experiment, trial: Trial, basis: _Basis) -> tuple[Decision, str]:
    if trial.failure is not None:
        return Decision.FAILED, trial.failure
    protocol, estimate = experiment.protocol, basis.estimate
    if trial.dropped is not None and not protocol.confirm and estimate is not None:
        return Decision.SEEMS_SLOWER, f"{_size(estimate)}: the search dropped it after {trial.dropped} rounds."
    refusal = _too_little(experiment, basis)
    if estimate is None or refusal:
        return Decision.REFUSED, refusal or "It ran in no two rounds."
    strict = protocol.processes or not protocol.confirm or estimate.rounds < protocol.least_rounds
    found = claimed(basis.strict if strict else estimate, protocol)
    if protocol.processes:
        estimate = basis.strict or estimate
    refusal = _too_noisy(protocol, found, estimate, basis)
    if refusal:
        return Decision.REFUSED, refusal
    if found is None:
        return Decision.SAME, _same(estimate, basis.confirmed, protocol)
    if not protocol.confirm:
        seems = Decision.SEEMS_FASTER if found is Decision.FASTER else Decision.SEEMS_SLOWER
        return seems, f"{_size(estimate)} on {estimate.rounds} rounds of a search; not confirmed."
    if not basis.confirmed:
        return (
            Decision.REFUSED,
            f"{_size(estimate)}, but the race ended before fresh rounds could confirm it. Give it a larger budget.",
        )
    return found, f"{_size(estimate)}, confirmed on {estimate.rounds} fresh rounds."


def _too_little(experiment: Experiment, basis: _Basis) -> str | None:
    """Why there are too few rounds to say anything."""
    least = experiment.protocol.least_rounds
    rounds = basis.estimate.rounds if basis.estimate else 0
    if rounds >= least or claimed(basis.strict, experiment.protocol) is not None:
        return None
    what = "fresh rounds" if basis.confirmed else "rounds"
    failure = experiment.trial(experiment.baseline).failure
    if failure is not None:
        return f"There is nothing to compare with after {rounds} {what}, because {experiment.baseline} failed: {failure}."
    if experiment.interrupted:
        return f"The race was stopped after {rounds} {what}; a verdict needs {least}."
    so_far = (
        f", and so far it is {basis.estimate.ratio:.2f} ({basis.estimate.low:.2f} to {basis.estimate.high:.2f})"
        if basis.estimate
        else ""
    )
    return f"Only {rounds} {what} fitted into the budget; a verdict needs {least}{so_far}. {_larger(least / max(rounds, 1))}"


def _too_noisy(protocol: Protocol, found: Decision | None, estimate: Estimate, basis: _Basis) -> str | None:
    """Why a claim, or the lack of one, cannot be believed on this machine."""
    control = basis.control
    again = f"{control.low:.3f} to {control.high:.3f}" if control else "not measured"
    cure = "Run it again on a quieter machine, or with a larger budget."
    if found is None:
        too_wide = estimate.reach / math.log1p(protocol.blind)
        if too_wide > 1:
            said = f"the ratio is {estimate.ratio:.2f}, and may be anything from {estimate.low:.2f} to {estimate.high:.2f}."
            if protocol.processes and basis.alone:
                return f"One process of each ran, and processes of one program differ: {said} A larger budget runs more."
            return f"Too noisy: {said} {_larger(too_wide**2)}"  # an interval narrows with the square root of its rounds
        return None
    if basis.processes:
        return None  # how much the baseline differs from itself is in the interval
    effect = abs(math.log(estimate.ratio))
    if control is None or control.half >= effect:
        return f"Too noisy: the baseline against itself is as uncertain as this difference is large ({again}). {cure}"
    share = protocol.bias_share if protocol.confirm else 1.0
    if biased(control) and control.reach > share * effect:
        return f"The baseline differs from itself ({again}), so this difference is not trusted. {cure}"
    return None


def _larger(times: float) -> str:
    """What would decide, where so many times the rounds are needed."""
    if times > _SENSIBLE:
        return f"A quieter machine would decide; a budget alone would have to be more than {_SENSIBLE} times as large."
    return f"A budget about {max(times * _MARGIN, 1.5):.1f} times as large would decide, or a quieter machine."


def _size(estimate: Estimate) -> str:
    if estimate.ratio >= 2:
        return f"Speed-up {estimate.ratio:.2f}x"
    percent = abs(estimate.ratio - 1) * 100
    return f"{percent:.1f}% {'faster' if estimate.ratio > 1 else 'slower'}"


def _same(estimate: Estimate, confirmed: bool, protocol: Protocol) -> str:
    limits = f"between {(estimate.low - 1) * 100:+.1f} and {(estimate.high - 1) * 100:+.1f}%"
    if protocol.processes:
        return f"Any difference is {limits} (99% CI); processes of one program can differ by {protocol.effect * 100:g}%."
    if confirmed:
        said = "A difference seen at first was not confirmed" if protocol.search else "No difference was found"
        return f"{said} on {estimate.rounds} fresh rounds; it is {limits}.{_shown(estimate)}"
    if not estimate.contains(1.0) and abs(math.log(estimate.ratio)) < math.log1p(protocol.effect):
        return f"Any difference is {limits}, less than the {protocol.effect * 100:g}% that count."
    return f"Any difference is {limits}.{_shown(estimate)}"


def _shown(estimate: Estimate) -> str:
    return f" A gain of {minimal_detectable_effect(estimate) * 100:.1f}% could have been shown (with a power of {POWER:.0%})."


def _break_even(experiment: Experiment, trial: Trial, basis: _Basis) -> int | None:
    """Steps after which a faster arm has made up for a clearly longer first call."""
    base = experiment.trial(experiment.baseline)
    selves = (experiment.trial(name).first_seconds for name in experiment.instances(base.arm))
    first = min((each for each in selves if each is not None), default=None)  # the first of all pays for what is done once
    if trial.first_seconds is None or first is None or not basis.rate or not basis.base_rate:
        return None
    weight = (trial.examples or 1.0, base.examples or 1.0) if experiment.protocol.per is Per.EXAMPLE else (1.0, 1.0)
    saved = weight[0] / basis.base_rate - weight[0] / basis.rate  # seconds per step of this arm, for the same amount of work
    extra = trial.first_seconds - first
    if extra <= _LONGER * first or saved <= 0:
        return None
    return math.ceil(extra / saved)
