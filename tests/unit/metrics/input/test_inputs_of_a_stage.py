"""Copies of one stage are one; inputs of their own, as those of a zip, are not."""

from __future__ import annotations

from pathlib import Path

import pytest

import outpace
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.testing import SpaceBuilder


@pytest.mark.parametrize(
    ("around", "stages"),
    [("Zip", ["Map"] * 2), ("Concatenate", ["Map"] * 2), ("DirectedInterleave", ["Map"] * 2), ("FlatMap", ["Map"]), ("Interleave", ["Map"])],
)  # fmt: skip
def test_what_is_below_a_stage(around: str, stages: list[str], tmp_path: Path) -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("python")
    for call in range(4):
        at = 1_000_000 * call
        line.event("Iterator::Root", at, 900_000, id=1)
        line.event(f"Iterator::Root::{around}", at + 1_000, 800_000, id=2, parent_id=1)
        for copy in range(2):
            line.event(f"Iterator::Root::{around}[{copy}]::Map", at + 2_000 + 300_000 * copy, 200_000, id=3 + copy, parent_id=2)
    (pipeline,) = pipelines(outpace.open(space.write(tmp_path / "x.xplane.pb")).run)
    assert [each.type for each in pipeline.stages] == ["Root", around, *stages]
    assert [each.parent for each in pipeline.stages] == [-1, 0, *(1 for _ in stages)]
