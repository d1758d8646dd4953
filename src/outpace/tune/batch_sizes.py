"""Which batch sizes to race: doubled until memory or the gain ends."""

from __future__ import annotations

from collections.abc import Callable

from outpace._dataclass import dataclass

LEAST_GAIN = 0.03  # per doubling; less is not worth another training
MOST_DOUBLINGS = 6


class TooLarge(Exception):
    """A batch does not run; the sentence says why."""


@dataclass(frozen=True)
class Size:
    """A size that ran: `factor` times the program's, `batch` examples; rate: examples per second at a first look; grown: bytes that the
    process took on for it."""

    factor: int
    batch: int
    rate: float
    grown: int

    @property
    def name(self) -> str:
        """Its name in the race."""
        return f"batch {self.batch}"


@dataclass(frozen=True)
class Reached:
    """The sizes that ran, the program's own first, and why there is no larger one, as a sentence."""

    sizes: tuple[Size, ...]
    ended: str


def grow(batch: int, measure: Callable[[int], Size], room: int | None) -> Reached:
    """Double the batch as long as it pays and fits.

    measure: runs a factor, raises TooLarge where it does not run. room: bytes for all sizes together, None for unknown: then only
    `measure` says what fits. A size is expected to take twice what the one before took.
    """
    sizes = [measure(1)]
    poor = 0
    for _ in range(MOST_DOUBLINGS):
        last = sizes[-1]
        taken = sum(size.grown for size in sizes)
        if room is not None and taken + 2 * last.grown > room:
            return Reached(tuple(sizes), f"A batch of {2 * last.batch} might not fit: half of the free memory is the limit.")
        try:
            sizes.append(measure(2 * last.factor))
        except TooLarge as error:
            return Reached(tuple(sizes), str(error))
        poor = poor + 1 if sizes[-1].rate < last.rate * (1 + LEAST_GAIN) else 0
        if poor == 2:  # one alone may be the machine's noise: the first looks are short
            return Reached(tuple(sizes), f"Two doublings in a row gained less than {LEAST_GAIN:.0%} each.")
    return Reached(tuple(sizes), f"{MOST_DOUBLINGS} doublings are as many as are tried.")
