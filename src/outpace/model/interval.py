# SPDX-License-Identifier: Apache-2.0
"""Intervals: numbers with their uncertainty, and the statistics that compute them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from outpace._dataclass import dataclass
from outpace.model.units import Unit, humanize


@dataclass(frozen=True)
class Interval:
    """A closed range `[low, high]` in `unit`.

    meaning: sentence on what the range means (which assumption each end makes).

    Raises ValueError unless low <= high.
    """

    low: float
    high: float
    unit: Unit
    meaning: str

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"interval ends are reversed: [{self.low}, {self.high}]")

    @property
    def middle(self) -> float:
        """Centre of the range, in its unit."""
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        """Width of the range, `high - low`."""
        return self.high - self.low

    def scale(self, factor: float, unit: Unit) -> Interval:
        """Return the range times a positive `factor`, in the unit `unit`."""
        return Interval(self.low * factor, self.high * factor, unit, self.meaning)

    def extend_to(self, other: Interval) -> Interval:
        """Return the range from the low end of this one to the high end of `other`, which has the
        same unit and meaning; its high end is at least its low end.
        """
        return Interval(self.low, max(self.low, other.high), self.unit, self.meaning)

    def __str__(self) -> str:
        return f"{humanize(self.low, self.unit)} to {humanize(self.high, self.unit)}"


def median(samples: ArrayLike) -> float:
    """Return the median of at least one sample."""
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    low, high = float(ordered[(ordered.size - 1) // 2]), float(ordered[ordered.size // 2])
    return low + (high - low) * 0.5


def quantiles(samples: ArrayLike, *probabilities: float) -> list[float]:
    """Return the samples' quantiles, interpolated linearly.

    `np.quantile` is not used because it imports masked arrays, 10 ms in every fresh process.
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    places: list[float] = np.interp(np.array(probabilities) * (ordered.size - 1), np.arange(ordered.size), ordered).tolist()
    return places


def leave_one_out_medians(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return, for each of at least two samples, the median of the other samples.

    `samples` is of shape (samples, ...); every column is computed by itself.
    """
    order = np.argsort(samples, axis=0, kind="stable")
    ordered, rank = np.take_along_axis(samples, order, 0), np.argsort(order, axis=0, kind="stable")
    low, high = (len(samples) - 2) // 2, (len(samples) - 1) // 2  # middle positions in order without the left-out sample
    first, last = (np.take_along_axis(ordered, at + (at >= rank), 0) for at in (low, high))
    return np.asarray(first + (last - first) * 0.5)


# Number of samples above which the normal approximation (of a ratio: the delta method) is as good
# as the bootstrap, and needs no draws
_MANY = 5000
NORMAL_95 = 1.96  # standard errors in half of a 95% interval of a normal number


@lru_cache(maxsize=8)
def _resamples(samples: int) -> npt.NDArray[np.int64]:
    """Return indices of bootstrap draws, int64 of shape (draws, samples). They are equal in all
    runs, so that a report is reproducible.

    There are 2,000 draws, fewer for many samples (their interval is narrow, and its ends need fewer
    draws), and one for a single sample. The numbers are SplitMix64 of a counter: importing
    `numpy.random` costs a fresh process 20 ms.
    """
    draws = 1 if samples < 2 else max(400, min(2000, 200_000 // samples))
    bits = np.arange(1, draws * samples + 1, dtype=np.uint64)
    for shift, factor in ((0, 0x9E3779B97F4A7C15), (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        if shift:
            bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    bits >>= np.uint64(32)
    places = bits * np.uint64(samples) >> np.uint64(32)
    return places.astype(np.int64).reshape(draws, samples)


def bootstrap_mean(samples: ArrayLike, unit: Unit, meaning: str) -> Interval:
    """Return the 95% confidence interval of the mean by the percentile bootstrap.

    With one sample or none the interval is degenerate: the value itself (0 for none).
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.size < 2:
        point = float(values[0]) if values.size else 0.0
        return Interval(point, point, unit, meaning)
    if values.size > _MANY:
        half = NORMAL_95 * float(values.std(ddof=1)) / values.size**0.5
        return Interval(float(values.mean()) - half, float(values.mean()) + half, unit, meaning)
    means = values[_resamples(values.size)].mean(axis=1)
    low, high = quantiles(means, 0.025, 0.975)
    return Interval(low, high, unit, meaning)


def bootstrap_saving(part: ArrayLike, whole: ArrayLike, meaning: str) -> tuple[Interval, Interval]:
    """Return what a step saves if `part` of it goes: (ps per step, share of the step time), both
    with 95% confidence.

    `part` and `whole` are ps per step, pairwise; draws resample whole steps, so that the share
    never exceeds 1.
    """
    parts, steps = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    if steps.size == 0 or steps.sum() <= 0:
        return Interval(0.0, 0.0, Unit.PS, meaning), Interval(0.0, 0.0, Unit.FRACTION, meaning)
    if steps.size > _MANY:
        ratio = float(parts.sum() / steps.sum())
        half = NORMAL_95 * float(np.sqrt(np.mean((parts - ratio * steps) ** 2) / steps.size) / steps.mean())
        share = Interval(max(0.0, ratio - half), ratio + half, Unit.FRACTION, meaning)
        return share.scale(float(steps.mean()), Unit.PS), share
    draws = _resamples(steps.size)
    drawn = steps[draws].sum(axis=1)  # 0 for a draw of steps without duration only
    shares = np.divide(parts[draws].sum(axis=1), drawn, out=np.zeros_like(drawn), where=drawn > 0)
    low, high = quantiles(shares, 0.025, 0.975)
    share = Interval(low, high, Unit.FRACTION, meaning)
    return share.scale(float(steps.mean()), Unit.PS), share
