# SPDX-License-Identifier: Apache-2.0
"""Options of `capture_remote`."""

from __future__ import annotations

import re

from outpace._dataclass import dataclass
from outpace.model.errors import UsageError

_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|min|h)?", re.ASCII)
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LEVELS = (("host_level", 3), ("python_level", 1), ("device_level", 1))


@dataclass(frozen=True)
class RemoteOptions:
    """Options of a remote capture.

    duration: seconds that every worker records.
    host_level, python_level, device_level: tracer levels of the profiler, as in
        `tf.profiler.experimental.ProfilerOptions`.
    retries: number of further requests to a worker that could not be reached, was busy with another
        capture, or recorded no event.
    delay: seconds before the first request.
    timeout: seconds that a worker may take, beyond the duration, to send its profile; also the time
        to accept a connection, there 10 at most.
    """

    duration: float = 2.0
    host_level: int = 2
    python_level: int = 0
    device_level: int = 1
    retries: int = 3
    delay: float = 0.0
    timeout: float = 60.0

    def find_problem(self) -> str | None:
        """Return a sentence on what makes these options impossible, or None."""
        if not 0.001 <= self.duration <= 3600:
            return f"{self.duration:g} seconds cannot be captured: give from 1 ms to 1 h."
        if not 0 <= self.delay < 86400:
            return f"A delay of {self.delay:g} seconds is not possible: give 0 or more, and less than a day."
        if not 0 < self.timeout < 86400:
            return f"A timeout of {self.timeout:g} seconds is not possible: give more than 0, and less than a day."
        if not 0 <= self.retries <= 1000:
            return f"{self.retries} retries are not possible: give 0 to 1000."
        wrong = next(((name, limit) for name, limit in _LEVELS if not 0 <= getattr(self, name) <= limit), None)
        return f"{wrong[0]} must be from 0 to {wrong[1]}." if wrong else None


def parse_seconds(text: str) -> float:
    """Return a time such as `2s`, `500ms`, `1.5m` or `2` (seconds) in seconds. Raises UsageError
    for anything else.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no time. Write it like 2s, 500ms or 1m.")
    return float(match[1]) * _UNITS[match[2] or "s"]
