# SPDX-License-Identifier: Apache-2.0
"""The events of one GPU: its kernels, and everything else that keeps a stream busy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.facts.compiler_runs import compiler_run_rows
from outpace.model.arrays import Codes, Indices, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.gpu_details import KernelDetails, parse_kernel_details
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import aggregate_by_key, distinct, find_positions, intersect_indices, union_rows

DEVICE_STATS = (
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
    """One GPU of one host.

    timeline: timeline of the host
    plane: plane of the device

    Its events are available as sorted event rows: `event_rows` are those of all streams. They
    consist of `autotuning_rows`, which ran for the compiler, and `program_rows`, which the program
    ran; `kernel_rows` are the kernels among the latter.
    """

    timeline: Timeline
    plane: Plane

    @property
    def trace(self) -> Trace:
        """Trace of the host."""
        return self.timeline.trace

    @property
    def place(self) -> dict[str, str]:
        """(device, host), by name."""
        return {"device": self.plane.name.removeprefix(dialect.DEVICE_PREFIX), "host": self.timeline.host}

    @once
    def event_rows(self) -> Indices:
        """All events of the device's streams, sorted rows.

        Lines that the profiler derived from others are left out, since their times would count
        twice.
        """
        return union_rows(*(self.trace.lines.row_numbers(i) for i in self.timeline.device_lines(self.plane)))

    @once
    def autotuning_rows(self) -> Indices:
        """Events that XLA ran while it compiled, sorted rows."""
        return np.asarray(self.event_rows[intersect_indices(self.event_rows, compiler_run_rows(self.timeline))[0]])

    @once
    def program_rows(self) -> Indices:
        """Events that the program itself ran, sorted rows."""
        return np.asarray(self.event_rows[find_positions(self.autotuning_rows, self.event_rows) < 0])

    @once
    def busy_rows(self) -> Indices:
        """Events that took time, those for the compiler included; rows in order of start."""
        rows = self.event_rows[self.trace.duration[self.event_rows] > 0]
        return rows[np.argsort(self.trace.start[rows], kind="stable")]

    @once
    def _kernels(self) -> tuple[Indices, Codes, list[str]]:
        """(rows of the kernels, index of each kernel's launch details, distinct texts of launch
        details).
        """
        stat = self.trace.stat(dialect.KERNEL_DETAILS)
        at, place = intersect_indices(self.program_rows, stat.rows)
        rows = self.program_rows[at]
        code, texts = stat.encode_texts(place)
        mask = np.fromiter((bool(t.strip()) for t in texts), bool, len(texts))[code] & (self.trace.duration[rows] > 0)
        return rows[mask], code[mask], texts

    @property
    def kernel_rows(self) -> Indices:
        """Rows of the kernels: events with kernel details that took time (as in
        `xplane_to_kernel_stats_db.cc`).
        """
        return self._kernels[0]

    @property
    def detail_index(self) -> Codes:
        """Index into `details`, one item per kernel."""
        return self._kernels[1]

    @once
    def details(self) -> tuple[KernelDetails, ...]:
        """The distinct launch details of the device's kernels."""
        return tuple(parse_kernel_details(text) for text in self._kernels[2])

    @property
    def is_amd(self) -> bool:
        """Whether AMD made the device.

        A profile without a vendor was recorded by CUPTI, and its device is NVIDIA's.
        """
        return str(self.plane.stats.get(dialect.DEVICE_VENDOR, "")).lower() == "amd"

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA compute capability; (0, 0) where it is not known, and for AMD, whose numbers have
        another meaning.
        """
        stats = self.plane.stats
        if self.is_amd:
            return 0, 0
        return parse_int(stats.get(dialect.COMPUTE_CAP_MAJOR)), parse_int(stats.get(dialect.COMPUTE_CAP_MINOR))

    @property
    def memory_bandwidth(self) -> int:
        """Bandwidth of the device's memory, bytes per second; 0 where it is not known."""
        return parse_int(self.plane.stats.get(dialect.MEMORY_BANDWIDTH))


@memoize
def find_devices(timeline: Timeline) -> tuple[Device, ...]:
    """Return the GPUs of a host that recorded a kernel or a copy."""
    if not timeline.device_planes:
        return ()
    timeline.trace.load_stats(DEVICE_STATS)
    every = (Device(timeline, plane) for plane in timeline.device_planes)
    copies = timeline.trace.stat(dialect.MEMCPY_DETAILS).rows
    return tuple(
        device for device in every if len(device.kernel_rows) or len(intersect_indices(device.program_rows, copies)[0])
    )


def sum_by_code(code: Codes, duration: Picoseconds) -> Iterator[tuple[int, int, int]]:
    """Yield (code, number of events, sum of their durations) for every code that occurs."""
    codes = distinct(code)
    count, total, *_ = aggregate_by_key(np.searchsorted(codes, code), len(codes), duration, duration)
    return zip(codes.tolist(), count.tolist(), total.tolist(), strict=True)


def parse_int(value: object) -> int:
    """Return a plane's stat as a whole number, 0 for anything that is no number.

    Profilers write numbers as text or as numbers.
    """
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0
