# SPDX-License-Identifier: Apache-2.0
"""The signature of the program that a host executed: ops, input pipeline, functions, collectives
and numbered steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.facts.collectives import collective_names
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.tf_functions import tf_functions
from outpace.timeline import Run, StepSource, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.function_names import parse_called_function

StepSpans = Mapping[int, tuple[int, int]]

# Sources whose step numbers are the program's own; others count from the start of the capture.
NUMBERED_SOURCES = (StepSource.MARKED, StepSource.KERAS_BATCH)
# Stages that change when elements are produced, not which elements.
_TIMING_STAGES = ("Root", "Prefetch", "FiniteTake", "FiniteSkip")
_VERSION = compile_lazily(r"V\d+$|\[\d+\]$")


@dataclass(frozen=True)
class HostSignature:
    """What a host executed, as far as it identifies the program.

    host: name of the host
    op_ps: self time by op name, ps
    pipeline_stages: stages of the busiest input pipeline, from the source on
    functions: names of the functions that were called
    collectives: names of the collectives
    step_spans: (start, end) by step number, ps on the host's clock; empty where the numbers are not
        the program's own
    """

    host: str
    op_ps: Mapping[str, int]
    pipeline_stages: tuple[str, ...]
    functions: frozenset[str]
    collectives: frozenset[str]
    step_spans: StepSpans

    def with_clock_zero(self, zero: int) -> HostSignature:
        """Return the signature with steps on the run's clock.

        zero: position of the host's own zero on that clock, ps
        """
        return replace(
            self, step_spans={number: (start + zero, end + zero) for number, (start, end) in self.step_spans.items()}
        )


@memoize
def host_signatures(run: Run) -> tuple[HostSignature, ...]:
    """Return the signature of each host of a run."""
    ops: dict[str, dict[str, int]] = {timeline.host: {} for timeline in run.hosts}
    for row in op_metrics(run).records():
        if not row["idle"] and row["type"] != "Dataset":
            op_ps = ops[row["host"]]
            op_ps[row["name"]] = op_ps.get(row["name"], 0) + row["self_ps"]
    functions: dict[str, set[str]] = {timeline.host: set() for timeline in run.hosts}
    for row in tf_functions(run).records():
        functions[row["host"]].add(row["function"])
    busiest = {p.host: p for p in reversed(pipelines(run))}  # the first pipeline of a host has the most calls
    signatures = []
    for timeline in run.hosts:
        stages = [stage.type for stage in busiest[timeline.host].stages] if timeline.host in busiest else []
        called = functions[timeline.host] | {
            parse_called_function(timeline.trace.names[at]) or ""
            for at in np.flatnonzero(timeline.event_names.mask(EventFlag.JIT_CALL)).tolist()
        } - {""}
        step_spans = _spans(timeline) if len(timeline.steps) and timeline.steps.source in NUMBERED_SOURCES else {}
        signatures.append(
            HostSignature(
                timeline.host,
                ops[timeline.host],
                _shape(stages),
                frozenset(called),
                frozenset(collective_names(timeline)),
                step_spans,
            )
        )
    return tuple(signatures)


def _shape(stages: Sequence[str]) -> tuple[str, ...]:
    """Return the transformations of a pipeline, from the source on.

    Stages that only decide when elements are produced, and how many at a time, are left out.
    """
    names = [_VERSION.sub("", stage.removeprefix("Parallel").removeprefix("Legacy")) for stage in reversed(stages)]
    return tuple(
        part
        for name in names
        if not name.startswith(_TIMING_STAGES)
        for part in name.replace("MapAndBatch", "Map Batch").split()
    )


def _spans(timeline: Timeline) -> dict[int, tuple[int, int]]:
    """Return (start, end) of every step by its number, ps on the host's clock."""
    steps = timeline.steps
    bounds = zip(steps.start.tolist(), steps.end.tolist(), strict=True)
    return dict(zip(steps.number.tolist(), bounds, strict=True))
