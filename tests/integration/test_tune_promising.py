"""What was too noisy to judge goes on top for the last race, which decides on it; the limits are those of what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

# A small model, whose steps are mostly Python. Verdicts are put in: steps per call seem faster, and XLA is undecided.
SCRIPT = """
import json
from dataclasses import replace
import keras, numpy as np
from outpace.tune.climb.choice import Budget
from outpace.tune.climb.climb import Climb
from outpace.tune.program.program import Program
from outpace.tune.session import SAFE
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.record import Decision
from outpace.tune.trial.statistics import Estimate

class Told(Climb):
    def _verdicts(self, base, others):
        verdicts, *_ = super()._verdicts(base, others)
        said = {"steps_per_execution": (Decision.SEEMS_FASTER, 2.0), "jit_compile": (Decision.REFUSED, 1.2)}
        for other in others:
            decision, ratio = said.get(other.changes[-1].id, (Decision.SAME, 1.0))
            estimate = Estimate(ratio, ratio / 1.3, ratio * 1.3, 12, 0.1)
            verdicts[other.name] = replace(verdicts[other.name], decision=decision, estimate=estimate)
        return verdicts, False, False

Budget.affordable = lambda self, variants: variants  # a slow machine shall not change what is tested
Budget.pays_one_more = lambda *_, **__: True
notes = []
class Listening(Watch):
    def note(self, text):
        notes.append(text)

model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
program = Program.of(model, x, y=x[:, :1], batch_size=16)
climbed = Told(program, None, 25.0, SAFE, Listening()).run()
print(json.dumps({
    "notes": notes,
    "arms": [trial.arm for trial in climbed.final.trials],
    "ladder": [rung.change.id for rung in climbed.ladder],
    "reached": climbed.reached is not None and climbed.reached.of_turns is not None,
    "tried": {tried.id: [tried.decision, tried.reason] for tried in climbed.tried},
}))
"""


@pytest.mark.verify
def test_the_last_race_decides_on_what_was_undecided(tmp_path: Path) -> None:
    found = json.loads(run_program(SCRIPT, tmp_path).out.splitlines()[-1])
    assert any("may be faster; the last race decides" in note for note in found["notes"])
    arms = found["arms"]
    assert "several steps per call + XLA" in arms
    assert "model alone" in arms and "model alone without XLA" in arms
    assert "input alone" in arms and len(arms) == len(set(arms)) == 7  # XLA changes no input
    assert found["ladder"][0] == "steps_per_execution"
    assert found["reached"]
    if "jit_compile" in found["ladder"]:
        assert "of the last race" in found["tried"]["jit_compile"][1]
    else:
        assert found["tried"]["jit_compile"][0] in ("not proven", "unsafe")
