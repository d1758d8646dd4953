# SPDX-License-Identifier: Apache-2.0
"""Running statistics of step times and the detection of slowdowns. The memory of both is bounded,
however long the run.
"""

from __future__ import annotations

from collections import deque

from outpace._dataclass import dataclass

_BITS = 5  # sub-buckets per octave, as a power of two: 32, so that a bucket is at most 1/32 = 3.1% wide
_MASK = (1 << _BITS) - 1
# factor from the median absolute deviation to the standard deviation of a normal distribution
_SHARPER = 1.4826


class Histogram:
    """Durations in ns in logarithmic buckets: quantiles are exact to 1.6%, mean and maximum are
    exact.

    count, total, maximum: number, sum and maximum of the durations, ns.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.maximum = 0
        self._buckets: dict[int, int] = {}

    def add(self, duration_ns: int) -> None:
        """Add one duration in ns, 0 or more."""
        self.count += 1
        self.total += duration_ns
        if duration_ns > self.maximum:
            self.maximum = duration_ns
        shift = duration_ns.bit_length() - _BITS - 1
        key = duration_ns if shift <= 0 else (shift << _BITS) + (duration_ns >> shift)
        buckets = self._buckets
        buckets[key] = buckets.get(key, 0) + 1

    def merge(self, other: Histogram) -> None:
        """Add all durations of another histogram."""
        self.count += other.count
        self.total += other.total
        self.maximum = max(self.maximum, other.maximum)
        for key, count in other._buckets.items():
            self._buckets[key] = self._buckets.get(key, 0) + count

    @property
    def mean(self) -> float:
        """Mean in ns; 0 without a duration."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, level: float) -> float:
        """Return the smallest duration in ns that is not exceeded by at least the fraction `level`
        of all durations, as the middle of its bucket; 0 without a duration.
        """
        remaining = level * self.count
        for key in sorted(self._buckets):
            remaining -= self._buckets[key]
            if remaining <= 0:
                return min(_middle(key), float(self.maximum))
        return 0.0


def _middle(key: int) -> float:
    """Return the duration in the middle of a bucket, ns."""
    if key < 2 << _BITS:
        return float(key)
    shift = (key >> _BITS) - 1
    return (((key & _MASK) | (1 << _BITS)) + 0.5) * (1 << shift)


@dataclass(frozen=True)
class Slowdown:
    """A lasting slowdown.

    since: number of the first slow step.
    before, after: medians before and after it, ns.
    """

    since: int
    before: float
    after: float


class SlowdownDetector:
    """Detects lasting slowdowns: compares the median of each block of steps with the medians of
    earlier blocks (the history).

    A block has 10 steps; short steps form larger blocks, of 0.1 s but at most 200 steps. A slowdown
    is a series of at least three blocks, and at least 1 s of steps, that are all slower than the
    history's median: by the factor `ratio`, and by six standard deviations, estimated from the
    history's median absolute deviation. One long step, a garbage collection, the start of an epoch
    or a short burst of another process is therefore no slowdown.

    After a slowdown a new history begins at the new level, so that it is reported once. Steps that
    became faster also begin a new history.
    """

    MIN_BLOCK_STEPS, MAX_BLOCK_STEPS, MIN_BLOCK_NS = 10, 200, 100_000_000
    # minimum number of blocks in the history for a decision, and maximum number that are stored
    MIN_HISTORY, MAX_HISTORY = 20, 100
    MIN_SLOW_BLOCKS, MIN_SLOW_NS = 3, 1_000_000_000
    SIGMAS = 6.0

    def __init__(self, ratio: float = 1.5) -> None:
        self._ratio = ratio
        self._block: list[int] = []
        self._block_ns = 0
        self._history: deque[float] = deque(maxlen=self.MAX_HISTORY)
        # medians of the newest blocks, which are all slower, or all faster, than the history
        self._odd: deque[float] = deque(maxlen=self.MAX_HISTORY)
        self._odd_ns = 0
        self._since = 0
        self._first = 0  # number of the first step of the current block

    def add(self, number: int, duration_ns: int) -> Slowdown | None:
        """Add a step by its number and its duration in ns; return the slowdown that it completes,
        or None.
        """
        block = self._block
        if not block:
            self._first = number
        block.append(duration_ns)
        self._block_ns += duration_ns
        if len(block) < self.MIN_BLOCK_STEPS or (self._block_ns < self.MIN_BLOCK_NS and len(block) < self.MAX_BLOCK_STEPS):
            return None
        median, block_ns = _median(block), self._block_ns
        block.clear()
        self._block_ns = 0
        return self._decide(median, block_ns)

    def _decide(self, median: float, block_ns: int) -> Slowdown | None:
        """Add a block by its median and its duration in ns; return the slowdown that it completes,
        or None.
        """
        side = self._side(median)
        if self._odd and side != self._side(self._odd[0]):
            # the deviation did not last: it was noise, which belongs to the history
            self._history.extend(self._odd)
            self._odd.clear()
            side = self._side(median)
        if side == 0:
            self._history.append(median)
            return None
        if not self._odd:
            self._since, self._odd_ns = self._first, 0
        self._odd.append(median)
        self._odd_ns += block_ns
        if len(self._odd) < self.MIN_SLOW_BLOCKS or self._odd_ns < self.MIN_SLOW_NS:
            return None
        before, now = _median(self._history), _median(self._odd)
        self._history.clear()
        self._odd.clear()
        return Slowdown(self._since, before, now) if side > 0 else None

    def _side(self, median: float) -> int:
        """Return 1 where a block is slower than the history, -1 where it is faster, else 0."""
        if len(self._history) < self.MIN_HISTORY:
            return 0
        usual = _median(self._history)
        spread = self.SIGMAS * _SHARPER * _median([abs(value - usual) for value in self._history])
        if median > self._ratio * usual and median > usual + spread:
            return 1
        return -1 if median * self._ratio < usual and median < usual - spread else 0


def _median(values: list[int] | list[float] | deque[float]) -> float:
    """Return the median of some values."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return float(ordered[middle]) if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
