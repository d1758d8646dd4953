"""The cost of stages from readings of TensorFlow's model, built here by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from outpace.model.errors import NotFoundError
from outpace.tune.data.costs import CHAIN, FUNCTION, from_models


def node(
    number: int, name: str, count: int, ms: float, inputs: tuple[int, ...] = (), **more: float
) -> tuple[int, SimpleNamespace]:
    """A stage that gave `count` elements in `ms` of processing time."""
    parameters = [SimpleNamespace(name="parallelism", value=more["threads"])] if "threads" in more else []
    made = SimpleNamespace(
        id=number, name=name, num_elements=count, processing_time=int(ms * 1e6), bytes_produced=count * 8, inputs=list(inputs),
        parameters=parameters, ratio=more.get("ratio", 1.0),
    )  # fmt: skip
    return number, made


def model(*nodes: tuple[int, SimpleNamespace]) -> SimpleNamespace:
    return SimpleNamespace(nodes=dict(nodes), output=nodes[0][0])


def pipeline(scale: int) -> SimpleNamespace:
    """batch(10) of a sequential map behind a parallel map on 4 threads; times per element: batch 1 ms, map 0.5, parallel map 2, source 0.1."""
    return model(
        node(1, "Root", scale, 0.0, (2,)),
        node(2, "BatchV2", scale, 1.0 * scale, (3,), ratio=10),
        node(3, "Map", 10 * scale, 5.0 * scale, (4,)),
        node(4, "ParallelMapV2", 10 * scale, 20.0 * scale, (5,), threads=4),
        node(5, "TensorSlice", 10 * scale, 1.0 * scale),
    )


def test_times_are_per_element_between_two_readings() -> None:
    table = from_models(pipeline(10), pipeline(30), 100.0).stages
    assert table["stage"].tolist() == ["BatchV2", "Map", "ParallelMapV2", "TensorSlice"]
    assert table["elements"].tolist() == [20, 200, 200, 200]
    assert table["per_element_ps"].tolist() == pytest.approx([1e9, 0.5e9, 2e9, 0.1e9])
    assert table["share"].tolist() == [1, 10, 10, 10]
    assert table["capacity"][2] == pytest.approx(4 / 0.002)
    assert table["bytes"].tolist() == [8, 8, 8, 8]


def test_a_chain_sums_its_stages_and_a_function_divides_by_its_threads() -> None:
    found = from_models(pipeline(10), pipeline(30), 100.0)
    assert [(segment.kind, round(segment.busy_ps / 1e9, 6)) for segment in found.segments] == [
        (CHAIN, 6.0),
        (FUNCTION, 5.0),
        (CHAIN, 1.0),
    ]
    assert found.slowest is not None
    assert found.stages["stage"][found.slowest.dominant] == "Map"  # not the parallel map, which has most time of all
    assert found.slowest.per_second == pytest.approx(1 / 0.006)


def test_stages_made_anew_behind_a_repeat_keep_their_share() -> None:
    before = model(node(1, "Root", 50, 0, (2,)), node(2, "ForeverRepeat", 50, 1, (3,)), node(3, "Map", 50, 50))
    after = model(node(1, "Root", 100, 0, (2,)), node(2, "ForeverRepeat", 100, 2, (9,)), node(9, "Map", 5, 5))
    found = from_models(before, after, 1.0)
    assert found.slowest is not None
    assert found.slowest.busy_ps == pytest.approx(1.02e9)  # 1 ms for the map, although only 5 elements were counted


def test_an_empty_model_is_an_error_with_a_reason() -> None:
    with pytest.raises(NotFoundError, match="empty"):
        from_models(model(node(1, "Root", 0, 0)), model(node(1, "Root", 0, 0)), 1.0)
