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
    """Of each step, in µs: a program in 100-200 and 210-300 (launched at once), another one in
    400-450 after an allocation and its launch at 390, a third in 650-700 behind a wait; between
    steps, and before the first launch at 90, Python.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host)
    for begin in range(0, STEPS * STEP, STEP):
        host.event("train", begin, STEP, step_num=begin // STEP, _r=1)
        for start, work, program, called in ((100, 100, 1, 90), (210, 90, 1, 92), (400, 50, 2, 390), (650, 50, 3, 640)):
            gpu.kernel("k", begin + start * US, work * US, called=begin + called * US, program_id=program)
        host.event("BuildBufferAllocation", begin + 300 * US, 85 * US)
        host.event("block_until_ready", begin + 440 * US, 195 * US)
    rows = {(row["place"], row["late"]): row for row in page_of(space, tmp_path).table("launch_gaps").records()}

    def found(place: str, late: str) -> tuple[float, int]:
        row: dict[str, Any] = rows.pop((place, late))
        return row["idle_ps"] / US, row["gaps"]

    assert found("inside a program", launch_gaps.LAUNCHED) == (STEPS * 10, STEPS)
    assert found("between programs", launch_gaps.ALLOCATING) == (STEPS * 90, STEPS)
    assert found("between programs", launch_gaps.AWAITED) == (STEPS * 190, STEPS)
    assert found("between programs", launch_gaps.LAUNCHED) == (STEPS * 20, 2 * STEPS)
    assert found("before a step", launch_gaps.PYTHON) == ((STEPS - 1) * 390, STEPS - 1)
    assert found("before a step", launch_gaps.LAUNCHED) == ((STEPS - 1) * 10, STEPS - 1)
    assert not rows


def test_the_users_line_is_named_where_samples_know_it() -> None:
    rows = list(opened("jax_h100_columns").page("kernel_stats").table("launch_gaps").records())
    assert (rows[0]["place"], rows[0]["late"]) == ("between programs", launch_gaps.CALLING)
    assert rows[0]["line"].endswith("columns.py:55")
    waited = next(iter(opened("jax_h100_dwconv1d").page("kernel_stats").table("launch_gaps").records()))
    assert (waited["place"], waited["late"]) == ("before a step", launch_gaps.AWAITED)
    assert waited["line"].endswith("dwconv1d.py:72")
