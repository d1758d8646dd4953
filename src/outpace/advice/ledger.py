# SPDX-License-Identifier: Apache-2.0
"""The ledger of savings. It puts the savings of all findings on one base, and limits each saving,
and the sum of all savings, to the time that there is to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from outpace.metrics.savings.budget import ALL_HOSTS, Budget
from outpace.model import OUTSIDE_STEPS, Finding, Saving

_WORTH_SAYING = 0.005  # minimum saving to report, as a share of the step; a smaller one could not be measured
# Minimum share of the time from the first step to the last that lies between steps for savings to
# be given as a share of that whole time: as a share of the step alone they would promise more than
# anybody sees.
_MIN_GAP_SHARE = 0.2
_CYCLE = "from step to step"
# Minimum part of the saving asked for that must be granted; below it, the finding carries the note
# `SHARED_SAVING`.
_MIN_GRANTED = 0.9
SHARED_SAVING = "What it saves is mostly the same time as that of a finding above: the two do not add up."


class Ledger:
    """Grants each finding its saving, in the order in which findings come, out of the step
    categories that the saving is taken from.
    """

    def __init__(self, budgets: Mapping[str, Budget]) -> None:
        """Start with the full category shares of every host in `budgets`, and with those of the
        mean step for findings that name no host. What is granted from a host is also taken from the
        mean step, and the reverse.
        """
        self._budgets = budgets
        self._hosts = set(budgets) - {ALL_HOSTS}
        self._only = next(iter(self._hosts)) if len(self._hosts) == 1 else ALL_HOSTS
        self._left = {host: dict(budget.category_shares) for host, budget in budgets.items()}

    def cap_saving(self, finding: Finding) -> Finding:
        """Return the finding with the saving that is still available to it, on the report's base.
        The finding has no saving where its host has no known step, or no whole one.
        """
        host = finding.host if finding.host in self._hosts else self._only
        if finding.saving is None:
            return finding
        if host not in self._left or not self._budgets[host].is_whole_step:
            return replace(finding, saving=None)
        saving, left = finding.saving, self._left[host]
        inside = tuple(key for key in saving.takes_from if key != OUTSIDE_STEPS)
        # The saving is taken from the steady steps or, where more is left there, from the time
        # outside them.
        if OUTSIDE_STEPS in saving.takes_from and inside:
            left_inside = sum(left.get(key, 0.0) for key in inside)
            saving = replace(saving, takes_from=inside if left_inside >= left.get(OUTSIDE_STEPS, 0.0) else (OUTSIDE_STEPS,))
        granted = min(saving.high, sum(left.get(key, 0.0) for key in saving.takes_from))
        self._take(host, saving.takes_from, granted)
        notes = finding.counter_evidence
        if granted < _MIN_GRANTED * min(saving.high, self._total_share(host, saving)):
            notes = (*notes, SHARED_SAVING)
        if granted < _WORTH_SAYING:
            return replace(finding, saving=None, counter_evidence=notes)
        return replace(finding, saving=self._grant(host, saving, granted), counter_evidence=notes)

    def rescale_saving(self, finding: Finding) -> Finding:
        """Return the finding with its saving as a share of the time from one step's start to the
        next one's, where much of that time lies between the steps.
        """
        host = finding.host if finding.host in self._hosts else self._only
        budget = self._budgets.get(host)
        saving = finding.saving
        if saving is None or budget is None or budget.gap_share < _MIN_GAP_SHARE or OUTSIDE_STEPS in saving.takes_from:
            return finding
        inside = budget.step_ps / budget.cycle_ps
        rescaled = replace(saving, low=saving.low * inside, high=saving.high * inside, step=budget.cycle_ps, base=_CYCLE)
        return replace(finding, saving=rescaled)

    def _total_share(self, host: str, saving: Saving) -> float:
        return sum(self._budgets[host].category_shares.get(key, 0.0) for key in saving.takes_from)

    def _grant(self, host: str, saving: Saving, granted: float) -> Saving:
        budget = self._budgets[host]
        base = "time from the first step to the last" if saving.takes_from == (OUTSIDE_STEPS,) else budget.base
        return replace(saving, low=min(saving.low, granted), high=granted, step=budget.step_ps, base=base)

    def _take(self, host: str, keys: Iterable[str], share: float) -> None:
        for key in keys:
            part = min(self._left[host].get(key, 0.0), share)
            if part > 0:
                self._spend(host, key, part)
            share -= part

    def _spend(self, host: str, key: str, part: float) -> None:
        """Take `part` of a category from a host, and the corresponding part from the mean step.

        A part of one host's step counts in the mean step by the host's weight. A part of the mean
        step takes the same proportion from what every host has left.
        """
        before = self._left[host][key]
        self._left[host][key] = before - part
        weights = self._budgets[ALL_HOSTS].host_weights if ALL_HOSTS in self._budgets else {}
        if host == ALL_HOSTS:
            for name in weights:
                self._left[name][key] *= 1 - part / before
        elif host in weights:
            weight = 1 / len(weights) if key == OUTSIDE_STEPS else weights[host]
            self._left[ALL_HOSTS][key] = max(0.0, self._left[ALL_HOSTS][key] - weight * part)
