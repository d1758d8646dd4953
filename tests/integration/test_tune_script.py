"""`outpace tune` on real scripts: it measures, and leaves the training as it was, at any speed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.edited import edited_command
from tests.integration.programs import Ended, needs_tensorflow, run_python, run_tune, started

pytestmark = needs_tensorflow

SCRIPT = """
import hashlib, sys
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = (x[:, :3].argmax(1)).astype("int32")

def augment(a, b):
    return a + tf.random.normal([6], stddev=0.01), b

data = tf.data.Dataset.from_tensor_slices((x, y))
data = data.shuffle(640)
data = data.map(augment)
data = data.batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(data, epochs=int(sys.argv[1]), verbose=0)
print(hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest(), history.history["loss"][-1], len(history.epoch))
sys.exit(3)
"""
EPOCHS = "150"  # longer than it is looked at: a script that ended with an error is not tuned
OVER = SCRIPT.replace("sys.exit(3)", "")  # it ends well, and may be looked at then


def run(folder: Path, source: str, *options: str, argv: Sequence[str] = (EPOCHS,), **more: Any) -> Ended:
    return run_tune(folder, source, *options, argv=argv, **more)


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str, Path]:
    """The report of a tuned run that trains on, the last line of that and of an untouched one."""
    folder = tmp_path_factory.mktemp("tune")
    options = ("--budget", "90s", "--then", "continue", "--json", "--out", "samples", "--html", "tune.html")
    done = run(folder, SCRIPT, *options, code=3)
    document, end = json.JSONDecoder().raw_decode(done.out)
    plain = run_python("train.py", EPOCHS, cwd=folder)
    assert done.out.strip().endswith(f" {EPOCHS}")
    return document, done.out[end:].strip(), plain.out.strip(), folder


def test_training_afterwards_is_bit_equal_to_a_run_without_tuning(continued: Any) -> None:
    assert continued[1] == continued[2]


def test_the_report_holds_every_practice(continued: Any) -> None:
    page = continued[0]["tools"]["tune"]
    tried = {row[0]: row[1] for row in page["tables"]["tried"]["rows"]}
    undecided = {"no difference", "seems slower", "inconclusive", "not raced"}
    assert tried["Run the map's function in parallel"] in {"opt-in", *undecided}
    assert tried["graph instead of eager execution"] == "not applicable"
    advice = continued[0]["tools"]["tune_details"]["tables"]["advice"]["rows"]
    assert any(row[0] == "Mixed precision" for row in advice), advice
    assert tried["XLA"] in {"kept", "not proven", "seems faster", *undecided}
    assert page["headline"]


def test_samples_and_html_are_written(continued: Any) -> None:
    folder = continued[3]
    races = sorted(path.name for path in (folder / "samples").iterdir())
    assert races and races[0] == "race-0.jsonl"
    kinds = [json.loads(line)["kind"] for line in (folder / "samples" / "race-0.jsonl").read_text().splitlines()]
    assert kinds[0] == "experiment" and "sample" in kinds
    assert "graph instead of eager execution" in (folder / "tune.html").read_text(encoding="utf-8")


def test_a_dry_run_says_what_would_be_tried_and_ends_before_the_training_does(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "--dry-run")
    lines = done.out.splitlines()
    assert any(line.startswith("would try: XLA") for line in lines)
    assert any(
        line.startswith("would try, kept only with --allow statistical: Run the map's function in parallel") for line in lines
    )
    assert any(line.startswith("advice: Mixed precision: ") for line in lines)
    assert not any(len(line.split()) == 3 and len(line.split()[0]) == 64 for line in lines), "the script trained"


@pytest.mark.verify
def test_only_limits_races_no_practice(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "--only-limits", "--budget", "5s", "--json")
    document = json.loads(done.out)
    page = document["tools"]["tune"]
    assert {row[1] for row in page["tables"]["tried"]["rows"]} <= {"not applicable", "explained", "not raced", "advice"}
    assert page["headline"].startswith("Without any input") and "Nothing was raced: only the limits" in page["headline"]
    assert document["findings"] == []  # nothing is proven


@pytest.mark.verify
def test_ctrl_c_ends_the_tuning_and_none_of_the_scripts_code_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(FINALLY), encoding="utf-8")
    process = started("-m", "outpace", "tune", "--budget", "10s", "train.py", EPOCHS, cwd=tmp_path, stdout=subprocess.PIPE)
    assert process.stderr is not None and process.stdout is not None
    with process.stderr as lines, process.stdout as out:
        next(line for line in lines if "racing" in line)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        rest, said = lines.read(), out.read()
    assert process.wait(60) == 130, rest
    assert "interrupted" in rest and "KeyboardInterrupt" not in rest
    assert said == "before\n"


BEFORE = "import atexit\natexit.register(print, 'at exit')\nprint('before')\ntry:\n    history = model.fit"
FINALLY = SCRIPT.replace("history = model.fit", BEFORE).replace("print(hashlib", "finally:\n    print('saved')\nprint(hashlib")


@pytest.mark.verify
def test_a_tuned_script_ends_at_its_fit(tmp_path: Path) -> None:
    """A `finally:` that saves would overwrite a trained model with one that trials have changed."""
    done = run(tmp_path, FINALLY, "--budget", "8s", "--only-limits")
    assert done.out.startswith("before\n") and "saved" not in done.out and "at exit" not in done.out


INPUTS = {
    "class weights": "data, class_weight={0: 1.0, 1: 2.0, 2: 3.0},",
    "split arrays": "x, y, validation_split=0.2, class_weight={0: 1.0, 1: 2.0, 2: 3.0},",
    "PyDataset": "Batches(workers=WORKERS),",
    "PyDataset with workers": "Batches(workers=WORKERS + 2),",
}
GENERATORS = {
    "generator": "((x[:8], y[:8]) for _ in range(4)),",
    "endless generator": "((x[:8], y[:8]) for _ in iter(int, 1)), steps_per_epoch=9,",
}
BATCHES = """
class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 12
    def __getitem__(self, number):
        return x[number * 16 : number * 16 + 16], y[number * 16 : number * 16 + 16]
