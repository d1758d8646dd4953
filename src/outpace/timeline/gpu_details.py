# SPDX-License-Identifier: Apache-2.0
"""Parsers of the detail texts of GPU events: kernel launches, copies, memory sets and allocations.

Three dialects are in use (`cupti_collector.h` and `rocm_collector.h` in XLA write them):

    TensorFlow 2.3/2.4
        kernel  regs:38 shm:0 grid:160,1,1 block:1024,1,1
        copy    size:802816 dest:0 async:1
    today, CUDA
        kernel  regs:38 static_shared:0 dynamic_shared:0 grid:.. block:.. occ_pct:100
        copy    kind_src:pageable kind_dst:device size:4 dest:0 async:1
    ROCm
        kernel  grid:16,18,1 block:256,1,1 private_mem:0 group_mem:65408 occ_pct:0
        copy    kind:Unknown size:0 dest:512 async:1

A profile repeats few distinct texts: parse each of them once.
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.timeline.op_names import parse_op

Dim = tuple[int, int, int]
UNKNOWN_DIRECTION = "other"
_OF_HOST = ("pageable", "pinned", "host")  # kinds of memory on the host
_ONE: Dim = (1, 1, 1)


@dataclass(frozen=True)
class KernelDetails:
    """Launch parameters of a kernel. None where the profile does not record them; sizes are bytes
    per block.

    registers: per thread.
    shared: static plus dynamic shared memory (AMD: LDS).
    grid, block: dimensions.
    occupancy: recorded theoretical occupancy, 0..1.
    """

    registers: int | None = None
    static_shared: int | None = None
    dynamic_shared: int | None = None
    shared: int | None = None
    grid: Dim = _ONE
    block: Dim = _ONE
    occupancy: float | None = None

    @property
    def threads_per_block(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def launch_key(self) -> tuple[object, ...]:
        """Parameters that distinguish two launches of a kernel. Occupancy follows from them and is
        left out, as in the reference.
        """
        return self.grid, self.block, self.registers, self.shared, self.static_shared, self.dynamic_shared


@dataclass(frozen=True)
class CopyDetails:
    """Parameters of a copy.

    source, destination: kinds of memory, "" where not recorded.
    bytes: size.
    is_async: whether the call returned before the copy was complete; None where not recorded.
    """

    source: str = ""
    destination: str = ""
    bytes: int = 0
    is_async: bool | None = None


def parse_pairs(text: str) -> dict[str, str]:
    """Return the `key:value` words of a detail text as a dictionary; other words are ignored."""
    words = (word.split(":") for word in text.split())
    return {word[0]: word[1] for word in words if len(word) == 2}


def parse_kernel_details(text: str) -> KernelDetails:
    """Return the parameters in a `kernel_details` text of any dialect. Missing or malformed ones
    are None (dimensions: 1,1,1).
    """
    values = parse_pairs(text)
    static, dynamic = _number(values, "static_shared"), _number(values, "dynamic_shared")
    shared = _number(values, "shm", "group_mem")
    if shared is None and (static is not None or dynamic is not None):
        shared = (static or 0) + (dynamic or 0)
    return KernelDetails(
        registers=_number(values, "regs"),
        static_shared=static,
        dynamic_shared=dynamic,
        shared=shared,
        grid=_dim(values.get("grid", "")),
        block=_dim(values.get("block", "")),
        occupancy=_percent(values.get("occ_pct", "")),
    )


def parse_copy_details(text: str) -> CopyDetails:
    """Return the parameters in a `memcpy_details`, `memset_details`, `memalloc_details` or
    `memory_residency_details` text of any dialect.
    """
    values = parse_pairs(text)
    memory = _memory(values.get("kind", ""))
    flag = _number(values, "async")
    return CopyDetails(
        source=_memory(values.get("kind_src", "")),
        destination=_memory(values.get("kind_dst", "")) or memory,
        bytes=_number(values, "size", "num_bytes") or 0,
        is_async=None if flag is None else bool(flag),
    )


def copy_direction(name: str, details: CopyDetails) -> str:
    """Return the direction of a copy (`HToD`, `DToH`, `DToD`, `PToP` between devices, `HToH`) from
    its event's name (`MemcpyH2D`) or from the kinds of memory; `UNKNOWN_DIRECTION` where both are
    unknown.
    """
    op = parse_op(name).type
    if op.startswith("Memcpy"):
        return op.removeprefix("Memcpy")
    if not details.source or not details.destination:
        return UNKNOWN_DIRECTION
    return "To".join("H" if kind in _OF_HOST else "D" for kind in (details.source, details.destination))


def _number(values: dict[str, str], *names: str) -> int | None:
    for name in names:
        text = values.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def _dim(text: str) -> Dim:
    parts = text.split(",")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() for p in parts):
        return _ONE
    x, y, z = (int(p) for p in parts)
    return x, y, z


def _percent(text: str) -> float | None:
    """Return a percentage as a share; None for 0, which a profiler writes where the value is
    unknown (a running kernel occupies something).
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value / 100 if 0 < value <= 100 else None


def _memory(kind: str) -> str:
    """Return the kind of memory in lower case; "" for words that mean unknown."""
    word = kind.lower()
    return "" if word in ("unknown", "invalid") else word
