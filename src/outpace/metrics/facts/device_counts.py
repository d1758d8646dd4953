# SPDX-License-Identifier: Apache-2.0
"""How many devices a host recorded, and on how many its compiled programs run."""

from __future__ import annotations

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.timeline import Run
from outpace.trace import Plane, dialect

_DEVICE = compile_lazily(rf"{dialect.DEVICE_PREFIX}\w+:\d+")


@dataclass(frozen=True)
class DeviceCount:
    """The number of a host's devices.

    host: name of the host
    recorded_devices: devices in the host's profile, including idle ones
    assigned_devices: devices of all hosts on which its largest program runs; 0 where unknown
    """

    host: str
    recorded_devices: int
    assigned_devices: int


@memoize
def device_counts(run: Run) -> tuple[DeviceCount, ...]:
    """Return the device counts of each host.

    A run of very many hosts is handed the counts of all of them in advance (`outpace.hosts`).
    """
    return tuple(DeviceCount(t.host, sum(map(_is_device, t.trace.planes)), t.hlo_modules.device_count) for t in run.hosts)


def _is_device(plane: Plane) -> bool:
    """Whether a plane is a device itself, neither a part of one nor a library's own records."""
    return _DEVICE.fullmatch(plane.name) is not None
