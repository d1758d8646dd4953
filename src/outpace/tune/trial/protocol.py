"""`Protocol`: the constants of a race, in one place, so that a record says how it was made."""

from __future__ import annotations

from enum import Enum

from outpace._dataclass import dataclass


class Per(str, Enum):
    """What rates count."""

    STEP = "step"
    EXAMPLE = "example"


@dataclass(frozen=True)
class Protocol:
    """How a race is run.

    search, confirm: whether the race has both parts. Without a confirmation it only screens: what differs "seems" to. Without a search every
        arm is confirmed, for arms that earlier races have found.
    effect: smallest difference that is called one, as a fraction. Finding 3% takes minutes on a noisy machine, 10% seconds.
    block_seconds: length of a block. Noise of a shared machine is drift, which short paired blocks cancel: at 0.1 s a comparison needed
        a half to a fifth of the time that unpaired blocks need, at 1 s several times as much. `block_steps` is the least number of steps.
    warmup_seconds: untimed, after the first call (at most a twentieth of the budget).
    looks: rounds after which the search may drop arms or stop; `drop_after` is the first for dropping, `least_rounds` for anything else.
        Few looks at a stricter interval (99%) keep repeated looking from finding differences that are not there.
    drop_below: an arm leaves the search when its upper end (95%) is below this ratio.
    search_share: part of the budget that the search may use; the rest belongs to the confirmation.
    search_rounds: rounds of the search, at most.
    confirm_rounds: fresh rounds of a confirmation, at least. How many is fixed before the first of them.
    fresh_rounds: rounds of a race without a search, at most.
    power: how often a true difference of the planned size shall be confirmed, as a quantile of the normal distribution (1.28: 90%).
    widen_times: how often blocks may be doubled when they prove too short (the baseline differs from itself, or rounds resemble
        their neighbours by more than `autocorrelation`).
    blind: an interval that reaches farther than this from 1 is too wide to say "no difference".
    bias_share: where the baseline differs from itself, a claim must be at least 1 / bias_share times as large as that difference can be;
        as large, where the race only screens.
    """

    search: bool = True
    confirm: bool = True
    effect: float = 0.03
    block_seconds: float = 0.15
    block_steps: int = 3
    warmup_seconds: float = 1.0
    looks: tuple[int, ...] = (6, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000)
    drop_after: int = 6
    least_rounds: int = 8
    drop_below: float = 0.97
    search_share: float = 0.5
    search_rounds: int = 1_000_000
    confirm_rounds: int = 20
    fresh_rounds: int = 60
    power: float = 1.28
    widen_times: int = 2
    autocorrelation: float = 0.4
    blind: float = 0.10
    bias_share: float = 0.25
    per: Per = Per.STEP
