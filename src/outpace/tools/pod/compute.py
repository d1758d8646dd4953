"""The pod viewer's tables: every worker's steps, their averages, and the collectives in which workers wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import once
from outpace.metrics.machine.collectives import collective_rows, covered
from outpace.metrics.program.same_program import SameProgram
from outpace.metrics.program.step_breakdown import category_times, step_breakdown
from outpace.model import Category, Table, medians_without
from outpace.model.arrays import Indices, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.tools.pod.align import Alignment, origins
from outpace.tools.pod.schema import COLLECTIVES, SUMMARY, WORKERS
from outpace.trace import Plane, dialect

CATEGORIES = tuple(f"{c.value}_ps" for c in Category)
OWN = tuple(f"{c.value}_ps" for c in Category if c not in (Category.ALL_OTHERS, Category.DEVICE_COLLECTIVES))  # of a device
HOST_OWN = (*OWN, f"{Category.ALL_OTHERS.value}_ps")
_EXPLAINS = 0.5  # of the excess, for a category to be called its cause


@dataclass(frozen=True, eq=False)
class Worker:
    """One column of the pod viewer: a host, or one of a host's several devices. `times`: per step, ps by category."""

    name: str
    timeline: Timeline
    plane: Plane | None
    times: dict[str, Picoseconds]

    @property
    def duration(self) -> Picoseconds:
        """Length of every step, ps."""
        return self.timeline.steps.duration

    @once
    def mean(self) -> float:
        """Length of a steady step, ps."""
        return float(self.duration[self.timeline.steps.whole].mean())

    @once
    def means(self) -> tuple[float, ...]:
        """Time of each category in a steady step, ps."""
        whole = self.timeline.steps.whole
        return tuple(float(self.times[name][whole].mean()) for name in CATEGORIES)

    @once
    def collectives(self) -> dict[str, Indices]:
        """Event rows within steps of the collectives that it took part in, by type."""
        rows_of = collective_rows(self.timeline)
        if self.plane is not None:
            only = self.timeline.trace.rows_of(self.plane)
            rows_of = {name: rows[slice(*np.searchsorted(rows, (only.start, only.stop)))] for name, rows in rows_of.items()}
        return {name: rows for name, rows in rows_of.items() if len(rows)}


def workers(run: Run) -> tuple[Worker, ...]:
    """All workers: the hosts, or the devices of hosts that have several."""
    table, found = step_breakdown(run).steps, []
    for timeline in run.hosts:
        planes = timeline.device_planes
        if len(timeline.steps) == 0:
            continue
        if len(planes) < 2:
            mine = table.of("host", timeline.host)
            found.append(Worker(timeline.host, timeline, None, {name: mine[name] for name in CATEGORIES}))
        else:
            found += [_device(timeline, plane) for plane in planes]
    return tuple(found)


def _device(timeline: Timeline, plane: Plane) -> Worker:
    """A device: what it did itself; the rest of the step it waited, which is all others."""
    times = category_times(timeline, (plane,))
    return Worker(f"{timeline.host} {plane.name.removeprefix(dialect.DEVICES)}", timeline, plane, times)


def steps(found: tuple[Worker, ...], aligned: Alignment, run: Run) -> Table:
    """`WORKERS`: the average of every worker first, then step by step in the order of their numbers."""
    rows = [
        (
            "average",
            w.name,
            w.timeline.host,
            np.nan,
            False,
            np.nan,
            w.mean,
            *w.means,
        )
        for w in found
    ]
    single = []
    shared, zero = set(aligned.shared), origins(run)
    for place, w in enumerate(found):
        columns = (w.timeline.steps.start + zero[w.timeline.host], w.duration, *(w.times[name] for name in CATEGORIES))
        values = zip(*(c.astype(float).tolist() for c in columns), strict=True)
        for number, known, (start, *times) in zip(
            aligned.numbers[w.timeline.host].tolist(), w.timeline.steps.number.tolist(), values, strict=True
        ):
            view = str(number) if number >= 0 else f"{known} of {w.timeline.host}"
            single.append((number, place, (view, w.name, w.timeline.host, known, number in shared, start, *times)))
    single.sort(key=lambda row: (row[0] < 0, row[:2]))
    return Table.from_rows("workers", "Steps by worker", WORKERS, [*rows, *(row for _, _, row in single)])


