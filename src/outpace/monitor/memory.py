# SPDX-License-Identifier: Apache-2.0
"""Reads the memory use of the process and its accelerators, once per log line and not once per
step.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

_MB = 1e6


def read_memory(framework: str) -> dict[str, float]:
    """Return `rss_mb` of this process, and `device_mb` and `device_peak_mb` summed over the
    accelerators in use. MB are 10^6 bytes.

    A number that cannot be read here (no /proc, no accelerator) is omitted.
    """
    values: dict[str, float] = {}
    if sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
            values["rss_mb"] = round(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MB, 1)
    with contextlib.suppress(Exception):  # an accelerator without an allocator to ask raises, each in its own way
        devices = _tensorflow() if framework == "tensorflow" else _jax() if framework == "jax" else []
        if devices:
            values["device_mb"] = round(sum(in_use for in_use, _ in devices) / _MB, 1)
            values["device_peak_mb"] = round(sum(peak for _, peak in devices) / _MB, 1)
    return values


def _tensorflow() -> list[tuple[int, int]]:
    """Return (bytes in use, peak bytes in use) of each GPU."""
    tf: Any = sys.modules["tensorflow"]
    names = [device.name.replace("/device:", "") for device in tf.config.list_logical_devices("GPU")]
    infos = [tf.config.experimental.get_memory_info(name.lstrip("/")) for name in names]
    return [(int(info["current"]), int(info["peak"])) for info in infos]


def _jax() -> list[tuple[int, int]]:
    """Return (bytes in use, peak bytes in use) of each accelerator; the CPU has no such numbers."""
    jax: Any = sys.modules["jax"]
    stats = [device.memory_stats() for device in jax.local_devices() if device.platform != "cpu"]
    return [
        (int(device_stats["bytes_in_use"]), int(device_stats.get("peak_bytes_in_use", device_stats["bytes_in_use"])))
        for device_stats in stats
        if device_stats
    ]
