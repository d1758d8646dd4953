"""Kernels of a command buffer, laid over the schedule of their program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from outpace.testing import GpuBuilder, SpaceBuilder, Unsigned
from outpace.timeline import Run, Timeline
from outpace.timeline import command_buffers as buffers
from outpace.timeline.command_buffers import align_to_schedule, compute_hlo_op_stat
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.hlo.modules import load_hlo_ops
from outpace.trace import read_trace
from tests.hlo_proto import instruction, module

US = 1_000_000
SCHEDULE = (
    "loop_add_fusion",
    "custom-call.17",
    "loop_add_fusion.1",
    "custom-call.18",
    "input_reduce_fusion.2",
    "loop_add_fusion.3",
)


@pytest.mark.parametrize(
    "kernels, found",
    [
        (("loop_add_fusion", "nvjet_a", "loop_add_fusion_1"), SCHEDULE[:3]),
        (("loop_add_fusion_1", "nvjet_a", "input_reduce_fusion_2", "loop_add_fusion_3"), SCHEDULE[2:]),
        (("loop_add_fusion_3",), SCHEDULE[5:]),
        (("nvjet_a", "loop_add_fusion_1", "nvjet_b"), SCHEDULE[1:4]),
    ],
    ids=["from the first", "up to the last", "one kernel", "a library's at both ends"],
)
def test_a_launch_is_a_stretch_of_the_schedule(kernels: Sequence[str], found: Sequence[str]) -> None:
    assert align_to_schedule(kernels, [SCHEDULE]) == list(found)


def test_instructions_that_share_a_kernel_are_told_apart_by_their_place() -> None:
    """XLA compiles equal fusions once, and calls the kernel after the first of them."""
    kernels = ("loop_add_fusion", "nvjet_a", "loop_add_fusion", "nvjet_a", "input_reduce_fusion_2", "loop_add_fusion")
    assert align_to_schedule(kernels, [SCHEDULE]) == list(SCHEDULE)


def test_of_several_places_the_one_with_the_most_equal_names_is_taken() -> None:
    schedule = [f"{kind}.{number}" for number in range(4) for kind in ("loop_add_fusion", "custom-call")]
    assert align_to_schedule(("loop_add_fusion_2", "nvjet_a"), [schedule]) == ["loop_add_fusion.2", "custom-call.2"]
    assert align_to_schedule(("loop_add_fusion_9", "nvjet_a"), [schedule]) == ["loop_add_fusion.0", "custom-call.0"]


@pytest.mark.parametrize(
    "kernels, found",
    [
        (
            ("loop_add_fusion", "nvjet_a", "splitK_reduce", "loop_add_fusion_1", "nvjet_b", "input_reduce_fusion_2"),
            (
                "loop_add_fusion",
                "custom-call.17",
                "custom-call.17",
                "loop_add_fusion.1",
                "custom-call.18",
                "input_reduce_fusion.2",
            ),
        ),
        (("loop_add_fusion", "loop_add_fusion_1"), ("loop_add_fusion", "loop_add_fusion.1")),
    ],
    ids=["a library's two kernels for one instruction", "an instruction without a kernel"],
)
def test_where_names_do_not_agree_throughout_what_agrees_is_told(kernels: Sequence[str], found: Sequence[str]) -> None:
    assert align_to_schedule(kernels, [SCHEDULE]) == list(found)


def test_names_are_compared_as_xla_spells_them_for_kernels() -> None:
    """A dash or a dot within the name, too."""
    schedule = ("custom-call.0", "wrapped_reduce-window.1", "custom-call.1", "loop_add_fusion.2.remat")
    for kernel, place in (("wrapped_reduce_window_1", 1), ("loop_add_fusion_2_remat", 3)):
        assert align_to_schedule(("nvjet_a", kernel), [schedule]) == [schedule[place - 1], schedule[place]]


def test_libraries_at_the_ends_of_a_launch_ran_what_stands_beside() -> None:
    schedule = ("custom-call.1", "custom-call.2", "loop_add_fusion", "custom-call.3", "custom-call.4")
    assert align_to_schedule(("nvjet_a", "loop_add_fusion", "nvjet_a"), [schedule]) == list(schedule[1:4])


def test_one_call_may_take_kernels_of_two_libraries() -> None:
    kernels = ("loop_add_fusion", "cudnn_a", "nvjet_a", "loop_add_fusion_1")
    assert align_to_schedule(kernels, [SCHEDULE]) == [SCHEDULE[0], SCHEDULE[1], SCHEDULE[1], SCHEDULE[2]]


def test_of_several_computations_the_one_that_tells_most_is_taken() -> None:
    body = ("loop_add_fusion.8", "custom-call.9", "loop_multiply_fusion", "custom-call.10")
    kernels = ("loop_add_fusion_8", "nvjet_a", "loop_multiply_fusion", "nvjet_a")
    assert align_to_schedule(kernels, [SCHEDULE, body]) == align_to_schedule(kernels, [body, SCHEDULE]) == list(body)


@pytest.mark.parametrize(
    "between, found",
    [
        (["nvjet_a", "cudnn::dot", "cudnn_sdpa", "cudnn::convert", "nvjet_a"], [1, 2, 2, 2, 3]),
        (["nvjet_a", "cudnn_sdpa", "nvjet_a"], [1, 2, 3]),
        (["nvjet_a", "nvjet_b", "nvjet_c"], [1, 2, 3]),
        (["nvjet_a", "nvjet_b"], None),
        (["nvjet_a", "nvjet_b", "nvjet_c", "nvjet_d"], None),
        ([], []),
    ],
)
def test_several_calls_of_libraries_between_two_kernels(between: list[str], found: list[int] | None) -> None:
    """As many kernels as calls, or as many times one library's behind another's; else nothing tells
    which is whose.
    """
    schedule = ["loop_add_fusion.4", "custom-call.7", "dot_product_attention_bwd.24", "custom-call.8", "wrapped_concatenate.5"]
    kernels = ["loop_add_fusion_4", *between, "wrapped_concatenate_5"]
    inside = [""] * len(between) if found is None else [schedule[i] for i in found]
    assert align_to_schedule(kernels, [schedule]) == [schedule[0], *inside, schedule[-1]]


def test_kernels_that_are_called_after_no_neighbour_leave_their_surroundings_untold() -> None:
    """A `loop_multiply_fusion` of which the schedule has none there: what ran beside it is not
    known.
    """
    schedule = ["loop_add_fusion", "custom-call.1", "input_reduce_fusion", "loop_multiply_fusion"]
    kernels = ["loop_add_fusion", "nvjet_a", "loop_multiply_fusion", "input_reduce_fusion"]
    assert align_to_schedule(kernels, [schedule]) == ["loop_add_fusion", "", "", "input_reduce_fusion"]


@pytest.mark.parametrize("schedules", [[], [()], [SCHEDULE]])
def test_nothing_to_lay_over(schedules: Sequence[Sequence[str]]) -> None:
    """A library's kernels alone fit everywhere, and so nowhere."""
    assert align_to_schedule(("nvjet_a", "nvjet_b"), schedules) == ["", ""]
    assert align_to_schedule((), schedules) == []


