"""What is no whole training step, on built profiles: a piece of one, few launches, devices apart,
several programs; and what is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.savings.budget import ALL_HOSTS, budgets
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000
STEPS, STEP = 10, 10 * MS
FORWARD = ("a/Cast:Cast", "a/random_uniform:RandomUniform", "a/mul:Mul")


def run_of(space: SpaceBuilder, **record: str) -> Run:
    return Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": dict(record)})


def gpu(
    ops: Sequence[str] = (*FORWARD, "a/MatMul:MatMul"), steps: Sequence[int] = range(STEPS), shifted: int = 0, **record: str
) -> Run:
    """Ten marked steps of 10 ms, with these ops on GPU:0 in some of them; on GPU:1 the same,
    `shifted` ms later.
    """
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        host.event("train", number * STEP, STEP, step_num=number, _r=1)
    for index, later in ((0, 0), (1, shifted * MS)) if shifted else ((0, 0),):
        device = GpuBuilder(space, host, index=index)
        for number in steps:
            for at, op in enumerate(ops):
                begin = number * STEP + (1 + at) * MS
                device.kernel(f"kernel_{at}", begin + later, MS, op=op, called=None if later else begin - MS // 2)
    return run_of(space, **record)


def jitted(programs: Sequence[int], *, marks: bool = True) -> Run:
    """Ten calls of a jitted function, of the programs of these numbers, on XLA's threads."""
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    host, worker = plane.line("python"), plane.line("tf_XLAPjRtCpuClient/1")
    for number, program in enumerate(programs):
        begin = number * STEP
        if marks:
            host.event("train", begin, STEP, step_num=number, _r=1)
        host.event("PjitFunction(dot)", begin, STEP - MS)
        worker.event("dot.1", begin + MS, 8 * MS, hlo_op="dot.1", hlo_module="jit_dot", program_id=program, run_id=100 + number)
    return run_of(space)


def test_a_step_with_a_matrix_product_is_whole() -> None:
    assert partial_step_reason(gpu()) == ""
    assert budgets(gpu())[ALL_HOSTS].is_whole_step


@pytest.mark.parametrize("op", ["b/Conv2D:Conv2D", "g/x/BiasAddGrad:BiasAddGrad", "AdamW/ResourceApplyAdam:ResourceApplyAdam"])
def test_so_is_one_with_a_convolution_a_gradient_or_an_update(op: str) -> None:
    assert partial_step_reason(gpu((*FORWARD, op))) == ""


def test_element_wise_ops_alone_are_a_piece_of_one() -> None:
    why = partial_step_reason(gpu(FORWARD))
    assert "no matrix product or convolution" in why
    assert "(Cast, Mul, RandomUniform)" in why or "(Cast, RandomUniform, Mul)" in why
    assert not budgets(gpu(FORWARD))[ALL_HOSTS].is_whole_step


def test_kernels_that_name_no_op_may_be_anything() -> None:
    """Of rocBLAS' kernels the names alone are known: they may be what is missing."""
    assert partial_step_reason(gpu((*FORWARD, ""))) == ""


def test_a_prediction_needs_none_of_these() -> None:
    assert partial_step_reason(gpu(FORWARD, mode="keras predict")) == ""


def test_kernels_in_less_than_half_of_the_steps() -> None:
    assert partial_step_reason(gpu(steps=range(4))) == "the devices worked in 4 of 10 steps only"
    assert partial_step_reason(gpu(steps=range(5))) == ""


def test_a_handful_of_launches() -> None:
    assert partial_step_reason(gpu(("a/MatMul:MatMul",), steps=range(3))) == "the devices ran 3 ops in 10 steps"


def test_devices_whose_steps_lie_apart() -> None:
    why = partial_step_reason(gpu(shifted=647))
    assert why.startswith("GPU:1 ran 5")
    assert "away from the steps of other devices" in why
    assert partial_step_reason(gpu(shifted=5)) == ""


def test_calls_with_six_shapes_are_no_steps_of_one_program() -> None:
    why = partial_step_reason(jitted([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]))
    assert why.startswith("the steps are calls of 6 compiled programs of one function (dot)")


@pytest.mark.parametrize("programs", [[1] * 10, [1] * 9 + [2], [1, 2] * 5, [*range(10)]])
def test_one_program_with_a_rest_or_two_in_turn_or_a_new_one_each_time_are(programs: list[int]) -> None:
    """A last batch that is smaller; two that take turns (a generator and a discriminator); a
    function that is compiled anew for each step, which is what the training must mend.
    """
    assert partial_step_reason(jitted(programs)) == ""


def test_work_on_the_host_alone_is_no_matter() -> None:
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    for number in range(STEPS):
        host.event("train", number * STEP, STEP, step_num=number, _r=1)
        host.event("a/Mul:Mul", number * STEP, STEP)
    assert partial_step_reason(run_of(space)) == ""
