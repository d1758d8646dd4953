"""Tables and findings of the memory profile, on programs whose memory is known."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace.model import Chart, Finding, Page
from outpace.report import chart_data
from outpace.testing import SpaceBuilder
from outpace.tools.memory_profile.breakdown import BEFORE_PEAK_STEP
from outpace.tools.memory_profile.compute import MAX_POINTS, downsample
from outpace.tools.memory_profile.memory_log import build_memory_logs
from tests.unit.tools_memory_profile.memory_samples import MS, Memory, host, leaking, opened


def page(folder: Path, *spaces: SpaceBuilder) -> Page:
    return opened(folder, *spaces).page("memory_profile")


def row(page: Page, table: str) -> dict[str, Any]:
    (only,) = page.table(table).records()
    return only


def found(page: Page) -> dict[str, Finding]:
    return {f.id: f for f in page.findings}


def at_peak(fill: int, fragmentation: float = 0.0, name: str = "GPU_0_bfc", space: SpaceBuilder | None = None) -> SpaceBuilder:
    """A memory of 1000 bytes of which `fill` are in use at the peak."""
    space = space or host(1)
    Memory(space, name, used=fill - 10, fragmentation=fragmentation).take(1, 7, 10, tf_op="a", region_type="temp")
    return space


def test_the_timeline_keeps_first_last_and_peak(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space, capacity=10**6)
    random = np.random.default_rng(0)
    for i in range(5000):
        memory.take(2 * i, i, int(random.integers(1, 100)) if i != 2345 else 5000)
        memory.free(2 * i + 1, i, 0)
        memory.used = 0 if i % 7 else 3
    profile = opened(tmp_path, space)
    ((log,), _) = build_memory_logs(profile.run)
    kept = downsample(log)
    stretches = MAX_POINTS // 2
    assert stretches < len(kept) <= MAX_POINTS + 3
    assert {0, len(log) - 1, log.peak_index} <= set(kept.tolist())
    bounds = np.arange(stretches + 1) * len(log) // stretches
    stretch = np.searchsorted(bounds, kept, side="right") - 1
    for end in (np.max, np.min):
        whole = [end(log.bytes_in_use[a:b]) for a, b in pairwise(bounds.tolist())]
        assert [end(log.bytes_in_use[kept[stretch == i]]) for i in range(stretches)] == whole
    assert profile.page("memory_profile").table("timeline")["in_use_bytes"].max() == log.bytes_in_use.max()


def test_the_chart_shows_the_peak_and_keeps_time_linear(tmp_path: Path) -> None:
    space = host(1, length=640 * MS)
    memory = Memory(space)
    memory.take(0, 1, 10)
    memory.take(100 * MS, 2, 500)
    memory.free(101 * MS, 2, 500)
    memory.free(640 * MS - 1, 1, 10)
    chart = next(s for s in page(tmp_path, space).sections if isinstance(s, Chart))
    drawn = chart_data.compute_area_columns(chart, 64)
    assert drawn.labels[:3] == ("0 µs", "10.0 ms", "20.0 ms")
    assert drawn.heights.tolist() == [[10] * 10 + [510] + [10] * 53]  # the last slice is highest before the free at its end


def test_negative_sizes_for_deallocations(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space)
    memory.take(1, 7, 64)
    memory.free(2, 7, 64)
    table = page(tmp_path, space).table("timeline")
    assert table["event"].tolist() == ["allocation", "deallocation"]
    assert table["allocated_bytes"].tolist() == [64, -64]


def test_equal_allocations_are_one_row_and_small_ones_are_kept(tmp_path: Path) -> None:
    space = host(1)
    memory = Memory(space, used=100)
    for address in range(3):
        memory.take(address, address, 4, tf_op="a", region_type="temp", shape="[1]", data_type=1)
    memory.take(5, 9, 8, tf_op="a", region_type="temp", shape="[2]", data_type=1)
    rows = [
        (r["op"], r["allocated_bytes"], r["occurrences"], r["total_bytes"])
        for r in page(tmp_path, space).table("breakdown").records()
    ]
    assert rows == [(BEFORE_PEAK_STEP, 100, 1, 100), ("a", 8, 1, 8), ("a", 4, 3, 12)]


def test_allocations_of_earlier_steps_are_listed_apart(tmp_path: Path) -> None:
    space = host(2)
    memory = Memory(space)
    memory.take(1, 1, 100, tf_op="first")
    memory.take(MS + 1, 2, 50, tf_op="second")
    shown = page(tmp_path, space)
    assert shown.table("earlier")["op"].tolist() == ["first"]
    assert shown.table("breakdown")["op"].tolist() == [BEFORE_PEAK_STEP, "second"]
    summary = row(shown, "memories")
    assert (summary["step_bytes"], summary["earlier_bytes"], summary["before_bytes"], summary["peak_step"]) == (50, 100, 0, 1)


@pytest.mark.parametrize(("fill", "severity"), [(890, None), (900, "moderate"), (960, "moderate"), (970, "high")])
def test_near_capacity(tmp_path: Path, fill: int, severity: str | None) -> None:
    finding = found(page(tmp_path, at_peak(fill))).get("near_capacity")
    assert (finding.severity.value if finding else None) == severity


@pytest.mark.parametrize(("fill", "fragmentation", "told"), [(600, 0.5, True), (600, 0.49, False), (400, 0.9, False)])
def test_fragmentation(tmp_path: Path, fill: int, fragmentation: float, told: bool) -> None:
    assert ("fragmentation" in found(page(tmp_path, at_peak(fill, fragmentation)))) == told


def test_of_many_full_devices_one_is_told_and_the_others_are_named(tmp_path: Path) -> None:
    space = host(1)
    for number in range(8):
        at_peak(900 + number, name=f"GPU_{number}_bfc", space=space)
    shown = page(tmp_path, space)
    (finding,) = shown.findings
    assert "GPU_7_bfc" in finding.sentence
    assert "7 more memories" in " ".join(finding.counter_evidence)
    chart = next(s for s in shown.sections if isinstance(s, Chart))
    assert chart.choice_columns() == ("host", "memory")
    assert chart.table["memory"][0] == "GPU_7_bfc"


@pytest.mark.parametrize("noise", [(0,), (0, 20, 5)])
def test_a_leak_is_found_and_names_its_op(tmp_path: Path, noise: tuple[int, ...]) -> None:
    finding = found(page(tmp_path, leaking(10, 40, noise)))["memory_growth"]
    assert "model/keep/Identity" in finding.sentence
    assert finding.evidence[0].value == pytest.approx(40, abs=2)
    assert "more steps" in finding.sentence


def test_the_op_that_leaves_memory_behind_is_counted_per_step(tmp_path: Path) -> None:
    shown = page(tmp_path, leaking(10, 40))
    assert row(shown, "growth") | {"rising": 1.0, "first_bytes": 2040, "last_bytes": 2400, "leak": True} == row(shown, "growth")
    left = row(shown, "unfreed")
    assert (left["op"], left["occurrences"], left["steps"], left["per_step_bytes"]) == ("model/keep/Identity", 9, 9, 40)


@pytest.mark.parametrize(
    ("steps", "per_step", "noise"),
    [(10, 0, (0, 30, 60)), (10, 1, (0,)), (4, 100, (0,)), (12, 0, (0,))],
    ids=["sawtooth", "too little", "too few steps", "flat"],
)
def test_no_leak(tmp_path: Path, steps: int, per_step: int, noise: tuple[int, ...]) -> None:
    assert "memory_growth" not in found(page(tmp_path, leaking(steps, per_step, noise)))


def test_memory_that_stops_growing_is_no_leak(tmp_path: Path) -> None:
    """It rises in 16 of 19 steps, but not in most of the later ones."""
    space = host(20)
    memory = Memory(space, used=1000, capacity=10_000)
    for step in range(20):
        memory.take(step * MS + 1, step + 1, 200 if step < 17 else 0, tf_op="slot")
    shown = page(tmp_path, space)
    assert row(shown, "growth")["rising"] == pytest.approx(16 / 19)
    assert "memory_growth" not in found(shown)


def test_the_largest_batch(tmp_path: Path) -> None:
    """Capacity 1000, peak 400: 100 scale, 60 are of unknown region, the rest stays."""
    space = host(1)
    memory = Memory(space, used=200)
    for address, (size, region) in enumerate(((70, "output"), (30, "temp"), (40, "persist/dynamic"))):
        memory.take(address, address, size, tf_op="a", region_type=region)
    memory.take(5, 9, 60)
    room = row(page(tmp_path, space), "headroom")
    assert (room["scaling_bytes"], room["unknown_bytes"], room["fixed_bytes"]) == (100, 60, 240)
    assert room["factor_low"] == pytest.approx((1000 - 240) / 160)
    assert room["factor_high"] == pytest.approx((1000 - 300) / 100)
    assert room["estimate"] == "4.8 to 7 x"


def test_no_estimate_without_a_limit(tmp_path: Path) -> None:
    """An allocator without a limit reports less than nothing as available."""
    space = host(1)
    Memory(space, "cpu", capacity=0).take(1, 7, 10, tf_op="a", region_type="temp")
    shown = page(tmp_path, space)
    assert "reports no limit" in shown.headline
    room = row(shown, "headroom")
    assert room["factor_low"] is None
    assert room["estimate"] == "not measurable: the allocator tells no limit"
    assert row(shown, "memories")["capacity_bytes"] is None
    assert not shown.findings


def test_hosts_are_told_apart(tmp_path: Path) -> None:
    shown = page(tmp_path, at_peak(950, space=host(1, "a")), at_peak(300, space=host(1, "b")), host(1, "c"))
    assert shown.table("memories")["host"].tolist() == ["a", "b"]
    assert [f.host for f in shown.findings] == ["a"]
    assert "GPU_0_bfc on a" in shown.headline
    assert any("recorded on c" in s.body for s in shown.sections if hasattr(s, "body"))


def test_no_sizes_at_all(tmp_path: Path) -> None:
    space = host(1)
    Memory(space).threads[0].event("MemoryAllocation", 1, 0, addr=1)
    unavailable = page(tmp_path, space).unavailable
    assert unavailable is not None
    assert "how much memory is in use" in unavailable.reason


def test_a_memory_whose_events_belong_to_no_step(tmp_path: Path) -> None:
    space = host(0)
    line = Memory(space).threads[0]
    line.event("MemoryAllocation", 5, 0, index_on_host=1, bytes_reserved=50, bytes_allocated=10, bytes_available=40, addr=1)
    shown = page(tmp_path, space)
    assert shown.headline == "device 1 has 60 B of 100 B in use at its peak (60.0%)."
    assert row(shown, "memories")["peak_step"] is None
    assert [(r["op"], r["region"]) for r in shown.table("breakdown").records()] == [
        ("stack", "stack"),
        (BEFORE_PEAK_STEP, ""),
        ("", ""),  # an allocation of unknown size
    ]
    assert row(shown, "headroom")["estimate"] == "not measurable: no region types; 1.7 x if all memory grows with it"
