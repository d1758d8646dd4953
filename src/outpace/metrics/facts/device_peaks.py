# SPDX-License-Identifier: Apache-2.0
"""Peak rates of the accelerators of a run: what their units compute per second in each precision,
what their data sheets print, and how fast their memory is.

Sources, as of November 2026. NVIDIA: the architecture white papers of Volta, Turing, A100, GA102,
Ada and H100, the table of arithmetic throughput in the CUDA programming guide, and the data sheets
of the products (of Blackwell: HGX). AMD: the white papers of CDNA 1 to 4 and the tables of FLOPS
per clock and compute unit in the documentation of ROCm. The rates per clock are checked by the
peaks that they give, against those that data sheets print; not each could be looked up.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from outpace.metrics.facts.device_specs import compute_capability
from outpace.trace import Plane, dialect

Precision: TypeAlias = Literal["f64", "f32", "tf32", "16 bits", "8 bits"]
"""The arithmetic that an op does: one of the constants below."""
FLOAT64: Precision = "f64"
"""64-bit floats, on tensor cores or matrix cores where these take them."""
FLOAT32: Precision = "f32"
"""32-bit floats to their full precision: on NVIDIA GPUs the plain FMA units."""
TENSOR_FLOAT32: Precision = "tf32"
"""32-bit floats whose products are rounded to about 10 bits, as tensor cores take them."""
BITS_16: Precision = "16 bits"
"""float16 and bfloat16 on tensor cores or matrix cores, with sums in 32 bits."""
BITS_8: Precision = "8 bits"
"""8-bit floats and 8-bit integers on tensor cores or matrix cores."""

# Dense operations per clock of a multiprocessor (NVIDIA) or compute unit (AMD); a multiply-add is
# two. Where an architecture lacks a precision, the number is that of the one which stands in: f32
# for tf32, 16 bits for 8. Before 8.9, 8 bits are integers only; before 8.0, 16 bits are float16.
_COLUMNS: tuple[Precision, ...] = (FLOAT64, FLOAT32, TENSOR_FLOAT32, BITS_16, BITS_8)
_SM_OPS = {  # by compute capability
    7.0: (64, 128, 128, 1024, 1024),
    7.5: (4, 128, 128, 1024, 2048),
    8.0: (128, 128, 1024, 2048, 4096),
    8.6: (4, 256, 512, 1024, 2048),
    8.9: (4, 256, 512, 1024, 2048),
    9.0: (256, 256, 2048, 4096, 8192),
    10.0: (128, 256, 4096, 8192, 16384),
}
_CDNA1 = (64, 256, 256, 1024, 1024)  # bfloat16 only 512
_CDNA2 = (256, 256, 256, 1024, 1024)
_CU_OPS = {9.4: (256, 256, 1024, 2048, 4096), 9.5: (128, 256, 256, 4096, 8192)}  # gfx942 (CDNA 3), gfx950 (CDNA 4)
# 9.0 is any of gfx900 to gfx90a: MI100 has 120 compute units, MI210 and each of the two devices of
# an MI250 104, of an MI250X 110.
_GFX90_OPS = {120: _CDNA1, 104: _CDNA2, 110: _CDNA2}
# Words of names of GPUs whose tensor cores run at half the rate of their architecture, and in what.
# A GeForce does so where it sums in 32 bits: 8-bit floats too, but not 8-bit integers.
_HALVED: dict[str, tuple[Precision, ...]] = {
    "geforce": (TENSOR_FLOAT32, BITS_16),
    "l40": (TENSOR_FLOAT32, BITS_16, BITS_8),
    "a10g": (TENSOR_FLOAT32, BITS_16, BITS_8),
}

# Dense 16-bit peaks that data sheets print, in teraflops, at a clock that is often below the
# highest: words of the name, compute capability, multiprocessors, highest clock in MHz. Of the
# names that match, the first counts. Data sheets with sparsity print twice as much.
_DATA_SHEETS = (
    ("V100 PCIE", 7.0, 80, 1380, 112.0),
    ("V100S", 7.0, 80, 1597, 130.0),
    ("V100", 7.0, 80, 1530, 125.0),
    ("T4", 7.5, 40, 1590, 65.0),
    ("A100", 8.0, 108, 1410, 312.0),
    ("A30", 8.0, 56, 1440, 165.0),
    ("A10", 8.6, 72, 1695, 125.0),
    ("A10G", 8.6, 80, 1710, 70.0),
    ("A40", 8.6, 84, 1740, 149.7),
    ("L4", 8.9, 58, 2040, 121.0),
    ("L40", 8.9, 142, 2490, 181.05),
    ("L40S", 8.9, 142, 2520, 362.05),
    ("H100 PCIE", 9.0, 114, 1755, 756.0),
    ("H100 NVL", 9.0, 132, 1785, 835.5),
    ("H200 NVL", 9.0, 132, 1785, 835.5),
    ("H100", 9.0, 132, 1980, 989.4),
    ("H200", 9.0, 132, 1980, 989.4),
    ("GH200", 9.0, 132, 1980, 989.4),
    ("B200", 10.0, 148, 1965, 2250.0),
)
_CLOCK_TOLERANCE = 0.05  # GPUs with as many multiprocessors whose clock is further away are other products


def peak_flops(plane: Plane, precision: Precision = BITS_16) -> float:
    """Return the dense peak floating-point operations per second of a device in a precision, at the
    highest clock that its plane states; 0 where unknown.

    For a GPU this is operations per clock and multiprocessor x multiprocessors x clock. A peak that
    the plane states itself, as those of TPUs do, is the one in 16 bits.
    """
    stated, ops = 1e12 * _number(plane, dialect.PEAK_TERAFLOPS), _clock_ops(plane)
    # A TPU multiplies 32-bit floats in one or several passes of bfloat16, each at the stated rate.
    # XLA's default is one pass, in which they are rounded much as in tf32.
    if stated and (precision == BITS_16 or (precision == TENSOR_FLOAT32 and not ops)):
        return stated
    if not ops:
        return 0.0
    is_halved = any(precision in _HALVED.get(word, ()) for word in _name_words(plane))
    per_clock = ops[_COLUMNS.index(precision)] / (2 if is_halved else 1)
    return per_clock * _number(plane, dialect.CORE_COUNT) * 1e3 * _number(plane, dialect.CLOCK_RATE)


def data_sheet_flops(plane: Plane) -> float:
    """Return the dense 16-bit peak that the data sheet of a device prints, operations per second;
    0 where unknown.

    An NVIDIA GPU is recognised by its name, or where its plane has none by its compute capability,
    multiprocessors and clock. Data sheets of AMD GPUs and of TPUs print `peak_flops`.
    """
    capability = compute_capability(plane)
    if capability is None:
        return peak_flops(plane)
    if words := _name_words(plane):
        found = [row[-1] for row in _DATA_SHEETS if words.issuperset(row[0].casefold().split())]
        return 1e12 * found[0] if found and "mig" not in words else 0.0
    cores, clock = _number(plane, dialect.CORE_COUNT), _number(plane, dialect.CLOCK_RATE) / 1e3
    rows = [(abs(clock / row[3] - 1), row[-1]) for row in _DATA_SHEETS if row[1:3] == (capability, cores)]
    off, teraflops = min(rows, default=(1.0, 0.0))
    return 1e12 * teraflops if off < _CLOCK_TOLERANCE else 0.0


def memory_bandwidth(plane: Plane) -> float:
    """Return the memory bandwidth of a device, bytes per second; 0 where its plane has none."""
    return _number(plane, dialect.MEMORY_BANDWIDTH) or 1e9 * _number(plane, dialect.PEAK_MEMORY)


def _clock_ops(plane: Plane) -> tuple[int, ...]:
    """Return the operations per clock of one multiprocessor or compute unit of a GPU, in the order
    of `_COLUMNS`; empty where its architecture is not known.
    """
    if plane.stats.get(dialect.DEVICE_VENDOR) != "AMD":
        return _SM_OPS.get(compute_capability(plane) or 0.0, ())
    version = _number(plane, dialect.COMPUTE_CAP_MAJOR) + _number(plane, dialect.COMPUTE_CAP_MINOR) / 10
    if version == 9.0:
        return _GFX90_OPS.get(int(_number(plane, dialect.CORE_COUNT)), ())
    return _CU_OPS.get(version, ())


def _name_words(plane: Plane) -> set[str]:
    return set(str(plane.stats.get(dialect.GPU_DEVICE_NAME, "")).casefold().replace("-", " ").split())


def _number(plane: Plane, stat: str) -> float:
    value = plane.stats.get(stat)
    return float(value) if isinstance(value, (int, float)) else 0.0
