"""The process in which one text of a script runs."""

from __future__ import annotations

import threading

import pytest

from outpace.tune.same.child import TRIES, TextRun


class Growing(TextRun):
    """A run whose training adds to what is written, so many times."""

    def __init__(self, times: int) -> None:
        self._writing, self._written = threading.RLock(), False
        self.left = times
        self.passes: dict[int, int] = {1: 1}
        self.wrote: list[str] = []

    def _write(self, ended: str) -> None:
        for number in self.passes:
            if self.left:
                self.left -= 1
                self.passes[number + TRIES * self.left] = number
        self.wrote.append(ended)


@pytest.mark.parametrize("times", [0, 1, TRIES - 1])
def test_a_record_is_written_though_the_training_goes_on(times: int) -> None:
    run = Growing(times)
    run.finish("cut")
    run.finish("later")
    assert run.wrote == ["cut"]


def test_what_never_stands_still_is_said() -> None:
    with pytest.raises(RuntimeError, match="dictionary changed size"):
        Growing(10 * TRIES).finish("cut")
