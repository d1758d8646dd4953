"""Arrays that a compiled program keeps in the host's memory: it copies them to the device and back
inside of each step.
"""

from __future__ import annotations

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.hlo_instructions import InstructionStats, instruction_stats
from outpace.timeline import Run
from outpace.timeline.hlo_analysis import DEVICE_TO_HOST, HOST_TO_DEVICE


@dataclass(frozen=True)
class HostOffload:
    """Per step: bytes that are `fetched_bytes` from the host's memory and `written_bytes` back, and
    the shares of the step in which the device awaits either. `fetched_arrays`: how many are
    fetched; `source`: the line that asks for most.
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
    """Of each host whose programs copy between memory spaces."""
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