def by_program(found: tuple[Worker, ...], same: SameProgram) -> tuple[tuple[Worker, ...], ...]:
    """The workers that execute one program, program by program."""
    programs: list[list[Worker]] = [[] for _ in same.groups]
    for worker in found:
        programs[same.group_of[worker.timeline.host]].append(worker)
    return tuple(tuple(program) for program in programs if program)


def summary(programs: tuple[tuple[Worker, ...], ...]) -> Table:
    """`SUMMARY`: each worker against the median of the others of its program, what it waits in collectives left out."""
    rows = [(number, *row) for number, program in enumerate(programs, 1) for row in _compared(program)]
    return Table.from_rows("summary", "Workers compared", SUMMARY, rows)


def _compared(found: tuple[Worker, ...]) -> Iterator[tuple[object, ...]]:
    means = np.array([w.means for w in found])
    total = np.array([w.mean for w in found])
    own = total - np.minimum(_waits(found), total)
    busy = means[:, [CATEGORIES.index(name) for name in OWN]].sum(axis=1)
    own = np.where([w.plane is not None for w in found], busy, own)
    if len(found) < 2:
        for i, w in enumerate(found):
            yield w.name, len(w.timeline.steps.whole), total[i], own[i], np.nan, np.nan, "", np.nan
        return
    base, apart = medians_without(own), means - medians_without(means)
    for i, w in enumerate(found):
        excess = float(own[i]) - float(base[i])
        mine = np.where([name in (HOST_OWN if w.plane is None else OWN) for name in CATEGORIES], apart[i], 0.0)
        at = int(np.argmax(mine if excess >= 0 else -mine))
        explains = abs(mine[at]) >= _EXPLAINS * abs(excess) > 0
        cause, differs = (tuple(Category)[at].label, float(mine[at])) if explains else ("", np.nan)
        share = excess / float(base[i]) if base[i] else 0.0
        yield w.name, len(w.timeline.steps.whole), total[i], own[i], excess, share, cause, differs


def _waits(found: tuple[Worker, ...]) -> Values:
    """Per worker: time per step in which a collective runs, beyond that of the worker with the least, ps. Overlapping ones count once."""
    spent = []
    for w in found:
        every = np.concatenate(list(w.collectives.values()) or [np.zeros(0, np.int64)])
        spent.append(float(covered(w.timeline, every)[w.timeline.steps.whole].mean()))
    return np.array(spent) - min(spent)


def collectives(programs: tuple[tuple[Worker, ...], ...]) -> Table:
    """`COLLECTIVES`: time of every type of collective operation on every worker, against the other workers of its program."""
    rows = [row for program in programs for row in _collectives_of(program)]
    return Table.from_rows("collectives", "Collective operations", COLLECTIVES, sorted(rows, key=lambda r: -r[3]))


def _collectives_of(found: tuple[Worker, ...]) -> list[tuple[str, str, int, int, float, float]]:
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for w in found:
        for name, rows in w.collectives.items():
            sums[w.name, name] = (len(rows), int(covered(w.timeline, rows).sum()))
    used = {w.name: max(len(w.timeline.steps), 1) for w in found}
    least: dict[str, float] = {}
    for name in {collective for _, collective in sums}:
        least[name] = min(sums.get((w, name), (0, 0))[1] / used[w] for w in used)
    return [(w, name, n, total, total / used[w], total / used[w] - least[name]) for (w, name), (n, total) in sums.items()]
