"""The tables of a synthetic GPU in all three dialects, column by column, against values worked out
by hand (see `gpu_run`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outpace.model import Page
from outpace.testing import Dialect, GpuBuilder, Launch, SpaceBuilder
from tests.unit.tools_kernel_stats.gpu_run import BANDWIDTH, US, page_of, space_of


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[Dialect, Page]:
    return {d: page_of(space_of(d), tmp_path_factory.mktemp("gpu")) for d in Dialect}


@pytest.fixture(params=Dialect)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param  # type: ignore[no-any-return]


def rows(page: Page, table: str, *without: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in ("host", *without)} for row in page.table(table).records()]


def kernel(rank: int, name: str, op: str, times: tuple[int, int, int, int], **more: Any) -> dict[str, Any]:
    count, total, low, high = times
    return {
        "rank": rank,
        "kernel": name,
        "function": name,
        "op": op,
        "hlo_op": "",
        "occurrences": count,
        "total_ps": total * US,
        "mean_ps": total * US / count,
        "min_ps": low * US,
        "max_ps": high * US,
        "kernel_fraction": pytest.approx(total / 300),
        "device": "GPU:0",
        **more,
    }


# Launch columns of gemm, xmma and the two small kernels: (registers, shared, static, dynamic,
# occupancy, by). Computed for compute capability 9.0, 64 warps: gemm 40 registers are 1,280 per
# warp, 48 warps in fours, 6 blocks of 8; xmma 192 KiB and one more are one block of 12; the small
# ones fill it.
LAUNCHES: dict[Dialect, tuple[tuple[Any, ...], ...]] = {
    Dialect.TF_2_4: (
        (40, 3072, None, None, 0.75, "computed"),
        (168, 196608, None, None, 0.1875, "computed"),
        (32, 0, None, None, 1.0, "computed"),
    ),
    Dialect.CUDA: (
        (40, 3072, 1024, 2048, 0.625, "recorded"),
        (168, 196608, 0, 196608, 0.1875, "recorded"),
        (32, 0, 0, 0, 1.0, "computed"),
    ),
    Dialect.ROCM: (
        (None, 3072, None, None, 0.625, "recorded"),
        (None, 196608, None, None, 0.1875, "recorded"),
        (None, 0, None, None, None, "unknown"),
    ),
}


def launched(values: tuple[Any, ...], block: str, grid: str) -> dict[str, Any]:
    names = ("registers", "shared_bytes", "static_bytes", "dynamic_bytes", "occupancy", "occupancy_source")
    return {**dict(zip(names, values, strict=True)), "block": block, "grid": grid}


def test_kernels(pages: dict[Dialect, Page], dialect: Dialect) -> None:
    gemm, tensor, small = LAUNCHES[dialect]
    able, no = {"eligible": True, "tensor_cores": False}, {"eligible": False, "tensor_cores": False}
    used = {"eligible": True, "tensor_cores": dialect is not Dialect.ROCM}  # `sm90_xmma` is no name of an AMD kernel
    small_launch = launched(small, "256,1,1", "80,1,1")
    assert rows(pages[dialect], "kernels") == [
        kernel(
            1,
            "gemm_a",
            "dense/MatMul",
            (2, 100, 40, 60),
            mean_latency_ps=65 * US,
            **able,
            **launched(gemm, "256,1,1", "80,2,1"),
        ),
        kernel(
            2,
            "sm90_xmma_gemm_x",
            "dense_1/MatMul",
            (1, 100, 100, 100),
            mean_latency_ps=50 * US,
            **used,
            **launched(tensor, "384,1,1", "132,1,1"),
        ),
        kernel(3, "relu", "dense/Relu", (1, 90, 90, 90), mean_latency_ps=None, **no, **small_launch),
        kernel(4, "loose", "", (1, 10, 10, 10), mean_latency_ps=10 * US, **no, **small_launch),
    ]


def test_copies(pages: dict[Dialect, Page], dialect: Dialect) -> None:
    """1 MB in 100 µs is 10 GB/s; within the device it is read and written. Only CUDA's profiles say
    which memory it was.
    """
    known = dialect is Dialect.CUDA
    common = {"occurrences": 1, "device": "GPU:0"}
    place = {"source": "pageable" if known else "", "destination": "device" if known else ""}
    inside = {"source": "device" if known else "", "destination": "device" if known else ""}
    assert rows(pages[dialect], "copies") == [
        {"kind": "HToD", **place, **common, "bytes": 10**6, "total_ps": 100 * US, "bandwidth": 1e10, "memory_fraction": None},
        {
            "kind": "DToD",
            **inside,
            **common,
            "bytes": 10**6,
            "total_ps": 10 * US,
            "bandwidth": 1e11,
            "memory_fraction": pytest.approx(2e11 / BANDWIDTH),
        },
        {
            "kind": "memset",
            "source": "",
            "destination": "device",
            **common,
            "bytes": 4096,
            "total_ps": 5 * US,
            "bandwidth": pytest.approx(4096 / 5e-6),
            "memory_fraction": None,
        },
    ]


def test_launches(pages: dict[Dialect, Page], dialect: Dialect) -> None:
    """Latencies 50, 80, 50 and 10 µs; the second gemm was called at 60 and had the first before it
    from 100 to 140.
    """
    assert rows(pages[dialect], "launches") == [
        {
            "kernels": 5,
            "matched": 4,
            "unmatched": 1,
            "median_latency_ps": 50 * US,
            "p95_latency_ps": pytest.approx(75.5 * US),
            "max_latency_ps": 80 * US,
            "mean_latency_ps": 47.5 * US,
            "mean_queued_ps": 10 * US,
            "device": "GPU:0",
        }
    ]


def test_devices(pages: dict[Dialect, Page], dialect: Dialect) -> None:
    """Not launched yet: 200-250, 440-480 and 610-690; the launch of the memory set is not known.
    The step, 0-1000, begins 50 before the first launch, and goes on for 95 after the last event: in
    these and in 610-690 nothing but the step's mark says what the host did.
    """
    assert rows(pages[dialect], "devices") == [
        {
            "kernels": 5,
            "kernel_ps": 300 * US,
            "mean_kernel_ps": 60 * US,
            "copy_ps": 115 * US,
            "tuning_ps": 0,
            "span_ps": 805 * US,
            "busy_ps": 365 * US,
            "idle_ps": 440 * US,
            "idle_fraction": pytest.approx(440 / 805),
            "unlaunched_ps": 170 * US,
            "judged_ps": 1000 * US,
            "waited_ps": 0,
            "after_ps": 0,
            "late_ps": 315 * US,
            "unrecorded_ps": 0,
            "fed_ps": 0,
            "by_waiting_ps": 0,
            "by_launching_ps": 315 * US,
            "waits": "",
            "late_in": "(nothing recorded)",
            "late_in_ps": 225 * US,
            "late_own": False,
            "wait_line": "",
            "late_line": "",
            "device": "GPU:0",
        }
    ]


def test_idle_gaps(pages: dict[Dialect, Page], dialect: Dialect) -> None:
    """`decode` covers 70 of the 100 µs inside `load`; between 610 and 700 only the step's mark ran;
    of the last gap the thread is not known.
    """
    names = ("start_ps", "length_ps", "next", "host_activity", "thread")
    expected = [
        (710 * US, 190 * US, "Memset", "map/resize:ResizeBilinear", "tf_Compute"),
        (200 * US, 100 * US, "sm90_xmma_gemm_x", "decode", "python"),
        (610 * US, 90 * US, "loose", "train", "python"),
        (440 * US, 60 * US, "MemcpyH2D", "callback", "python"),
    ]
    found = rows(pages[dialect], "idle")
    assert [{k: v for k, v in row.items() if k != "step"} for row in found] == [
        dict(zip((*names, "device"), (*row, "GPU:0"), strict=True)) for row in expected
    ]
    assert [row["step"] for row in found] == [None, 3, 3, 3], "no launch links the memory set to a step"
    assert rows(pages[dialect], "idle_causes") == [
        {
            "host_activity": row[3],
            "gaps": 1,
            "idle_ps": row[1],
            "idle_fraction": pytest.approx(row[1] / (440 * US)),
            "device": "GPU:0",
        }
        for row in expected
    ]


def test_kernels_stand_below_the_op_and_the_scope_that_launched_them(pages: dict[Dialect, Page]) -> None:
    rows = {row["id"]: row for row in pages[Dialect.CUDA].table("kernel_tree").records()}
    paths: dict[int, tuple[str, int]] = {}
    for number, row in rows.items():
        above = paths[row["parent"]][0] if row["parent"] else ""
        paths[number] = (f"{above}/{row['name']}", row["total_ps"])
    assert ("/dense/MatMul/gemm_a", 100 * US) in paths.values()
    assert sum(row["self_ps"] for row in rows.values()) == 300 * US
    assert sum(row["total_ps"] for row in rows.values() if row["depth"] == 0) == 300 * US


def test_the_pie_is_of_kernel_names(pages: dict[Dialect, Page]) -> None:
    page = pages[Dialect.CUDA]
    assert {name: time for way, name, time in page.table("kernel_slices").rows() if way == "kernel"} == {
        "gemm_a": 100 * US,
        "sm90_xmma_gemm_x": 100 * US,
        "relu": 90 * US,
        "loose": 10 * US,
    }


def test_findings(pages: dict[Dialect, Page]) -> None:
    """One third of the kernel time is a MatMul without tensor cores; 315 of the 1000 µs wait for
    launches; 100 are a pageable copy.
    """
    found = {f.id: f for f in pages[Dialect.CUDA].findings}
    assert set(found) == {"tensor_cores_unused", "late_launches", "pageable_copies"}
    assert found["tensor_cores_unused"].evidence[0].value == pytest.approx(1 / 3)
    assert "dense/MatMul" in found["tensor_cores_unused"].sentence
    assert found["late_launches"].evidence[0].value == 315 * US
    assert found["pageable_copies"].evidence[0].value == 100 * US
    assert {f.id for f in pages[Dialect.TF_2_4].findings} == {"tensor_cores_unused", "late_launches"}, (
        "memory kinds not recorded"
    )


def test_an_op_whose_other_kernels_use_tensor_cores_is_no_finding(tmp_path: Path) -> None:
    space = SpaceBuilder()
    gpu = GpuBuilder(space, space.plane("/host:CPU").line("python"))
    gpu.kernel("nchwToNhwcKernel", 0, 50 * US, op="a/Conv2D:Conv2D").kernel("h884cudnn", 50 * US, 50 * US, op="a/Conv2D:Conv2D")
    assert not page_of(space, tmp_path).findings


def test_tiny_kernels_and_low_occupancy(tmp_path: Path) -> None:
    """100 kernels of 2 µs; their blocks are one warp each and take 101 of 228 KiB, so that two of
    64 warps are resident.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host, compute_cap_major=9, compute_cap_minor=0)
    for at in range(100):
        gpu.kernel("thin", at * 2 * US, 2 * US, launch=Launch(dynamic=100 * 1024, block=(32, 1, 1)), called=at * 2 * US)
    found = {f.id: f for f in page_of(space, tmp_path).findings}
    assert set(found) == {"tiny_kernels", "low_occupancy"}
    assert found["tiny_kernels"].evidence[0].value == 2 * US
    assert found["low_occupancy"].evidence[0].value == 2 / 64


