"""What steps spend on functions without gradients: their calls, or what devices compute for them
where the host waits for results.
"""

from __future__ import annotations

import pytest

from outpace.metrics.facts.workload import find_workload
from outpace.model import Finding
from outpace.model.protobuf_wire import encode_bytes
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.tools.functions.evaluation import iter_findings
from outpace.trace import read_trace
from tests.hlo_proto import F32, instruction, module, numbers, shape

MS = 1_000_000_000
STEPS = 8
_GIVEN = [instruction(name, "parameter", number, shape(F32, 64, 64)) for number, name in enumerate("ab", 1)]
_DOT = instruction("dot", "dot", 3, shape(F32, 64, 64), [1, 2], more=encode_bytes(30, numbers(1, [1])))
PRODUCT, SUM = module([*_GIVEN, _DOT]), module([*_GIVEN, instruction("sum", "add", 3, shape(F32, 64, 64), [1, 2])])
TRAINS = module(
    [
        *_GIVEN,
        _DOT,
        instruction("back", "add", 4, more=encode_bytes(7, encode_bytes(2, "jit(step)/transpose(jvp())/dot_general"))),
    ]
)


def findings(
    *calls: tuple[int, int],
    works: tuple[tuple[int, int], ...] = (),
    step: tuple[int, int] = (10, 16),
    evaluates: bytes = PRODUCT,
    gpus: int = 1,
    module_of: str = "jit__lambda_",
    recorded: int = 1,
    every: int = 1,
) -> list[Finding]:
    """Steps of 20 ms: `calls` (from, until) of a lambda that computes no gradients, in `every` so
    many steps, `works`: what devices do for them; `step`: for the training. JAX records a call by
    several events, one in the other.
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    line = plane.line("python")
    held = space.plane("/host:metadata")
    held.describe("jit_step(8)", "", **{"Hlo Proto": TRAINS}).describe("jit__lambda_(9)", "", **{"Hlo Proto": evaluates})
    devices = [GpuBuilder(space, line, index=index, compute_cap_major=9) for index in range(gpus)]
    for number in range(STEPS):
        begin = number * 20
        line.event("train", begin * MS, 20 * MS, step_num=number, _r=1)
        for _ in range(recorded):
            line.event("PjitFunction(step)", (begin + 8) * MS, MS)
            for low, high in calls if number % every == 0 else ():
                line.event("PjitFunction(<lambda>)", (begin + low) * MS, (high - low) * MS)
        for gpu in devices:
            for name, number_of, spans in (("jit_step", 8, (step,)), (module_of, 9, works)):
                for low, high in spans:
                    called = begin + (8.5 if name == "jit_step" else 0.5)
                    gpu.kernel(
                        "dot", (begin + low) * MS, (high - low) * MS, called=round(called * MS), call_ps=MS // 100,
                        hlo_op="dot", hlo_module=name, program_id=number_of,
                    )  # fmt: skip
    run = Run.from_traces([read_trace(space.to_bytes(), "vm")])
    return list(iter_findings(run, find_workload(run)))


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize(
    ("calls", "works", "step", "share"),
    [
        (((0, 2), (2, 4)), (), (10, 16), 4 / 20),
        (((0, 1), (1, 2)), ((1, 7),), (10, 16), 7 / 20),
        (((0, 1), (1, 2)), ((3, 7),), (10, 16), 6 / 20),
        (((0, 2), (2, 4)), ((4, 9),), (0, 4), 5 / 20),
        (((0, 3), (3, 6)), ((6, 8),), (0, 6), 6 / 20),
    ],
    ids=[
        "calls alone",
        "work that begins in a call",
        "work behind the calls",
        "calls beside the training",
        "calls that are longer",
    ],
)
def test_what_is_spent_on_them(
    calls: tuple[tuple[int, int], ...], works: tuple[tuple[int, int], ...], step: tuple[int, int], share: float, gpus: int
) -> None:
    """Side by side, devices take their time once."""
    (found,) = findings(*calls, works=works, step=step, gpus=gpus)
    assert found.saving is not None
    assert found.saving.high == pytest.approx(share)
    assert "'<lambda>' 2 times" in found.sentence


def test_several_calls_in_some_steps_are_an_evaluation_however_few_they_are() -> None:
    """Three in every second step, and so 1.5 for each that trains; one there may update the weights
    of two.
    """
    (found,) = findings((0, 2), (2, 4), (4, 6), every=2)
    assert found.sentence.startswith("Every 2nd step also calls '<lambda>' 3 times")
    assert found.saving is not None and found.saving.high == pytest.approx(6 / 40)
    assert not findings((0, 6), every=2)


@pytest.mark.parametrize("recorded", [1, 2, 3])
def test_a_call_counts_once_however_often_it_is_recorded(recorded: int) -> None:
    (found,) = findings((0, 2), (2, 4), (4, 6), recorded=recorded)
    assert found.sentence.startswith("Each step also calls '<lambda>' 3 times")
    assert found.evidence[1].value == 3


@pytest.mark.parametrize("recorded", [1, 2])
def test_calls_that_come_round_are_told_with_their_period(recorded: int) -> None:
    (found,) = findings((0, 2), (2, 4), (4, 6), (6, 8), (16, 18), (18, 20), recorded=recorded, every=2)
    assert found.sentence.startswith("Every 2nd step also calls '<lambda>' 6 times")
    assert found.sentence.endswith("30% of the mean step.")


def test_work_of_other_programs_is_not_theirs() -> None:
    (found,) = findings((0, 2), (2, 4), works=((4, 9),), module_of="jit_other")
    assert found.saving is not None and found.saving.high == pytest.approx(4 / 20)


def test_a_function_without_products_is_no_model() -> None:
    assert findings((0, 2), (2, 4), works=((4, 9),), evaluates=SUM) == []
