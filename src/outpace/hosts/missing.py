# SPDX-License-Identifier: Apache-2.0
"""Detection of hosts that are missing from a run, from the names of the others and from the device
counts of the programs.
"""

from __future__ import annotations

from collections.abc import Sequence

from outpace._lazy import compile_lazily
from outpace.metrics.facts.device_counts import device_counts
from outpace.model.units import format_count
from outpace.timeline import Run

_FEWEST = 3  # minimum number of hosts whose names count as a numbering
# maximum share of a range that may be missing: names with larger gaps (ports, addresses) do not
# number hosts
_MOST_MISSING = 0.25
_MOST_NAMES = 5
_NUMBER = compile_lazily(r"\d+")


def find_missing_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the names between the first and the last number that none of the hosts has; empty
    where the names do not number hosts.

    Names number hosts where they are equal except for one number (`node01` to `node30`,
    `job-3-worker-0`). Hosts beyond the last one cannot be detected.
    """
    if len(hosts) < _FEWEST:
        return ()
    split = [_NUMBER.split(host) for host in hosts]
    numbers = [_NUMBER.findall(host) for host in hosts]
    if any(parts != split[0] for parts in split) or not numbers[0]:
        return ()
    varying = [at for at in range(len(numbers[0])) if len({int(host_numbers[at]) for host_numbers in numbers}) > 1]
    if len(varying) != 1:
        return ()
    at, text = varying[0], [host_numbers[varying[0]] for host_numbers in numbers]
    present = {int(number) for number in text}
    count = max(present) - min(present) + 1
    if count - len(present) > _MOST_MISSING * count:
        return ()
    width = max(map(len, text)) if any(number.startswith("0") and len(number) > 1 for number in text) else 1
    gone = (number for number in range(min(present), max(present)) if number not in present)
    return tuple(_format_name(split[0], numbers[0], at, f"{number:0{width}d}") for number in gone)


def _format_name(parts: Sequence[str], numbers: Sequence[str], at: int, number: str) -> str:
    texts = [*numbers[:at], number, *numbers[at + 1 :], ""]
    return "".join(part + text for part, text in zip(parts, texts, strict=True))


def missing_host_warnings(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return a warning that names the missing hosts; empty where none is missing."""
    gone = find_missing_hosts(hosts)
    if not gone:
        return ()
    more = f" and {format_count(len(gone) - _MOST_NAMES, 'other')}" if len(gone) > _MOST_NAMES else ""
    verb = "is" if len(gone) == 1 else "are"
    return (
        f"{', '.join(gone[:_MOST_NAMES])}{more} {verb} missing: the others are numbered, and no profile of that number is here. "
        "Look whether the capture reached that host.",
    )


def missing_device_warnings(run: Run) -> tuple[str, ...]:
    """Return a warning where a program runs on more devices than all hosts of the run recorded;
    empty where no program, or no device, gives the number.

    Names of hosts do not show hosts that are missing at the end; the program does, because it was
    compiled for all of them.
    """
    counts = device_counts(run)
    recorded, assigned = (
        sum(count.recorded_devices for count in counts),
        max((count.assigned_devices for count in counts), default=0),
    )
    if not recorded or assigned <= recorded:
        return ()
    hosts = format_count(len(counts), "host")
    return (
        f"A program runs on {assigned} devices, of which {hosts} of this run recorded {recorded}: the profiles of other hosts are missing, "
        "or the profiler was told to leave devices out.",
    )
