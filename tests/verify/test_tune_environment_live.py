"""Settings of the environment that really make a program faster are found, combined, and kept; and
the whole command with JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.tune.climb.environment import tune_environment
from outpace.tune.optimisations.environment import EnvironmentKnob, Host, Observed, Setting
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.race import replay
from outpace.tune.risk import Risk
from outpace.tune.trial import Decision
from tests.integration.programs import environment, needs_tensorflow

pytestmark = pytest.mark.verify

SLEEPY = """
import os, time

def outpace_race():
    seconds = 0.032
    for name in ("TF_ONE", "TF_OTHER", "TF_SLOWER"):
        seconds *= float(os.environ.get(name, 1))
    return lambda: time.sleep(seconds)
"""
KERAS = """
import sys, numpy as np, keras, tensorflow as tf
x, y = np.zeros((640, 6), "float32"), np.zeros((640, 1), "float32")
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), epochs=150, verbose=0)  # longer than it is looked at
sys.exit(3)
"""


class Factor(EnvironmentKnob):
    """A knob of this test: its variable makes the program sleep so many times as long."""

    practice = "Sleep less."

    def __init__(self, variable: str, factor: str, order: int = 0) -> None:
        self.id = self.title = self.variable = variable
        self.factor, self.order = factor, order

    def applies(self, host: Host, /) -> Applies:
        return Applies("it sleeps", Risk.EXACT)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        return (Setting(self.title, {self.variable: self.factor}),)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        return "it is set" if seen.variables.get(self.variable) == self.factor else None


def test_the_best_two_settings_are_combined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SLEEPY, encoding="utf-8")
    knobs = [Factor("TF_ONE", "0.5"), Factor("TF_OTHER", "0.25"), Factor("TF_SLOWER", "2")]
    outcome = tune_environment("train.py", budget=40, knobs=knobs)
    assert {tried.title: tried.decision for tried in outcome.tried} == {
        "TF_ONE": "faster", "TF_OTHER": "faster", "TF_SLOWER": "slower", "TF_OTHER and TF_ONE": "faster",
    }  # fmt: skip
    assert outcome.kept == ("TF_OTHER", "TF_ONE")
    assert str(outcome.command) == "TF_OTHER=0.25 TF_ONE=0.5 python train.py"
    assert [experiment.baseline for experiment in outcome.races] == ["as it is", "TF_OTHER"]
    again = replay(outcome.races[0], progress=False)
    assert {verdict.arm: verdict.decision for verdict in again.verdicts} == {
        "TF_ONE": Decision.FASTER, "TF_OTHER": Decision.FASTER, "TF_SLOWER": Decision.SLOWER,
    }  # fmt: skip


@needs_tensorflow
def test_the_command_prints_one_json_document_and_keeps_the_samples(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(KERAS, encoding="utf-8")
    options = ["--environment", "--budget", "30s", "--json", "--out", "samples", "--then", "continue"]
    done = subprocess.run(
        [sys.executable, "-m", "outpace", "tune", *options, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=400,
    )
    assert done.returncode == 3, done.stderr[-3000:]
    assert json.loads(done.stdout)["schema"] == 2
    assert (tmp_path / "samples" / "environment-0.jsonl").is_file()
