"""The pod viewer's tables: every worker's steps, their averages, and the collectives in which
workers wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.cluster.program_groups import ProgramGroups
from outpace.metrics.cluster.workers import STEP_CATEGORY_COLUMNS, Worker
from outpace.model import Category, Table, leave_one_out_medians
from outpace.model.arrays import Column, Values
from outpace.tools.pod.alignment import Alignment
from outpace.tools.pod.schema import COLLECTIVES, SUMMARY, WORKERS
from outpace.tools.pod.straggler_cost import compute_straggler_cost
from outpace.trace.algorithms import isin

# The categories of a device's own work.
OWN_COLUMNS = tuple(f"{c.value}_ps" for c in Category if c not in (Category.ALL_OTHERS, Category.DEVICE_COLLECTIVES))
HOST_OWN_COLUMNS = (*OWN_COLUMNS, f"{Category.ALL_OTHERS.value}_ps")
_EXPLAINS = 0.5  # minimum share of the excess that a category must make up to be called its cause


def compute_steps(workers: tuple[Worker, ...], alignment: Alignment) -> Table:
    """Return table `WORKERS`: first the average of every worker, then all steps in the order of
    their numbers.
    """
    means = [("average", w.name, w.host, np.nan, False, np.nan, w.mean_step_ps, *w.mean_category_ps) for w in workers]
    average, parts = Table.from_rows("workers", "Steps by worker", WORKERS, means), [_steps_of(w, alignment) for w in workers]
    number = np.concatenate([alignment.numbers[w.host] for w in workers])
    order = np.lexsort((np.repeat(np.arange(len(workers)), [len(w.number) for w in workers]), number, number < 0))
    single = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    data = {name: np.concatenate((average[name], column)) for name, column in single.items()}
    return Table.build("workers", "Steps by worker", WORKERS, data)


def _steps_of(worker: Worker, aligned: Alignment) -> dict[str, Column]:
    """Return the columns of `WORKERS` for the steps of one worker, in their order."""
    count, number = len(worker.number), aligned.numbers[worker.host]
    names = zip(number.tolist(), worker.number.tolist(), strict=True)
    view = [str(common) if common >= 0 else f"{known} of {worker.host}" for common, known in names]
    return {
        "view": np.array([*view, None], object)[:-1],
        "worker": np.full(count, worker.name, object),
        "host": np.full(count, worker.host, object),
        "step": worker.number.astype(np.float64),
        "shared": isin(number, np.array(aligned.shared_numbers, np.int64)),
        "start_ps": (worker.start + aligned.zero[worker.host]).astype(np.float64),
        "duration_ps": worker.duration.astype(np.float64),
        **{name: worker.category_ps[name].astype(np.float64) for name in STEP_CATEGORY_COLUMNS},
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
    rows = [(number, *row) for number, program in enumerate(programs, 1) for row in _compared(program, alignment)]
    return Table.from_rows("summary", "Workers compared", SUMMARY, rows)


def _compared(found: tuple[Worker, ...], aligned: Alignment) -> Iterator[tuple[object, ...]]:
    """Yield the rows of `SUMMARY`, without the number of the program, for the workers of one
    program.
    """
    total, own, lead = (
        np.array(column) for column in ([w.mean_step_ps for w in found], _own(found), [w.mean_lead_ps for w in found])
    )
    if len(found) < 2:
        for i, w in enumerate(found):
            yield w.name, len(w.steady_rows), total[i], own[i], lead[i], np.nan, np.nan, "", np.nan, np.nan
        return
    leads = not np.isnan(lead).any()
    base = leave_one_out_medians(lead if leads else own)
    excess = (lead if leads else own) - base
    means = np.array([w.mean_lead_category_ps if leads else w.mean_category_ps for w in found])
    apart = means - leave_one_out_medians(means)
    saved = compute_straggler_cost(found, excess, aligned) if leads else np.maximum(excess, 0.0)
    for i, w in enumerate(found):
        mine = np.where(
            [name in (HOST_OWN_COLUMNS if w.is_device or leads else OWN_COLUMNS) for name in STEP_CATEGORY_COLUMNS],
            apart[i],
            0.0,
        )
        at = int(np.argmax(mine if excess[i] >= 0 else -mine))
        explains = abs(mine[at]) >= _EXPLAINS * abs(excess[i]) > 0
        cause, differs = (tuple(Category)[at].label, float(mine[at])) if explains else ("", np.nan)
        share = float(excess[i] / base[i]) if base[i] else 0.0
        yield w.name, len(w.steady_rows), total[i], own[i], lead[i], float(excess[i]), share, cause, differs, float(saved[i])


def _own(found: tuple[Worker, ...]) -> Values:
    """Return the mean own time of each worker, ps, of shape (workers,): for a host the mean step
    without waiting for others in collectives, for a device its work other than collectives.

    A host waits for the time that it spends in collectives beyond the host that spends least in
    them.
    """
    spent = np.array([float(w.collective_ps[w.steady_rows].mean()) for w in found])
    total = np.array([w.mean_step_ps for w in found])
    busy = np.array([w.mean_category_ps for w in found])[:, [STEP_CATEGORY_COLUMNS.index(name) for name in OWN_COLUMNS]].sum(
        axis=1
    )
    return np.asarray(np.where([w.is_device for w in found], busy, total - np.minimum(spent - spent.min(), total)))


def compute_collectives(programs: tuple[tuple[Worker, ...], ...]) -> Table:
    """Return table `COLLECTIVES`: time of every type of collective operation on every worker,
    compared with the other workers of its program.
    """
    rows = [row for program in programs for row in _collectives_of(program)]
    return Table.from_rows("collectives", "Collective operations", COLLECTIVES, sorted(rows, key=lambda r: -r[3]))


def _collectives_of(found: tuple[Worker, ...]) -> list[tuple[str, str, int, int, float, float]]:
    sums = {(w.name, name): known for w in found for name, known in w.collectives.items()}
    used = {w.name: max(len(w.number), 1) for w in found}
    least: dict[str, float] = {}
    for name in {collective for _, collective in sums}:
        least[name] = min(sums.get((w, name), (0, 0))[1] / used[w] for w in used)
    return [(w, name, n, total, total / used[w], total / used[w] - least[name]) for (w, name), (n, total) in sums.items()]