def test_a_launch_without_end_is_not_patched() -> None:
    """As many kernels times as many instructions would take minutes; where all agree, it takes no
    time.
    """
    many = [name for number in range(1500) for name in (f"loop_add_fusion.{number}", f"custom-call.{number}")]
    kernels = [name.replace(".", "_") if "loop" in name else "nvjet_a" for name in many]
    assert align_to_schedule(kernels, [many]) == many
    other = ["loop_multiply_fusion", *many]
    assert not any(align_to_schedule([*kernels, "loop_multiply_fusion"], [other]))


def test_the_schedule_of_a_program_holds_what_runs() -> None:
    entry = [
        instruction("p", "parameter", 1),
        instruction("loop_add_fusion", "fusion", 2, operands=[1]),
        instruction("bitcast.3", "bitcast", 3, operands=[2]),
        instruction("custom-call.1", "custom-call", 4, operands=[3]),
    ]
    program = HloModule(module(entry, [instruction("inside", "add", 9)], schedules=([1, 2, 3, 4, 77], [])))
    assert program.schedules == [["loop_add_fusion", "custom-call.1"]]
    assert HloModule(b"").schedules == []
    assert "custom-call.1" in program and "custom-call.2" not in program


PROGRAM = module(
    [
        instruction("loop_add_fusion", "fusion", 1),
        instruction("custom-call.17", "custom-call", 2),
        instruction("loop_add_fusion.1", "fusion", 3),
        instruction("copy.1", "copy", 4),
    ],
    schedules=([1, 2, 3, 4],),
)


