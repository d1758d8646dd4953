"""Who calls a sampled line, and how often: the line of the training loop that leads to it, and the
steps in which it was met.

Time is counted for the innermost line of the user's own code. Where that stands in a function, what
to change is often the call: it is the loop that decides how often the function runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from outpace._dataclass import dataclass
from outpace.metrics.source_line import format_source_line

_SURE = 2  # samples per step in which a line was met: so many seldom miss one in which it ran
_FOUND = 0.7  # of the steps that a period names
_READS = frozenset(("numpy", "read_value", "__array__", "convert_to_numpy"))


@dataclass(frozen=True)
class StackSamples:
    """Sampled stacks, outermost frame first, as a capture's record holds them."""

    frames: Sequence[Sequence[Any]]
    stacks: Sequence[Sequence[Sequence[int]]]

    def user_functions(self, stack: int) -> set[tuple[str, str]]:
        """(file, function) of the user's own functions on a stack; one that is defined in another
        counts as that.
        """
        return {self.function(frame) for frame, _ in self.stacks[stack] if not self.frames[frame][3]}

    def function(self, frame: int) -> tuple[str, str]:
        """(file, function) of a frame."""
        return _function(self.frames[frame])

    def find_caller(self, stack: int, loop_functions: Collection[tuple[str, str]]) -> str:
        """The user's line (`train.py:41`) that calls the innermost function of the user's: that of
        a function in `loop_functions`, if one is on the stack, else the nearest. Empty where the
        function is one of the loop itself, or nothing of the user's calls it.
        """
        own = [(frame, line) for frame, line in self.stacks[stack] if not self.frames[frame][3]]
        if not own or (inner := _function(self.frames[own[-1][0]])) in loop_functions:
            return ""
        above = [(frame, line) for frame, line in own if _function(self.frames[frame]) != inner]
        of_loop = [place for place in above if _function(self.frames[place[0]]) in loop_functions]
        frame, line = (of_loop or above or [(-1, 0)])[-1]
        return format_source_line(self.frames[frame][0], line) if frame >= 0 else ""

    def has_package(self, stack: int, package: str) -> bool:
        """Whether a function of a library's package (none: of no library) is on a stack."""
        return bool(package) and any(self.frames[frame][3] == package for frame, _ in self.stacks[stack])

    def reads_variable(self, stack: int) -> bool:
        """Whether a variable of the model was being copied to NumPy."""
        names = (str(self.frames[frame][1]) for frame, _ in self.stacks[stack])
        return any("Variable" in name and name.rpartition(".")[2] in _READS for name in names)


def _function(frame: Sequence[Any]) -> tuple[str, str]:
    return str(frame[0]), str(frame[1]).partition(".<locals>")[0]


def heaviest_name(weights: Mapping[str, int]) -> str:
    """The name that weighs most; empty for none."""
    return max(weights, key=lambda name: weights[name], default="")


def find_step_period(step_indices: Collection[int], sample_count: int, first: int, last: int) -> int:
    """Every how many steps something runs that was met in the steps `step_indices`, among those
    from `first` to `last`, in `sample_count` samples.

    0 where it runs in each, or where no such period shows: what a few samples met may have run in
    more steps than they tell.
    """
    steps = sorted(step_indices)
    if len(steps) < 2 or sample_count < _SURE * len(steps):
        return 0
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    period = min(gaps)
    regular = all(gap % period == 0 for gap in gaps) and steps[0] - first < period and last - steps[-1] < period
    enough = len(steps) >= _FOUND * ((steps[-1] - steps[0]) / period + 1)
    return period if period > 1 and regular and enough else 0
