# SPDX-License-Identifier: Apache-2.0
"""Peak rates of this machine's processor and memory as `outpace doctor --peaks` measured them, kept
in the user's cache.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outpace._cpus import available_cpus, cpu_name
from outpace._dataclass import dataclass
from outpace.model.codec import decode
from outpace.model.files import parse_json, write_atomically
from outpace.model.input_files import CPU_PEAKS, read_file
from outpace.store.user_cache import user_cache

_FILE = "cpu-peaks.json"


@dataclass(frozen=True)
class MeasuredRate:
    """A rate per second in several trials: the lowest, the median and the highest."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class CpuPeaks:
    """What the processor and the memory of a machine can do.

    cpu: name of the processor.
    cores: number of cores that the process could use.
    flops: floating-point operations per second of all cores, by dtype (`float32`).
    core_flops: the same of one core.
    copy_bytes: bytes per second that all cores read and write while they copy.
    core_copy_bytes: the same of one core.
    libraries: libraries whose products were measured; the fastest one counts.
    measured: time of the measurement, ISO 8601 in UTC.
    """

    cpu: str
    cores: int
    flops: Mapping[str, MeasuredRate]
    core_flops: Mapping[str, MeasuredRate]
    copy_bytes: MeasuredRate
    core_copy_bytes: MeasuredRate
    libraries: tuple[str, ...] = ()
    measured: str = ""

    @property
    def highest(self) -> dict[str, float]:
        """The highest rates of all cores: operations per second by dtype, and bytes per second
        under `copy`.
        """
        return {**{dtype: rate.high for dtype, rate in self.flops.items()}, "copy": self.copy_bytes.high}

    def as_dict(self) -> dict[str, Any]:
        """Return the peaks as plain mappings."""
        return dataclasses.asdict(self)


def write_cpu_peaks(peaks: CpuPeaks, folder: Path | None = None) -> Path:
    """Write the peaks into the cache and return the file. Raises OutputError where that fails."""
    path = (folder or user_cache()) / _FILE
    with write_atomically(path, "The file of measured peaks") as file:
        file.write(json.dumps(peaks.as_dict(), indent=1).encode() + b"\n")
    return path


def read_cpu_peaks(folder: Path | None = None) -> CpuPeaks | None:
    """Return the cached peaks; None without any, for a damaged file, and for those of another
    processor or number of cores.
    """
    try:
        peaks = decode(CpuPeaks, parse_json(read_file((folder or user_cache()) / _FILE, CPU_PEAKS)))
    except (OSError, ValueError, TypeError):
        return None
    return peaks if (peaks.cpu, peaks.cores) == (cpu_name(), available_cpus()) else None
