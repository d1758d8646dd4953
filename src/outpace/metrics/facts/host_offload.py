# SPDX-License-Identifier: Apache-2.0
"""Arrays that a compiled program stores in the host's memory, and copies to the device and back in
each step.
"""

from __future__ import annotations

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.hlo_instructions import InstructionStats, instruction_stats
from outpace.timeline import Run
from outpace.timeline.hlo.transfers import DEVICE_TO_HOST, HOST_TO_DEVICE


@dataclass(frozen=True)
class HostOffload:
    """Copies between the memories of host and device inside a compiled program.

    host: name of the host
    fetched_bytes: bytes per step from the host's memory to the device
    written_bytes: bytes per step from the device to the host's memory
    fetch_share: share of the step in which the device waits for fetches
    write_share: share of the step in which the device waits for writes
    fetched_arrays: arrays fetched per step
    source: source line of the longest copies; "" where unknown
    """

    host: str
    fetched_bytes: float
    written_bytes: float
    fetch_share: float
    write_share: float
    fetched_arrays: float
    source: str


@memoize
def host_offloads(run: Run) -> tuple[HostOffload, ...]:
    """Return the offloading of each host whose programs copy between the memories of host and
    device.
    """
    found = ((host, [r for r in ran if r.op.copied_bytes]) for host, ran in instruction_stats(run).items())
    return tuple(
        _offload(host, copies)
        for host, copies in found
        if any(r.op.transfer in (HOST_TO_DEVICE, DEVICE_TO_HOST) for r in copies)
    )


def _offload(host: str, copies: list[InstructionStats]) -> HostOffload:
    to, back = ([r for r in copies if r.op.transfer == direction] for direction in (HOST_TO_DEVICE, DEVICE_TO_HOST))
    fetched, written = (sum(r.op.copied_bytes * r.count / r.device_steps for r in part) for part in (to, back))
    fetching, writing = (min(1.0, sum(r.share for r in part)) for part in (to, back))
    source = max((r for r in copies if r.op.source), key=lambda r: r.time_ps, default=None)
    return HostOffload(
        host, fetched, written, fetching, writing, sum(r.count / r.device_steps for r in to), source.op.source if source else ""
    )
