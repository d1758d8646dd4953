"""The pod viewer's tables: every worker's steps, their averages, and the collectives in which workers wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.program.same_program import SameProgram
from outpace.metrics.program.workers import CATEGORIES, Worker
from outpace.model import Category, Table, medians_without
from outpace.model.arrays import Column, Values
from outpace.tools.pod.align import Alignment
from outpace.tools.pod.repair import repaired
from outpace.tools.pod.schema import COLLECTIVES, SUMMARY, WORKERS

OWN = tuple(f"{c.value}_ps" for c in Category if c not in (Category.ALL_OTHERS, Category.DEVICE_COLLECTIVES))  # of a device
HOST_OWN = (*OWN, f"{Category.ALL_OTHERS.value}_ps")
_EXPLAINS = 0.5  # of the excess, for a category to be called its cause


def steps(found: tuple[Worker, ...], aligned: Alignment) -> Table:
    """`WORKERS`: the average of every worker first, then step by step in the order of their numbers."""
    means = [("average", w.name, w.host, np.nan, False, np.nan, w.mean, *w.means) for w in found]
    average, parts = Table.from_rows("workers", "Steps by worker", WORKERS, means), [_steps_of(w, aligned) for w in found]
    number = np.concatenate([aligned.numbers[w.host] for w in found])
    order = np.lexsort((np.repeat(np.arange(len(found)), [len(w.number) for w in found]), number, number < 0))
    single = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    data = {name: np.concatenate((average[name], column)) for name, column in single.items()}
    return Table.build("workers", "Steps by worker", WORKERS, data)


def _steps_of(worker: Worker, aligned: Alignment) -> dict[str, Column]:
    """The columns of `WORKERS` of one worker's steps, in their order."""
    count, number = len(worker.number), aligned.numbers[worker.host]
    names = zip(number.tolist(), worker.number.tolist(), strict=True)
    view = [str(common) if common >= 0 else f"{known} of {worker.host}" for common, known in names]
    return {
        "view": np.array([*view, None], object)[:-1],
        "worker": np.full(count, worker.name, object),
        "host": np.full(count, worker.host, object),
        "step": worker.number.astype(np.float64),
        "shared": np.isin(number, np.array(aligned.shared, np.int64)),
        "start_ps": (worker.start + aligned.zero[worker.host]).astype(np.float64),
        "duration_ps": worker.duration.astype(np.float64),
        **{name: worker.times[name].astype(np.float64) for name in CATEGORIES},
    }


def by_program(found: tuple[Worker, ...], same: SameProgram) -> tuple[tuple[Worker, ...], ...]:
    """The workers that execute one program, program by program."""
    programs: list[list[Worker]] = [[] for _ in same.groups]
    for worker in found:
        programs[same.group_of[worker.host]].append(worker)
    return tuple(tuple(program) for program in programs if program)


def summary(programs: tuple[tuple[Worker, ...], ...], aligned: Alignment) -> Table:
    """`SUMMARY`: each worker against the median of the others of its program, what it waits in collectives left out."""
    rows = [(number, *row) for number, program in enumerate(programs, 1) for row in _compared(program, aligned)]
    return Table.from_rows("summary", "Workers compared", SUMMARY, rows)


def _compared(found: tuple[Worker, ...], aligned: Alignment) -> Iterator[tuple[object, ...]]:
    total, own, lead = (np.array(column) for column in ([w.mean for w in found], _own(found), [w.lead for w in found]))
    if len(found) < 2:
        for i, w in enumerate(found):
            yield w.name, len(w.whole), total[i], own[i], lead[i], np.nan, np.nan, "", np.nan, np.nan
        return
    leads = not np.isnan(lead).any()
    base = medians_without(lead if leads else own)
    excess = (lead if leads else own) - base
    means = np.array([w.leads if leads else w.means for w in found])
    apart = means - medians_without(means)
    saved = repaired(found, excess, aligned) if leads else np.maximum(excess, 0.0)
    for i, w in enumerate(found):
        mine = np.where([name in (HOST_OWN if w.device or leads else OWN) for name in CATEGORIES], apart[i], 0.0)
        at = int(np.argmax(mine if excess[i] >= 0 else -mine))
        explains = abs(mine[at]) >= _EXPLAINS * abs(excess[i]) > 0
        cause, differs = (tuple(Category)[at].label, float(mine[at])) if explains else ("", np.nan)
        share = float(excess[i] / base[i]) if base[i] else 0.0
        yield w.name, len(w.whole), total[i], own[i], lead[i], float(excess[i]), share, cause, differs, float(saved[i])


def _own(found: tuple[Worker, ...]) -> Values:
    """Per worker: of a host the mean step without what it waits for others in collectives, of a device what it did besides collectives, ps.

    What a host spends in collectives beyond the one that spends least in them, it waits.
    """
    spent = np.array([float(w.spent[w.whole].mean()) for w in found])
    total = np.array([w.mean for w in found])
    busy = np.array([w.means for w in found])[:, [CATEGORIES.index(name) for name in OWN]].sum(axis=1)
    return np.asarray(np.where([w.device for w in found], busy, total - np.minimum(spent - spent.min(), total)))


def collectives(programs: tuple[tuple[Worker, ...], ...]) -> Table:
    """`COLLECTIVES`: time of every type of collective operation on every worker, against the other workers of its program."""
    rows = [row for program in programs for row in _collectives_of(program)]
    return Table.from_rows("collectives", "Collective operations", COLLECTIVES, sorted(rows, key=lambda r: -r[3]))


def _collectives_of(found: tuple[Worker, ...]) -> list[tuple[str, str, int, int, float, float]]:
    sums = {(w.name, name): known for w in found for name, known in w.collectives.items()}
    used = {w.name: max(len(w.number), 1) for w in found}
    least: dict[str, float] = {}
    for name in {collective for _, collective in sums}:
        least[name] = min(sums.get((w, name), (0, 0))[1] / used[w] for w in used)
    return [(w, name, n, total, total / used[w], total / used[w] - least[name]) for (w, name), (n, total) in sums.items()]
