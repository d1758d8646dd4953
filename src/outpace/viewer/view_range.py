# SPDX-License-Identifier: Apache-2.0
"""Time range that the viewer shows when it opens: one step, or the selection of the user."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.metrics.cluster.clock_offsets import corrected_shifts_ns
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.model import UsageError
from outpace.timeline import Run
from outpace.viewer.selection import Selection

_MARGIN = 0.02  # margin at both ends, as a share of the range, so that its ends are visible


@dataclass(frozen=True)
class ViewRange:
    """A time range.

    begin_ns, end_ns: ns from the beginning of the trace
    step: number of the step; None for the whole capture
    title: label of the range
    """

    begin_ns: int
    end_ns: int
    step: int | None
    title: str


def find_step_view(run: Run, step: int | None = None, host: str | None = None) -> ViewRange:
    """Return the range of a step, by default the first steady one; the whole capture where there is
    none.

    Raises UsageError where the host (by default the first with steps, of the program that the
    report is about) has no such step.
    """
    first = next(iter(main_program_hosts(run)), run.hosts[0].host)
    timeline = run.by_host.get(host or first, run.by_host[first])
    steps, shift = timeline.steps, corrected_shifts_ns(run)
    if step is None and not len(steps):
        return ViewRange(0, _end(run), None, "the whole capture")
    if step is None:
        row = int(steps.steady_rows[0]) if len(steps.steady_rows) else 0
    else:
        rows = (steps.number == step).nonzero()[0]
        if not len(rows):
            raise UsageError(f"{timeline.host} has no step {step}: it has {steps.range_text}.")
        row = int(rows[0])
    begin, end = (int(times[row]) // 1000 + shift[timeline.host] for times in (steps.start, steps.end))
    room, number = int((end - begin) * _MARGIN), int(steps.number[row])
    return ViewRange(max(0, begin - room), end + room, number, f"step {number} of {timeline.host}")


def find_selection_view(run: Run, selection: Selection) -> ViewRange:
    """Return the range of a selection: its time window or its steps, or else the range of
    `find_step_view`.
    """
    if selection.window_ps is not None:
        begin, end = selection.window_ps
        return ViewRange((begin or 0) // 1000, _end(run) if end is None else end // 1000, None, "the selected time")
    if selection.steps is not None:
        shift = corrected_shifts_ns(run)
        spans = [(selection.span(t, shift[t.host] * 1000), shift[t.host]) for t in run.hosts]
        spans_ns = [(span[0] // 1000 + moved, span[1] // 1000 + moved) for span, moved in spans if span is not None]
        return ViewRange(min(begin for begin, _ in spans_ns), max(end for _, end in spans_ns), None, "the selected steps")
    return find_step_view(run)


def _end(run: Run) -> int:
    """Return the end of the last event of a run, ns from the beginning of the trace."""
    shift = corrected_shifts_ns(run)
    return max((t.span_ps[1] // 1000 + shift[t.host] for t in run.hosts if len(t.trace)), default=0)
