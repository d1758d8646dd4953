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
    copies_by_host = ((host, [copy for copy in ran if copy.op.copied_bytes]) for host, ran in instruction_stats(run).items())
    return tuple(
        _offload(host, copies)
        for host, copies in copies_by_host
        if any(copy.op.transfer in (HOST_TO_DEVICE, DEVICE_TO_HOST) for copy in copies)
    )


def _offload(host: str, copies: list[InstructionStats]) -> HostOffload:
    to, back = ([copy for copy in copies if copy.op.transfer == direction] for direction in (HOST_TO_DEVICE, DEVICE_TO_HOST))
    fetched, written = (sum(copy.op.copied_bytes * copy.count / copy.device_steps for copy in part) for part in (to, back))
    fetching, writing = (min(1.0, sum(copy.share for copy in part)) for part in (to, back))
    source = max((copy for copy in copies if copy.op.source), key=lambda copy: copy.time_ps, default=None)
    return HostOffload(
        host,
        fetched,
        written,
        fetching,
        writing,
        sum(copy.count / copy.device_steps for copy in to),
        source.op.source if source else "",
    )
