"""What `run_script` records of a script's start: parts that add up to the time that a watch shows,
and the reasons for compilations.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from outpace import api
from outpace.capture import CaptureOptions, run_script
from outpace.store.startup import Startup, StartupKind, StartupPart
from tests.integration.programs import needs_jax, needs_tensorflow

OWN_IMPORTS_S = 1.0  # what the watch shows and the record leaves out at most: the start of the process that is watched

JAX = """
import os, sys, time
import jax, jax.numpy as jnp
import numpy as np

def load():
    until = time.time() + 0.4
    while time.time() < until:
        sum(range(1000))
    return np.ones((64, 32), np.float32)

data = load()

@jax.jit
def update(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - 1) ** 2))(w)

w = jnp.zeros((32, 8))
for rows in (16, 32, 64):
    w = update(w, data[:rows])
w.block_until_ready()
with open(sys.argv[1], "w") as file:
    file.write(repr(time.time()))
while True:
    w = update(w, data)
"""

KERAS = """
import sys, time
import numpy as np, keras

class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and not hasattr(self, "done"):
            self.done = True
            with open(sys.argv[1], "w") as file:
                file.write(repr(time.time()))
        time.sleep(0.01)

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.zeros((4000, 8), "float32")
model.fit(x, x[:, :1], batch_size=8, epochs=9, verbose=0, callbacks=[Watch()])
"""


def started(text: str, folder: Path, variables: dict[str, str] | None = None) -> tuple[Startup, float, str]:
    """The record of a script's start, the seconds that it took by a watch, and the run."""
    script, watch = folder / "train.py", folder / "watch"
    script.write_text(text, encoding="utf-8")
    began = time.time()
    result = run_script(str(script), [str(watch)], CaptureOptions(logdir=str(folder / "logs")), variables=variables)
    assert result.record is not None and result.run is not None and result.record.startup is not None, result
    assert not result.record.faults
    return result.record.startup, float(watch.read_text(encoding="utf-8")) - began, result.run


def of_kind(startup: Startup, kind: StartupKind) -> dict[str, StartupPart]:
    return {part.name: part for part in startup.parts if part.kind == kind.value}


@needs_jax
def test_the_parts_of_a_jax_program_are_told_with_their_lines(tmp_path: Path) -> None:
    startup, watch_s, run = started(JAX, tmp_path)
    assert startup.end == "compilation" and startup.cache_folder == ""
    assert sum(part.duration_ns for part in startup.parts) == pytest.approx(startup.duration_ns, rel=1e-6)
    assert watch_s - OWN_IMPORTS_S < startup.duration_ns / 1e9 < 1.05 * watch_s
    compiled = of_kind(startup, StartupKind.COMPILE)["update"]
    assert (compiled.count, compiled.line, compiled.hits) == (3, JAX[: JAX.index("w = update")].count("\n") + 1, 0)
    assert compiled.before == {"x": "float32[32,32]"} and compiled.arguments == {"x": "float32[64,32]"}
    assert of_kind(startup, StartupKind.IMPORT)["jax"].duration_ns > 1e8
    busy = max((part for part in startup.parts if part.kind == "code"), key=lambda part: part.duration_ns)
    assert "sum(range(1000))" in busy.text and busy.duration_ns > 0.2e9
    page = api.open(run).startup_time()
    assert page.unavailable is None and len(page.table("startup_parts")) == len(startup.parts)


@needs_jax
def test_programs_from_the_persistent_cache_are_counted(tmp_path: Path) -> None:
    variables = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    hits = []
    for name in ("cold", "warm"):
        (tmp_path / name).mkdir()
        startup, _, _ = started(JAX, tmp_path / name, variables)
        assert startup.cache_folder == str(tmp_path / "cache") and startup.cache_min_s == 0.0
        hits.append(of_kind(startup, StartupKind.COMPILE)["update"].hits)
    assert hits == [0, 3]


@needs_tensorflow
def test_a_fits_start_ends_where_its_steps_are_steady(tmp_path: Path) -> None:
    startup, watch_s, _ = started(KERAS, tmp_path)
    assert startup.end == "steps" and 1 <= startup.first_steps <= 3
    assert sum(part.duration_ns for part in startup.parts) == pytest.approx(startup.duration_ns, rel=1e-6)
    assert watch_s - OWN_IMPORTS_S < startup.duration_ns / 1e9 < 1.05 * watch_s
    assert any("one_step_on_data" in name for name in of_kind(startup, StartupKind.GRAPH))
    assert of_kind(startup, StartupKind.IMPORT)["tensorflow"].duration_ns > 5e8
