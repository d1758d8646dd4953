"""Practices for a `PyDataset`: batches kept in memory, workers, and their patches."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_on_tensorflow

pytestmark = needs_tensorflow

BATCHES = '''"""Batches of numbers."""
import math

import keras
import numpy as np


class Plain(keras.utils.PyDataset):
    def __init__(self, x, size, **options):
        super().__init__(**options)
        self.x, self.size, self.scale = x, size, 2.0
        self.calls = []

    def __len__(self):
        return math.ceil(len(self.x) / self.size)

    def __getitem__(self, index):
        part = self.x[index * self.size : (index + 1) * self.size]
        return self.scale * part, part[:, :1]


class Noisy(Plain):
    def __getitem__(self, index):
        part = self.x[index * self.size : (index + 1) * self.size]
        return part + np.random.normal(size=part.shape), part[:, :1]


class Ordered(Plain):
    def on_epoch_end(self):
        np.random.shuffle(self.x)


class Ramped(Plain):
    def ramp(self, epoch):
        self.scale = epoch
'''

PROGRAM = """
import json
import keras, numpy as np
import batches
from outpace.tune.climb.candidates import candidates_of
from outpace.tune.optimisations import knobs
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.program.program import Program
from outpace.tune.risk import Risk

X = np.random.RandomState(0).rand(96, 8).astype("float32")
READERS = {knob.id: knob for knob in knobs() if knob.reads}

def program_of(x):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return Program.of(model, x, {"epochs": 2}, None, ())

def said(applies):
    return [applies.risk.value if isinstance(applies, Applies) else None, applies.sentence]

found = {}
for kind in ("Plain", "Noisy", "Ordered", "Ramped"):
    program = program_of(getattr(batches, kind)(X, 16))
    found[kind] = {name: said(knob.applies(program)) for name, knob in READERS.items()}
found["workers already"] = said(READERS["workers"].applies(program_of(batches.Plain(X, 16, workers=3))))
found["processes"] = said(READERS["kept_batches"].applies(program_of(batches.Plain(X, 16, use_multiprocessing=True))))
found["arrays"] = [said(knob.applies(program_of(X))) for knob in READERS.values()]

def epochs(x):
    return [[part.tobytes() for index in range(len(x)) for part in x[index]] for _ in range(2)]

candidates, _ = candidates_of(program_of(batches.Plain(X, 16)), None, None)
for each in candidates:
    if each.id in READERS:
        (change,) = each.files
        names = {}
        exec(compile(change.new, "patched.py", "exec"), names)
        patched = names["Plain"](X, 16)
        equal = epochs(patched) == epochs(batches.Plain(X, 16))
        found[each.id] = {
            "old": change.old, "new": change.new, "patched": [patched.workers > 1, patched[1][0] is patched[1][0], equal],
            "of input": each.of_input, "recipe": each.recipe,
        }
print(json.dumps(found), flush=True)
import os
os._exit(0)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("py_dataset")
    (folder / "batches.py").write_text(BATCHES, encoding="utf-8")
    return _ran(PROGRAM, folder)


def _ran(program: str, folder: Path) -> dict[str, Any]:
    ended = run_on_tensorflow(program, folder)
    assert ended.code == 0, ended.err[-3000:]
    found: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return found


def test_what_their_batches_must_be(found: dict[str, Any]) -> None:
    assert found["Plain"] == {
        "kept_batches": ["exact", found["Plain"]["kept_batches"][1]],
        "workers": ["exact", "one thread makes its batches, one after the other"],
    }
    assert found["Noisy"]["kept_batches"] == [None, "its batch 0 was another when it was made again"]
    assert found["Noisy"]["workers"][0] == "statistical"
    assert found["Ordered"]["kept_batches"] == [None, "its on_epoch_end may change what a batch holds"]
    assert found["Ramped"]["kept_batches"][0] == "exact"  # where `ramp` is called, the edited script is another program
    assert found["workers already"] == [None, "it has workers already (3)"]
    assert found["processes"][0] is None
    assert found["arrays"] == [[None, "the input is no PyDataset"]] * 2


def test_their_patches(found: dict[str, Any]) -> None:
    """The class that is written takes effect, and gives the same batches."""
    assert _lines(found["kept_batches"]) == ["+import functools", "+    @functools.cache"]
    assert found["kept_batches"]["patched"] == [False, True, True]
    init = "        super().__init__(**options"
    assert _lines(found["workers"]) == ["+import os", f"-{init})", f"+{init}, workers=os.cpu_count())"]
    assert found["workers"]["patched"] == [True, False, True]
    for name, said in {"kept_batches": "Decorate __getitem__", "workers": "Let several threads make the batches"}.items():
        assert found[name]["of input"] and said in found[name]["recipe"][0]


def _lines(change: dict[str, Any]) -> list[str]:
    lines = difflib.unified_diff(change["old"].splitlines(), change["new"].splitlines(), n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
