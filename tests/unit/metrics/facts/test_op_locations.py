"""Which part of a model an op belongs to, by its name and what the capture noted."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.facts.op_locations import LAYER, LINE, OP, OPTIMIZER, OpLocation, OpLocator


def layer(name: str, line: int, kind: str = "layer", of: str = "Dense", **more: Any) -> dict[str, Any]:
    facts = {"name": name, "kind": kind, "type": of, "file": "/w/train.py", "line": line, "text": f"line {line}"}
    return {**facts, "inner": False, "call_file": "", "call_line": 0, **more}


RECORD = {
    "layers": {
        "functional_1": layer("functional", 9, "model", "Functional"),
        "functional_1/dense_1": layer("dense", 3),
        "functional_1/dense_1_2": layer("dense_1", 4),
        "functional_1/lstm_1": layer("lstm", 5, of="LSTM"),
        "functional_1/lstm_1/while/lstm_cell_1": layer("lstm_cell", 5, of="LSTMCell", inner=True),
        "functional_1/mixer_1": layer("mixer", 6, of="Mixer", call_file="/w/train.py", call_line=20),
        "functional_1/mixer_1/dense_2_1": layer("dense_2", 18),
        "adam": layer("adam", 0, "optimizer", "Adam", file=""),
    },
    "op_sources": {
        "lines": [
            ["/w/train.py", 21, "x = tf.sort(x)"],
            ["/w/train.py", 22, "return tf.nn.relu(x)"],
            ["/w/train.py", 40, "h = x @ w"],
        ],
        "by_function": {
            "__inference_one_step_7": {
                "functional_1/mixer_1/sort/TopKV2": 0,
                "functional_1/mixer_1/sort/Neg": 0,
                "functional_1/mixer_1/Relu": 1,
                "matmul": 2,
                "Relu": 2,
                "while/Tanh": 1,
                "gradient_tape/ReluGrad": 2,
            },
            "__inference_validate_9": {"matmul": 1},
        },
    },
}


def at(name: str, op_type: str = "", **options: Any) -> OpLocation:
    return OpLocator(RECORD, {"__inference_one_step_7"}, **options).locate(name, op_type)


def test_a_layers_scope_is_told_from_the_layer_whose_name_is_the_same() -> None:
    first, second = at("StatefulPartitionedCall/functional_1/dense_1/Relu"), at("functional_1/dense_1_2/BiasAdd")
    assert (first.part, first.kind, first.source, first.text) == ("dense", LAYER, "train.py:3", "line 3")
    assert (second.part, second.source) == ("dense_1", "train.py:4")


@pytest.mark.parametrize(
    "name",
    [
        "StatefulPartitionedCall/gradient_tape/functional_1/dense_1/MatMul/MatMul_1",
        "gradients/functional_1/dense_1/MatMul_grad/MatMul_1",
    ],
)
def test_gradients_belong_to_their_layer(name: str) -> None:
    found = at(name)
    assert (found.part, found.is_backward) == ("dense", True)


def test_what_a_librarys_layer_is_made_of_belongs_to_it() -> None:
    back = "gradient_tape/functional_1/lstm_1/while/functional_1/lstm_1/while_grad/body/_141/gradient_tape/functional_1/lstm_1/while/"
    for name in (
        "StatefulPartitionedCall/functional_1/lstm_1/while/body/_33/functional_1/lstm_1/while/lstm_cell_1/MatMul",
        back + "gradients/functional_1/lstm_1/while/lstm_cell_1/MatMul_grad/MatMul",
    ):
        assert (at(name).part, at(name).layer_type) == ("lstm", "LSTM")


def test_an_own_layer_shows_its_lines_and_its_layers_stand_for_themselves() -> None:
    assert (at("functional_1/mixer_1/sort/TopKV2").part, at("functional_1/mixer_1/sort/TopKV2").source) == (
        "mixer",
        "train.py:21",
    )
    assert at("gradient_tape/functional_1/mixer_1/sort/ScatterNd").source == "train.py:21"
    assert at("functional_1/mixer_1/concat").source == "train.py:21"  # its most frequent line
    assert at("functional_1/mixer_1/dense_2_1/MatMul").part == "mixer/dense_2"


def test_lines_of_a_loop_of_ones_own() -> None:
    places = {
        name: at(name)
        for name in ("matmul", "gradient_tape/matmul/MatMul", "gradient_tape/ReluGrad", "while/body/_1/while/Tanh")
    }
    assert [place.source for place in places.values()] == ["train.py:40", "train.py:40", "train.py:40", "train.py:22"]
    assert {place.kind for place in places.values()} == {LINE}
    assert [place.is_backward for place in places.values()] == [False, True, True, False]
    assert places["matmul"].text == "h = x @ w"


def test_the_function_that_steps_call_decides_between_ops_of_one_name() -> None:
    assert OpLocator(RECORD, {"__inference_validate_9"}).locate("matmul").source == "train.py:22"
    assert OpLocator(RECORD, {"__forward_validate_30"}).locate("matmul").source == "train.py:22"


def test_the_optimizer_is_one_part() -> None:
    for name, op_type in (("StatefulPartitionedCall/adam/Mul_11", "Mul"), ("sgd_1/Mul", "Mul"), ("a/b", "ResourceApplyAdam")):
        assert (at(name, op_type).part, at(name, op_type).kind) == (OPTIMIZER, OP)


def test_without_a_record_names_tell_what_they_can() -> None:
    places = OpLocator({})
    assert places.locate("StatefulPartitionedCall/functional_1/conv2d_1/convolution") == OpLocation("conv2d_1", LAYER)
    assert places.locate("gradient_tape/sequential/conv2d/Conv2D/Conv2DBackpropFilter") == OpLocation(
        "conv2d", LAYER, is_backward=True
    )
    assert places.locate("StatefulPartitionedCall/compile_loss/mse/Mean").part == "loss"
    assert places.locate("sort/TopKV2") == OpLocation("sort", OP)
    assert places.locate("jit(step)/transpose(jvp(Net))/dense/dot_general", "", "/w/a.py:12") == OpLocation(
        "a.py:12", LINE, "a.py:12", "", "", True
    )
    assert places.locate("x/MatMul", "", "/v/lib/python3/site-packages/tensorflow/ops.py:1").part == "x"


def test_what_keras_computes_beside_the_layers_is_told_by_its_folder() -> None:
    folder = "/v/lib/python3/site-packages/keras/src"
    known = {"layers": {"metrics/auc": layer("auc", 7, "metric")}}
    for record, place in (({}, ("", "")), (known, ("train.py:7", "line 7"))):
        places = OpLocator(record)
        assert places.locate("jit(train_step)/add", "", f"{folder}/metrics/utils.py:5") == OpLocation("metrics", OP, *place)
        assert places.locate("jit(train_step)/add", "", f"{folder}/losses/losses.py:5") == OpLocation("loss", OP)
        assert places.locate("jit(train_step)/mul", "", f"{folder}/optimizers/adam.py:5").part == OPTIMIZER
        assert places.locate("jit(train_step)/mul", "", f"{folder}/ops/nn.py:5").part == "train_step"


def test_ops_of_a_line_that_made_a_metric_are_the_metrics() -> None:
    lines = {"lines": [["/w/train.py", 7, "keras.metrics.AUC()"]], "by_function": {"__inference_train_1": {"Greater_1": 0}}}
    for layers, part in (({"metrics/auc": layer("auc", 7, "metric")}, "metrics"), ({}, "train.py:7")):
        found = OpLocator({"layers": layers, "op_sources": lines}).locate("StatefulPartitionedCall/Greater_1", "Greater")
        assert (found.part, found.source) == (part, "train.py:7")


def test_two_models_are_told_apart() -> None:
    layers = {
        "gen_1": layer("gen", 1, "model"),
        "gen_1/dense_1": layer("dense", 2),
        "disc_1": layer("disc", 3, "model"),
        "disc_1/dense_1": layer("dense", 4),
    }
    places = OpLocator({"layers": layers})
    assert [places.locate(f"{model}_1/dense_1/MatMul").part for model in ("gen", "disc")] == ["gen/dense", "disc/dense"]


@pytest.mark.parametrize("line, part", [(True, "train.py:60"), (False, "optimizer")])
def test_an_assignment_of_a_line_is_no_optimizer(line: bool, part: str) -> None:
    """Metrics count with it; where nothing tells whose it is, it updates a variable as optimizers
    do.
    """
    lines = {"lines": [("/me/train.py", 60, "AUC()")], "by_function": {"f": {"AssignAddVariableOp": 0} if line else {}}}
    assert OpLocator({"op_sources": lines}, ("f",)).locate("AssignAddVariableOp", "AssignAddVariableOp").part == part


def test_an_optimizers_op_is_of_the_layer_whose_variable_it_updates() -> None:
    layer = {"kind": "layer", "file": "/w/train.py", "text": "", "inner": False, "call_line": 0, "call_file": ""}
    variables = ["net/user/embeddings", "net/head/kernel", "net/head/bias"]
    updates = {"mul": 2, "assignsubvariableop": 1}
    adam = {**layer, "name": "adam", "kind": "optimizer", "type": "Adam", "line": 9, "variables": variables, "updates": updates}
    layers = {
        "net_1": {**layer, "name": "net", "kind": "model", "type": "Functional", "line": 1},
        "net_1/user_1": {**layer, "name": "user", "type": "Embedding", "line": 3},
        "net_1/head_1": {**layer, "name": "head", "type": "Dense", "line": 4},
        "adam": adam,
    }
    places = OpLocator({"layers": layers})

    def owner(op: str) -> tuple[str, str, bool]:
        place = places.locate(f"StatefulPartitionedCall/adam/{op}", op.partition("_")[0])
        return place.part, place.source, place.is_update

    assert owner("Mul") == owner("mul_1") == owner("AssignSubVariableOp") == ("user", "train.py:3", True)
    assert owner("Mul_2") == owner("AssignSubVariableOp_2") == ("head", "train.py:4", True)
    assert owner("Mul_6")[0] == "optimizer"  # there is no fourth variable
    assert owner("Sqrt")[0] == "optimizer"  # which of them are whose is not known
    twice = {**layers, "net_1/other/head_1": {**layer, "name": "head", "type": "Dense", "line": 5}}
    twice["net_1/other"] = {**layer, "name": "other", "type": "Tower", "line": 6}
    assert OpLocator({"layers": twice}).locate("adam/Mul_2", "Mul").part == "optimizer"


@pytest.mark.parametrize(
    ("scope", "owner"),
    [
        ("functional_1/dense_1_2", ("dense_1 (Dense)", "train.py:4")),
        ("gradient_tape/functional_1/dense_1_2", ("dense_1 (Dense)", "train.py:4")),
        ("functional_1/mixer_1/dense_2_1", ("mixer/dense_2 (Dense)", "train.py:18")),
        ("functional_1", ("functional (Functional)", "train.py:9")),
        ("adam", ("adam (Adam)", "")),
        ("functional_1/dense_1_2/MatMul", ("", "")),
        ("dense_1_2", ("", "")),
    ],
)
def test_whose_a_scope_is_is_said_in_the_users_own_name(scope: str, owner: tuple[str, str]) -> None:
    assert OpLocator(RECORD).find_owner(scope) == owner


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("StatefulPartitionedCall/mixer/map/while/body/_19/mixer/map/while/Tensordot/MatMul", "train.py:22"),
        (
            "gradient_tape/mixer/map/while/mixer/map/while_grad/body/_2/gradient_tape/mixer/map/while/gradients/AddN",
            "train.py:22",
        ),
        ("while/body/_1/while/mixer/map/while/body/_2/mixer/map/while/Less", "train.py:22"),
        ("while/body/_1/while/mixer/Relu", "train.py:40"),
        ("while_3/body/_1/while_3/Relu", ""),
        ("mixer/map/while", ""),
        ("mixer/body/Relu", ""),
    ],
)
def test_an_op_in_the_body_of_a_loop_has_the_line_of_the_innermost_loop(name: str, line: str) -> None:
    lines = [
        ["/w/train.py", 21, "x = tf.sort(x)"],
        ["/w/train.py", 22, "return tf.nn.relu(x)"],
        ["/w/train.py", 40, "h = x @ w"],
    ]
    sources = {"lines": lines, "by_function": {"__inference_f_1": {"mixer/map/while": 1, "while": 2}}}
    assert OpLocator({"op_sources": sources}).locate_loop(name)[0] == line
