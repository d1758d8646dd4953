"""What of a timeline is in sight when the viewer opens: one step, never the whole capture."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.metrics.cluster.clock_offsets import corrected_shifts_ns
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.model import UsageError
from outpace.timeline import Run
from outpace.viewer.selection import Selection

_MARGIN = 0.02  # of what is in sight, so that its ends are seen


@dataclass(frozen=True)
class ViewRange:
    """A stretch of time, in ns from the trace's beginning; `step` is its number, None for the whole
    capture; `title` says what it is.
    """

    begin_ns: int
    end_ns: int
    step: int | None
    title: str


def find_step_view(run: Run, step: int | None = None, host: str | None = None) -> ViewRange:
    """Where a step stands, by default the first of the steady ones; all of the capture where there
    is none.

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
    begin, end = (int(at[row]) // 1000 + shift[timeline.host] for at in (steps.start, steps.end))
    room, number = int((end - begin) * _MARGIN), int(steps.number[row])
    return ViewRange(max(0, begin - room), end + room, number, f"step {number} of {timeline.host}")


def find_selection_view(run: Run, selection: Selection) -> ViewRange:
    """What is in sight of a part of a run: the stretch or the steps that were selected, else what
    `find_step_view` says.
    """
    if selection.window_ps is not None:
        begin, end = selection.window_ps
        return ViewRange((begin or 0) // 1000, _end(run) if end is None else end // 1000, None, "the selected time")
    if selection.steps is not None:
        shift = corrected_shifts_ns(run)
        spans = [(selection.span(t, shift[t.host] * 1000), shift[t.host]) for t in run.hosts]
        known = [(span[0] // 1000 + moved, span[1] // 1000 + moved) for span, moved in spans if span is not None]
        return ViewRange(min(begin for begin, _ in known), max(end for _, end in known), None, "the selected steps")
    return find_step_view(run)


def _end(run: Run) -> int:
    """Where the last event of a run ends, ns from its beginning."""
    shift = corrected_shifts_ns(run)
    return max((t.span_ps[1] // 1000 + shift[t.host] for t in run.hosts if len(t.trace)), default=0)
