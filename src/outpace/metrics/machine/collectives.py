"""Collective operations by their names: those in which workers, or the devices of one, exchange what they computed."""

from __future__ import annotations

import re

from outpace._once import derived
from outpace.timeline import Timeline

_PREFIXES = (
    "Collective",
    "Nccl",
    "nccl",
    "rccl",
    "all-reduce",
    "all-gather",
    "all-to-all",
    "reduce-scatter",
    "AllReduce",
    "AllGather",
)


@derived
def collective_names(timeline: Timeline) -> dict[str, list[int]]:
    """Rows of `trace.names` that are collectives, by type: ops of the host, or ops and kernels of its devices."""
    kinds: dict[str, list[int]] = {}
    for at, op in enumerate(timeline.ops):
        name = op.type or (op.name if timeline.device_planes else "")
        if name.startswith(_PREFIXES):
            kinds.setdefault(re.split(r"[.(<]", name)[0], []).append(at)
    return kinds