def captured(*launches: Sequence[tuple[str, str]], program: int = 5, launch: int | None = None) -> Timeline:
    """One host's launches of (kernel, what the profiler wrote as its `hlo_op`), each with an id of
    its own unless one is given.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    proto: dict[str, Any] = {"Hlo Proto": PROGRAM}
    space.plane("/host:metadata").describe("jit_step(5)", **proto)
    gpu, at = GpuBuilder(space, host), 0
    for number, kernels in enumerate(launches, 100):
        for name, op in kernels:
            at += 10 * US
            stats: dict[str, Any] = {"program_id": Unsigned(program), "hlo_op": op, "hlo_module": "jit_step"}
            gpu.kernel(name, at, 5 * US, **stats, correlation_id=number if launch is None else launch)
    return Run.from_traces([read_trace(space.to_bytes())]).hosts[0]


BUFFER = "command_buffer.3"
INSIDE = (("loop_add_fusion", BUFFER), ("nvjet_a", BUFFER), ("loop_add_fusion", BUFFER))
TOLD = ["loop_add_fusion", "custom-call.17", "loop_add_fusion.1"]


def told(timeline: Timeline) -> list[str]:
    timeline.trace.load_stats(("hlo_op",))
    return compute_hlo_op_stat(timeline).texts()


def test_kernels_of_a_buffer_have_the_instruction_that_they_ran() -> None:
    """Another kernel's own name stays, and equal names are one text whoever wrote them."""
    timeline = captured(INSIDE, [("loop_add_fusion", "loop_add_fusion.1"), ("copy", "copy.1")])
    assert told(timeline) == [*TOLD, "loop_add_fusion.1", "copy.1"]
    _, texts = compute_hlo_op_stat(timeline).encode_texts(np.arange(5))
    assert len(set(texts)) == len(texts)
    _, ops = load_hlo_ops(timeline, compute_hlo_op_stat(timeline).rows)
    assert sorted(op.opcode for op in ops) == ["", "copy", "custom-call", "fusion", "fusion"]


def test_each_launch_is_laid_by_itself() -> None:
    assert told(captured(INSIDE, INSIDE)) == [*TOLD, *TOLD]


@pytest.mark.parametrize("given", [{"program": 6}, {"launch": 0}], ids=["an unknown program", "no launch"])
def test_kernels_of_which_nothing_is_known_keep_the_buffers_name(given: dict[str, int]) -> None:
    assert told(captured(INSIDE, **given)) == [BUFFER] * 3


def test_a_profile_whose_launches_are_too_many_keeps_the_rest_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch of three kernels over four instructions is twelve comparisons; equal ones are
    compared once.
    """
    other = [(name, "command_buffer.4") for name, _ in INSIDE[:2]]
    monkeypatch.setattr(buffers, "_MOST", 13)
    assert told(captured(INSIDE, INSIDE, other)) == [*TOLD, *TOLD, "command_buffer.4", "command_buffer.4"]
