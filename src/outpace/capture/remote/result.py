"""What came of a remote capture, worker by worker, and how far one that runs has come."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError, PartialCaptureError
from outpace.model.units import format_count

_USUAL = 2.0  # seconds that profiles take to arrive; where lines stay, nothing is said before


@dataclass(frozen=True)
class HostOutcome:
    """One worker: its profile's size in bytes, or the `reason` why there is none, as the end of a
    sentence.

    `host` is the name of its profile in the run, `seconds` the time from the last request to its
    answer, `note` a remark of the worker.
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
        """Whether so, in a word."""
        return "saved" if self.saved else "missing"

    @property
    def remark(self) -> str:
        """What else is to be said of it: why it is missing; how often it was asked, and what it
        said itself.
        """
        again = f"at attempt {self.attempts}" if self.attempts > 1 else ""
        return "; ".join(filter(None, (again, self.note))) if self.saved else self.reason


@dataclass(frozen=True)
class RemoteResult:
    """The run that was saved (path or URL; None when no worker gave a profile) and every worker's
    outcome, in the order asked.
    """

    run: str | None
    hosts: tuple[HostOutcome, ...]

    def error(self, reasons: bool = True) -> CaptureError | None:
        """The error that says what is missing, and why unless `reasons` were told already; None
        when every profile was saved.
        """
        missing = [host for host in self.hosts if not host.saved]
        if not missing:
            return None
        why = "".join(f" {host.address}: {host.reason}." for host in missing) if reasons else ""
        if self.run is None:
            return CaptureError(f"No profile was captured.{why}")
        which = f"{len(missing)} of {format_count(len(self.hosts), 'worker')} {'is' if len(missing) == 1 else 'are'} missing"
        return PartialCaptureError(f"{which} from {self.run}.{why}")


@dataclass(frozen=True)
class CaptureProgress:
    """How far a capture is: what it does now, since when and for how long presumably (seconds), and
    which workers are through.
    """

    phase: str  # "delay", "connect", "capture" or "pause"
    elapsed: float
    expected: float
    attempt: int
    asked: int
    outcomes: tuple[HostOutcome, ...]
    total: int


def format_progress(progress: CaptureProgress, duration: float, live: bool) -> str:
    """The progress in words; a `live` one counts seconds."""
    through = len(progress.outcomes)
    count = f"{format_count(progress.total, 'worker')}"
    left = f", {max(0.0, progress.expected - progress.elapsed):.0f} s left" if live else ""
    if progress.phase == "delay":
        return f"waiting {progress.expected:g} s before the capture{left}"
    if progress.phase == "pause":
        return f"asking again those that gave no profile: attempt {progress.attempt}"
    if progress.phase == "connect":
        return f"connecting to {count}"
    if progress.asked < progress.total:
        count = f"{progress.asked} of {count}"
    if progress.elapsed <= progress.expected + (0.0 if live else _USUAL):
        return f"capturing {duration:g} s on {count}{left}"
    return f"waiting for profiles; {through} of {format_count(progress.total, 'worker')} through"
