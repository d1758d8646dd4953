"""Time of compiled ops by the line they come from."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.hlo_instructions import (
    InstructionStats,
    attention_ops,
    busy_module_counts,
    has_one_module,
    hlo_source_lines,
    instruction_stats,
    strip_transforms,
)
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.timeline.hlo.ops import HloOp
from outpace.trace import read_trace
from tests.support import beside, opened, opened_beside


@pytest.mark.parametrize(
    ("name", "plain", "backward"),
    [
        ("jit(f)/jvp()/dot_general", "jit(f)/dot_general", False),
        ("jit(f)/transpose(jvp())/dot_general", "jit(f)/dot_general", True),
        ("jit(f)/transpose(jvp(bsd,de->bse))/transpose", "jit(f)/bsd,de->bse/transpose", True),
        ("jit(f)/jvp(Block/Dense)/dot_general", "jit(f)/Block/Dense/dot_general", False),
        ("jit(f)/while/body/add", "jit(f)/while/body/add", False),
        ("jit(f)/mul;jit(f)/broadcast_in_dim", "jit(f)/mul", False),
        ("", "", False),
    ],
)
def test_wrappers_of_differentiation_are_no_part_of_an_op(name: str, plain: str, backward: bool) -> None:
    assert strip_transforms(name) == (plain, backward)


def test_lines_of_a_jax_program_on_a_cpu() -> None:
    """The model stands in line 7, the optimizer in line 8 of the script; 11 of 12 steps are the
    steady state.
    """
    table = hlo_source_lines(opened("jax_loop").run)
    rows = list(table.records())
    assert {row["source"].rpartition("/")[2] for row in rows if row["share"] > 0.02} == {"jaxprof.py:7", "jaxprof.py:8"}
    first = rows[0]
    assert (first["side"], first["op"], first["bits"]) == ("CPU", "jit(step)/dot_general", 32)
    assert first["count"] == 3 * 11, "two products forward, one backward"
    assert 0 < first["backward_ps"] < first["time_ps"]
    steps = opened("jax_loop").run.hosts[0].steps
    assert first["share"] == pytest.approx(first["time_ps"] / steps.duration[steps.steady_rows].mean())


def test_times_are_per_device() -> None:
    """Four chips: most of each step's time they wait for copies between host and device."""
    table = hlo_source_lines(opened("tpu_v6e_inference").run)
    assert table["share"].sum() == pytest.approx(1.0, abs=0.02)
    assert next(table.records())["opcode"] == "copy-done"


@pytest.mark.skipif(not beside(("jax_rocm_te_attention",)), reason="the profile lies beside the repository only")
def test_lines_of_a_gpu_name_the_users_code() -> None:
    """The innermost frames are a library's (transformer_engine); the script's own lines are 77
    (attention) and 92 (projection).
    """
    rows = list(hlo_source_lines(opened_beside("jax_rocm_te_attention").run).records())
    assert rows[0]["source"] == "/workspace/12_te_fused_attn.py:77"
    assert rows[1]["source"] == "/workspace/12_te_fused_attn.py:92"
    assert rows[0]["backward_ps"] == rows[0]["time_ps"]
    assert (rows[0]["bits"], rows[0]["count"]) == (16, 10)


def test_a_profile_without_programs_has_no_lines() -> None:
    assert len(hlo_source_lines(opened("custom_loop").run)) == 0


@pytest.mark.parametrize("devices", [1, 2])
def test_devices_that_a_cpu_is_divided_into_are_averaged(devices: int) -> None:
    """A pmap over two CPU devices: each computes for 6 of 10 ms, side by side; together they are no
    120 % of the step.
    """
    ms = 1_000_000_000
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    host = plane.line("python")
    workers = [plane.line(f"tf_XLAPjRtCpuClient/{at}") for at in range(devices)]
    for step in range(5):
        host.event("train", step * 10 * ms, 10 * ms, step_num=step, _r=1).event("PmapFunction(step)", step * 10 * ms, 9 * ms)
        for at, worker in enumerate(workers):
            worker.event(
                "dot.1", (step * 10 + 2) * ms, 6 * ms,
                hlo_op="dot.1", hlo_module="jit_step", program_id=8, run_id=100 + step, device_ordinal=at,
            )  # fmt: skip
    (row,) = hlo_source_lines(Run.from_traces([read_trace(space.to_bytes(), "vm")])).records()
    assert row["share"] == pytest.approx(0.6)
    assert row["count"] == 5 * devices


US = 1_000_000


