# SPDX-License-Identifier: Apache-2.0
"""Theoretical occupancy: resident warps of a multiprocessor as a share of its maximum.

It is computed for profiles that do not record it. The limits are those of the table "Technical
Specifications per Compute Capability" of the CUDA C++ Programming Guide. The granularities are
those of NVIDIA's occupancy calculator: registers are allocated in units of 256 per warp, warps in
fours, shared memory in units of 128 or 256 bytes. A block needs all its warps, registers and shared
memory at once, so the number of blocks that fit is the smallest of the four quotients, and

    occupancy = blocks that fit * warps per block / warps that a multiprocessor can hold
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.timeline.gpu_details import KernelDetails

_WARP = 32  # threads per warp
_REGISTER_UNIT = 256  # registers are allocated per warp in multiples of this number
_WARP_UNIT = 4  # warps are allocated in multiples of this number
_KIB = 1024  # bytes


@dataclass(frozen=True)
class MultiprocessorLimits:
    """What one multiprocessor can hold at once.

    warps: number of warps
    blocks: number of blocks
    shared: shared memory, bytes
    registers: number of registers
    """

    warps: int
    blocks: int
    shared: int
    registers: int = 65536

    @property
    def threads(self) -> int:
        """Number of threads that fit."""
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
    """Return the theoretical occupancy, 0 to 1.

    The result is None where the profile or the table of limits lacks a needed number, as for all
    AMD devices.
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
    # A kernel that ran must fit: 0 blocks mean that the record is wrong.
    return blocks * warps / limits.warps if blocks else None


def _by_registers(registers: int, warps: int, limits: MultiprocessorLimits) -> int:
    """Return the number of blocks whose registers fit."""
    if registers == 0:
        return limits.blocks
    per_warp = _round_up(registers * _WARP, _REGISTER_UNIT)
    return limits.registers // per_warp // _WARP_UNIT * _WARP_UNIT // warps


def _by_shared(shared: int, capability: tuple[int, int], limits: MultiprocessorLimits) -> int:
    """Return the number of blocks whose shared memory, in bytes each, fits."""
    ampere = capability >= (8, 0)  # Ampere and later reserve 1 KiB per block for the system
    used = _round_up(shared + (_KIB if ampere else 0), 128 if ampere else 256)
    return limits.shared // used if used else limits.blocks


def _round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least `value`."""
    return -(-value // unit) * unit
