"""Sampled lines of Python in one capture: how the time in which no op runs divides among lines."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.python_samples import OUTPACE
from outpace.metrics.source_line import format_source_line
from outpace.model.interval import NORMAL_95
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


class HasLines(Protocol):
    """A capture with its lines of Python, which are empty where it was not sampled."""

    @property
    def lines(self) -> tuple[SampledLine, ...]:
        """Return the sampled lines."""


def group_by_line(captures: Sequence[HasLines]) -> dict[tuple[str, str], list[SampledLine | None]]:
    """Return each line, by (function, code), with its times in the captures that were sampled; None
    where a capture has no sample of it.
    """
    known = [{(line.function, line.code): line for line in capture.lines} for capture in captures if capture.lines]
    return {key: [lines.get(key) for lines in known] for key in dict.fromkeys(key for lines in known for key in lines)}


def _whole(time: float, error: float) -> tuple[float, float]:
    """Round a time and its error to the precision of baselines, so that a capture equals its copy
    in a baseline.
    """
    return float(round(time)), float(round(error))


def compute_sampled_lines(run: Run) -> tuple[SampledLine, ...]:
    """Return the lines of a capture; the cost of the capture itself is a line too. Empty where the
    capture was not sampled.
    """
    table = python_lines(run)
    hosts = [host for host in main_program_hosts(run) if len(table.filter_by("host", host))]
    names: dict[tuple[str, str], tuple[str, str]] = {}
    told: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in table.filter_by("host", *hosts).records():
        if row["python_share"] <= 0:
            continue
        place = format_source_line(row["file"], row["line"])
        key = row["function"], row["text"] or place
        name = "the capture itself" if row["who"] == OUTPACE else f"{place} {row['function']}"
        names.setdefault(key, (name, row["text"]))
        step = row["self_ps"] / row["share"]
        # the standard error of a count grows with its square root
        error = (row["high"] - row["low"]) / (2 * NORMAL_95) * math.sqrt(row["python_share"] / row["share"])
        told[key].append((row["python_share"] * step / len(hosts), error * step / len(hosts)))
    return tuple(
        SampledLine(
            key[0],
            key[1],
            names[key][0],
            *_whole(math.fsum(time for time, _ in parts), math.hypot(*(error for _, error in parts))),
        )
        for key, parts in told.items()
    )
