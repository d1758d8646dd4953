"""What devices compute per second: peaks by architecture agree with the makers' data sheets."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.device_peaks import (
    BITS_8,
    BITS_16,
    FLOAT32,
    FLOAT64,
    TENSOR_FLOAT32,
    Precision,
    data_sheet_flops,
    memory_bandwidth,
    peak_flops,
)
from outpace.model.space_builder import StatValue
from outpace.testing import SpaceBuilder
from outpace.trace import Plane, read_trace
from tests.support import opened

TERA = 1e12


def device(**stats: StatValue) -> Plane:
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = space.plane("/device:GPU:0")
    for name, value in stats.items():
        gpu.stat(name, value)
    gpu.line("Stream #7(Kernel)").event("gemm", 0, 1_000_000)
    host.event("train", 0, 1_000_000)
    return next(plane for plane in read_trace(space.to_bytes(), "vm").planes if plane.name.startswith("/device"))


def cuda(capability: str, cores: int, mhz: int, **stats: StatValue) -> Plane:
    major, minor = map(int, capability.split("."))
    return device(compute_cap_major=major, compute_cap_minor=minor, core_count=cores, clock_rate=mhz * 1000, **stats)


def amd(capability: str, units: int, mhz: int) -> Plane:
    return cuda(capability, units, mhz, device_vendor="AMD")


H100_SXM = cuda("9.0", 132, 1980)
V100 = cuda("7.0", 80, 1530)


def peaks(plane: Plane) -> dict[Precision, float]:
    precisions: tuple[Precision, ...] = (FLOAT64, FLOAT32, TENSOR_FLOAT32, BITS_16, BITS_8)
    return {precision: peak_flops(plane, precision) / TERA for precision in precisions}


@pytest.mark.parametrize(
    ("plane", "sheet"),
    [
        (V100, {FLOAT64: 7.8, FLOAT32: 15.7, BITS_16: 125}),
        (cuda("7.5", 40, 1590), {FLOAT32: 8.1, BITS_16: 65, BITS_8: 130}),
        (cuda("8.0", 108, 1410), {FLOAT64: 19.5, FLOAT32: 19.5, TENSOR_FLOAT32: 156, BITS_16: 312, BITS_8: 624}),
        (cuda("8.6", 72, 1695), {FLOAT32: 31.2, TENSOR_FLOAT32: 62.5, BITS_16: 125, BITS_8: 250}),
        (cuda("8.9", 58, 2040), {FLOAT32: 30.3, TENSOR_FLOAT32: 60, BITS_16: 121, BITS_8: 242.5}),
        (cuda("8.9", 142, 2520), {FLOAT32: 91.6, TENSOR_FLOAT32: 183, BITS_16: 362, BITS_8: 733}),
        (cuda("9.0", 132, 1830), {TENSOR_FLOAT32: 494.7, BITS_16: 989.4, BITS_8: 1978.9}),
        (H100_SXM, {FLOAT64: 66.9, FLOAT32: 66.9, BITS_16: 1070.5}),
        (cuda("10.0", 148, 1965), {FLOAT64: 37, FLOAT32: 75}),
        (cuda("10.0", 148, 1860), {TENSOR_FLOAT32: 1125, BITS_16: 2250, BITS_8: 4500}),
        (amd("9.0", 120, 1502), {FLOAT32: 46.1, BITS_16: 184.6}),
        (amd("9.0", 110, 1700), {FLOAT64: 95.7 / 2, FLOAT32: 95.7 / 2, BITS_16: 383 / 2, BITS_8: 383 / 2}),
        (amd("9.4", 304, 2100), {FLOAT64: 163.4, FLOAT32: 163.4, TENSOR_FLOAT32: 653.7, BITS_16: 1307.4, BITS_8: 2614.9}),
        (amd("9.5", 256, 2400), {FLOAT64: 78.6, FLOAT32: 157.3, BITS_16: 2516.6, BITS_8: 5033.2}),
    ],
    ids=[
        "V100", "T4", "A100", "A10", "L4", "L40S", "H100 SXM at the clock of its data sheet", "H100 SXM",
        "B200", "B200 at the clock of its data sheet", "MI100", "half an MI250X", "MI300X", "MI355X",
    ],
)  # fmt: skip
def test_peaks_agree_with_data_sheets(plane: Plane, sheet: dict[Precision, float]) -> None:
    found = peaks(plane)
    assert {precision: found[precision] for precision in sheet} == pytest.approx(sheet, rel=0.02)


def test_a_precision_that_an_architecture_lacks_runs_as_the_next() -> None:
    volta = peaks(V100)
    assert volta[TENSOR_FLOAT32] == volta[FLOAT32] and volta[BITS_8] == volta[BITS_16]


@pytest.mark.parametrize(
    ("name", "capability", "cores", "mhz", "tera", "eight"),
    [
        ("NVIDIA GeForce RTX 4090", "8.9", 128, 2520, 165.2, 660.6),
        ("NVIDIA L40", "8.9", 142, 2490, 181, 362),
        ("NVIDIA A10G", "8.6", 80, 1710, 70, 140),
    ],
)
def test_some_gpus_run_at_half_the_rate(name: str, capability: str, cores: int, mhz: int, tera: float, eight: float) -> None:
    named, plain = cuda(capability, cores, mhz, gpu_device_name=name), cuda(capability, cores, mhz)
    assert (peak_flops(named) / TERA, peak_flops(named, BITS_8) / TERA) == pytest.approx((tera, eight), rel=0.01)
    assert 2 * peak_flops(named, TENSOR_FLOAT32) == peak_flops(plain, TENSOR_FLOAT32)
    assert peak_flops(named, FLOAT32) == peak_flops(plain, FLOAT32)


def test_a_tpu_states_its_peak() -> None:
    tpu = device(peak_teraflops_per_second=918.0, peak_hbm_bw_gigabytes_per_second=1638.0)
    assert peak_flops(tpu) == peak_flops(tpu, TENSOR_FLOAT32) == data_sheet_flops(tpu) == 918e12
    assert [peak_flops(tpu, precision) for precision in (FLOAT64, FLOAT32, BITS_8)] == [0, 0, 0]
    assert memory_bandwidth(tpu) == 1638e9


def test_a_stated_peak_is_the_one_in_16_bits() -> None:
    stated = cuda("9.0", 132, 1980, peak_teraflops_per_second=900.0)
    assert peaks(stated) == {**peaks(H100_SXM), BITS_16: 900}


@pytest.mark.parametrize(
    "plane",
    [
        device(),
        device(device_vendor="AMD"),
        cuda("6.1", 20, 1600),
        cuda("8.7", 16, 1300),
        amd("9.0", 60, 1725),
        amd("11.0", 48, 2500),
        device(compute_cap_major=9, core_count=132),
        device(compute_cap_major=9, clock_rate=1_980_000),
    ],
    ids=[
        "nothing stated",
        "AMD, nothing else",
        "Pascal",
        "Orin",
        "MI50",
        "RDNA 3",
        "without a clock",
        "without a number of cores",
    ],
)
def test_what_is_not_known_is_0(plane: Plane) -> None:
    assert set(peaks(plane).values()) == {0.0}
    assert data_sheet_flops(plane) == memory_bandwidth(plane) == 0


@pytest.mark.parametrize(
    ("plane", "tera"),
    [
        (H100_SXM, 989.4),
        (cuda("9.0", 132, 1785), 835.5),
        (cuda("9.0", 114, 1755), 756),
        (cuda("8.0", 108, 1410), 312),
        (V100, 125),
        (cuda("7.0", 80, 1380), 112),
        (cuda("7.5", 40, 1590), 65),
        (cuda("7.5", 40, 1770), 0),
        (cuda("8.9", 142, 2490), 181.05),
        (cuda("8.9", 142, 2520), 362.05),
        (cuda("10.0", 148, 1965), 2250),
        (cuda("8.0", 42, 1410), 0),
        (cuda("9.0", 132, 1980, gpu_device_name="NVIDIA H200"), 989.4),
        (cuda("9.0", 132, 1785, gpu_device_name="NVIDIA H100 NVL"), 835.5),
        (cuda("9.0", 114, 1755, gpu_device_name="NVIDIA H100 PCIe"), 756),
        (cuda("7.0", 80, 1380, gpu_device_name="Tesla V100-PCIE-16GB"), 112),
        (cuda("8.0", 42, 1410, gpu_device_name="NVIDIA A100-SXM4-40GB MIG 3g.20gb"), 0),
        (cuda("8.6", 84, 1860, gpu_device_name="NVIDIA GeForce RTX 3090 Ti"), 0),
        (amd("9.4", 304, 2100), 1307.4),
    ],
    ids=[
        "H100 SXM", "H100 NVL", "H100 PCIe", "A100", "V100", "V100 PCIe", "T4", "another clock than T4", "L40", "L40S", "B200",
        "part of an A100", "named H200", "named H100 NVL", "named H100 PCIe", "named V100 PCIe", "named part of an A100",
        "a name that is not known", "MI300X",
    ],
)  # fmt: skip
def test_data_sheets(plane: Plane, tera: float) -> None:
    assert data_sheet_flops(plane) == pytest.approx(tera * TERA, rel=1e-4)


@pytest.mark.parametrize(
    ("profile", "peak", "sheet"),
    [
        ("jax_h100_ok_vae", 1070.5, 989.4),
        ("jax_h200_table", 1070.5, 989.4),
        ("tf_gpu_v100_bert", 125.3, 125),
        ("jax_rocm_gemm", 1307.4, 1307.4),
        ("tpu_v6e_inference", 918, 918),
    ],
)
def test_real_devices(profile: str, peak: float, sheet: float) -> None:
    (timeline,) = opened(profile).run.hosts
    plane = timeline.device_planes[0]
    assert (peak_flops(plane) / TERA, data_sheet_flops(plane) / TERA) == pytest.approx((peak, sheet), rel=1e-3)


@pytest.mark.parametrize(
    ("capability", "cores", "mhz", "tera"),
    [("8.6", 84, 1740, 150), ("8.9", 60, 2040, 125), ("10.0", 148, 1965, 2382), ("6.1", 20, 1600, 0), ("8.7", 16, 1300, 0)],
    ids=["A40", "L4", "B200", "without tensor cores", "of an architecture that is not known"],
)
def test_a_gpus_peak_at_the_highest_clock(capability: str, cores: int, mhz: int, tera: float) -> None:
    assert peak_flops(cuda(capability, cores, mhz)) == pytest.approx(tera * TERA, rel=0.01)


def test_a_peak_needs_capability_multiprocessors_and_clock() -> None:
    known = {"compute_cap_major": 9, "core_count": 132, "clock_rate": 1_980_000}
    assert peak_flops(device(**known, peak_teraflops_per_second=918.0)) == 918 * TERA
    assert [peak_flops(device(**{k: v for k, v in known.items() if k != left})) for left in known] == [0, 0, 0]
