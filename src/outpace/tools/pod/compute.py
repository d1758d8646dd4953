# SPDX-License-Identifier: Apache-2.0
"""The pod viewer's tables: every worker's steps, their averages, and the collectives in which
workers wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.cluster.program_groups import ProgramGroups
from outpace.metrics.cluster.workers import Worker
from outpace.metrics.facts.step_breakdown import CATEGORY_COLUMNS
from outpace.model import Category, Row, Table, leave_one_out_medians
from outpace.model.arrays import Column, Values
from outpace.tools.pod.alignment import Alignment
from outpace.tools.pod.schema import COLLECTIVES, SUMMARY, WORKERS
from outpace.trace.algorithms import isin

# The categories of a device's own work.
OWN_COLUMNS = tuple(c.column for c in Category if c not in (Category.ALL_OTHERS, Category.DEVICE_COLLECTIVES))
HOST_OWN_COLUMNS = (*OWN_COLUMNS, Category.ALL_OTHERS.column)
_EXPLAINS = 0.5  # minimum share of the excess that a category must make up to be called its cause


def compute_steps(workers: tuple[Worker, ...], alignment: Alignment) -> Table:
    """Return table `WORKERS`: first the average of every worker, then all steps in the order of
    their numbers.
    """
    average, parts = WORKERS.build(map(_mean_row, workers)), [_steps_of(w, alignment) for w in workers]
    number = np.concatenate([alignment.numbers[w.host] for w in workers])
    order = np.lexsort((np.repeat(np.arange(len(workers)), [len(w.number) for w in workers]), number, number < 0))
    single = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    data = {name: np.concatenate((average[name], column)) for name, column in single.items()}
    return WORKERS.from_columns(data)


def _mean_row(worker: Worker) -> Row:
    return WORKERS.row(
        dict(zip(CATEGORY_COLUMNS, worker.mean_category_ps, strict=True)),
        view="average",
        worker=worker.name,
        host=worker.host,
        step=np.nan,
        shared=False,
        start_ps=np.nan,
        duration_ps=worker.mean_step_ps,
    )


def _steps_of(worker: Worker, aligned: Alignment) -> dict[str, Column]:
    """Return the columns of `WORKERS` for the steps of one worker, in their order."""
    count, number = len(worker.number), aligned.numbers[worker.host]
    names = zip(number.tolist(), worker.number.tolist(), strict=True)
    view = [str(common) if common >= 0 else f"{own_number} of {worker.host}" for common, own_number in names]
    return {
        "view": np.array([*view, None], object)[:-1],
        "worker": np.full(count, worker.name, object),
        "host": np.full(count, worker.host, object),
        "step": worker.number.astype(np.float64),
        "shared": isin(number, np.array(aligned.shared_numbers, np.int64)),
        "start_ps": (worker.start + aligned.zero[worker.host]).astype(np.float64),
        "duration_ps": worker.duration.astype(np.float64),
        **{name: worker.category_ps[name].astype(np.float64) for name in CATEGORY_COLUMNS},
    }


def group_workers(workers: tuple[Worker, ...], same_program: ProgramGroups) -> tuple[tuple[Worker, ...], ...]:
    """Return the workers grouped by the program that they execute."""
    programs: list[list[Worker]] = [[] for _ in same_program.groups]
    for worker in workers:
        programs[same_program.group_index[worker.host]].append(worker)
    return tuple(tuple(program) for program in programs if program)


def compute_summary(programs: tuple[tuple[Worker, ...], ...], alignment: Alignment) -> Table:
    """Return table `SUMMARY`: each worker compared with the median of the other workers of its
    program, without the time that it waits in collectives.
    """
    return SUMMARY.build(
        {"program": number, **row} for number, program in enumerate(programs, 1) for row in _summary_rows(program, alignment)
    )


def _summary_rows(workers: tuple[Worker, ...], aligned: Alignment) -> Iterator[Row]:
    """Yield the rows of `SUMMARY`, without the number of the program, for the workers of one
    program.
    """
    total, own_ps, lead = (
        np.array(column)
        for column in (
            [worker.mean_step_ps for worker in workers],
            _own_times(workers),
            [worker.mean_lead_ps for worker in workers],
        )
    )
    means_of = [
        {
            "worker": worker.name,
            "steps": len(worker.steady_rows),
            "duration_ps": total[i],
            "own_ps": own_ps[i],
            "before_ps": lead[i],
        }
        for i, worker in enumerate(workers)
    ]
    if len(workers) < 2:
        numbers = dict.fromkeys(("excess_ps", "excess_fraction", "cause_ps", "repair_ps"), np.nan)
        yield from ({**row, **numbers, "cause": ""} for row in means_of)
        return
    from outpace.tools.pod.straggler_cost import compute_straggler_cost  # most runs have one worker

    leads = not np.isnan(lead).any()
    base = leave_one_out_medians(lead if leads else own_ps)
    excess = (lead if leads else own_ps) - base
    means = np.array([worker.mean_lead_category_ps if leads else worker.mean_category_ps for worker in workers])
    apart = means - leave_one_out_medians(means)
    saved = compute_straggler_cost(workers, excess, aligned) if leads else np.maximum(excess, 0.0)
    for i, worker in enumerate(workers):
        differences = np.where(
            [name in (HOST_OWN_COLUMNS if worker.is_device or leads else OWN_COLUMNS) for name in CATEGORY_COLUMNS],
            apart[i],
            0.0,
        )
        top = int(np.argmax(differences if excess[i] >= 0 else -differences))
        explains = abs(differences[top]) >= _EXPLAINS * abs(excess[i]) > 0
        yield {
            **means_of[i],
            "excess_ps": float(excess[i]),
            "excess_fraction": float(excess[i] / base[i]) if base[i] else 0.0,
            "cause": tuple(Category)[top].label if explains else "",
            "cause_ps": float(differences[top]) if explains else np.nan,
            "repair_ps": float(saved[i]),
        }


def _own_times(workers: tuple[Worker, ...]) -> Values:
    """Return the mean own time of each worker, ps, of shape (workers,): for a host the mean step
    without waiting for others in collectives, for a device its work other than collectives.

    A host waits for the time that it spends in collectives beyond the host that spends least in
    them.
    """
    spent = np.array([float(w.collective_ps[w.steady_rows].mean()) for w in workers])
    total = np.array([w.mean_step_ps for w in workers])
    busy = np.array([w.mean_category_ps for w in workers])[:, [CATEGORY_COLUMNS.index(name) for name in OWN_COLUMNS]].sum(
        axis=1
    )
    return np.asarray(np.where([w.is_device for w in workers], busy, total - np.minimum(spent - spent.min(), total)))


def compute_collectives(programs: tuple[tuple[Worker, ...], ...]) -> Table:
    """Return table `COLLECTIVES`: time of every type of collective operation on every worker,
    compared with the other workers of its program.
    """
    return COLLECTIVES.build(row for program in programs for row in _collective_rows(program)).sort_by("total_ps")


def _collective_rows(workers: tuple[Worker, ...]) -> Iterator[Row]:
    sums = {(w.name, name): totals for w in workers for name, totals in w.collectives.items()}
    used = {w.name: max(len(w.number), 1) for w in workers}
    least: dict[str, float] = {}
    for name in {collective for _, collective in sums}:
        least[name] = min(sums.get((w, name), (0, 0))[1] / used[w] for w in used)
    for (worker, name), (count, total) in sums.items():
        cells = {"worker": worker, "collective": name, "occurrences": count, "total_ps": total}
        yield COLLECTIVES.row(cells, per_step_ps=total / used[worker], imbalance_ps=total / used[worker] - least[name])