def ran_for(*times: tuple[str, float], named: bool = True, gpus: int = 1, first: float = 0.0) -> Run:
    """Six steps of 10 ms, in which (program, ms) run one behind the other; `named`: kernels name
    their programs. Before them another program runs for `first` ms, in a step of its own.
    """
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    made = [GpuBuilder(space, host, index=index) for index in range(gpus)]
    ids = {name: 8 + at for at, name in enumerate(dict.fromkeys(name for name, _ in times))}
    if first:
        host.event("train", 0, 200_000 * US, step_num=0, _r=1)
        stats = {"hlo_op": "fusion.1", "hlo_module": "jit_first", "program_id": 7}
        made[0].kernel("fusion_1", 0, round(first * 1000 * US), **stats)  # type: ignore[arg-type]
    for step in range(20, 26):
        host.event("train", step * 10_000 * US, 10_000 * US, step_num=step, _r=1)
        for gpu in made:
            at = step * 10_000
            for name, lasts in times:
                of = {"program_id": ids[name]} if named else {}
                stats = {"hlo_op": "fusion.1", "hlo_module": f"jit_{name}", **of}
                gpu.kernel("fusion_1", at * US, round(lasts * 1000 * US), called=None, **stats)  # type: ignore[arg-type]
                at += round(lasts * 1000)
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


@pytest.mark.parametrize(
    ("times", "count"),
    [
        ([("a", 8.0)], 1),
        ([("a", 2.0), ("b", 2.0), ("c", 2.0), ("d", 2.0)], 4),
        ([("a", 2.0), ("b", 1.0), ("c", 0.9)], 1),
        ([("a", 1.9), ("b", 1.0), ("c", 1.0)], 3),
        ([("a", 1.8), ("b", 1.8), ("c", 0.4)], 2),
        ([("a", 1.7), ("b", 1.7), ("c", 0.6)], 3),
        ([("a", 1.0), ("b", 2.0), ("a", 1.5)], 1),
    ],
    ids=["one", "four", "half of the time", "less than half", "two make nine tenths", "two make less", "one that runs twice"],
)
@pytest.mark.parametrize("gpus", [1, 2])
def test_programs_that_make_most_of_a_devices_time(times: list[tuple[str, float]], count: int, gpus: int) -> None:
    run = ran_for(*times, gpus=gpus)
    assert busy_module_counts(run) == {"vm": count}
    assert has_one_module(run) is (count == 1)


def test_programs_of_a_warm_up_are_none_of_the_steps() -> None:
    assert busy_module_counts(ran_for(("a", 4.2), ("b", 4.2), ("c", 0.6), first=150.0)) == {"vm": 2}
    assert busy_module_counts(ran_for(("a", 3.0), ("b", 3.0), ("c", 3.0), first=150.0)) == {"vm": 3}


def test_kernels_that_name_no_program_tell_nothing() -> None:
    run = ran_for(("a", 8.0), named=False)
    assert (busy_module_counts(run), has_one_module(run)) == ({"vm": 0}, False)
    plain = opened("custom_loop").run
    assert (busy_module_counts(plain), has_one_module(plain)) == ({}, False)


def test_a_row_that_mostly_is_a_part_of_an_attention() -> None:
    def ran(time: float, side: str = "device", op: str = "jit(f)/dot_general", attention: bool = True) -> InstructionStats:
        return InstructionStats(side, HloOp("dot", op, "train.py:4", is_attention=attention), time, 0.1, 6, 6)

    row = ("vm", "jit(f)/dot_general", "train.py:4")
    backward = "jit(f)/transpose(jvp())/dot_general"
    for those, found in (
        ([ran(3), ran(2, attention=False)], {row}),
        ([ran(2), ran(3, attention=False)], set()),
        ([ran(2), ran(2, op=backward), ran(3, attention=False)], {row}),
        ([ran(3, side="CPU")], set()),
        ([ran(3, op="")], {("vm", "(dot)", "train.py:4")}),
    ):
        run = Run.from_traces([])
        run.cache.set(instruction_stats, {"vm": tuple(those)})
        assert attention_ops(run) == found


CPU_PROFILES = ("jax_cpu_steps", "jax_loop", "jax_loop_unmarked", "keras_fit_xla")


@pytest.mark.parametrize("name", CPU_PROFILES)
def test_ops_of_a_processor_are_no_more_than_the_steps(name: str) -> None:
    """However many threads run them: of each moment, every op that runs has its part."""
    for ran in instruction_stats(opened(name).run).values():
        assert 0 < sum(r.share for r in ran) <= 1.001
        assert all(0 <= r.above_share <= r.share + 1e-9 for r in ran)


@pytest.mark.parametrize("devices", [1, 2])
def test_the_devices_of_a_divided_processor_share_its_roof(devices: int) -> None:
    """Two devices that compute side by side take the step, not half of it each."""
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python")
    for number in range(10):
        line.event("train", number * 10_000_000_000, 10_000_000_000, _r=1, step_num=number)
    for device in range(devices):
        worker = space.plane("/host:CPU").line(f"tf_XLAEigen/{device}")
        for number in range(10):
            begin = number * 10_000_000_000 + 1_000_000_000
            worker.event("dot", begin, 6_000_000_000, hlo_op="dot", hlo_module="jit_f", device_ordinal=device)
    (ran,) = (r for r in instruction_stats(Run.from_traces([read_trace(space.to_bytes(), "vm")]))["vm"] if r.time_ps)
    assert ran.share == pytest.approx(0.6, abs=0.01)
    assert ran.time_ps == pytest.approx(6e9, rel=0.01), "per device"
