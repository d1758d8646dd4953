"""A GPU's work in which every number can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

from outpace import api
from outpace.model import Page
from outpace.testing import Dialect, GpuBuilder, Launch, SpaceBuilder

US = 1_000_000  # picoseconds
BANDWIDTH = 3_350_000_000_000
GEMM = Launch(registers=40, static=1024, dynamic=2048, grid=(80, 2, 1), block=(256, 1, 1), occupancy=62.5)
TENSOR = Launch(registers=168, dynamic=196608, grid=(132, 1, 1), block=(384, 1, 1), occupancy=18.75)
RELU = Launch(registers=32, grid=(80, 1, 1), block=(256, 1, 1))  # its occupancy was not recorded


def space_of(dialect: Dialect) -> SpaceBuilder:
    """Times in µs, the GPU's streams:

        stream 7   gemm 100-140, gemm 140-200, xmma 300-400, loose 700-710, memset 900-905
        stream 9                                 relu 350-440
        stream 8                                              HToD 500-600, DToD 600-610

    so that it is idle in 200-300 (xmma is launched at 250), 440-500 (the copy at 480), 610-700
    (loose at 690), and 710-900 (nobody knows).
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    host = plane.line("python")
    host.event("train", 0, 1000 * US, step_num=3, _r=1)
    host.event("load", 205 * US, 85 * US).event("decode", 210 * US, 70 * US)
    host.event("callback", 430 * US, 170 * US)
    plane.line("tf_Compute").event("map/resize:ResizeBilinear", 720 * US, 160 * US).event("note", 730 * US, 20 * US)
    vendor = "AMD" if dialect is Dialect.ROCM else "Nvidia"
    gpu = GpuBuilder(
        space, host, dialect=dialect,
        compute_cap_major=9, compute_cap_minor=0, memory_bandwidth=BANDWIDTH, device_vendor=vendor,
    )  # fmt: skip
    gpu.kernel("gemm_a", 100 * US, 40 * US, op="dense/MatMul:MatMul", launch=GEMM, called=50 * US)
    gpu.kernel("gemm_a", 140 * US, 60 * US, op="dense/MatMul:MatMul", launch=GEMM, called=60 * US)
    gpu.kernel("sm90_xmma_gemm_x", 300 * US, 100 * US, op="dense_1/MatMul:MatMul", launch=TENSOR, called=250 * US)
    gpu.kernel("relu", 350 * US, 90 * US, op="dense/Relu:Relu", launch=RELU, stream=9)
    gpu.kernel("empty", 360 * US, 0, op="dense/Relu:Relu", launch=RELU, stream=9)
    gpu.copy("H2D", 1_000_000, 500 * US, 100 * US, called=480 * US)
    gpu.copy("D2D", 1_000_000, 600 * US, 10 * US, source="device")
    gpu.kernel("loose", 700 * US, 10 * US, launch=RELU, called=690 * US)
    gpu.memset(4096, 900 * US, 5 * US)
    return space


def page_of(space: SpaceBuilder, folder: Path) -> Page:
    """The tool's page of a synthetic profile."""
    space.write(folder)
    return api.open(folder).page("kernel_stats")
