# SPDX-License-Identifier: Apache-2.0
"""Selection of what a trace file contains: a time window, steps, tracks, and the amount of
arguments of each event.
"""

from __future__ import annotations

import re
from enum import Enum

import numpy as np

from outpace._dataclass import dataclass
from outpace.model import UsageError
from outpace.model.arrays import Mask
from outpace.timeline import Timeline
from outpace.timeline.run_part import StepRange, parse_step_range
from outpace.trace import parse_window

_BOOKKEEPING = {"_pt", "_p", "_ct", "_c", "_a", "_r", "producer_type", "producer_id", "consumer_type", "consumer_id"}


class Arguments(str, Enum):
    """Choice of the stats of an event that are written as its arguments."""

    ALL = "all"
    USEFUL = "useful"
    NONE = "none"

    def stat_mask(self, stat_names: tuple[str, ...]) -> Mask | None:
        """Return a mask of the stats to write; None where none is written. "useful" leaves out the
        ids by which the profiler links events.
        """
        if self is Arguments.NONE:
            return None
        left_out = _BOOKKEEPING if self is Arguments.USEFUL else set()
        return np.fromiter((name not in left_out for name in stat_names), bool, len(stat_names))


@dataclass(frozen=True)
class Selection:
    """Part of a run to export.

    window_ps: [begin, end) in ps from the beginning of the trace; None for an open end
    steps: first and last step number
    track: pattern for tracks, see `includes_track`
    arguments: choice of the stats to write
    """

    window_ps: tuple[int | None, int | None] | None = None
    steps: StepRange | None = None
    track: re.Pattern[str] | None = None
    arguments: Arguments = Arguments.ALL

    def includes_track(self, section: str, track: str) -> bool:
        """Whether the pattern matches anywhere in "section/track"; always true
        without a pattern.
        """
        return self.track is None or self.track.search(f"{section}/{track}") is not None

    def span(self, timeline: Timeline, shift_ps: int) -> tuple[int, int] | None:
        """Return the selected time of one host as (begin, end) in ps of the host's own clock; None
        for all of it. `shift_ps` is the offset by which the host's times are moved.

        Raises UsageError where the host has none of the steps.
        """
        low, high = -(1 << 62), 1 << 62
        if self.steps is not None:
            low, high = _steps_span(timeline, *self.steps)
        elif self.window_ps is not None:
            begin, end = self.window_ps
            low = low if begin is None else begin - shift_ps
            high = high if end is None else end - shift_ps
        else:
            return None
        return low, high


def _steps_span(timeline: Timeline, first: int | None, last: int | None) -> tuple[int, int]:
    steps = timeline.steps
    mask = steps.number_mask(first, last)
    if not mask.any():
        raise UsageError(
            f"The selected steps are not in the profile: {timeline.host} has {steps.range_text}. Select others with --steps."
        )
    return int(steps.start[mask].min()), int(steps.end[mask].max())


def parse_selection(
    window: str | None, steps: str | None, track: str | None, arguments: Arguments = Arguments.ALL
) -> Selection:
    """Return the selection that corresponds to the user's options. Raises UsageError for invalid
    values.
    """
    if window is not None and steps is not None:
        raise UsageError("--window and --steps both choose the time to write: give one of them.")
    try:
        pattern = None if track is None else re.compile(track)
    except re.error as error:
        raise UsageError(f"--track {track!r} is no regular expression: {error}.") from error
    time = None if window is None else parse_window(window)
    chosen = None if steps is None else parse_step_range(steps, "--steps")
    return Selection(None if time is None else (time.begin, time.end), chosen, pattern, arguments)
