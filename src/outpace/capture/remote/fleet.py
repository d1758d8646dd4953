# SPDX-License-Identifier: Apache-2.0
"""Captures many workers at once: every reachable worker gets the request at the same moment, and
the failure of one does not affect the others.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from outpace._dataclass import dataclass
from outpace.capture.messages import print_message
from outpace.capture.options import DEFAULT_LOGDIR
from outpace.capture.remote.addresses import Address, Addresses, read_addresses
from outpace.capture.remote.client import CONNECT_TIMEOUT_S, Failure, WorkerConnection
from outpace.capture.remote.options import RemoteOptions
from outpace.capture.remote.result import CaptureProgress, HostOutcome, RemoteResult
from outpace.capture.remote.shared_folder import SESSION, SharedFolder
from outpace.capture.remote.wire import DEFAULT_PORT, ProfileRequest
from outpace.model.errors import OutputError, UsageError
from outpace.store.record import CaptureRecord, write_record
from outpace.store.staging import Staging

__all__ = ["CaptureProgress", "HostOutcome", "RemoteResult", "capture_addresses", "capture_remote"]
RETRY_PAUSE_S = 1.0  # seconds before a second request
FOREIGN_SERVER_MESSAGE = (
    "the profiler server at {where} is TensorFlow's or JAX's own, and ends a capture on a thread of its own. Where it trains with JAX on an "
    "NVIDIA GPU, that can crash the training (JAX 0.11 with CUDA graphs, its default). 'outpace serve SCRIPT' ends it between two calls; "
    "XLA_FLAGS=--xla_gpu_enable_command_buffer= in the training's environment avoids it, too"
)
_MAX_NAMED = 3
POLL_S = 0.1  # seconds between two checks of the clock, for progress and Ctrl-C

T = TypeVar("T")
ProgressCallback = Callable[[CaptureProgress], object]


def capture_remote(
    addresses: str | Iterable[str],
    logdir: str | os.PathLike[str] = DEFAULT_LOGDIR,
    duration: float = 2.0,
    *,
    host_level: int = 2,
    python_level: int = 0,
    device_level: int = 1,
    retries: int = 3,
    delay: float = 0.0,
    timeout: float = 60.0,
    port: int = DEFAULT_PORT,
    run: str = "",
) -> RemoteResult:
    """Capture processes that run a profiler server (Outpace's, TensorFlow's or JAX's), all at once,
    into one run of a log directory.

    addresses: `HOST:PORT` each, or text with commas between. `ray://auto` stands for the workers of
        a Ray cluster.
    logdir: log directory, local or a URL.
    port: port of addresses without one.
    run: run of the Ray cluster, where it has several.

    `RemoteOptions` describes the other arguments; times are in seconds. A worker that fails is an
    outcome of the result, whose `error()` says what is missing.

    Raises UsageError for impossible arguments, NotFoundError where a cluster has no such workers,
    CaptureError when grpcio is missing, no cluster can be reached or the log directory is not
    writable, OutputError when the run cannot be uploaded.

    Example: `capture_remote("10.0.0.2:6009,10.0.0.3:6009", "logs", duration=2.0).run`.
    """
    options = RemoteOptions(duration, host_level, python_level, device_level, retries, delay, timeout)
    return capture_addresses(read_addresses(addresses, port, run), os.fspath(logdir), options)


def capture_addresses(
    addresses: Addresses, logdir: str, options: RemoteOptions, on_progress: ProgressCallback | None = None
) -> RemoteResult:
    """Capture as `capture_remote` does, for addresses and options that are parsed already.

    `on_progress` is called with the progress, about ten times a second.
    """
    problem = options.find_problem()
    if problem:
        raise UsageError(problem)
    with Staging(logdir) as staging:
        fleet = Fleet(addresses.addresses, options, staging, on_progress or (lambda progress: None))
        try:
            hosts = fleet.run()
        finally:
            fleet.close()
        return RemoteResult(staging.publish() if any(host.saved for host in hosts) else None, hosts)


@dataclass(eq=False)
class _Member:
    """State of a worker.

    worker: its connection.
    attempts: number of requests so far.
    requested_s: time of the last request, monotonic seconds.
    answer_s: time from the last request to the answer, seconds.
    outcome: final outcome; None while there is none.
    failure: failure of the last request.
    """

    worker: WorkerConnection
    attempts: int = 0
    requested_s: float = 0.0
    answer_s: float = 0.0
    outcome: HostOutcome | None = None
    failure: Failure | None = None


class Fleet:
    """One capture of several workers. `close` must be called, also after an interruption."""

    def __init__(
        self, addresses: tuple[Address, ...], options: RemoteOptions, staging: Staging, on_progress: ProgressCallback
    ) -> None:
        self.options = options
        self._staging = staging
        self._folder = SharedFolder(staging)
        self._members = [_Member(WorkerConnection(address)) for address in addresses]
        self._on_progress = on_progress
        self._attempt = 0
        self._asked_count = 0

    def run(self) -> tuple[HostOutcome, ...]:
        """Capture the workers, repeat failed requests where that may help, and return every
        worker's outcome.
        """
        self._wait("delay", self.options.delay)
        pending = list(self._members)
        for attempt in range(self.options.retries + 1):
            self._attempt, self._asked_count = attempt + 1, len(pending)
            if attempt:
                self._wait("pause", RETRY_PAUSE_S)
            self._send_requests(self._connect(pending))
            is_last = attempt == self.options.retries
            for member in pending:
                if member.failure is not None and (is_last or not member.failure.retryable):
                    self._finish(member)
            pending = [member for member in pending if member.outcome is None]
            if not pending:
                break
        return tuple(member.outcome for member in self._members if member.outcome is not None)

    def close(self) -> None:
        """Cancel running requests and disconnect."""
        for member in self._members:
            member.worker.close()
        self._folder.remove()

    def _connect(self, members: list[_Member]) -> list[_Member]:
        """Connect to all members and return those that are reached."""
        timeout = min(self.options.timeout, CONNECT_TIMEOUT_S)
        results: queue.SimpleQueue[tuple[_Member, Failure | None]] = queue.SimpleQueue()
        for member in members:
            member.attempts += 1
            member.answer_s = 0.0
            # valid until the connection has a result
            member.failure = Failure("the name of the host was not found in time")

            def connect(member: _Member = member) -> None:
                results.put((member, member.worker.connect(timeout)))

            threading.Thread(target=connect, name="outpace-connect", daemon=True).start()
        begin_s = time.monotonic()
        remaining = len(members)
        while remaining and time.monotonic() - begin_s < 2 * timeout + 2 * POLL_S:
            result = _next_item(results)
            if result is None:
                self._report_progress("connect", begin_s, timeout)
                continue
            member, member.failure = result
            remaining -= 1
        reached = [member for member in members if member.failure is None]
        foreign = [str(member.worker.address) for member in reached if not member.worker.is_outpace]
        if foreign and self._attempt == 1:
            print_message(
                FOREIGN_SERVER_MESSAGE.format(
                    where=", ".join(foreign[:_MAX_NAMED]) + (" and more" if len(foreign) > _MAX_NAMED else "")
                )
            )
        return reached

    def _send_requests(self, members: list[_Member]) -> None:
        """Send every request, then wait for the answers and save each as it arrives."""
        done: queue.SimpleQueue[_Member] = queue.SimpleQueue()
        self._asked_count = len(members)
        requests = [(member, self._build_request(member.worker.address)) for member in members]
        begin_s = time.monotonic()
        for member, request in requests:
            member.requested_s = time.monotonic()
            member.worker.request(request, self.options.duration + self.options.timeout, partial(done.put, member))
        remaining = len(requests)
        while remaining:
            self._report_progress("capture", begin_s, self.options.duration)
            ready = _next_item(done)
            if ready is not None:
                self._collect(ready)
                remaining -= 1

    def _build_request(self, address: Address) -> bytes:
        """Return the request to a worker, as bytes."""
        options = self.options
        return ProfileRequest(
            duration_ms=max(1, round(options.duration * 1e3)),
            host_level=options.host_level,
            python_level=options.python_level,
            device_level=options.device_level,
            root=self._folder.root,
            session=SESSION,
            host=address.file_stem,
        ).encode()

    def _collect(self, member: _Member) -> None:
        """Save the answer of a member, or store its failure."""
        answer = member.worker.receive()
        member.answer_s = time.monotonic() - member.requested_s
        if isinstance(answer, Failure):
            member.failure = answer
            return
        address = member.worker.address
        target = os.path.join(self._staging.run_folder(), f"{address.file_stem}.xplane.pb")
        size = self._save(answer.xspace, target) if answer.xspace is not None else self._folder.fetch(address, target)
        if size:
            self._save_record(answer.record, address.file_stem)
            self._finish(
                member, HostOutcome(str(address), address.file_stem, "", size, member.answer_s, member.attempts, answer.note)
            )
        else:
            member.failure = Failure(
                f"the worker wrote its profile to its own disk ({self._folder.path(address)} there), because its TensorFlow cannot "
                "send it; give --logdir on a file system that both see, or a gs:// URL"
            )

    def _save(self, xspace: memoryview | bytes, target: str) -> int:
        """Write a profile to the file `target` and return its size. Raises OutputError where that
        fails.
        """
        try:
            with open(target, "wb") as file:
                return file.write(xspace)
        except OSError as error:
            raise OutputError(f"The profile cannot be saved in {self._staging.logdir}: {error.strerror or error}.") from None

    def _save_record(self, data: memoryview | bytes, host: str) -> None:
        """Save the record that the worker's Outpace sent, where this version can read it."""
        with contextlib.suppress(ValueError):
            if data:
                write_record(self._staging.run_folder(), host, CaptureRecord.from_json(bytes(data).decode("utf-8")))

    def _finish(self, member: _Member, outcome: HostOutcome | None = None) -> None:
        """Store the outcome of a member, by default its failure, and disconnect."""
        address, failure = member.worker.address, member.failure
        if outcome is None and failure is not None:
            outcome = HostOutcome(str(address), address.file_stem, failure.reason, 0, member.answer_s, member.attempts)
        member.outcome = outcome
        member.worker.close()

    def _wait(self, phase: str, seconds: float) -> None:
        """Wait for `seconds` and report the progress."""
        begin_s = time.monotonic()
        while (remaining := begin_s + seconds - time.monotonic()) > 0:
            self._report_progress(phase, begin_s, seconds)
            time.sleep(min(POLL_S, remaining))

    def _report_progress(self, phase: str, begin_s: float, expected: float) -> None:
        """Report the progress of a phase that began at `begin_s` (monotonic) and takes `expected`
        seconds.
        """
        outcomes = tuple(member.outcome for member in self._members if member.outcome is not None)
        elapsed = time.monotonic() - begin_s
        self._on_progress(
            CaptureProgress(phase, elapsed, expected, self._attempt, self._asked_count, outcomes, len(self._members))
        )


def _next_item(items: queue.SimpleQueue[T]) -> T | None:
    """Return the next item; None when there is none within `POLL_S`, because a wait without an end
    could not be interrupted.
    """
    try:
        return items.get(timeout=POLL_S)
    except queue.Empty:
        return None
