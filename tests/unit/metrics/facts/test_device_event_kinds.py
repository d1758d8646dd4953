"""What a device's events are by their names, where no program tells more."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.step_breakdown import TRANSFERS_COLUMN, step_breakdown
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000


def category(kernel: str = "", call: str = "", copy: tuple[str, str, str] = ("", "", "")) -> str:
    """The category of the time of one kernel, or copy (direction, from, to), in one step; `call` is
    the host's call that launched it.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    host.event("train", 0, 10 * MS, step_num=0, _r=1)
    gpu = GpuBuilder(space, host)
    if kernel:
        gpu.kernel(kernel, 5 * MS, 2 * MS)
    else:
        gpu.copy(copy[0], 1000, 5 * MS, 2 * MS, source=copy[1], destination=copy[2])
    if call:
        host.event(call, MS, MS // 1000, correlation_id=gpu._launches)
    (row,) = step_breakdown(Run.from_traces([read_trace(space.to_bytes())])).steps.records()
    found = {k.removesuffix("_ps") for k, v in row.items() if k.endswith("_ps") and k != TRANSFERS_COLUMN and v == 2 * MS}
    (only,) = found
    return only


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x128x32_MI16x16x16x1", "device_compute_16"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT64x64x32", "device_compute_16"),
        ("Cijk_Alik_Bljk_HB_MT64x64x32", "device_compute_16"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x32", "device_compute_32"),
        ("Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV", "device_compute_32"),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "device_compute_16"),
        ("cutlass_80_tensorop_f16_s16816gemm", "device_compute_16"),
        ("ampere_sgemm_128x64_tn", "device_compute_32"),
        ("ncclKernel_AllReduce_RING_LL_Sum_half", "device_collectives"),
    ],
)
def test_kernel_names_tell_the_precision(kernel: str, expected: str) -> None:
    assert category(kernel) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("hipMemcpyHtoDAsync", "input"),
        ("hipMemcpyDtoHAsync", "output"),
        ("hipMemcpyDtoDAsync", "device_to_device"),
        ("", "device_to_device"),
    ],
)
def test_amds_copies_are_kernels(call: str, expected: str) -> None:
    """They were computation in 32 bits."""
    assert category("__amd_rocclr_copyBuffer.kd", call) == expected


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (("H2D", "pinned", "device"), "input"),
        (("D2H", "device", "pinned"), "output"),
        (("D2D", "device", "device"), "device_to_device"),
        (("P2P", "device", "device"), "device_to_device"),
        (("H2H", "pinned", "pageable"), "host_compute"),
        (("Other", "pinned", "pageable"), "host_compute"),
        (("Other", "device", "pageable"), "output"),
        (("Other", "unknown", "unknown"), "device_compute_32"),
    ],
)
def test_copies_between_devices_and_those_without_a_direction(copy: tuple[str, str, str], expected: str) -> None:
    """`MemcpyP2P` and `MemcpyOther` were computation in 32 bits. Of what says nothing nobody knows
    more than that the device was at work.
    """
    assert category(copy=copy) == expected
