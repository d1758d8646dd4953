"""The patch of a tuned program: tools apply it, and the patched program is the same one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.patch import FileChange, SourcePatch, write_patch
from outpace.tune.same import Judgement, Original
from tests.integration.programs import forks_for, needs_tensorflow, run_on_tensorflow

pytest.importorskip("libcst")
pytestmark = needs_tensorflow

HOST = """
import json, os, sys
import tensorflow as tf, keras
from outpace.capture.frames import CallSite
from outpace.capture.pipeline import PipelineRecorder
from outpace.capture.script import run_as_main
recorder = PipelineRecorder(False)
recorder.install(tf)
from outpace.tune.climb.candidates import candidates_of
from outpace.tune.program.program import Program, note_compiles
from outpace.tune.texts.load import substitute
from outpace.tune.texts.merge import merged

script, wanted, edited, stand_in, out = sys.argv[1:6]
substitute(json.loads(stand_in))

def fit(self, x=None, y=None, **arguments):
    arguments.update({} if y is None else {"y": y})
    program = Program.of(self, x, arguments, None, ())
    if edited != "-":
        with open(script, "w", encoding="utf-8") as file:
            file.write(edited)
    called = CallSite(os.path.abspath(script), sys._getframe(1).f_lineno, None)
    candidates, others = candidates_of(program, recorder, called)
    by_id, texts, old, apart, titles = {each.id: each for each in candidates}, {}, {}, [], []
    for each in (by_id[name] for name in wanted.split(",") if name in by_id):
        both = merged({}, texts, each.texts)
        if both is None:
            apart.append(each.title)
            continue
        texts, titles = both, [*titles, each.title]
        old.update({change.path: change.old for change in each.files})
    with open(out, "w", encoding="utf-8") as file:
        json.dump({
            "files": [[path, old[path], new] for path, new in sorted(texts.items())], "titles": titles, "apart": apart,
            "left": [f"{each.title}: {each.reason}" for each in others if each.id in wanted.split(",")],
        }, file)
    os._exit(0)

keras.Model.fit = fit
note_compiles(keras)
run_as_main(script, [], False)
"""

HEAD = """
import keras, numpy as np, tensorflow as tf

x, y = np.arange(640, dtype="float32").reshape(160, 4), np.arange(160)
scale = tf.Variable(0.5)
"""
MODEL = """
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds, verbose=0)
"""


def patched(
    folder: Path, source: str, *changes: str, edited: str = "-", texts: Mapping[str, str] | None = None, name: str = "train.py"
) -> dict[str, Any]:
    """What these changes make of the files; `texts` stand in for them in a second look."""
    (folder / name).write_text(source, encoding="utf-8")
    arguments = (name, ",".join(changes), edited, json.dumps(texts or {}), "patch.json")
    done = run_on_tensorflow(HOST, folder, *arguments, command=True)
    assert done.code == 0, done.err[-3000:]
    found: dict[str, Any] = json.loads((folder / "patch.json").read_text(encoding="utf-8"))
    return found


def as_patch(found: dict[str, Any]) -> SourcePatch:
    return SourcePatch(tuple(FileChange(*each) for each in found["files"]), tuple(found["titles"]))


def judged(found: dict[str, Any], folder: Path, name: str = "train.py") -> Judgement:
    """Whether the patched program is the same one; no file changes."""
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    texts = {str(folder / each[0]): each[2] for each in found["files"]}
    forks = forks_for((folder / name).read_text(encoding="utf-8"))
    with Original(str(folder / name), folder=str(folder), cut=32, forks=forks) as original:
        outcome = original.against(texts)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return outcome


def changed(found: dict[str, Any], sign: str) -> list[str]:
    """The lines that the diff adds (`+`) or takes away (`-`)."""
    lines = as_patch(found).diff().splitlines()
    return [line[1:] for line in lines if line.startswith(sign) and not line.startswith(sign * 3)]


PICTURES = """
import os, keras, tensorflow as tf

for name in "abcd":
    os.makedirs(f"images/{name}", exist_ok=True)
    tf.io.write_file(f"images/{name}/one.png", tf.io.encode_png(tf.zeros((2, 2, 3), tf.uint8)))
"""
BUILT = """
ds = keras.utils.image_dataset_from_directory(
    "images", image_size=(2, 2), batch_size=2)
