"""How much of a pipeline without an end is compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from outpace.tune.data import verify
from outpace.tune.data.comparable import Pinning


class Copy:
    """Stands for a comparable copy of a pipeline."""

    def __init__(self, cardinality: int) -> None:
        self._cardinality = cardinality

    def cardinality(self) -> int:
        return self._cardinality

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def test_what_comes_late_is_not_waited_for_and_all_runs_compare_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "rows", lambda element: [element])
    monkeypatch.setattr(verify, "SOON", -1.0)
    pinning = Pinning(1, 64)
    assert len(verify._epoch(Copy(-1), pinning)) == verify.FEWEST == pinning.most
    monkeypatch.setattr(verify, "SOON", 1e9)
    assert len(verify._epoch(Copy(-1), pinning)) == verify.FEWEST, "the rewritten one, however fast it is"
    unknown = Pinning(1, 64)
    monkeypatch.setattr(verify, "SOON", -1.0)
    assert len(verify._epoch(Copy(-2), unknown)) == verify.MOST and unknown.most is None, "an end may come"
