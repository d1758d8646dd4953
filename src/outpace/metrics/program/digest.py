"""What is kept of a host where there are too many to keep their events: enough to say which hosts belong together, and which one is slow."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.machine.device_counts import DeviceCount, device_counts
from outpace.metrics.program.facts import NUMBERED, Facts, facts
from outpace.metrics.program.workers import Worker, workers
from outpace.model.arrays import Numbers, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.clock import Origin, origin_of


@dataclass(frozen=True, eq=False)
class Digest:
    """A host without its events. size: bytes of its profile; events: how many it recorded; origin: where its times are counted from; span:
    its first and last moment, ps from there.

    number, start, end: its steps; numbered: whether the program counts them, so that one number is one step on all hosts; workers: itself, or
    its devices; facts: what it executed; devices: how many it recorded; warnings: what a reader must know of its file.
    """

    host: str
    size: int
    events: int
    origin: Origin
    span: tuple[int, int]
    number: Numbers
    start: Picoseconds
    end: Picoseconds
    numbered: bool
    workers: tuple[Worker, ...]
    facts: Facts
    devices: DeviceCount
    warnings: tuple[str, ...] = ()

    @property
    def captured_ns(self) -> tuple[int, int]:
        """The first and the last moment by the host's own clock, ns."""
        return self.origin.ns + self.span[0] // 1000, self.origin.ns + self.span[1] // 1000


@derived
def digests(run: Run) -> tuple[Digest, ...]:
    """One for each host; of a run of very many hosts, those of all of them are given to it (`outpace.hosts`)."""
    mine: dict[str, list[Worker]] = {t.host: [] for t in run.hosts}
    for worker in workers(run):
        mine[worker.host].append(worker)
    executed = {each.host: each for each in facts(run)}
    devices = {each.host: each for each in device_counts(run)}
    return tuple(_digest(t, tuple(mine[t.host]), executed[t.host], devices[t.host]) for t in run.hosts)


def _digest(timeline: Timeline, found: tuple[Worker, ...], executed: Facts, counted: DeviceCount) -> Digest:
    trace, steps = timeline.trace, timeline.steps
    return Digest(
        host=timeline.host,
        size=trace.size,
        events=len(trace),
        origin=origin_of(timeline),
        span=timeline.span,
        number=steps.number,
        start=steps.start,
        end=steps.end,
        numbered=len(steps) > 0 and steps.source in NUMBERED,
        workers=found,
        facts=executed,
        devices=counted,
    )
