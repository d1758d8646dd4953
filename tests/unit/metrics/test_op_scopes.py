import pytest

from outpace.metrics.op_scopes import NO_SCOPE, parse_scopes, scope_path, scope_pattern


@pytest.mark.parametrize(
    ("op", "scope"),
    [
        ("model/dense/MatMul", ("model", "dense")),
        ("StatefulPartitionedCall/model/dense/MatMul", ("model", "dense")),
        ("MatMul", (NO_SCOPE,)),
        ("PartitionedCall/MatMul", (NO_SCOPE,)),
        ("", (NO_SCOPE,)),
    ],
)
def test_scopes_are_what_stands_around_an_op(op: str, scope: tuple[str, ...]) -> None:
    assert parse_scopes(op) == scope


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("replica_6/bert/layer_15/self_attention/dropout_3/RandomUniform", "bert/layer_*/self_attention/dropout_*"),
        ("replica/bert/layer_1/dropout/RandomUniform", "bert/layer_*/dropout"),
        ("model/conv2d_12/Conv2D", "model/conv2d_*"),
        ("block12/2/Add", "block*/2"),
        ("replica_6/Add", NO_SCOPE),
        ("Add", NO_SCOPE),
    ],
)
def test_what_is_repeated_is_one_kind(op: str, kind: str) -> None:
    assert scope_pattern(op) == kind


@pytest.mark.parametrize(
    ("op", "place"),
    [
        ("StatefulPartitionedCall/replica_1/model/dense/MatMul", ("model", "dense", "MatMul")),
        ("replica_1/MatMul", (NO_SCOPE, "MatMul")),
        ("MemcpyD2H", (NO_SCOPE, "MemcpyD2H")),
    ],
)
def test_an_op_has_one_place_in_all_replicas(op: str, place: tuple[str, ...]) -> None:
    assert scope_path(op) == place
