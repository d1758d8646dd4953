# SPDX-License-Identifier: Apache-2.0
"""`Run`: all hosts of one capture."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from outpace._caching import ResultCache, once
from outpace._dataclass import dataclass
from outpace.timeline.event_names import CORE_THREADS
from outpace.timeline.timeline import Timeline
from outpace.trace import Trace

Record = Mapping[str, Any]


def substitute_cell_names(record: Record) -> Record:
    """Return a capture record in which the names of a notebook's cells replace the files under
    which the cells were compiled.
    """
    cells: Mapping[str, str] = record.get("cells") or {}

    def called(value: Any) -> Any:
        if isinstance(value, str):
            return cells.get(value, value)
        if isinstance(value, Mapping):
            return {called(key): called(item) for key, item in value.items()}
        return tuple(map(called, value)) if isinstance(value, (list, tuple)) else value

    return {**called(record), "cells": cells} if cells else record


@dataclass(frozen=True, eq=False)
class Run:
    """The timelines of all hosts of one capture, usually one.

    source: path or URL that was opened.
    hosts: timelines in the order of the hosts' names.
    records: by host, what Outpace's own capture recorded (source lines, overhead, versions); empty
        for profiles of other captures.
    remarks: warnings from opening.
    is_reopenable: whether `source` is a place that can be opened again.
    cache: results that metrics computed from the run.
    """

    source: str
    hosts: tuple[Timeline, ...]
    records: Mapping[str, Record] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    is_reopenable: bool = True
    cache: ResultCache = field(default_factory=ResultCache, repr=False)

    @classmethod
    def from_traces(cls, traces: Sequence[Trace], source: str = "", *, use_marks: bool = True, **kwargs: Any) -> Run:
        """Return a run of decoded traces, with the hosts sorted by name."""
        ordered = sorted(traces, key=lambda t: t.host)
        records = {host: substitute_cell_names(record) for host, record in kwargs.pop("records", {}).items()}
        hosts = (Timeline(t, use_marks, cell_names=records.get(t.host, {}).get("cells") or {}) for t in ordered)
        return cls(source, tuple(hosts), records=records, **kwargs)

    @once
    def by_host(self) -> Mapping[str, Timeline]:
        """The timelines by name of the host."""
        return {t.host: t for t in self.hosts}

    @once
    def events(self) -> int:
        """Number of events of all hosts."""
        return sum(len(t.trace) for t in self.hosts)

    @once
    def has_device(self) -> bool:
        """Whether an accelerator recorded events."""
        return any(t.device_planes for t in self.hosts)

    def prepare(self) -> None:
        """Compute the steps and ops of every host, which all pages need, before threads build the
        pages.
        """
        for timeline in self.hosts:
            _ = timeline.steps, timeline.ops

    def record(self, host: str) -> Record:
        """Return the capture's record of a host; empty where Outpace did not capture the
        profile.
        """
        return self.records.get(host, {})

    @property
    def script(self) -> str:
        """Command line of the captured script with its arguments, from the capture's record; empty
        where there is none.
        """
        record = next((record for record in self.records.values() if record.get("script")), None)
        return shlex.join((str(record["script"]), *map(str, record.get("argv", ())))) if record is not None else ""

    def core_count(self, timeline: Timeline) -> int | None:
        """Return the number of cores that the host's process could use: from the capture's record,
        else the number of threads in the pool that divides ops among the cores. None where neither
        is known; a pool of one thread is no evidence.
        """
        count = self.record(timeline.host).get("cpu_count")
        if isinstance(count, (int, float)) and count >= 1:
            return int(count)
        names = timeline.trace.lines.names
        pool = max(sum(name.startswith(threads) for name in names) for threads in CORE_THREADS)
        return pool if pool > 1 else None
