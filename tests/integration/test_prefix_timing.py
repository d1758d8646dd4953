"""The stage that Outpace names costs most when prefixes of the same pipeline are timed."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from outpace import api
from tests.integration.programs import run_on_tensorflow

pytest.importorskip("tensorflow", reason="needs TensorFlow to run the pipelines")


@pytest.mark.parametrize(
    ("name", "expected"), [("tfrecord", "MapAndBatch"), pytest.param("heavy", "Generator", marks=pytest.mark.verify)]
)
def test_the_named_stage_is_the_one_that_costs_most(name: str, expected: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("pipelines.py").read_text(encoding="utf-8")
    done = run_on_tensorflow(script, tmp_path, name, str(tmp_path), timeout=240)
    assert done.code == 0, done.err[-2000:]
    rounds = json.loads(done.out.strip().splitlines()[-1])
    stages = list(rounds[0])
    time = {stage: statistics.median(r[stage] for r in rounds) for stage in stages}
    added = {
        stage: time[stage] - (time[before] if before else 0.0) for before, stage in zip([None, *stages], stages, strict=False)
    }
    costliest = max(added, key=lambda stage: added[stage])
    (row,) = [r for r in api.open(tmp_path).tf_data().table("stages").records() if r["role"] == "bottleneck"]
    assert costliest == expected
    assert row["stage"] == costliest
