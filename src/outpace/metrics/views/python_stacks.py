# SPDX-License-Identifier: Apache-2.0
"""The Python calls of the training thread in a step, as a call tree.

The samples are those of the table `python_lines`, here with the whole stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from outpace._caching import memoize
from outpace.metrics.call_tree import build_call_tree, call_tree_type
from outpace.metrics.facts.python_records import python_records
from outpace.metrics.facts.python_samples import OUTPACE, samples_in_windows
from outpace.metrics.source_line import format_source_line
from outpace.model import Table
from outpace.timeline import Run, Timeline

PYTHON_STACKS = call_tree_type(
    "python_stacks",
    "Python calls, time per step",
    node="line of your own code with its function, or the function of a library",
    total="time per training step in it, with what it called",
    own="time per training step in which it stood innermost",
    count="samples that met it",
)


@memoize
def python_stacks(run: Run) -> Table:
    """Return a call tree with time per training step of the steady state.

    Where several hosts have samples, each is the root of its own tree.
    """
    trees = [(timeline.host, list(_stacks(run, timeline))) for timeline in run.hosts]
    several = sum(bool(paths) for _, paths in trees) > 1
    paths = [((host, *path) if several else path, time, count) for host, tree in trees for path, time, count in tree]
    return build_call_tree(PYTHON_STACKS, paths)


def _stacks(run: Run, timeline: Timeline) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield (calls from the outermost in, time per step in the innermost in ps, samples) of one
    host.
    """
    steps, record = timeline.steps, python_records(run)[timeline.host].get("python_samples")
    if record is None or not len(steps.steady_rows):
        return
    whole = steps.steady_rows[np.argsort(steps.start[steps.steady_rows])]
    weights: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    names = [_names(stack, record["frames"]) for stack in record["stacks"]]
    for stack, weight in samples_in_windows(run, timeline, steps.start[whole], steps.end[whole]):
        sums = weights[names[stack]]
        sums[0], sums[1] = sums[0] + weight, sums[1] + 1
    total, span = sum(weight for weight, _ in weights.values()), float(steps.duration[whole].mean()) / steps.steps_per_execution
    for path, (weight, count) in weights.items():
        yield path, round(weight / total * span), count


def _names(stack: Sequence[Sequence[int]], frames: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Return the calls of a stack as they are shown, outermost first.

    The list begins with the first call of the user's own code, after Python's start-up and the
    capture. Consecutive equal calls of a library become one, and the capture's wrappers are left
    out.
    """
    owners = [frames[frame][3] for frame, _ in stack]
    first = owners.index("") if "" in owners else 0
    called = [_name(frames[frame], line) for frame, line in stack[first:] if frames[frame][3] != OUTPACE]
    if owners[-1] == OUTPACE:
        called.append("outpace: the capture itself")
    return tuple(name for name, _ in groupby(called))


def _name(frame: Sequence[Any], line: int) -> str:
    file, function, _, owner = frame
    return f"{owner}: {function}" if owner else f"{format_source_line(file, line)} {function}"
