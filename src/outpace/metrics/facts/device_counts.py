"""How many devices a host recorded, and how many the programs that ran there run on."""

from __future__ import annotations

import re

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.timeline import Run
from outpace.trace import Plane, dialect

_DEVICE = re.compile(rf"{dialect.DEVICE_PREFIX}\w+:\d+")


@dataclass(frozen=True)
class DeviceCount:
    """recorded: devices that the host's profile holds, idle ones too; assigned: those, of all
    hosts, that its largest program runs on, 0 where none says.
    """

    host: str
    recorded_devices: int
    assigned_devices: int


@memoize
def device_counts(run: Run) -> tuple[DeviceCount, ...]:
    """One for each host; of a run of very many hosts, those of all of them are given to it
    (`outpace.hosts`).
    """
    return tuple(DeviceCount(t.host, sum(map(_is_device, t.trace.planes)), t.hlo_modules.device_count) for t in run.hosts)


def _is_device(plane: Plane) -> bool:
    """A device itself, not a part of one, or what a library records of its own."""
    return _DEVICE.fullmatch(plane.name) is not None
