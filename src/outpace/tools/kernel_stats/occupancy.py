"""Theoretical occupancy: resident warps of a multiprocessor as a share of the most that it can
hold.

For profiles that do not record it. Limits are those of the table "Technical Specifications per
Compute Capability" of the CUDA C++ Programming Guide; the granularities (registers are handed out
in units of 256 per warp, warps in fours, shared memory in units of 128 or 256 bytes) are those of
NVIDIA's occupancy calculator. Derivation: a block needs all its warps, registers and shared memory
at once, so the blocks that fit are the smallest of the four quotients, and

    occupancy = blocks that fit * warps per block / warps that a multiprocessor can hold
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.timeline.gpu_details import KernelDetails

_WARP = 32
_REGISTER_UNIT = 256
_WARP_UNIT = 4
_KIB = 1024


@dataclass(frozen=True)
class MultiprocessorLimits:
    """What one multiprocessor holds at once; shared memory in bytes."""

    warps: int
    blocks: int
    shared: int
    registers: int = 65536

    @property
    def threads(self) -> int:
        """Threads that fit."""
        return self.warps * _WARP


_LIMITS = {
    (3, 0): MultiprocessorLimits(64, 16, 48 * _KIB),
    (3, 5): MultiprocessorLimits(64, 16, 48 * _KIB),
    (3, 7): MultiprocessorLimits(64, 16, 112 * _KIB, 131072),
    (5, 0): MultiprocessorLimits(64, 32, 64 * _KIB),
    (5, 2): MultiprocessorLimits(64, 32, 96 * _KIB),
    (5, 3): MultiprocessorLimits(64, 32, 64 * _KIB),
    (6, 0): MultiprocessorLimits(64, 32, 64 * _KIB),
    (6, 1): MultiprocessorLimits(64, 32, 96 * _KIB),
    (6, 2): MultiprocessorLimits(64, 32, 64 * _KIB),
    (7, 0): MultiprocessorLimits(64, 32, 96 * _KIB),
    (7, 2): MultiprocessorLimits(64, 32, 96 * _KIB),
    (7, 5): MultiprocessorLimits(32, 16, 64 * _KIB),
    (8, 0): MultiprocessorLimits(64, 32, 164 * _KIB),
    (8, 6): MultiprocessorLimits(48, 16, 100 * _KIB),
    (8, 7): MultiprocessorLimits(48, 16, 164 * _KIB),
    (8, 9): MultiprocessorLimits(48, 24, 100 * _KIB),
    (9, 0): MultiprocessorLimits(64, 32, 228 * _KIB),
    (10, 0): MultiprocessorLimits(64, 32, 228 * _KIB),
    (10, 3): MultiprocessorLimits(64, 32, 228 * _KIB),
    (12, 0): MultiprocessorLimits(48, 24, 100 * _KIB),
}


def occupancy(kernel: KernelDetails, capability: tuple[int, int]) -> float | None:
    """Theoretical occupancy, 0..1; None where the profile or the table of limits does not say
    enough (AMD devices: always).
    """
    limits = _LIMITS.get(capability)
    if limits is None or kernel.registers is None or kernel.shared is None or not 0 < kernel.threads_per_block <= 1024:
        return None
    warps = -(-kernel.threads_per_block // _WARP)
    blocks = min(
        limits.blocks,
        limits.warps // warps,
        _by_registers(kernel.registers, warps, limits),
        _by_shared(kernel.shared, capability, limits),
    )
    return blocks * warps / limits.warps if blocks else None  # what ran must fit: the record is wrong, not the occupancy 0


def _by_registers(registers: int, warps: int, limits: MultiprocessorLimits) -> int:
    if registers == 0:
        return limits.blocks
    per_warp = _round_up(registers * _WARP, _REGISTER_UNIT)
    return limits.registers // per_warp // _WARP_UNIT * _WARP_UNIT // warps


def _by_shared(shared: int, capability: tuple[int, int], limits: MultiprocessorLimits) -> int:
    ampere = capability >= (8, 0)  # which reserves 1 KiB per block for the system
    used = _round_up(shared + (_KIB if ampere else 0), 128 if ampere else 256)
    return limits.shared // used if used else limits.blocks


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
