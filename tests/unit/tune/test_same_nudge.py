"""What a nudged run of a script sees: numbers that are off by a rounding, and a slow clock."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from outpace.tune.same.nudge import Nudge


def test_numbers_are_moved_by_a_rounding_and_whole_ones_stay() -> None:
    table = np.array([[3.0, 0.3], [3.5, -1.7]], np.float32)
    before = table.copy()
    found = Nudge(lambda file: file == __file__, 7)
    found.of({"table": table})
    assert found.moved == 1
    assert (table[:, 0] == before[:, 0]).all() and (table[:, 1] != before[:, 1]).all()
    assert np.allclose(table, before, rtol=3e-7, atol=0)


def test_whole_numbers_are_moved_where_there_are_no_others() -> None:
    weights = np.arange(1.0, 5.0)

    def loop() -> None:
        held = weights
        Nudge(lambda file: file == __file__, 7).frame(sys._getframe())
        assert held is weights

    loop()
    assert (weights != np.arange(1.0, 5.0)).all()


class Variable:
    """Like TensorFlow's."""

    def __init__(self, value: np.ndarray) -> None:
        self.value, self.shape, self.dtype = value, value.shape, value.dtype

    def __array__(self, *args: object, **options: object) -> np.ndarray:
        return self.value

    def assign(self, value: np.ndarray) -> None:
        """Take another value."""
        self.value = value


def test_after_a_pass_what_it_has_made_is_moved_and_data_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outpace.tune.same.nudge.SHARE", float("inf"))
    data, still, trained = np.full(3, 0.3), Variable(np.full(3, 0.7)), Variable(np.full(3, 0.1))
    found = Nudge(lambda file: file == __file__, 7)

    def loop() -> None:
        made = np.full(3, 0.9)
        frame = sys._getframe()
        found.frame(frame, (data, still, trained))
        before = data.tolist(), still.value.tolist()  # no arrays, which the frame would show, too
        for _ in range(3):
            made, trained.value = made * 0.5, trained.value * 0.5
            plain = made.tolist(), trained.value.tolist()
            found.again(frame, data, still, trained)
            assert (made != plain[0]).all() and (trained.value != plain[1]).all()
            assert np.allclose(made, plain[0], rtol=1e-15, atol=0)
        assert (data.tolist(), still.value.tolist()) == before

    loop()


def test_a_variable_of_whole_numbers_is_moved_where_there_are_no_others() -> None:
    counts = Variable(np.arange(1.0, 5.0))
    Nudge(lambda file: file == __file__, 7).frame(sys._getframe(), (counts,))
    assert (counts.value != np.arange(1.0, 5.0)).all()


def test_moving_takes_a_part_of_the_time_alone() -> None:
    weights = np.full(3, 0.3)
    found = Nudge(lambda file: file == __file__, 7)
    found._spent = 1e9
    found.again(sys._getframe(), weights)
    assert (weights == 0.3).all()
