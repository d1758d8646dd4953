"""The pod viewer's tables: every worker's steps, their averages, and the collectives in which workers wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.program.same_program import SameProgram
from outpace.metrics.program.workers import CATEGORIES, Worker
from outpace.model import Category, Table, medians_without
from outpace.model.arrays import Values
from outpace.tools.pod.align import Alignment
from outpace.tools.pod.repair import repaired
from outpace.tools.pod.schema import COLLECTIVES, SUMMARY, WORKERS

OWN = tuple(f"{c.value}_ps" for c in Category if c not in (Category.ALL_OTHERS, Category.DEVICE_COLLECTIVES))  # of a device
HOST_OWN = (*OWN, f"{Category.ALL_OTHERS.value}_ps")
_EXPLAINS = 0.5  # of the excess, for a category to be called its cause


def steps(found: tuple[Worker, ...], aligned: Alignment) -> Table:
    """`WORKERS`: the average of every worker first, then step by step in the order of their numbers."""
    rows = [
        (
            "average",
            w.name,
            w.host,
            np.nan,
            False,
            np.nan,
            w.mean,
            *w.means,
        )
        for w in found
    ]
    single = []
    shared, zero = set(aligned.shared), aligned.zero
    for place, w in enumerate(found):
        columns = (w.start + zero[w.host], w.duration, *(w.times[name] for name in CATEGORIES))
        values = zip(*(c.astype(float).tolist() for c in columns), strict=True)
        for number, known, (start, *times) in zip(aligned.numbers[w.host].tolist(), w.number.tolist(), values, strict=True):
            view = str(number) if number >= 0 else f"{known} of {w.host}"
            single.append((number, place, (view, w.name, w.host, known, number in shared, start, *times)))
    single.sort(key=lambda row: (row[0] < 0, row[:2]))
    return Table.from_rows("workers", "Steps by worker", WORKERS, [*rows, *(row for _, _, row in single)])


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
