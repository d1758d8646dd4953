"""Costs of TensorFlow's ops by their names, over the functions that a host calls."""

from __future__ import annotations

from outpace.metrics.facts.graph_costs import GraphCosts
from outpace.timeline.hlo.ops import NO_OP
from outpace.timeline.op_names import Op, parse_op

PRODUCT = "MatMul f32[s0,784] f32[784,10] -> f32[s0,10]"
CLOSED = "MatMul f32[8,784] f32[784,10] -> f32[8,10]"
TRAIN, TEST = "__inference_train_1", "__inference_test_2"


def flops(costs: GraphCosts, name: str) -> float:
    found = costs.find(parse_op(f"{name}:MatMul"))
    return found.cost.product_flops if found is not NO_OP else 0.0


def test_a_symbol_has_the_size_that_all_allocations_agree_in() -> None:
    for shapes, rows in (({"[64,10]"}, 64), ({"[64,10]", "[1,10]"}, 0), ({"[1,10]"}, 0), ({"[64,11]"}, 0)):
        costs = GraphCosts({TRAIN: {"dense/MatMul": PRODUCT}})
        costs.learn_sizes({("StatefulPartitionedCall/dense/MatMul", shape) for shape in shapes})
        assert flops(costs, "dense/MatMul") == 2 * rows * 784 * 10


def test_two_functions_have_symbols_of_their_own() -> None:
    costs = GraphCosts({TRAIN: {"a/MatMul": PRODUCT}, TEST: {"b/MatMul": PRODUCT}})
    costs.learn_sizes({("a/MatMul", "[64,10]"), ("b/MatMul", "[256,10]")})
    assert flops(costs, "b/MatMul") == 4 * flops(costs, "a/MatMul") > 0


def test_a_name_of_two_ops_has_no_cost() -> None:
    assert flops(GraphCosts({TRAIN: {"MatMul": CLOSED}, TEST: {"MatMul": CLOSED}}), "MatMul") == 0
    assert flops(GraphCosts({TRAIN: {"MatMul": None}}), "MatMul") == 0


def test_only_what_inlining_adds_is_taken_off_a_name() -> None:
    costs = GraphCosts({TRAIN: {"MatMul": CLOSED, "gru/while/MatMul": CLOSED}})
    assert flops(costs, "StatefulPartitionedCall/MatMul") > 0
    assert flops(costs, "PartitionedCall_1/gru/while/body/_12/gru/while/MatMul") > 0
    assert flops(costs, "model/MatMul") == 0
    assert costs.find(Op(parse_op("MatMul:MatMul").kind, "MatMul", "Conv2D")) is NO_OP


def test_a_gradient_needs_as_much_as_the_op_in_its_name() -> None:
    part = (0.25, "strided_slice")
    texts = {"dense/MatMul": CLOSED, "out/MatMul": CLOSED}
    costs = GraphCosts({TRAIN: texts}, {TRAIN: {"dense/MatMul": part}})
    for name in ("dense/MatMul", "PartitionedCall/dense/MatMul", "gradient_tape/dense/MatMul/MatMul_1"):
        assert costs.find_needed(name) == part
    for name in ("out/MatMul", "gradient_tape/out/MatMul/MatMul", "gradient_tape/dense/BiasAdd", "unknown", ""):
        assert costs.find_needed(name) == (1.0, "")
    twice = GraphCosts({TRAIN: texts, TEST: texts}, {TRAIN: {"dense/MatMul": part}, TEST: {}})
    assert twice.find_needed("dense/MatMul") == (1.0, "")


def test_look_ups_in_tables_of_one_shape_add_up() -> None:
    texts = {"a": "ResourceGather resource[] s32[10] -> f32[10,4]", "b": "GatherV2 f32[100,4] s32[s0] s32[] -> f32[s0,4]"}
    tables = {TRAIN: [("f32[100,4]", "a", ""), ("f32[100,4]", "b", "norm")]}
    costs = GraphCosts(
        {TRAIN: {**texts, "c": "Exp f32[s0,4] -> f32[s0,4]", "d": "Mul f32[100,4] f32[] -> f32[100,4]"}}, {}, tables
    )
    assert costs.find_tables()[0].share != costs.find_tables()[0].share  # the size of b's result is not known
    costs.learn_sizes({("c", "[20,4]")})
    (table,) = costs.find_tables()
    assert (round(table.share, 6), table.lookup, table.reader) == (0.3, "a", "norm")
    assert [costs.takes_table(name, table) for name in ("a", "b", "c", "d")] == [False, False, False, True]