WORKERS = 0
model ="""


OFTEN = ("endless generator",)  # the others in `make verify`


def often(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.verify]) for name in names]


def fitting(given: str) -> str:
    return OVER.replace("model =", BATCHES, 1).replace("model.fit(data,", f"model.fit({given}")


@pytest.mark.parametrize("name", often(INPUTS))
def test_whatever_can_be_read_again_gets_limits(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, fitting(INPUTS[name]), "--budget", "4s", "--only-limits", "--json")
    document = json.loads(done.out[done.out.index("{") :])  # a fit that was over by itself printed before
    assert "Input alone" in done.out, document["headline"]


@pytest.mark.parametrize("name", often(GENERATORS))
def test_a_generator_is_read_by_the_training_alone(name: str, tmp_path: Path) -> None:
    """Looking at the program uses nothing of it up: its step is tuned, and it has no limits."""
    done = run(tmp_path, fitting(GENERATORS[name]), "--dry-run")
    assert "would try: XLA" in done.out and "Cache in memory" not in done.out, done.out


@pytest.mark.verify
@pytest.mark.parametrize("backend", ["jax", "distribute"])
def test_a_model_of_another_backend_is_timed_beside_its_input(backend: str, tmp_path: Path) -> None:
    source = OVER
    if backend == "jax":
        source = f"import os\nos.environ['KERAS_BACKEND'] = 'jax'\n{OVER}"
    else:
        scope = "scope = tf.distribute.MirroredStrategy(['/cpu:0']).scope()\nscope.__enter__()\nmodel = keras"
        source = OVER.replace("model = keras", scope).replace("history =", "scope.__exit__(None, None, None)\nhistory =")
    done = run(tmp_path, source, "--budget", "10s", "--only-limits", "--json", jax=backend == "jax")
    page = json.loads(done.out)["tools"]["tune"]
    assert page["headline"].startswith("Without any input")
    assert "Input alone" in done.out and "on a batch in memory" in done.out


@pytest.mark.verify
def test_a_later_fit_and_what_there_is_not(tmp_path: Path) -> None:
    twice = SCRIPT.replace("history =", "model.fit(data, epochs=1, verbose=0)\nmodel.evaluate(data, verbose=0)\nhistory =")
    done = run(tmp_path, twice, "--budget", "4s", "--only-limits", "--fit", "2")
    assert "tuning the fit at train.py:20, number 2" in done.err, done.err[-3000:]
    done = run(tmp_path, OVER, "--fit", "2", argv=("1",), code=8)
    assert "called Keras' fit 1 time, so that there was no fit number 2" in done.err


def test_the_winner_trains_in_a_new_process(tmp_path: Path) -> None:
    """Whether a practice wins is the machine's to say: a text of ours shows what trains."""
    source = textwrap.dedent(SCRIPT).replace("sys.exit(3)", "print(model.steps_per_execution)")
    path = tmp_path / "train.py"
    path.write_text(source, encoding="utf-8")
    edited = source.replace("from_logits=True))", "from_logits=True), steps_per_execution=16)")
    command = edited_command({str(path): edited}, "train.py", ["2"], False)
    assert command[0] == sys.executable
    done = run_python(*command[1:], cwd=tmp_path)
    assert done.code == 0, done.err[-3000:]
    assert done.out.splitlines()[-1] == "16" and path.read_text(encoding="utf-8") == source
