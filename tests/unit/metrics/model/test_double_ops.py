"""Products in float64: by what TensorFlow allocates for an op, and by the types of a compiled program."""

from __future__ import annotations

import pytest

from outpace.metrics.model.double_ops import double_ops
from outpace.model.wire import blob
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.timeline.hlo_meaning import DOUBLE, HALF, SINGLE, precision
from outpace.timeline.hlo_reader import Instruction
from outpace.trace import read_trace
from tests.hlo_proto import shape

MS = 1_000_000_000
FLOAT, DT_DOUBLE = 1, 2  # of TensorFlow's enum of types
F64, F32, BF16 = 12, 11, 16  # of XLA's
OPS = (("model/dense/MatMul", "MatMul", 4 * MS), ("model/dense/Tanh", "Tanh", 2 * MS))


def run_of(kinds: dict[str, int]) -> Run:
    """Ten steps of 10 ms, in which ops allocate arrays of these types."""
    space = training_run(ops=OPS, step_ps=10 * MS)
    line = space.plane("/host:CPU").line("allocations")
    for at, (op, kind) in enumerate(kinds.items()):
        line.event("MemoryAllocation", at, 0, tf_op=op, data_type=kind, shape="[64,64]")
    return Run.of([read_trace(space.to_bytes(), "vm")])


def test_a_product_whose_result_is_float64_is_found() -> None:
    row, other = double_ops(run_of(dict.fromkeys((name for name, _, _ in OPS), DT_DOUBLE))).records()
    assert (row["op"], row["time_ps"], row["product"]) == ("MatMul", 4 * MS, True)
    assert row["share"] == pytest.approx(0.4)
    assert (other["op"], other["time_ps"], other["product"]) == ("Tanh", 2 * MS, False)


def test_float32_and_ops_of_which_nothing_is_known_are_none() -> None:
    assert len(double_ops(run_of({OPS[0][0]: FLOAT}))) == 0
    assert len(double_ops(run_of({}))) == 0


@pytest.mark.parametrize(("kind", "bits"), [(F64, DOUBLE), (F32, SINGLE), (BF16, HALF)])
def test_a_program_tells_in_what_it_computes(kind: int, bits: int) -> None:
    array = shape(kind, 8, 8)
    product = Instruction(blob(1, "dot.1") + blob(2, "dot") + blob(3, array))
    assert precision(product, lambda _: (), lambda _: (product, product)) == bits
