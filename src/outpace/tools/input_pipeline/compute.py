# SPDX-License-Identifier: Apache-2.0
"""Tables of the input pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.facts.input_pipelines import stage_position
from outpace.metrics.facts.op_metrics import HOST
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.model import Category, Row, Table
from outpace.model.arrays import Values
from outpace.tools.input_pipeline.schema import CATEGORIES, INPUT_INSTANCES, INPUT_OPS, STATISTICS, WAIT_RANGES

ENQUEUE = "Enqueuing data to be transferred to device"
READ_ON_DEMAND = "Reading data from files on demand"
READ_IN_ADVANCE = "Reading data from files in advance"
PREPROCESSING = "Data preprocessing"
ADVICE = {
    READ_ON_DEMAND: "Read ahead: interleave over files with num_parallel_calls, and end the pipeline with prefetch.",
    READ_IN_ADVANCE: "Tune cycle_length of interleave, the reader's buffer_size and prefetch; use fewer, larger files.",
    PREPROCESSING: "Set num_parallel_calls on map, cache what does not change, or preprocess offline.",
    ENQUEUE: "Combine small transfers into fewer, larger ones.",
}
_READERS = compile_lazily(r"::(TFRecord|TextLine|FixedLengthRecord|SSTable|RecordIO|ArrayRecord)(V\d)?$")
_AHEAD = ("::MemoryReader", "::MemoryWriter", "::Interleave", "::Prefetch", "::ParallelMap")
_SUMS = ("count", "total_ps", "self_ps")
_ENQUEUE_TYPES = ("InfeedEnqueue", "InfeedEnqueueTuple", "MemcpyHToD")


def compute_step_statistics(breakdown: StepBreakdown) -> Table:
    """Return mean, deviation and range of the step time and of every category that occurs."""
    whole = breakdown.steady_steps
    step = whole["duration_ps"].astype(np.float64)
    rows = [_spread("Step time", step, step)]
    for category in Category:
        values = breakdown.category_ps(category, whole)
        if values.any():
            rows.append(_spread(category.label, values, step))
    return STATISTICS.build(rows)


def compute_wait_ranges(breakdown: StepBreakdown, hosts: Collection[str]) -> Table:
    """Return the range of the wait for input over some hosts, for each step that several of them
    executed.
    """
    steps = breakdown.steady_steps
    waits: dict[int, dict[str, float]] = {}
    for step, host, wait in zip(
        steps["step"].tolist(), steps["host"].tolist(), breakdown.category_ps(Category.INPUT, steps).tolist(), strict=True
    ):
        if host in hosts:
            waits.setdefault(step, {})[host] = wait
    return WAIT_RANGES.build(
        {
            "step": step,
            "hosts": len(of_hosts),
            "min_ps": min(of_hosts.values()),
            "mean_ps": sum(of_hosts.values()) / len(of_hosts),
            "max_ps": max(of_hosts.values()),
            "host": max(of_hosts, key=of_hosts.__getitem__),
        }
        for step, of_hosts in sorted(waits.items())
        if len(of_hosts) > 1
    )


def _spread(name: str, values: Values, step: Values) -> Row:
    """Return a row of `STATISTICS` for values in ps; `step` is the step time."""
    return STATISTICS.row(
        category=name,
        mean_ps=float(values.mean()),
        deviation_ps=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        min_ps=float(values.min()),
        max_ps=float(values.max()),
        fraction=float(values.mean() / step.mean()),
    )


def find_input_category(name: str, op_type: str) -> str | None:
    """Return the kind of input processing of a host op; None for other ops.

    `IteratorGetNext` is among the other ops: it waits for the pipeline and is no part of it.
    """
    if op_type in _ENQUEUE_TYPES:
        return ENQUEUE
    if op_type != "Dataset":
        return None
    if _READERS.search(name):
        return READ_IN_ADVANCE if any(part in name for part in _AHEAD) else READ_ON_DEMAND
    return PREPROCESSING


def compute_input_ops(metrics: Table) -> tuple[Table, Table]:
    """Return (`INPUT_OPS`, `INPUT_INSTANCES`), both over all hosts and by self time.

    The first is the guide's table of input ops; the second has one row per instance of ops with
    several instances.
    """
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in metrics.records():
        kind = find_input_category(row["name"], row["type"]) if row["side"] == HOST else None
        if kind is not None:
            sums.setdefault((row["name"], kind), Counter()).update({name: row[name] for name in _SUMS})
    ops: dict[tuple[str, str], list[tuple[str, Counter[str]]]] = {}
    for (name, kind), numbers in sums.items():
        ops.setdefault((stage_position(name), kind), []).append((name, numbers))
    whole = sum(numbers["self_ps"] for numbers in sums.values()) or 1

    def row_of(kind: str, instances: Sequence[Counter[str]]) -> Row:
        sums = {column: sum(numbers[column] for numbers in instances) for column in _SUMS}
        return {**sums, "total_fraction": sums["total_ps"] / whole, "self_fraction": sums["self_ps"] / whole, "category": kind}

    one = (
        INPUT_OPS.row(row_of(kind, [numbers for _, numbers in instances]), op=name, instances=len(instances))
        for (name, kind), instances in ops.items()
    )
    all_of = (
        {"op": name, **row_of(kind, [numbers])}
        for (_, kind), instances in ops.items()
        if len(instances) > 1
        for name, numbers in instances
    )
    return INPUT_OPS.build(one).sort_by("self_ps"), INPUT_INSTANCES.build(all_of).sort_by("self_ps")


def compute_host_categories(ops: Table, steps: int) -> Table:
    """Return the self time of input processing by the guide's four kinds."""
    self_ps = ops["self_ps"].astype(np.float64)
    whole = float(self_ps.sum()) or 1.0
    rows = []
    for kind, advice in ADVICE.items():
        value = float(self_ps[ops["category"] == kind].sum())
        per_step, text = value / steps if steps else float("nan"), advice if value else ""
        rows.append(CATEGORIES.row(category=kind, self_ps=value, per_step_ps=per_step, fraction=value / whole, advice=text))
    return CATEGORIES.build(rows)
