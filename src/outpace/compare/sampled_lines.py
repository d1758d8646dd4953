# SPDX-License-Identifier: Apache-2.0
"""Sampled lines of Python in one capture: how the time in which no op runs divides among lines."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.python_samples import OUTPACE
from outpace.metrics.source_line import format_source_line
from outpace.model.interval import NORMAL_95
from outpace.stats.means import Mean, combine_means
from outpace.timeline import Run


@dataclass(frozen=True)
class SampledLine:
    """One line of Python.

    function, code: name of the function and source of the line, which identify it across captures
    name: label of the line, with its location
    time_ps: time per step, ps, the mean over hosts
    error_ps: standard error of the time from the number of samples, ps
    """

    function: str
    code: str
    name: str
    time_ps: float
    error_ps: float


def group_by_line(captures: Iterable[Sequence[SampledLine]]) -> dict[tuple[str, str], list[SampledLine | None]]:
    """Return each line, by (function, code), as it is in each capture that was sampled; None where
    a capture has no sample of it. `captures` are the lines of each.
    """
    by_capture = [{(line.function, line.code): line for line in lines} for lines in captures if lines]
    return {
        key: [lines.get(key) for lines in by_capture] for key in dict.fromkeys(key for lines in by_capture for key in lines)
    }


def line_mean(lines: Sequence[SampledLine | None], log_sd: float) -> Mean:
    """Return the mean time of one line over captures, ps per step; None is a capture without a
    sample of it.
    """
    return combine_means([(line.time_ps, line.error_ps) if line is not None else (0.0, 0.0) for line in lines], log_sd)


def compute_sampled_lines(run: Run) -> tuple[SampledLine, ...]:
    """Return the lines of a capture; the cost of the capture itself is a line too. Empty where the
    capture was not sampled.
    """
    table = python_lines(run)
    hosts = [host for host in main_program_hosts(run) if len(table.filter_by("host", host))]
    names: dict[tuple[str, str], str] = {}
    estimates: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in table.filter_by("host", *hosts).records():
        if row["python_share"] <= 0:
            continue
        place = format_source_line(row["file"], row["line"])
        key = row["function"], row["text"] or place
        names.setdefault(key, "the capture itself" if row["who"] == OUTPACE else f"{place} {row['function']}")
        step = row["self_ps"] / row["share"]
        # the standard error of a count grows with its square root
        error = (row["high"] - row["low"]) / (2 * NORMAL_95) * math.sqrt(row["python_share"] / row["share"])
        estimates[key].append((row["python_share"] * step / len(hosts), error * step / len(hosts)))
    # times and errors have the precision of baselines, so that a capture equals its copy in one
    return tuple(
        SampledLine(
            *key, names[key], float(round(math.fsum(time for time, _ in parts))), float(round(math.hypot(*(error for _, error in parts)))),
        )
        for key, parts in estimates.items()
    )  # fmt: skip
