"""Operations and bytes of TensorFlow's ops by the shapes of their graphs."""

from __future__ import annotations

import random

import pytest

from outpace.metrics.facts.graph_ops import find_graph_op, solve_symbols
from outpace.store.record import AFTER
from outpace.timeline.hlo.ops import NO_OP

SIZES = {0: 64}
MATMUL = "MatMul f32[s0,784] f32[784,10] -> f32[s0,10]"
RELU = f"Relu f32[s0,10] -> f32[s0,10] after {MATMUL}"


@pytest.mark.parametrize(
    ("text", "flops", "moved"),
    [
        (MATMUL, 2 * 64 * 784 * 10, 4 * (64 * 784 + 784 * 10 + 64 * 10)),
        ("MatMul f32[s0,784] f32[s0,10] -> f32[784,10]", 2 * 64 * 784 * 10, 4 * (64 * 784 + 64 * 10 + 784 * 10)),
        ("BatchMatMulV2 bf16[s0,8,50,32] bf16[s0,8,70,32] -> bf16[s0,8,50,70]", 2 * 64 * 8 * 50 * 70 * 32, 2 * 64 * 8 * 7340),
        ("Conv2D f32[s0,30,30,32] f32[3,3,32,64] -> f32[s0,15,15,64]", 2 * 64 * 15 * 15 * 64 * 9 * 32, 0),
        ("Conv2DBackpropInput s32[4] f32[3,3,32,64] f32[s0,15,15,64] -> f32[s0,30,30,32]", 2 * 64 * 15 * 15 * 64 * 9 * 32, 0),
        ("Conv2DBackpropFilter f32[s0,30,30,32] s32[4] f32[s0,15,15,64] -> f32[3,3,32,64]", 2 * 64 * 15 * 15 * 64 * 9 * 32, 0),
        ("Conv3DBackpropFilterV2 f32[2,4,4,4,3] s32[5] f32[2,4,4,4,5] -> f32[3,3,3,3,5]", 2 * 2 * 64 * 5 * 27 * 3, 0),
        ("DepthwiseConv2dNative f32[s0,15,15,64] f32[3,3,64,2] -> f32[s0,13,13,128]", 2 * 64 * 13 * 13 * 128 * 9, 0),
        ("DepthwiseConv2dNativeBackpropFilter f32[s0,15,15,64] s32[4] f32[s0,13,13,64] -> f32[3,3,64,1]", 2 * 64 * 169 * 64 * 9, 0),
        ("Einsum BTNH,BSNH->BNTS f32[2,5,3,4] f32[2,6,3,4] -> f32[2,3,5,6]", 2 * 2 * 5 * 6 * 3 * 4, 0),
        ("Cumsum f32[256,512] s32[] -> f32[256,512]", 0, 2 * 4 * 256 * 512 + 4),
        ("Cast pred[2s0,8] -> f32[2s0,8]", 0, 5 * 128 * 8),
    ],
)  # fmt: skip
def test_operations_and_bytes_are_those_of_the_shapes(text: str, flops: float, moved: float) -> None:
    op = find_graph_op(text, text.split()[0], SIZES)
    assert op.cost.is_complete
    assert op.cost.product_flops == pytest.approx(flops)
    assert not moved or op.cost.bytes == moved


@pytest.mark.parametrize(
    ("text", "op_type", "batch"),
    [
        (MATMUL, "MatMul", 0),
        (MATMUL, "Conv2D", 64),
        ("MatMul f32[?,784] f32[784,10] -> f32[?,10]", "MatMul", 64),
        ("Where pred[8] -> s64[8,1]", "Where", 64),
        ("TopKV2 f32[8,9] s32[] -> f32[8,3] s32[8,3]", "TopKV2", 64),
        (RELU, "BiasAdd", 64),
        (RELU, "_MklNativeFusedBatchNormV3", 64),
        ("MatMul s32[b,784] s32[784,10] -> s32[b,10]".replace("b", "s0"), "MatMul", 64),
        ("Add float8_e5m2[8] float8_e5m2[8] -> float8_e5m2[8]", "Add", 64),
        ("Relu f32[s0,10] -> f32[s0,10]", "_FusedConv2D", 64),
        ("Einsum ...ij,jk->...ik f32[2,3,4] f32[4,5] -> f32[2,3,5]", "Einsum", 64),
    ],
)
def test_what_is_not_known_has_no_cost(text: str, op_type: str, batch: int) -> None:
    assert find_graph_op(text, op_type, {0: batch} if batch else {}) is NO_OP


def test_an_op_that_computes_a_product_too_has_the_products_cost() -> None:
    fused, alone = (find_graph_op(RELU, kind, SIZES) for kind in ("_FusedMatMul", "Relu"))
    assert fused.cost.product_flops == 2 * 64 * 784 * 10
    assert fused.product == "dot"
    assert alone.cost.product_flops == 0
    assert find_graph_op(MATMUL, "_MklMatMul", SIZES).cost == fused.cost


def test_a_complex_product_has_four_multiplications() -> None:
    op = find_graph_op("MatMul c64[8,9] c64[9,5] -> c64[8,5]", "MatMul", {})
    assert (op.is_complex, op.precision_bits) == (True, 32)


@pytest.mark.parametrize(
    ("kind", "own"),
    [("_MklNativeFusedBatchNormV3", "FusedBatchNormV3"), ("_MklNativeConv2DBackpropFilterWithBias", "Conv2DBackpropFilter")],
)
def test_what_the_optimizer_puts_in_place_of_an_op_is_known(kind: str, own: str) -> None:
    text = f"{own} f32[2,4,4,4] s32[4] f32[2,4,4,4] -> f32[3,3,4,4] {AFTER} {MATMUL}"
    assert find_graph_op(text, kind, {}).opcode == own


@pytest.mark.parametrize(
    ("text", "shape", "batch"),
    [
        (RELU, "[64,10]", 64),
        (RELU, "[64,11]", 0),
        (RELU, "[64]", 0),
        ("Exp f32[8s0,2] -> f32[8s0,2]", "[512,2]", 64),
        ("Exp f32[8s0,2] -> f32[8s0,2]", "[513,2]", 0),
        ("Exp f32[3,2] -> f32[3,2]", "[3,2]", 0),
        ("Exp f32[?,2] -> f32[?,2]", "[3,2]", 0),
        ("", "[3,2]", 0),
    ],
)
def test_sizes_follow_from_what_an_op_allocated(text: str, shape: str, batch: int) -> None:
    assert solve_symbols(text, shape) == ({0: batch} if batch else {})


def test_damaged_texts_are_told_from_costs() -> None:
    letters = random.Random(7)
    for _ in range(3000):
        text = list(letters.choice((MATMUL, RELU, "Einsum ab,bc->ac f32[2,b] f32[s0,3] -> f32[2,3]")))
        for _ in range(letters.randrange(1, 6)):
            text[letters.randrange(len(text))] = letters.choice("0123s?[],-> fMx")
        op = find_graph_op("".join(text), letters.choice(("MatMul", "_FusedMatMul", "Einsum", "Relu")), SIZES)
        assert op.cost.flops >= 0
        assert all(size >= 0 for size in solve_symbols("".join(text), "[64,10]").values())
