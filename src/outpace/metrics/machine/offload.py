"""Arrays that a compiled program keeps in the host's memory: it copies them to the device and back inside of each step."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.model.hlo_lines import Ran, ran_ops
from outpace.timeline import Run
from outpace.timeline.hlo_meaning import TO_DEVICE, TO_HOST


@dataclass(frozen=True)
class Offload:
    """Per step: bytes that are `fetched` from the host's memory and `written` back, and the shares of the step in which the device awaits
    either. `arrays`: how many are fetched; `source`: the line that asks for most."""

    host: str
    fetched: float
    written: float
    fetching: float
    writing: float
    arrays: float
    source: str


@derived
def offloads(run: Run) -> tuple[Offload, ...]:
    """Of each host whose programs copy between memory spaces."""
    found = ((host, [r for r in ran if r.op.moved]) for host, ran in ran_ops(run).items())
    return tuple(_offload(host, copies) for host, copies in found if any(r.op.transfer in (TO_DEVICE, TO_HOST) for r in copies))


def _offload(host: str, copies: list[Ran]) -> Offload:
    to, back = ([r for r in copies if r.op.transfer == direction] for direction in (TO_DEVICE, TO_HOST))
    fetched, written = (sum(r.op.moved * r.count / r.steps for r in part) for part in (to, back))
    fetching, writing = (min(1.0, sum(r.share for r in part)) for part in (to, back))
    source = max((r for r in copies if r.op.source), key=lambda r: r.time, default=None)
    return Offload(
        host, fetched, written, fetching, writing, sum(r.count / r.steps for r in to), source.op.source if source else ""
    )
