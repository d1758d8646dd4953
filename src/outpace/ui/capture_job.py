# SPDX-License-Identifier: Apache-2.0
"""Captures that a user starts from the workbench: one at a time, saved in the first of the
workbench's folders, and only as long as a page polls for the progress.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from outpace.capture.remote.addresses import Addresses, read_addresses
from outpace.capture.remote.options import RemoteOptions, parse_seconds
from outpace.capture.remote.result import CaptureProgress, HostOutcome, format_progress
from outpace.model import OutpaceError, UsageError
from outpace.model.files import parse_json
from outpace.model.text import clean_prose
from outpace.model.units import Unit, humanize

_POLL_TIMEOUT = 10.0  # seconds without a poll from a page after which a capture is stopped
_LEVELS = ("host_level", "device_level", "python_level")


class _Stopped(Exception):
    """Raised inside a capture to end it when no page waits for it any more."""


class CaptureJob:
    """The workbench's current or last capture of running processes; `logdir` is the log directory
    for its run.
    """

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop, self._last_poll = threading.Event(), 0.0
        self._state: dict[str, Any] = {"state": "none"}

    def begin(self, body: bytes) -> None:
        """Start the capture that a page requests; `body` is its JSON object of addresses and
        options.

        Raises UsageError where the request is not valid or another capture is running.
        """
        addresses, options = _parse_request(body)
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise UsageError("A capture runs already: wait for it, or stop it.")
            self._stop.clear()
            self._last_poll = time.monotonic()
            hosts = [{"address": str(address), "state": "waiting"} for address in addresses.addresses]
            self._state = {"state": "running", "text": "connecting", "hosts": hosts}
            self._thread = threading.Thread(target=self._run, args=(addresses, options), daemon=True)
            self._thread.start()

    def poll(self) -> Mapping[str, Any]:
        """Return the progress: `state` (none, running, done, failed, stopped), `text`, `hosts`,
        and `folder` of the saved run.
        """
        self._last_poll = time.monotonic()
        return self._state

    def stop(self) -> None:
        """Stop the running capture and discard its data; returns once it has ended, or
        after 30 s.
        """
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(30)

    def _run(self, addresses: Addresses, options: RemoteOptions) -> None:
        """Thread of the capture: run it, and store its progress and result in the state."""
        from outpace.capture.remote.fleet import capture_addresses

        def watch(progress: CaptureProgress) -> None:
            if self._stop.is_set() or time.monotonic() - self._last_poll > _POLL_TIMEOUT:
                raise _Stopped
            hosts = _hosts(addresses, progress.outcomes)
            self._state = {"state": "running", "text": format_progress(progress, options.duration, live=True), "hosts": hosts}

        try:
            result = capture_addresses(addresses, self._logdir, options, watch)
        except _Stopped:
            self._state = {"state": "stopped", "text": "The capture was stopped; nothing of it is kept.", "hosts": []}
        except Exception as error:  # errors of gRPC or of a store, too: the page must not show a running capture
            message = str(error) if isinstance(error, OutpaceError) else f"{type(error).__name__}: {error}"
            self._state = {"state": "failed", "text": clean_prose(message), "hosts": self._state["hosts"]}
        else:
            missing = result.error(reasons=False)
            text = clean_prose(str(missing)) if missing else "All profiles were saved."
            state = "failed" if result.run is None else "done"
            self._state = {"state": state, "text": text, "hosts": _hosts(addresses, result.hosts), "folder": result.run}


def _parse_request(body: bytes) -> tuple[Addresses, RemoteOptions]:
    """Return the addresses and options of a page's request. Raises UsageError where it is not
    valid.
    """
    try:
        fields = parse_json(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise UsageError("What to capture must be texts in a JSON object.")
    addresses = fields.get("addresses", "").replace("\n", ",")
    if "@" in addresses:
        raise UsageError("Give addresses as HOST:PORT; a file of them is for 'outpace capture'.")
    defaults = RemoteOptions()
    try:
        numbers = {name: int(fields.get(name) or getattr(defaults, name)) for name in (*_LEVELS, "retries")}
    except ValueError:
        raise UsageError("Levels and retries must be whole numbers.") from None
    options = replace(
        defaults,
        duration=parse_seconds(fields.get("duration") or "2s"),
        delay=parse_seconds(fields.get("delay") or "0s"),
        **numbers,
    )
    problem = options.find_problem()
    if problem:
        raise UsageError(problem)
    return read_addresses([part for part in addresses.split(",") if part.strip()]), options


def _hosts(addresses: Addresses, outcomes: tuple[HostOutcome, ...]) -> list[dict[str, str]]:
    """Return one row per worker, in the order of the requested addresses."""
    by_address = {outcome.address: outcome for outcome in outcomes}
    return [_host(str(address), by_address.get(str(address))) for address in addresses.addresses]


def _host(address: str, outcome: HostOutcome | None) -> dict[str, str]:
    """Return the row of a worker; `outcome` is None while it is running."""
    if outcome is None:
        return {"address": address, "state": "waiting"}
    took = f"{humanize(outcome.bytes, Unit.BYTES)} in {outcome.seconds:.1f} s" if outcome.saved else ""
    text = "; ".join(filter(None, (took, outcome.remark)))
    return {"address": address, "state": outcome.state, "text": clean_prose(text)}
