"""Products in float64: by what TensorFlow allocates for an op, and by the types of a compiled
program.
"""

from __future__ import annotations

import pytest

from outpace.metrics.views.float64_ops import emulated_half_ops, float64_ops
from outpace.model.protobuf_wire import encode_bytes
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.precision import DOUBLE, HALF, SINGLE, precision_bits
from outpace.trace import read_trace
from tests.hlo_proto import shape

MS = 1_000_000_000
FLOAT, DT_DOUBLE, DT_BFLOAT16, DT_HALF = 1, 2, 14, 19  # of TensorFlow's enum of types
F64, F32, BF16 = 12, 11, 16  # of XLA's
OPS = (("model/dense/MatMul", "MatMul", 4 * MS), ("model/dense/Tanh", "Tanh", 2 * MS))


def run_of(kinds: dict[str, int], record: dict[str, object] | None = None) -> Run:
    """Ten steps of 10 ms, in which ops allocate arrays of these types."""
    space = training_run(ops=OPS, step_ps=10 * MS)
    line = space.plane("/host:CPU").line("allocations")
    for at, (op, kind) in enumerate(kinds.items()):
        line.event("MemoryAllocation", at, 0, tf_op=op, data_type=kind, shape="[64,64]")
    return Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": record or {}})


def test_a_product_whose_result_is_float64_is_found() -> None:
    row, other = float64_ops(run_of(dict.fromkeys((name for name, _, _ in OPS), DT_DOUBLE))).records()
    assert (row["op"], row["time_ps"], row["product"]) == ("MatMul", 4 * MS, True)
    assert row["share"] == pytest.approx(0.4)
    assert (other["op"], other["time_ps"], other["product"]) == ("Tanh", 2 * MS, False)


def test_float32_and_ops_of_which_nothing_is_known_are_none() -> None:
    assert len(float64_ops(run_of({OPS[0][0]: FLOAT}))) == 0
    assert len(float64_ops(run_of({}))) == 0


@pytest.mark.parametrize(
    ("kind", "record", "found"),
    [
        (DT_HALF, {}, 1),
        (DT_HALF, {"cpu_flags": ["amx_bf16"]}, 1),
        (DT_BFLOAT16, {}, 0),  # nobody knows
        (DT_BFLOAT16, {"cpu_flags": ["amx_bf16"]}, 0),
        (DT_BFLOAT16, {"cpu_flags": []}, 1),
        (FLOAT, {"cpu_flags": []}, 0),
    ],
)
def test_sixteen_bits_without_instructions(kind: int, record: dict[str, object], found: int) -> None:
    assert len(emulated_half_ops(run_of({OPS[0][0]: kind}, record))) == found


@pytest.mark.parametrize(("kind", "bits"), [(F64, DOUBLE), (F32, SINGLE), (BF16, HALF)])
def test_a_program_tells_in_what_it_computes(kind: int, bits: int) -> None:
    array = shape(kind, 8, 8)
    product = Instruction(encode_bytes(1, "dot.1") + encode_bytes(2, "dot") + encode_bytes(3, array))
    product.operands = (product, product)
    assert precision_bits(product) == bits
