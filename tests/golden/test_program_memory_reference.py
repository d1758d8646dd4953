"""The memory of programs, against XProf 2.24.2's memory viewer (`peakHeapMib`,
`peakHeapSizePosition`, `totalBufferAllocationMib`).
"""

from __future__ import annotations

import pytest

from outpace.timeline.hlo import memory
from outpace.timeline.hlo.memory import BufferKind
from outpace.tools.program_memory.compute import build_buffers, build_curve, build_programs, find_large, find_programs
from tests.support import PROFILES, opened

MIB = 2.0**20
XPROF = {  # peak, its event, reserved; MiB
    "jax_h100_ok_vae": (1559.56, 57, 1559.57),
    "jax_h100_dwconv1d": (1250.13, 65, 1250.14),
    "jax_h100_fft_odd": (1910.89, 63, 1910.90),
    "jax_h100_choice_batch": (865.77, 95, 865.81),
    "jax_h100_sample_often": (3022.75, 193, 3024.71),
    "jax_h100_columns": (118.64, 33, 120.64),
}


@pytest.mark.parametrize("name", XPROF)
def test_the_largest_programs_peak_is_that_of_xprof(name: str) -> None:
    peak, event, reserved = XPROF[name]
    plan = find_programs(opened(name).run)[0].plan
    assert [plan.peak_bytes / MIB, plan.total_bytes / MIB] == pytest.approx([peak, reserved], abs=0.01)
    assert plan.peak == event


ASYNCHRONOUS = "tpu_v6e_inference"  # whose copies run beside other ops: an array is live for longer than its readers


@pytest.mark.parametrize("name", PROFILES)
def test_without_a_heap_trace_the_schedule_has_the_same_peak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers round sizes, and tables of pointers are arrays, too."""
    traced = [each for each in find_programs(opened(name).run) if each.plan.curve]
    monkeypatch.setattr(memory, "_heaps", lambda assignment, own: [])
    for program in traced:
        plan = memory.read_memory_plan(program.module._proto, program.module.graph, program.module.schedules)
        assert plan is not None and plan.total_bytes == program.plan.total_bytes
        assert sum(each.size for each in plan.peak_buffers) == plan.peak_bytes <= plan.total_bytes
        if name != ASYNCHRONOUS:
            assert plan.peak_bytes == pytest.approx(program.plan.peak_bytes, rel=2e-3, abs=1024)


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_live_at_the_peak_adds_up(name: str) -> None:
    programs = find_programs(opened(name).run)
    for program in programs:
        plan = program.plan
        assert sum(each.size for each in plan.peak_buffers) == plan.peak_bytes <= plan.total_bytes
        held = plan.total_bytes - plan.sizes[BufferKind.TEMPORARY]
        assert all(held <= live <= plan.peak_bytes for _, live in plan.curve)
    if programs:
        table = build_buffers(find_large(programs))
        listed = {row["program"]: 0 for row in table.records()}
        for row in table.records():
            listed[row["program"]] += row["size_bytes"]
        peaks = {row["program"]: row["peak_bytes"] for row in build_programs(programs, {}).records()}
        assert listed == {program: peaks[program] for program in listed}
        assert len(build_curve(find_large(programs))) == 0 or max(build_curve(find_large(programs))["live_bytes"]) > 0
