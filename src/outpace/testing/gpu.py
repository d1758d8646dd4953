# SPDX-License-Identifier: Apache-2.0
"""GPU of a synthetic profile: kernels, copies and their launches, in the format of one of the
profilers in use.
"""

from __future__ import annotations

from enum import Enum

from outpace._dataclass import dataclass
from outpace.model.space_builder import LineBuilder, SpaceBuilder, StatValue

Dim = tuple[int, int, int]
# value that TensorFlow 2.3/2.4 wrote with a launch call
_GARBAGE = "regs:17179869185 shm:7 grid:1,210453397508,0 block:0,0,0"
_STREAMS = {"kernel": "Kernel", "copy": "Memcpy"}


class Dialect(str, Enum):
    """Profiler whose format the profile has."""

    TF_2_4 = "TensorFlow 2.3/2.4, CUPTI"
    CUDA = "today, CUPTI"
    ROCM = "today, rocprofiler"


@dataclass(frozen=True)
class Launch:
    """Launch parameters of a kernel.

    registers: registers per thread
    static, dynamic: shared memory, bytes per block
    grid, block: dimensions of the grid and of a block
    occupancy: percentage; 0 where not recorded
    """

    registers: int = 32
    static: int = 0
    dynamic: int = 0
    grid: Dim = (80, 1, 1)
    block: Dim = (256, 1, 1)
    occupancy: float = 0

    def text(self, dialect: Dialect) -> str:
        """Return the `kernel_details` stat in a dialect's format."""
        size = "grid:{},{},{} block:{},{},{}".format(*self.grid, *self.block)
        shared = self.static + self.dynamic
        if dialect is Dialect.TF_2_4:
            return f"regs:{self.registers} shm:{shared} {size}"
        if dialect is Dialect.ROCM:
            return f" {size} private_mem:0 group_mem:{shared} occ_pct:{self.occupancy:g}"
        memory = f"static_shared:{self.static} dynamic_shared:{self.dynamic}"
        return f"regs:{self.registers} {memory} {size} occ_pct:{self.occupancy:g}"


DEFAULT_LAUNCH = Launch()  # launch with default parameters


class GpuBuilder:
    """Builder of a GPU plane. Times are ps after the file's first timestamp; methods return the
    builder.

    >>> space = SpaceBuilder()
    >>> host = space.plane("/host:CPU").line("python")
    >>> gpu = GpuBuilder(space, host)
    >>> gpu = gpu.kernel("gemm", 5_000_000, 2_000_000, op="dense/MatMul:MatMul", called=1_000_000)
    """

    def __init__(
        self, space: SpaceBuilder, host: LineBuilder, *, index: int = 0, dialect: Dialect = Dialect.CUDA, **stats: StatValue
    ) -> None:
        """Create the plane. `host` is the line of the thread that launches. `stats` are the stats
        of the plane (`compute_cap_major=9`, `memory_bandwidth=..`).
        """
        self.dialect = dialect
        self._host = host
        self._plane = space.plane(f"/device:GPU:{index}")
        for name, value in stats.items():
            self._plane.stat(name, value)
        self._lines: dict[int, LineBuilder] = {}
        self._launches = (index + 1) * 1_000_000  # correlation ids are unique within a process

    def kernel(
        self,
        name: str,
        start_ps: int,
        duration_ps: int,
        *,
        op: str = "",
        launch: Launch = DEFAULT_LAUNCH,
        stream: int = 7,
        called: int | None = None,
        call_ps: int = 1_000_000,
        **stats: StatValue,
    ) -> GpuBuilder:
        """Add a kernel. `called` is the start of the host's launch call, ps (None: the profile does
        not contain the launch); `call_ps` is the duration of that call.
        """
        details = launch.text(self.dialect)
        event: dict[str, StatValue] = {
            **self._op(op),
            "kernel_details": details,
            "correlation_id": self._correlation(),
            **stats,
        }
        self._line(stream, "kernel").event(name, start_ps, duration_ps, num_occurrences=None, **event)
        if called is not None:
            old = self.dialect is Dialect.TF_2_4
            call = name if old else "cuLaunchKernel" if self.dialect is Dialect.CUDA else "hipLaunchKernel"
            text = _GARBAGE if old else details
            self._host.event(call, called, call_ps, correlation_id=self._launches, kernel_details=text)
        return self

    def copy(
        self,
        direction: str,
        size: int,
        start_ps: int,
        duration_ps: int,
        *,
        source: str = "pageable",
        destination: str = "device",
        stream: int = 8,
        called: int | None = None,
        call_ps: int = 1_000_000,
    ) -> GpuBuilder:
        """Add a copy of `size` bytes. `direction` is as in the event's name: H2D, D2H, D2D, P2P.
        Only CUDA's dialect records kinds of memory.
        """
        details = {
            Dialect.TF_2_4: f"size:{size} dest:0 async:1",
            Dialect.CUDA: f"kind_src:{source} kind_dst:{destination} size:{size} dest:0 async:1",
            Dialect.ROCM: f"kind:Unknown size:{size} dest:0 async:1",
        }[self.dialect]
        name = f"Memcpy{direction}"
        self._line(stream, "copy").event(
            name, start_ps, duration_ps, memcpy_details=details, correlation_id=self._correlation()
        )
        if called is not None:
            call = name if self.dialect is Dialect.TF_2_4 else "cuMemcpyAsync"
            self._host.event(call, called, call_ps, correlation_id=self._launches)
        return self

    def memset(self, size: int, start_ps: int, duration_ps: int, *, stream: int = 7) -> GpuBuilder:
        """Add a memset of `size` bytes."""
        details = f"kind:device num_bytes:{size} async:1"
        self._line(stream, "kernel").event(
            "Memset", start_ps, duration_ps, memset_details=details, correlation_id=self._correlation()
        )
        return self

    def _op(self, op: str) -> dict[str, StatValue]:
        if not op:
            return {}
        return {"annotation": f"{op}#shape=(8,8)#"} if self.dialect is Dialect.TF_2_4 else {"tf_op": op}

    def _correlation(self) -> int:
        self._launches += 1
        return self._launches

    def _line(self, stream: int, what: str) -> LineBuilder:
        if stream not in self._lines:
            kind = "Compute" if self.dialect is Dialect.TF_2_4 and what == "kernel" else _STREAMS[what]
            self._lines[stream] = self._plane.line(f"Stream #{stream}({kind})", id=stream)
        return self._lines[stream]
