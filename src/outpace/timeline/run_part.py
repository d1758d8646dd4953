# SPDX-License-Identifier: Apache-2.0
"""A part of a run: some of its hosts, devices and steps. All metrics of the part are computed from
the part alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from outpace._dataclass import dataclass
from outpace.model import UsageError
from outpace.model.arrays import Indices, Numbers
from outpace.timeline.allocators import find_other_device_events
from outpace.timeline.run import Run
from outpace.timeline.steps import Steps
from outpace.timeline.timeline import StepAssignment, Timeline
from outpace.trace import EventColumn, overlap_mask, select_rows, store_column
from outpace.trace.algorithms import isin

StepRange: TypeAlias = "tuple[int | None, int | None]"
"""(first, last) step number, both included; None means no bound."""


@dataclass(frozen=True)
class RunPart:
    """Description of a part of a run.

    hosts, devices: names of hosts and of planes; empty for all.
    steps: (first, last) step number, both included, None for no bound; None for all steps and the
        time between them.
    """

    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    steps: StepRange | None = None

    def select_from(self, run: Run) -> Run:
        """Return that part of a run, or the run itself where it is all of it. Raises UsageError
        where the part is empty.
        """
        hosts = _hosts(run, self.hosts)
        if self.devices or self.steps is not None:
            hosts = tuple(part for timeline in hosts if (part := self._select_host(timeline)) is not None)
            if not hosts:
                raise UsageError(f"Nothing of the run is such a part: {_format_choices(run)}.")
        elif hosts == run.hosts:
            return run
        host_names = {t.host for t in hosts}
        records = {host: record for host, record in run.records.items() if host in host_names}
        return Run(
            run.source, hosts, records, (f"Only a part of the run is in this report: {self}.", *run.remarks), run.is_reopenable
        )

    def __str__(self) -> str:
        named = (("host", "hosts", self.hosts), ("device", "devices", self.devices))
        parts = [f"{one if len(names) == 1 else several} {', '.join(names)}" for one, several, names in named if names]
        if self.steps is not None:
            first, last = self.steps
            parts.insert(
                0, f"step {first}" if first == last else f"steps {_number(first, 'the first')} to {_number(last, 'the last')}"
            )
        return "; ".join(parts) or "all of it"

    def _select_host(self, timeline: Timeline) -> Timeline | None:
        """Return the host's part; None where it is empty.

        It has the events of the steps, and all events in their time, of the chosen devices, of
        their memories, and of the host itself.
        """
        steps, trace, step_of = timeline.steps, timeline.trace, timeline.step_index
        chosen, mask = np.ones(len(steps), bool), np.ones(len(trace), bool)
        if self.steps is not None:
            chosen = steps.number_mask(*self.steps)
            if not chosen.any():
                return None
            begin, end = steps.start[chosen].min(), steps.end[chosen].max()
            mask = trace.compute_mask(partial(overlap_mask, span=(begin, end)))
            mask |= np.append(chosen, False)[step_of[:]]
        if self.devices:
            other_planes = [plane for plane in timeline.device_planes if plane.name not in self.devices]
            if len(other_planes) == len(timeline.device_planes):
                return None
            for plane in other_planes:
                mask[trace.rows_of(plane)] = False
            mask[find_other_device_events(timeline, self.devices)] = False
        rows, new_row = np.flatnonzero(mask), np.full(len(trace), -1, np.int64)
        new_row[rows] = np.arange(len(rows))
        numbers = steps.number[chosen]
        caused, handed_over = (
            _select_steps(*assignment, numbers, rows, new_row) for assignment in ((steps, step_of), timeline.dispatch_steps)
        )
        return Timeline(select_rows(trace, rows), timeline.use_marks, StepAssignment(*caused, handed_over), timeline.cell_names)


def parse_step_range(text: str, name: str = "steps") -> StepRange:
    """Return (first, last) of a text such as `3:5` (both included), `3:`, `:5` or `3`. Raises
    UsageError for anything else.

    `name` is the option's name in the message.
    """
    match = re.fullmatch(r"\s*(-?\d{1,18})?\s*(:?)\s*(-?\d{1,18})?\s*", text)
    if match is None or not (match[1] or match[3]) or (match[3] and not match[2]):
        raise UsageError(f"{name} {text!r} is no range of steps: write first:last, as in 3:5 (both included), or one number.")
    first, last = (None if number is None else int(number) for number in (match[1], match[3] if match[2] else match[1]))
    if first is not None and last is not None and first > last:
        raise UsageError(f"{name} {text!r} ends before it begins: write the smaller number first.")
    return first, last


def _number(number: int | None, otherwise: str) -> str:
    return otherwise if number is None else str(number)


def _hosts(run: Run, names: Sequence[str]) -> tuple[Timeline, ...]:
    missing = [name for name in names if name not in run.by_host]
    if missing:
        raise UsageError(f"The run has no host {missing[0]}. There are: {', '.join(run.by_host)}.")
    return tuple(t for t in run.hosts if not names or t.host in names)


def _format_choices(run: Run) -> str:
    """Return the possible choices, as a part of a sentence."""
    steps = [f"{t.host} has {t.steps.range_text}" for t in run.hosts if len(t.steps)]
    devices = dict.fromkeys(plane.name for t in run.hosts for plane in t.device_planes)
    return ", ".join((*(steps or ["it has no steps"]), *([f"devices are {', '.join(devices)}"] if devices else [])))


def _select_steps(
    steps: Steps, step_of: EventColumn, numbers: Numbers, rows: Indices, new_row: Indices
) -> tuple[Steps, EventColumn]:
    """Return (the steps with these numbers, the step index of each event of the part). Events in
    the time of these steps that belong to another step have index -1.
    """
    chosen = isin(steps.number, numbers)
    number = np.append(np.where(chosen, np.cumsum(chosen) - 1, -1), -1).astype(np.int32)
    return steps.select(chosen, new_row), store_column(number[step_of[rows]])
