# SPDX-License-Identifier: Apache-2.0
"""Loops other than the training's that call the step's function as well: a search for a learning
rate, a warm-up, an evaluation that trains.

Their calls look like the training's steps, and only the stacks distinguish them: at some times the
one loop runs, at others the other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.python_callers import StackSamples, heaviest_name
from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.python_records import python_records
from outpace.metrics.source_line import format_source_line
from outpace.model.arrays import Mask, Numbers
from outpace.timeline import Run

_FEW = 10  # minimum number of samples of a loop from which the times that it runs are known
# Maximum number of changes between loops, as a share of those expected by chance: with more, each
# step calls both.
_IN_TURNS = 0.5


@dataclass(frozen=True)
class OtherLoop:
    """A function that calls the step's function in a loop of its own.

    function: name of the function
    source: its line with the most time
    caller: line of the training loop that calls it; "" where none does
    share: its samples' share of the sampled time
    samples: number of samples
    """

    function: str
    source: str
    caller: str
    share: float
    samples: int


def other_loops(run: Run, host: str) -> list[OtherLoop]:
    """Return the loops other than the one that calls the step's function for longest, longest
    first.

    The result is empty without samples.
    """
    rows = [row for row in python_lines(run).filter_by("host", host).records() if row["calls_step"] and row["who"] == "yours"]
    calling = Counter[tuple[str, str]]()
    for row in rows:
        calling[row["file"], row["function"].partition(".<locals>")[0]] += row["self_ps"]
    if len(calling) < 2:
        return []
    record = python_records(run)[host]["python_samples"]
    samples = np.array(record["samples"], np.int64)
    samples, stacks = samples[np.argsort(samples[:, 0], kind="stable")], StackSamples(record["frames"], record["stacks"])
    main_loop = calling.most_common(1)[0][0]
    inner = [_innermost(stacks, stack, calling) for stack in range(len(record["stacks"]))]
    loops = []
    for function in calling.keys() - {main_loop}:
        inside = np.array([inner[stack] == function for stack in samples[:, 2].tolist()], bool)
        if inside.sum() >= _FEW and _in_turns(inside):
            loops.append(
                _loop(stacks, samples[inside, 1:], function, main_loop, float(samples[inside, 1].sum() / samples[:, 1].sum()))
            )
    return sorted(loops, key=lambda loop: -loop.share)


def _innermost(stacks: StackSamples, stack: int, calling: Collection[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the innermost of some functions on a stack; None where none is on it.

    A loop whose function is called by another loop's function is the innermost one.
    """
    return next((of for frame, _ in reversed(stacks.stacks[stack]) if (of := stacks.function(frame)) in calling), None)


def _in_turns(inside: Mask) -> bool:
    """Whether the samples in a function are consecutive while it runs, rather than spread among
    others.
    """
    share = float(inside.mean())
    return share < 1 and int((np.diff(inside) != 0).sum()) <= _IN_TURNS * 2 * share * (1 - share) * (len(inside) - 1)


def _loop(
    stacks: StackSamples, samples: Numbers, function: tuple[str, str], main_loop: tuple[str, str], share: float
) -> OtherLoop:
    """Return the loop of a function.

    samples: (weight, stack) of the function's samples
    main_loop: (file, function) of the training loop
    """
    lines, callers = Counter[int](), Counter[str]()
    for weight, stack in samples.tolist():
        numbers = [line for frame, line in stacks.stacks[stack] if stacks.function(frame) == function]
        lines[numbers[-1]] += weight
        callers[stacks.find_caller(stack, (main_loop,))] += weight
    return OtherLoop(
        function[1], format_source_line(function[0], lines.most_common(1)[0][0]), heaviest_name(callers), share, len(samples)
    )
