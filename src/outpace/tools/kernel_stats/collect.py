"""The work of one GPU, row by row: kernels, and everything that keeps a stream busy."""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived, once
from outpace.metrics.model.compiler_work import compiler_work
from outpace.model.arrays import Codes, Indices
from outpace.timeline import Timeline
from outpace.timeline.gpu_details import KernelDetails, parse_kernel
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import any_of, common, placed

STATS = (
    dialect.KERNEL_DETAILS,
    dialect.MEMCPY_DETAILS,
    dialect.MEMSET_DETAILS,
    dialect.MEMALLOC_DETAILS,
    dialect.EQUATION,
    dialect.CORRELATION_ID,
    dialect.TF_OP,
    dialect.ANNOTATION,
    dialect.HLO_OP,
    dialect.NAME,
)


@dataclass(frozen=True, eq=False)
class Device:
    """One GPU of one host. `every`: event rows of its own streams, sorted; `tuning`: those of them that it did for the compiler, and `rows` the
    others, which are the program's; `kernels`: those of these that are kernels."""

    timeline: Timeline
    plane: Plane

    @property
    def trace(self) -> Trace:
        """The host's trace."""
        return self.timeline.trace

    @property
    def place(self) -> tuple[str, str]:
        """(device, host)."""
        return self.plane.name.removeprefix(dialect.DEVICES), self.timeline.host

    @once
    def every(self) -> Indices:
        """All events of the streams; lines that the profiler derived are left out (their times would count twice)."""
        return any_of(*(self.trace.lines.every_row(i) for i in self.timeline.device_lines(self.plane)))

    @once
    def tuning(self) -> Indices:
        """Events of what XLA ran while it compiled."""
        return np.asarray(self.every[common(self.every, compiler_work(self.timeline))[0]])

    @once
    def rows(self) -> Indices:
        """Events of the program's own."""
        return np.asarray(self.every[placed(self.tuning, self.every) < 0])

    @once
    def busy_rows(self) -> Indices:
        """Events that took time, the compiler's among them, in order of their start."""
        rows = self.every[self.trace.duration[self.every] > 0]
        return rows[np.argsort(self.trace.start[rows], kind="stable")]

    @once
    def _found(self) -> tuple[Indices, Codes, list[str]]:
        """Rows that say how they were launched and took time, and the code and distinct texts of that."""
        stat = self.trace.stat(dialect.KERNEL_DETAILS)
        at, place = common(self.rows, stat.row)
        rows = self.rows[at]
        code, texts = stat.codes(place)
        said = np.fromiter((bool(t.strip()) for t in texts), bool, len(texts))[code] & (self.trace.duration[rows] > 0)
        return rows[said], code[said], texts

    @property
    def kernels(self) -> Indices:
        """Rows of the kernels: events with kernel details that took time (as in `xplane_to_kernel_stats_db.cc`)."""
        return self._found[0]

    @property
    def detail(self) -> Codes:
        """Index into `details` of every kernel."""
        return self._found[1]

    @once
    def details(self) -> tuple[KernelDetails, ...]:
        """The distinct ways in which kernels were launched."""
        return tuple(parse_kernel(text) for text in self._found[2])

    @property
    def amd(self) -> bool:
        """Whether AMD made the device; a profile that does not say is one of CUPTI, NVIDIA's."""
        return str(self.plane.stats.get(dialect.DEVICE_VENDOR, "")).lower() == "amd"

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA compute capability; (0, 0) where it is not known, and for AMD, whose numbers mean something else."""
        stats = self.plane.stats
        if self.amd:
            return 0, 0
        return whole(stats.get(dialect.COMPUTE_CAP_MAJOR)), whole(stats.get(dialect.COMPUTE_CAP_MINOR))

    @property
    def memory_bandwidth(self) -> int:
        """Of the device's memory, bytes per second; 0 where it is not known."""
        return whole(self.plane.stats.get(dialect.MEMORY_BANDWIDTH))


@derived
def devices(timeline: Timeline) -> tuple[Device, ...]:
    """The GPUs of a host that recorded a kernel, or a copy."""
    if not timeline.device_planes:
        return ()
    timeline.trace.load(STATS)
    every = (Device(timeline, plane) for plane in timeline.device_planes)
    copies = timeline.trace.stat(dialect.MEMCPY_DETAILS).row
    return tuple(device for device in every if len(device.kernels) or len(common(device.rows, copies)[0]))


def whole(value: object) -> int:
    """A plane's stat as a whole number; profilers write numbers as text or as numbers. 0 for anything else."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0
