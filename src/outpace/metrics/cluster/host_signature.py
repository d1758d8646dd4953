"""What a host executed, as far as it tells the program: ops, pipeline, functions, collectives, and
the steps of the program's own count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.collectives import collective_names
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.tf_functions import tf_functions
from outpace.timeline import Run, StepSource, Timeline
from outpace.timeline.event_names import EventFlag, parse_called_function

StepSpans = Mapping[int, tuple[int, int]]

NUMBERED_SOURCES = (
    StepSource.MARKED,
    StepSource.KERAS_BATCH,
)  # the program's own numbers; others count from the capture's start
_AHEAD = ("Root", "Prefetch", "FiniteTake", "FiniteSkip")  # stages that change when elements come, not what is done to them
_VERSION = re.compile(r"V\d+$|\[\d+\]$")


@dataclass(frozen=True)
class HostSignature:
    """What a host executed: op times by name (ps), its busiest pipeline from the source up,
    functions, collectives, steps on its own clock (none where their numbers are not the program's).
    """

    host: str
    op_ps: Mapping[str, int]
    pipeline_stages: tuple[str, ...]
    functions: frozenset[str]
    collectives: frozenset[str]
    step_spans: StepSpans

    def with_clock_zero(self, zero: int) -> HostSignature:
        """The same with steps on the run's clock; `zero` (ps) is where the host's own times begin
        on it.
        """
        return replace(
            self, step_spans={number: (start + zero, end + zero) for number, (start, end) in self.step_spans.items()}
        )


@memoize
def host_signatures(run: Run) -> tuple[HostSignature, ...]:
    """What each host of a run executed."""
    ops: dict[str, dict[str, int]] = {t.host: {} for t in run.hosts}
    for row in op_metrics(run).records():
        if not row["idle"] and row["type"] != "Dataset":
            mine = ops[row["host"]]
            mine[row["name"]] = mine.get(row["name"], 0) + row["self_ps"]
    functions: dict[str, set[str]] = {t.host: set() for t in run.hosts}
    for row in tf_functions(run).records():
        functions[row["host"]].add(row["function"])
    busiest = {p.host: p for p in reversed(pipelines(run))}  # the first of a host has most calls
    found = []
    for t in run.hosts:
        stages = [stage.type for stage in busiest[t.host].stages] if t.host in busiest else []
        called = functions[t.host] | {
            parse_called_function(t.trace.names[at]) or ""
            for at in np.flatnonzero(t.event_names.mask(EventFlag.JIT_CALL)).tolist()
        } - {""}
        shown = _spans(t) if len(t.steps) and t.steps.source in NUMBERED_SOURCES else {}
        found.append(
            HostSignature(t.host, ops[t.host], _shape(stages), frozenset(called), frozenset(collective_names(t)), shown)
        )
    return tuple(found)


def _shape(stages: Sequence[str]) -> tuple[str, ...]:
    """What a pipeline does to its elements, from the source up: without what only decides when, and
    how much of it at a time.
    """
    names = [_VERSION.sub("", stage.removeprefix("Parallel").removeprefix("Legacy")) for stage in reversed(stages)]
    return tuple(
        part for name in names if not name.startswith(_AHEAD) for part in name.replace("MapAndBatch", "Map Batch").split()
    )


def _spans(timeline: Timeline) -> dict[int, tuple[int, int]]:
    """Start and end of every step by its number, ps on the host's clock."""
    steps = timeline.steps
    bounds = zip(steps.start.tolist(), steps.end.tolist(), strict=True)
    return dict(zip(steps.number.tolist(), bounds, strict=True))