"""
SHAPED = MODEL.replace("keras.Input((4,))", "keras.Input((2, 2, 3)), keras.layers.Flatten()")


@pytest.mark.parametrize(
    ("made", "indent"),
    [
        (BUILT, ""),
        (BUILT + BUILT.replace("ds =", "other ="), ""),
        ("for _ in range(2):" + BUILT.replace("\n", "\n    "), "    "),
    ],
)
def test_input_that_a_library_builds_is_edited_behind_its_call(made: str, indent: str, tmp_path: Path) -> None:
    found = patched(tmp_path, PICTURES + made + SHAPED, "cache_any_order")
    assert changed(found, "+") == [f"{indent}ds = ds.cache()", f"{indent}ds = ds.shuffle(2)"]
    assert changed(found, "-") == []


def test_input_that_a_library_builds_in_order_is_cached_behind_its_call(tmp_path: Path) -> None:
    found = patched(tmp_path, PICTURES + BUILT.replace("batch_size=2)", "batch_size=2, shuffle=False)") + SHAPED, "cache")
    assert changed(found, "+") == ["ds = ds.cache()"] and changed(found, "-") == []


@pytest.mark.parametrize(
    ("between", "written"),
    [
        ("print(ds.class_names)", "model.fit(ds.cache().shuffle(2), verbose=0)"),
        (
            "print(ds.class_names)\nds = ds.map(noisy)",
            "print(ds.class_names)\nds = ds.cache()\nds = ds.shuffle(2)\nds = ds.map(noisy)",
        ),
    ],
)
def test_where_more_is_read_of_it_the_edit_stands_before_what_follows(between: str, written: str, tmp_path: Path) -> None:
    noisy = "\ndef noisy(x, y):\n    return x + tf.random.uniform([]), y\n"
    found = patched(tmp_path, PICTURES + noisy + BUILT + between + SHAPED, "cache_any_order")
    assert written in found["files"][0][2]


CHAIN = (
    HEAD
    + """
def load(a, b):
    # the work
    a = tf.math.tanh(tf.reshape(a, [4])) * scale  # state
    a = a + tf.random.normal([4])
    return a, b

ds = (tf.data.Dataset.from_tensor_slices((x, y))
        .shuffle(160)  # all of them
        # decode
        .map( load )
        .batch(16))
"""
    + MODEL.replace("keras.layers.Dense(1)", "keras.layers.Dense(2), keras.layers.Dense(1)").replace(
        '"sgd"', "keras.optimizers.SGD(1e-4)"
    )  # with the default it diverges, and what has diverged tells nothing
)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("chain")
    return folder, patched(folder, CHAIN, "split_map", "jit_compile")


def test_a_divided_function_and_arguments_of_compile(chain: tuple[Path, dict[str, Any]]) -> None:
    found = chain[1]
    assert found["files"][0][2] == CHAIN.replace(
        """
def load(a, b):
    # the work
    a = tf.math.tanh(tf.reshape(a, [4])) * scale  # state
""",
        """
def load_cached(a, b):
    # the work
    a = tf.math.tanh(tf.reshape(a, [4]))
    return a, b

def load(a, b):
    a = a * scale  # state
""",
    ).replace(
        """        .shuffle(160)  # all of them
        # decode
        .map( load )
""",
        """        .map( load_cached )
        .cache()
        .shuffle(160)  # all of them
        # decode
        .map( load )
""",
    ).replace('"mse")', '"mse", jit_compile=True)')


def test_the_patched_program_is_the_same_one(chain: tuple[Path, dict[str, Any]]) -> None:
    """Elements made before the shuffle come in its order, with random numbers of their own."""
    outcome = judged(chain[1], chain[0])
    assert outcome.same is True and outcome.compared > 20, outcome


@pytest.mark.parametrize("tool", [["patch", "-p0", "-i"], ["git", "apply", "-p0"]], ids=["patch", "git"])
def test_tools_apply_the_written_patch(chain: tuple[Path, dict[str, Any]], tmp_path: Path, tool: Sequence[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    shutil.copy(chain[0] / "train.py", tmp_path)
    write_patch(as_patch(chain[1]), tmp_path / "speed.patch", str(chain[0]))
    subprocess.run([*tool, "speed.patch"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == chain[1]["files"][0][2]


MODULE = """
import tensorflow as tf
from reading import decode

def make(x, y):
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.map(decode)
    return dataset.batch(16)
