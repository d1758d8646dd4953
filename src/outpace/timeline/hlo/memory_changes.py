# SPDX-License-Identifier: Apache-2.0
"""What would lower the peak of a program's memory, by counterfactual: the curve over the same
schedule, without what a change takes away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from outpace._dataclass import dataclass
from outpace.timeline.hlo.memory import Buffer, BufferKind, MemoryPlan

if TYPE_CHECKING:
    from outpace.timeline.hlo.module import HloModule

_SMALLEST = 0.02  # minimum share of the peak that a change takes away
_MOST_LINES = 5  # of recomputation
_FLOAT32 = 11  # PrimitiveType
_LEAST_BATCH = 4  # a smaller first dimension is that of pairs (keys and values, real and imaginary parts) as well
_COMMON = 0.7  # minimum share of arrays' bytes that begin with one size, for that to be the batch
HEADROOM = 0.95  # of a device's memory; the rest is the framework's own
_AROUND = 2  # events about its making and its last use in which an array stands though it is recomputed
_Piece = tuple[int, int, int]  # first event, event behind the last, bytes


class MemoryChangeKind(str, Enum):
    """What is changed."""

    DONATION = "donate arguments"
    PRECISION = "16 bits for temporaries"
    RECOMPUTATION = "recompute"
    BATCH = "half of the batch"


@dataclass(frozen=True)
class MemoryChange:
    """A change of a program.

    kind: what is changed.
    source: source line of the arrays that are recomputed; "" for the other kinds.
    arrays: number of arrays that it is about.
    peak_bytes: the peak by the same schedule.
    flops: operations that it adds to a run.
    """

    kind: MemoryChangeKind
    source: str
    arrays: int
    peak_bytes: int
    flops: float = 0.0


def find_memory_changes(plan: MemoryPlan, module: HloModule) -> list[MemoryChange]:
    """Return the changes that lower the peak of a program, the one that lowers it most first. The
    compiler may find another schedule, so that each is an estimate.
    """
    most = (1 - _SMALLEST) * plan.peak_bytes
    lines = sorted(_iter_recomputed(plan, module), key=lambda change: change.peak_bytes)[:_MOST_LINES]
    found = [*_iter_donated(plan), *_iter_halved(plan), *_iter_smaller(plan), *lines]
    return sorted((each for each in found if each.peak_bytes <= most), key=lambda change: change.peak_bytes)


@dataclass(frozen=True)
class Batch:
    """The batch of a program, by the arrays that are live at its peak.

    size: first dimension of most of them.
    size_bytes: bytes at the peak of the arrays that grow with it.
    """

    size: int
    size_bytes: int

    def largest(self, peak_bytes: int, capacity_bytes: float) -> int:
        """Return the largest batch with which a peak of `peak_bytes` fits into a memory, where all
        else stays as it is.
        """
        room = capacity_bytes - (peak_bytes - self.size_bytes)
        return max(0, int(self.size * room / self.size_bytes))


def find_batch(plan: MemoryPlan) -> Batch | None:
    """Return the batch of a program; None where its arrays do not tell. Of one dimension alone are
    work spaces of libraries, too.
    """
    computed = [
        (each.shape.dimensions[0], each.size)
        for each in plan.peak_buffers
        if each.kind in (BufferKind.TEMPORARY, BufferKind.RESULT) and each.shape is not None and len(each.shape.dimensions) > 1
    ]
    size = find_batch_size(computed)
    if not size:
        return None
    return Batch(size, sum(each.size for each in plan.peak_buffers if _grows(each, size)))


def _grows(buffer: Buffer, batch: int) -> bool:
    """Whether an array grows with the batch."""
    shape = buffer.shape
    return buffer.kind is not BufferKind.CONSTANT and shape is not None and list(shape.dimensions[:1]) == [batch]


def find_batch_size(arrays: Sequence[tuple[int, int]]) -> int:
    """Return the first dimension that most bytes of arrays begin with; 0 where there is no such.

    arrays: first dimension and bytes of each.
    """
    sizes = Counter[int]()
    for first, size in arrays:
        sizes[first] += size
    batch, size = next(((first, size) for first, size in sizes.most_common() if first >= _LEAST_BATCH), (0, 0))
    return batch if size >= _COMMON * sum(size for _, size in arrays) else 0


def _lowered_peak(plan: MemoryPlan, pieces: Sequence[_Piece]) -> int:
    """Return the peak without some bytes in some events; of a program without a curve, without the
    bytes at all.
    """
    if not plan.curve:
        return plan.peak_bytes - sum(size for *_, size in pieces)
    changes = np.zeros(len(plan.curve) + 1, np.int64)
    for begin, end, size in pieces:
        changes[begin] -= size
        changes[min(end, len(plan.curve))] += size
    live = np.array([size for _, size in plan.curve], np.int64)
    return int((live + np.cumsum(changes[:-1])).max())


def _iter_donated(plan: MemoryPlan) -> Iterator[MemoryChange]:
    """Yield donation, where results with memory of their own are like arguments."""
    free = Counter(each.shape.alias_key for each in plan.buffers if each.kind is BufferKind.ARGUMENT and each.shape is not None)
    taken: list[_Piece] = []
    for each in plan.buffers:
        if each.kind is BufferKind.RESULT and each.shape is not None and free[each.shape.alias_key]:
            free[each.shape.alias_key] -= 1
            taken.append((each.begin, each.end, each.size))
    if taken:
        yield MemoryChange(MemoryChangeKind.DONATION, "", len(taken), _lowered_peak(plan, taken))


def _iter_halved(plan: MemoryPlan) -> Iterator[MemoryChange]:
    """Yield half of the bits, where temporaries have 32."""
    halved = [
        (each.begin, each.end, each.size // 2)
        for each in plan.buffers
        if each.kind is BufferKind.TEMPORARY and each.shape is not None and each.shape.element_type == _FLOAT32
    ]
    if halved:
        yield MemoryChange(MemoryChangeKind.PRECISION, "", len(halved), _lowered_peak(plan, halved))


def _iter_smaller(plan: MemoryPlan) -> Iterator[MemoryChange]:
    """Yield half of the batch, where the arrays at the peak tell what it is."""
    batch = find_batch(plan)
    if batch is None:
        return
    halved = [(each.begin, each.end, each.size // 2) for each in plan.buffers if _grows(each, batch.size)]
    yield MemoryChange(MemoryChangeKind.BATCH, "", len(halved), _lowered_peak(plan, halved))


def _iter_recomputed(plan: MemoryPlan, module: HloModule) -> Iterator[MemoryChange]:
    """Yield recomputation of what a source line makes, where that is kept for later."""
    by_line: dict[str, list[Buffer]] = defaultdict(list)
    for each in plan.buffers:
        if each.kind is BufferKind.TEMPORARY and each.instruction is not None and each.end - each.begin > 2 * _AROUND:
            by_line[module[each.instruction.name].source].append(each)
    by_line.pop("", None)
    for source, buffers in by_line.items():
        pieces = [(each.begin + _AROUND, each.end - _AROUND, each.size) for each in buffers]
        made = {each.instruction.name for each in buffers if each.instruction is not None}
        flops = sum(module[name].cost.flops for name in made)
        yield MemoryChange(MemoryChangeKind.RECOMPUTATION, source, len(buffers), _lowered_peak(plan, pieces), flops)