def test_devices_of_a_host_are_kept_apart_and_the_worst_is_named(tmp_path: Path) -> None:
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    for index, second in enumerate((110, 190)):
        gpu = GpuBuilder(space, host, index=index)
        gpu.kernel("k", 0, 100 * US, called=0).kernel("k", second * US, 10 * US, called=(second - 5) * US)
    page = page_of(space, tmp_path)
    assert [(r["device"], r["occurrences"], r["total_ps"]) for r in rows(page, "kernels")] == [
        ("GPU:0", 2, 110 * US),
        ("GPU:1", 2, 110 * US),
    ]
    (finding,) = page.findings
    assert finding.id == "late_launches"
    assert finding.sentence.startswith("GPU:1 (worst of 2 devices) was idle for 42%")


def test_idle_devices_and_copies_alone_are_no_kernels(tmp_path: Path) -> None:
    space = SpaceBuilder()
    GpuBuilder(space, space.plane("/host:CPU").line("python")).copy("H2D", 4, 0, 10)
    page = page_of(space, tmp_path)
    assert page.unavailable is not None
    assert "none of them is a GPU kernel" in page.unavailable.reason


def test_einsum_counts_by_its_equation(tmp_path: Path) -> None:
    space = SpaceBuilder()
    gpu = GpuBuilder(space, space.plane("/host:CPU").line("python"))
    gpu.kernel("k1", 0, 10, op="a/einsum/Einsum:Einsum", equation="ab,bc->ac").kernel("k2", 20, 9, op="a/einsum/Einsum:Einsum")
    assert [(r["kernel"], r["eligible"]) for r in rows(page_of(space, tmp_path), "kernels")] == [("k1", True), ("k2", False)]
