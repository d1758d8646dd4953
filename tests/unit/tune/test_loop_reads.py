"""Which reads of data sets are a step's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outpace.tune.loop import reads


class DataSet:
    """Stands for one; all of a kind have the same shape."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> reads.Reads:
    monkeypatch.setattr(reads, "shape_of", lambda dataset: dataset.kind)
    return reads.Reads(None)


def of(kind: str) -> Any:
    return SimpleNamespace(_dataset=DataSet(kind))


def test_a_data_set_made_anew_in_each_step_is_part_of_it(read: reads.Reads) -> None:
    assert not any(read.evaluates(of("predict"), step) for step in range(1, 30) for _ in range(2))


def test_steps_whose_predict_a_graph_stands_for_say_nothing_about_what_a_step_reads(read: reads.Reads) -> None:
    assert not any(read.evaluates(of("predict"), step) for step in range(1, 4))
    for step in range(4, 204):
        for _ in range(2):
            read.spare(step)
    assert not read.evaluates(of("predict"), 204)


def test_many_batches_of_an_evaluation_are_one(read: reads.Reads) -> None:
    assert all(read.evaluates(of("test"), step) for step in (10, 20, 30) for _ in range(100))
    assert not any(read.evaluates(of("target"), step) for step in (1, 2, 3)), "each kind for itself"
