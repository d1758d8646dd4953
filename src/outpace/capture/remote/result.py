# SPDX-License-Identifier: Apache-2.0
"""Result of a remote capture, worker by worker, and the progress of a running one."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError, PartialCaptureError
from outpace.model.units import format_count

# usual time in seconds for profiles to arrive; printed lines that cannot be updated say nothing
# before
_USUAL_TRANSFER_S = 2.0


@dataclass(frozen=True)
class HostOutcome:
    """Outcome of one worker.

    address: address of its profiler server.
    host: name of its profile in the run.
    reason: why there is no profile, as the end of a sentence; "" where it was saved.
    bytes: size of the profile.
    seconds: time from the last request to its answer.
    attempts: number of requests.
    note: remark of the worker.
    """

    address: str
    host: str
    reason: str = ""
    bytes: int = 0
    seconds: float = 0.0
    attempts: int = 1
    note: str = ""

    @property
    def saved(self) -> bool:
        """Whether the profile is part of the run."""
        return not self.reason

    @property
    def state(self) -> str:
        """`saved` or `missing`."""
        return "saved" if self.saved else "missing"

    @property
    def remark(self) -> str:
        """Why the profile is missing; of a saved one the number of attempts and the worker's
        remark.
        """
        attempt = f"at attempt {self.attempts}" if self.attempts > 1 else ""
        return "; ".join(filter(None, (attempt, self.note))) if self.saved else self.reason


@dataclass(frozen=True)
class RemoteResult:
    """Result of a remote capture.

    run: saved run (path or URL); None when no worker gave a profile.
    hosts: outcome of every worker, in the order of the addresses.
    """

    run: str | None
    hosts: tuple[HostOutcome, ...]

    def error(self, reasons: bool = True) -> CaptureError | None:
        """Return the error that says which profiles are missing; None when every profile was saved.

        `reasons=False` leaves out why they are missing.
        """
        missing = [host for host in self.hosts if not host.saved]
        if not missing:
            return None
        reason_text = "".join(f" {host.address}: {host.reason}." for host in missing) if reasons else ""
        if self.run is None:
            return CaptureError(f"No profile was captured.{reason_text}")
        summary = f"{len(missing)} of {format_count(len(self.hosts), 'worker')} {'is' if len(missing) == 1 else 'are'} missing"
        return PartialCaptureError(f"{summary} from {self.run}.{reason_text}")


@dataclass(frozen=True)
class CaptureProgress:
    """Progress of a remote capture.

    phase: `delay`, `connect`, `capture` or `pause`.
    elapsed: seconds since the phase began.
    expected: expected duration of the phase, seconds.
    attempt: number of the current attempt.
    asked: number of workers in this attempt.
    outcomes: outcomes of the workers that have finished.
    total: number of workers.
    """

    phase: str
    elapsed: float
    expected: float
    attempt: int
    asked: int
    outcomes: tuple[HostOutcome, ...]
    total: int


def format_progress(progress: CaptureProgress, duration: float, live: bool) -> str:
    """Return the progress in words; `live` adds the remaining seconds."""
    finished = len(progress.outcomes)
    count = f"{format_count(progress.total, 'worker')}"
    remaining = f", {max(0.0, progress.expected - progress.elapsed):.0f} s left" if live else ""
    if progress.phase == "delay":
        return f"waiting {progress.expected:g} s before the capture{remaining}"
    if progress.phase == "pause":
        return f"asking again those that gave no profile: attempt {progress.attempt}"
    if progress.phase == "connect":
        return f"connecting to {count}"
    if progress.asked < progress.total:
        count = f"{progress.asked} of {count}"
    if progress.elapsed <= progress.expected + (0.0 if live else _USUAL_TRANSFER_S):
        return f"capturing {duration:g} s on {count}{remaining}"
    return f"waiting for profiles; {finished} of {format_count(progress.total, 'worker')} through"