"""


@pytest.mark.verify
def test_data_sets_and_models_of_other_modules(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "reading.py").write_text("def decode(a, b):\n    return a * 2.0, b\n", encoding="utf-8")
    (tmp_path / "models.py").write_text(
        "import keras\ndef model():\n    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "    made.compile('sgd', loss='mse', jit_compile=False)\n    return made\n",
        encoding="utf-8",
    )
    script = HEAD + "import data, models\nmodels.model().fit(data.make(x, y))\n"
    found = patched(tmp_path, script, "cache", "thread_pool", "jit_compile")
    assert not found["left"]
    assert [Path(each[0]).name for each in found["files"]] == ["data.py", "models.py"]
    compiled = "    made.compile('sgd', loss='mse', jit_compile=True)"
    assert changed(found, "+") == ["    return dataset.batch(16).cache()", compiled]
    assert found["apart"] == ["Give the pipeline threads of its own"]  # it changes the line that the cache changes
    again = patched(tmp_path, script, "thread_pool", texts={each[0]: each[2] for each in found["files"]})
    assert not again["left"]
    assert changed(again, "+") == [
        "    options = tf.data.Options()",
        "    options.threading.private_threadpool_size = 0",
        "    return dataset.batch(16).cache().with_options(options)",
    ]


REFUSED = (
    HEAD
    + """
ds = tf.data.Dataset.from_tensor_slices((x, y))
ds = ds.map(lambda a, b: (tf.exp(a) * scale, b))
ds = ds.batch(16)
OPTIONS = {"optimizer": "sgd", "loss": "mse"}
"""
    + MODEL.replace('"sgd", "mse"', "**OPTIONS")
)


@pytest.mark.verify
def test_what_cannot_be_written_is_left_to_the_recipe(tmp_path: Path) -> None:
    found = patched(tmp_path, REFUSED, "split_map", "jit_compile", "parallel_map")
    function, step = found["left"]
    assert "No edit makes it: " in function and "its function is a lambda" in function and "divide the function" in function
    assert "gives compile its arguments as a dictionary" in step and step.endswith("By hand: compile(..., jit_compile=True).")
    assert changed(found, "+") == ["ds = ds.map(lambda a, b: (tf.exp(a) * scale, b), num_parallel_calls=tf.data.AUTOTUNE)"]


def test_a_file_that_was_edited_while_the_program_ran_is_refused(tmp_path: Path) -> None:
    found = patched(tmp_path, CHAIN, "split_map", edited="# new\n" + CHAIN)
    assert not found["files"]
    assert "edited since" in found["left"][0]


STEP = """
import keras, numpy as np

x, y = np.arange(640, dtype="float32").reshape(160, 4), np.arange(160)

class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 10
    def __getitem__(self, number):
        return x[:16] + NOISE, y[:16]

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(INPUT, verbose=0)
"""
INPUTS = {
    "arrays": ("x, y, batch_size=14, validation_split=0.1", "0", True, "the same program"),
    "batches": ("Batches()", "number", True, "the same program"),
    "batches of chance": (
        "Batches()",
        "open('/dev/urandom', 'rb').read(1)[0]",
        None,
        "Two runs of the script as it is differ as well",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "batches" else [pytest.mark.verify]) for name in INPUTS]
)
def test_a_patch_of_the_step_alone(name: str, tmp_path: Path) -> None:
    """Arrays once ended in an EOFError; batches that always differ cannot be compared."""
    given, noise, same, said = INPUTS[name]
    found = patched(tmp_path, STEP.replace("INPUT", given).replace("NOISE", noise), "steps_per_execution")
    assert changed(found, "+") == ['model.compile("sgd", "mse", steps_per_execution=5)']
    outcome = judged(found, tmp_path)
    assert outcome.same is same and said in outcome.why, outcome


@pytest.mark.verify
def test_of_several_compiles_the_last_one_before_fit_is_patched(tmp_path: Path) -> None:
    twice = STEP.replace(
        'model.compile("sgd", "mse")', 'model.compile(\n    "adam",\n    "mae",\n)\nother = model\nother.compile("sgd", "mse")'
    )
    found = patched(
        tmp_path, twice.replace("INPUT", "x, y, batch_size=16") + 'model.compile("rmsprop")\n', "steps_per_execution"
    )
    assert changed(found, "+") == ['other.compile("sgd", "mse", steps_per_execution=5)']
