"""Builders of what rules look at: tables of the real schemas, step breakdowns, and runs whose
metrics are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from outpace.metrics.facts import step_breakdown
from outpace.metrics.facts.model_ops import ModelOps
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.metrics.savings.budget import ALL_HOSTS, Budget, budgets
from outpace.model import OUTSIDE_STEPS, Category, Table, TableType, Unit
from outpace.testing import GpuBuilder, SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.trace import Trace, read_trace, store_column

MS = 1_000_000_000  # picoseconds
STEP = 10 * MS
STEPS = 10
HOST = "vm"
_DEFAULTS: dict[Unit, Any] = {Unit.TEXT: "", Unit.BOOL: False}


def table(name: str, table_type: TableType, *rows: Mapping[str, Any]) -> Table:
    """A table of the given schema; what a row leaves out is 0, empty or false. Every row is of
    `HOST` unless it says otherwise.
    """
    known = {field.name for field in table_type.fields}
    for row in rows:
        if strange := set(row) - known:
            raise ValueError(f"table {name} has no column {', '.join(sorted(strange))}")
    given = [{"host": HOST, **row} if "host" in known else dict(row) for row in rows]
    defaults = {f.name: _DEFAULTS.get(f.unit, 0) for f in table_type.fields}
    return replace(table_type, name=name, title=name).build({**defaults, **row} for row in given)


@cache
def trace_of(steps: int = STEPS, host: str = HOST) -> Trace:
    """Steps of 10 ms on a host without an accelerator."""
    return read_trace(training_run(steps=steps, step_ps=STEP, hostname=host).to_bytes(), host)


@cache
def device_trace(host: str = HOST) -> Trace:
    """Steps of 10 ms on a host with a GPU."""
    space = SpaceBuilder(host)
    line = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        line.event("train", number * STEP, STEP, step_num=number, _r=1)
    GpuBuilder(space, line).kernel("gemm", 5 * MS, MS, op="dense/MatMul:MatMul", called=4 * MS)
    return read_trace(space.to_bytes(), host)


def run(
    given: Mapping[Callable[[Run], Any], Any] | None = None, record: Mapping[str, Any] | None = None, *traces: Trace
) -> Run:
    """A run of ten equal steps in which the metrics in `given` are what they are said to be;
    `record`: what the capture noted on its host.
    """
    used = traces or (trace_of(),)
    made = Run.from_traces(used, records={trace.host: record or {} for trace in used})
    for metric, result in (given or {}).items():
        made.cache.set(metric, result)
    return made


def computes(share: float, host: str = HOST) -> tuple[ModelOps, ...]:
    """A model whose ops run in a share of steps of 10 ms, one after the other."""
    none = np.zeros(0, np.int64)
    busy = share * STEP
    numbers = (none.astype(np.float64),) * 3
    return (
        ModelOps(
            host,
            "Host",
            (),
            numbers[0],
            none.astype(bool),
            none,
            none,
            *numbers,
            store_column(none),
            store_column(none),
            none.astype(bool),
            none,
            none.astype(bool),
            None,
            STEPS,
            float(STEP),
            busy,
            busy,
            busy,
            0.0,
        ),
    )


def shares_of(given: Mapping[Category, float]) -> dict[str, float]:
    """Shares of all categories; what is left is computation on the host."""
    rest = 1 - sum(given.values())
    return {c.value: given.get(c, 0.0) + (rest if c is Category.HOST_COMPUTE and c not in given else 0.0) for c in Category}


def budget(given: Mapping[Category, float], *hosts: str, outside: float = 0.0) -> dict[str, Budget]:
    """The budgets of hosts whose steps of 10 ms are alike, and of all together."""
    names = hosts or (HOST,)
    one = Budget(STEP, "recorded step", STEPS, {**shares_of(given), OUTSIDE_STEPS: outside}, {n: 1 / len(names) for n in names})
    return {**dict.fromkeys(names, one), ALL_HOSTS: one}


def budgeted(given: Mapping[Category, float], more: Mapping[Callable[[Run], Any], Any] | None = None, **kwargs: Any) -> Run:
    """A run with a budget."""
    return run({budgets: budget(given), **(more or {})}, **kwargs)


def breakdown(
    given: Mapping[Category, float] | None = None,
    times: Sequence[int] | None = None,
    extra: Category | Sequence[Category] = Category.ALL_OTHERS,
    aside: Sequence[str] = (),
    steps: int = STEPS,
    host: str = HOST,
    moves: float = 0.0,
) -> StepBreakdown:
    """Steps of 10 ms with these shares, `moves` of it transfers; or steps of `times`, all of which
    beyond 10 ms goes to `extra` (of each).
    """
    lengths = list(times or [STEP] * steps)
    extras = [extra] * len(lengths) if isinstance(extra, Category) else extra
    rows = []
    for number, length in enumerate(lengths):
        usual = min(length, STEP)
        parts = {key: round(share * usual) for key, share in shares_of(given or {}).items()}
        parts[extras[number].value] += length - usual
        columns = {f"{key}_ps": part for key, part in parts.items()}
        columns[step_breakdown.TRANSFERS_COLUMN] = round(moves * usual)
        why = aside[number] if aside else ""
        rows.append(
            {"host": host, "step": number, "source": "marked", "complete": True, "aside": why, "duration_ps": length, **columns}
        )
    return StepBreakdown(table("steps", step_breakdown.STEPS, *rows), {host: 1})
