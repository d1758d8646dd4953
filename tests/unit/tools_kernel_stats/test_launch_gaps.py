"""Idle time by place and by who was late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.tools.kernel_stats import launch_gaps
from tests.support import opened
from tests.unit.tools_kernel_stats.gpu_run import US, page_of

STEPS, STEP = 6, 1000 * US


def test_idle_time_has_a_place_and_a_cause(tmp_path: Path) -> None:
    """Of each step, in µs: three ops of a program in 100-300 (launched before), one of another
    program in 400-450 after an allocation (launched at 390), a copy in 500-510 (launched
    at 495), a third program in 650-700 (launched at 640) after a wait until 600; behind it Python.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host)
    runs = ((100, 50, 1, 90, "a"), (155, 45, 1, 90, "b"), (210, 90, 1, 92, "a"), (400, 50, 2, 390, "a"), (650, 50, 3, 640, "a"))
    for begin in range(0, STEPS * STEP, STEP):
        host.event("train", begin, STEP, step_num=begin // STEP, _r=1)
        for start, work, program, called, op in runs:
            stats: dict[str, Any] = {"program_id": program, "hlo_op": op, "hlo_module": f"jit_{program}"}
            gpu.kernel(op, begin + start * US, work * US, called=begin + called * US, **stats)
        gpu.copy("H2D", 1000, begin + 500 * US, 10 * US, called=begin + 495 * US)
        host.event("AllocateOutputBuffers", begin + 300 * US, 85 * US)
        host.event("block_until_ready", begin + 512 * US, 88 * US)
    rows = {(row["place"], row["late"]): row for row in page_of(space, tmp_path).table("launch_gaps").records()}

    def found(place: str, late: str) -> tuple[float, int]:
        row: dict[str, Any] = rows.pop((place, late))
        return row["idle_ps"] / US, row["gaps"]

    assert found(launch_gaps.INSIDE, launch_gaps.LAUNCHED) == (STEPS * 15, 2 * STEPS)
    assert found(launch_gaps.BETWEEN, launch_gaps.ALLOCATING) == (STEPS * 90, STEPS)
    assert found(launch_gaps.BETWEEN, launch_gaps.LAUNCHED) == (STEPS * 10, STEPS)
    assert found(launch_gaps.BESIDE, launch_gaps.AWAITED) == (STEPS * 88, STEPS)
    assert found(launch_gaps.BESIDE, launch_gaps.PYTHON) == (STEPS * (45 + 42), 2 * STEPS)
    assert found(launch_gaps.BESIDE, launch_gaps.LAUNCHED) == (STEPS * 15, 2 * STEPS)
    assert found(launch_gaps.BEFORE_STEP, launch_gaps.PYTHON) == ((STEPS - 1) * 390, STEPS - 1)
    assert found(launch_gaps.BEFORE_STEP, launch_gaps.LAUNCHED) == ((STEPS - 1) * 10, STEPS - 1)
    assert not rows


def test_the_users_line_is_named_where_samples_know_it() -> None:
    first = next(iter(opened("jax_h100_columns").page("kernel_stats").table("launch_gaps").records()))
    assert (first["late"], first["line"].rpartition("/")[2]) == (launch_gaps.CALLING, "columns.py:55")
    rows = [row for row in opened("jax_h100_dwconv1d").page("kernel_stats").table("launch_gaps").records() if row["line"]]
    assert {(row["place"], row["late"], row["line"].rpartition("/")[2]) for row in rows[:2]} == {
        (launch_gaps.BEFORE_STEP, late, "dwconv1d.py:72") for late in (launch_gaps.CALLING, launch_gaps.AWAITED)
    }


def test_a_devices_row_has_the_line_of_most_of_its_late_time() -> None:
    device = next(iter(opened("jax_h100_dwconv1d").page("kernel_stats").table("devices").records()))
    assert device["late_line"].endswith("dwconv1d.py:72")
