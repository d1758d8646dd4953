"""A program that its model holds back is told which layer takes the time, with its line; one that waits for input is not."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

PROGRAM = """
import json
import tensorflow as tf
from outpace.capture.sources import SourceRecorder
from outpace.capture.tracing import TraceRecorder
sources = SourceRecorder()
TraceRecorder(sources.traced).install(tf)
import keras
sources.install(keras)
import numpy as np
from types import SimpleNamespace
from outpace.tune.climb.limits import slow_parts
from outpace.tune.program.program import Program
from outpace.tune.trial.statistics import Estimate

x = np.ones((256, 2000), "float32")
model = keras.Sequential([
    keras.Input((2000,)),
    keras.layers.Dense(2000, name="large"),
    keras.layers.Dense(16, name="small"),
    keras.layers.Dense(3, name="last"),
])
model.compile("sgd", "mse")
program = Program.of(model, x, y=x[:, :3], batch_size=64)

def of(ratio):
    return slow_parts(program, SimpleNamespace(model_ratio=Estimate(ratio, ratio, ratio, 8, 0.01)), sources)

waits, works = of(3.0), of(1.05)
print(json.dumps([waits is None, [(row["part"], row["source"], row["share"]) for row in works.records()][:2]]))
"""


def test_the_slowest_layer_is_named_with_its_line(tmp_path: Path) -> None:
    ended = run_program(PROGRAM, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    waits, rows = json.loads(ended.out.splitlines()[-1])
    assert waits
    part, source, share = next(row for row in rows if "optimizer" not in row[0])
    line = 1 + PROGRAM[: PROGRAM.index('name="large"')].count("\n")
    assert part.endswith("large") and source == f"program.py:{line}" and share > 0.1, rows
