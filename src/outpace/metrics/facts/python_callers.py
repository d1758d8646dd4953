# SPDX-License-Identifier: Apache-2.0
"""Who calls a sampled line, and how often: the line of the training loop that leads to it, and the
steps in which it was sampled.

Time is counted for the innermost line of the user's own code. Where that line is in a function, the
place to change is often the call: the loop decides how often the function runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.source_line import format_source_line

_MIN_SAMPLES = 2  # minimum number of samples per step with the line: so many seldom miss a step in which it ran
_MIN_FOUND = 0.7  # minimum share of a period's steps in which the line has to be sampled
_DATA_SET = compile_lazily(r"(?:^|\.)(?:__getitem__|__getitems__|__next__|__iter__|(?:\w+_)?collate(?:_\w+)?)$")
_DERIVATIVES = "/interpreters/ad.py"  # end of the path of JAX's code that differentiates a function
_ADAPTERS = "/data_adapters/"  # folder of Keras' code that takes elements from a data set
_READS = frozenset(("numpy", "read_value", "__array__", "convert_to_numpy"))


@dataclass(frozen=True)
class StackSamples:
    """Sampled stacks, outermost frame first, as in a capture's record.

    frames: (file, function, first line, owner) of each frame; the owner of the user's own code is
        ""
    stacks: (index of the frame, line) of each place, per stack
    """

    frames: Sequence[Sequence[Any]]
    stacks: Sequence[Sequence[Sequence[int]]]

    def user_functions(self, stack: int) -> set[tuple[str, str]]:
        """Return (file, function) of the user's own functions on a stack.

        A nested function counts as the function in which it is defined.
        """
        return {self.function(frame) for frame, _ in self.stacks[stack] if not self.frames[frame][3]}

    def function(self, frame: int) -> tuple[str, str]:
        """Return (file, function) of a frame."""
        return _function(self.frames[frame])

    def find_caller(self, stack: int, loop_functions: Collection[tuple[str, str]]) -> str:
        """Return the user's line (`train.py:41`) that calls the innermost function of the user's.

        The line is that of a function in `loop_functions` if one is on the stack, else the nearest
        one. Return "" where the innermost function is one of the loop's, or nothing of the user's
        calls it.
        """
        user_places = [(frame, line) for frame, line in self.stacks[stack] if not self.frames[frame][3]]
        if not user_places or (inner := _function(self.frames[user_places[-1][0]])) in loop_functions:
            return ""
        above = [(frame, line) for frame, line in user_places if _function(self.frames[frame]) != inner]
        of_loop = [place for place in above if _function(self.frames[place[0]]) in loop_functions]
        frame, line = (of_loop or above or [(-1, 0)])[-1]
        return format_source_line(self.frames[frame][0], line) if frame >= 0 else ""

    def has_package(self, stack: int, package: str) -> bool:
        """Whether a function of a library's package is on a stack; False for the package ""."""
        return bool(package) and any(self.frames[frame][3] == package for frame, _ in self.stacks[stack])

    def find_maker(self, stack: int) -> str:
        """Return the user's line (`data.py:41`) in which a data set makes elements on a stack: of a
        method that hands them out, or of the first function that a loader calls; "" where there is
        none.
        """
        is_loaded = False
        for frame, line in self.stacks[stack]:
            file, function, _, owner = self.frames[frame]
            if not owner and (is_loaded or hands_out_elements(str(function))):
                return format_source_line(file, line)
            is_loaded = is_loaded or bool(owner and _ADAPTERS in str(file))
        return ""

    def differentiates(self, stack: int) -> bool:
        """Whether JAX differentiates a function on a stack: in Python, anew in each call, unless a
        compiled function does.
        """
        frames = (self.frames[frame] for frame, _ in self.stacks[stack])
        return any(frame[3] == "jax" and str(frame[0]).endswith(_DERIVATIVES) for frame in frames)

    def reads_variable(self, stack: int) -> bool:
        """Whether a variable of the model is being copied to NumPy on a stack."""
        names = (str(self.frames[frame][1]) for frame, _ in self.stacks[stack])
        return any("Variable" in name and name.rpartition(".")[2] in _READS for name in names)


def hands_out_elements(function: str) -> bool:
    """Whether a function is a method by which a data set hands out elements, by its name."""
    return _DATA_SET.search(function.partition(".<locals>")[0]) is not None


def _function(frame: Sequence[Any]) -> tuple[str, str]:
    return str(frame[0]), str(frame[1]).partition(".<locals>")[0]


def heaviest_name(weights: Mapping[str, int]) -> str:
    """Return the name with the largest weight; "" without any."""
    return max(weights, key=lambda name: weights[name], default="")


def find_step_period(step_indices: Collection[int], sample_count: int, first: int, last: int) -> int:
    """Return the period, in steps, of something that was sampled in some steps; 0 without a period.

    step_indices: steps in which it was sampled
    sample_count: number of its samples
    first: first of the steps in which it could have been sampled
    last: last of these steps

    The result is also 0 where it runs in each step, or has few samples: it may have run in more
    steps than were sampled.
    """
    steps = sorted(step_indices)
    if len(steps) < 2 or sample_count < _MIN_SAMPLES * len(steps):
        return 0
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    period = min(gaps)
    regular = all(gap % period == 0 for gap in gaps) and steps[0] - first < period and last - steps[-1] < period
    enough = len(steps) >= _MIN_FOUND * ((steps[-1] - steps[0]) / period + 1)
    return period if period > 1 and regular and enough else 0
