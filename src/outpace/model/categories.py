# SPDX-License-Identifier: Apache-2.0
"""Step-time categories of the TensorFlow Profiler guide, in the order of the guide."""

from __future__ import annotations

from enum import Enum


class Category(str, Enum):
    """Category of a step's time. The categories of a step never overlap and sum to its duration.

    The value is the key used in table columns (`<key>_ps`), JSON and colours.
    """

    COMPILATION = "compilation"
    INPUT = "input"
    OUTPUT = "output"
    KERNEL_LAUNCH = "kernel_launch"
    HOST_COMPUTE = "host_compute"
    DEVICE_TO_DEVICE = "device_to_device"
    DEVICE_COLLECTIVES = "device_collectives"
    DEVICE_COMPUTE_16 = "device_compute_16"
    DEVICE_COMPUTE_32 = "device_compute_32"
    ALL_OTHERS = "all_others"

    @property
    def label(self) -> str:
        """Name of the category for people."""
        return _TITLES[self]

    @property
    def column(self) -> str:
        """Name of the columns that hold times of the category."""
        return f"{self.value}_ps"

    @property
    def meaning(self) -> str:
        """Definition of the category in one sentence."""
        return _MEANINGS[self]


_TITLES = {
    Category.COMPILATION: "Compilation",
    Category.INPUT: "Input",
    Category.OUTPUT: "Output",
    Category.KERNEL_LAUNCH: "Kernel launch",
    Category.HOST_COMPUTE: "Host compute",
    Category.DEVICE_TO_DEVICE: "Device to device",
    Category.DEVICE_COLLECTIVES: "Device collectives",
    Category.DEVICE_COMPUTE_16: "Device compute 16-bit",
    Category.DEVICE_COMPUTE_32: "Device compute 32-bit",
    Category.ALL_OTHERS: "All others",
}

_MEANINGS = {
    Category.COMPILATION: "time spent building graphs and compiling kernels",
    Category.INPUT: "time spent waiting for, or transferring, input data",
    Category.OUTPUT: "time spent reading output data back to the host",
    Category.KERNEL_LAUNCH: "time the host spent launching work on a device while the device was idle",
    Category.HOST_COMPUTE: "time the host spent computing while no device was busy",
    Category.DEVICE_TO_DEVICE: "time of copies from device memory to device memory: within one device, or between several",
    Category.DEVICE_COLLECTIVES: "time of collective operations (all-reduce and others) between devices",
    Category.DEVICE_COMPUTE_16: "time devices computed with 16-bit numbers",
    Category.DEVICE_COMPUTE_32: "time devices computed with 32-bit numbers",
    Category.ALL_OTHERS: "time with no recognised event, Python among it",
}
