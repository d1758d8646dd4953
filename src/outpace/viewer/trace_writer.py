# SPDX-License-Identifier: Apache-2.0
"""Export of a run as a trace file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.cluster.clock_offsets import corrected_shifts_ns
from outpace.metrics.facts.input_iterators import iterator_graphs
from outpace.model.arrays import Column, Indices
from outpace.timeline import Run, Timeline
from outpace.trace import overlap_mask
from outpace.trace.export import ComputedSlices, ExportFormat, Flows, Slices, TraceWriter, TrackKind
from outpace.viewer import computed_tracks
from outpace.viewer.sections import Section, build_plane_sections
from outpace.viewer.selection import Selection


@dataclass(frozen=True)
class ExportSummary:
    """Numbers of items in an exported file.

    events: slices that are events of the profile
    steps, stages: computed slices of steps and of tf.data stages
    flows: arrows between slices
    counter_values: values of counters
    """

    events: int = 0
    steps: int = 0
    stages: int = 0
    flows: int = 0
    counter_values: int = 0

    @property
    def slices(self) -> int:
        """Number of all slices."""
        return self.events + self.steps + self.stages


def write_trace(
    run: Run, descriptor: int, file_format: ExportFormat = ExportFormat.PERFETTO, selection: Selection | None = None
) -> ExportSummary:
    """Write the run to an open file descriptor and return the numbers of items written.

    Raises UsageError for a selection that no host contains, and OSError where the file cannot be
    written.
    """
    chosen = selection or Selection()
    shift = corrected_shifts_ns(run)
    hosts, written = {}, ExportSummary()
    for timeline in run.hosts:
        host = _Host(timeline, shift[timeline.host], chosen, first_arrow=written.flows + 1)
        hosts[timeline.host] = host
        written = replace(written, flows=written.flows + host.arrows)
    with TraceWriter(descriptor, file_format) as out:
        for rank, section in enumerate(build_plane_sections(run)):
            hosts[section.timeline.host].write(out, run, section, rank)
    done = hosts.values()
    return replace(
        written,
        events=sum(h.events for h in done),
        steps=sum(h.steps for h in done),
        stages=sum(h.stages for h in done),
        counter_values=sum(h.counts for h in done),
    )


class _Host:
    """Writer of one host's part of the file, with counts of the items written."""

    def __init__(self, timeline: Timeline, shift_ns: int, chosen: Selection, first_arrow: int) -> None:
        trace = timeline.trace
        self.timeline, self.shift_ns, self.chosen = timeline, shift_ns, chosen
        self.span = chosen.span(timeline, shift_ns * 1000)
        self.mask = None if self.span is None else trace.compute_mask(partial(overlap_mask, span=self.span))
        self.arguments = chosen.arguments.stat_mask(trace.stat_names)
        cause, effect = timeline.launches
        if self.mask is not None:
            both = self.mask[cause] & self.mask[effect]
            cause, effect = cause[both], effect[both]
        self.flows = Flows.from_pairs(cause, effect, first_arrow)
        self.arrows = len(cause)
        self.events = self.steps = self.stages = self.counts = 0

    def write(self, out: TraceWriter, run: Run, section: Section, rank: int) -> None:
        """Write one section with its tracks; computed tracks come above the host's lines."""
        tracks = _Tracks(out, section.title, rank, self.chosen)
        if section.is_host:
            self._write_computed(out, run, tracks)
        for line, name in section.lines:
            if not self._has_events(line) or not (track := tracks.add(name)):
                continue
            slices = Slices(track, line, self.shift_ns, self.mask, self.arguments, self.flows)
            self.events += self.timeline.trace.write_line(out, slices)

    def _has_events(self, line: int) -> bool:
        return self.mask is None or bool(self.mask[self.timeline.trace.lines.row_slice(line)].any())

    def _write_computed(self, out: TraceWriter, run: Run, tracks: _Tracks) -> None:
        steps = self._select_slices(computed_tracks.build_step_slices(self.timeline))
        if len(steps.names) and (track := tracks.add("Steps", description=self.timeline.steps.explanation)):
            self.steps += out.write_slices(track, steps, shift_ns=self.shift_ns)
        for name, times, value in computed_tracks.iter_memory_counters(self.timeline.trace):
            inside = slice(None) if self.span is None else overlap_mask(times, np.zeros_like(times), self.span)
            if len(times[inside]) and (track := tracks.add(f"Memory allocated: {name}", TrackKind.BYTES)):
                out.write_counter(track, times[inside], value[inside], shift_ns=self.shift_ns)
                self.counts += len(times[inside])
        for name, slices in self._stages(run):
            if len(slices.names) and (track := tracks.add(f"tf.data {name}")):
                self.stages += out.write_slices(track, slices, shift_ns=self.shift_ns)

    def _stages(self, run: Run) -> Iterator[tuple[str, ComputedSlices]]:
        record = run.record(self.timeline.host)
        if not record.get("pipeline"):
            return
        graph = iterator_graphs(run).get(self.timeline.host)
        if graph is not None:
            for name, slices in computed_tracks.iter_stage_slices(graph, record):
                yield name, self._select_slices(slices)

    def _select_slices(self, slices: ComputedSlices) -> ComputedSlices:
        """Return the slices that overlap the selected time."""
        if self.span is None:
            return slices
        indices = np.flatnonzero(overlap_mask(slices.start, slices.duration, self.span))
        arguments = {name: _take(values, indices) for name, values in slices.arguments.items()}
        names = [slices.names[i] for i in indices.tolist()]
        return replace(slices, start=slices.start[indices], duration=slices.duration[indices], names=names, arguments=arguments)


def _take(values: Sequence[Any] | Column, indices: Indices) -> Sequence[Any] | Column:
    return values[indices] if isinstance(values, np.ndarray) else [values[i] for i in indices.tolist()]


class _Tracks:
    """Tracks of one section. The section is only declared when it has a track."""

    def __init__(self, out: TraceWriter, title: str, rank: int, chosen: Selection) -> None:
        self._out, self._title, self._rank, self._chosen = out, title, rank, chosen
        self._section = self._count = 0

    def add(self, name: str, kind: TrackKind = TrackKind.SLICES, description: str = "") -> int:
        """Return the number of a new track; 0 where the selection does not include it."""
        if not self._chosen.includes_track(self._title, name):
            return 0
        if self._section == 0:
            self._section = self._out.add_track(self._title, TrackKind.SECTION, rank=self._rank)
        self._count += 1
        return self._out.add_track(name, kind, parent=self._section, rank=self._count, description=description)
