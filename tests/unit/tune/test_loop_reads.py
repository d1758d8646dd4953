"""Which reads of data sets are the training's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outpace.tune.loop import reads


class DataSet:
    """Stands for one; all of a kind have the same shape."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Iterator:
    """Stands for TensorFlow's, which hold what they read."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset


TRAIN = DataSet("train")


@pytest.fixture(autouse=True)
def shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "shape_of", lambda dataset: dataset.kind)
    monkeypatch.setattr(reads, "ITERATOR_CLASS", SimpleNamespace(value=Iterator))


def test_the_trainings_data_set_may_be_made_anew_in_each_epoch() -> None:
    read = reads.Reads(TRAIN)
    assert read.trains(Iterator(TRAIN)) and read.trains(Iterator(DataSet("train")))


def test_what_an_evaluation_reads_is_not_the_trainings() -> None:
    read = reads.Reads(TRAIN)
    assert not read.trains(Iterator(DataSet("test"))) and not read.trains(SimpleNamespace())


def test_a_loop_without_a_data_set_reads_none() -> None:
    assert not reads.Reads(None).trains(Iterator(DataSet("test")))


def test_a_step_that_is_given_an_iterator_reads_its_data_set() -> None:
    read = reads.Reads(None)
    read.look_at((1.0, SimpleNamespace(_dataset=DataSet("no iterator"))))
    assert read.dataset is None
    read.look_at((1.0, Iterator(TRAIN)))
    assert read.dataset is TRAIN and read.trains(Iterator(DataSet("train"))) and not read.trains(Iterator(DataSet("test")))
