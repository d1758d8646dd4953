"""The patch of a program with JPEG files, as users write them: readable, the same program, and
found out where it is wrong.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from tests.integration.programs import needs_tensorflow
from tests.integration.test_tune_patch import judged, patched

pytest.importorskip("libcst")
pytestmark = [needs_tensorflow, pytest.mark.verify]

SCRIPT = """\
import sys, glob, tensorflow as tf, keras
keras.utils.set_random_seed(3)
files = sorted(glob.glob('jpg/*/*.jpg'))
labels = [int(f.split('/c')[1].split('/')[0]) for f in files]
scale = tf.Variable(1/255.)
def load(f, l):
    x = tf.io.decode_jpeg(tf.io.read_file(f), channels=3)
    x = tf.image.resize(x, [64, 64]) * scale
    x = tf.image.random_flip_left_right(x)
    return x, l
ds = (tf.data.Dataset.from_tensor_slices((files, labels))
        .shuffle(2000)
        .map(load)
        .batch(2))
model = keras.Sequential([keras.layers.Input((64, 64, 3)), keras.layers.Conv2D(8, 3), keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(10)])
model.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
if __name__ == '__main__':
    model.fit(ds, verbose=2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = pytest.importorskip("PIL.Image")
    made = tmp_path_factory.mktemp("jpeg")
    draw = np.random.default_rng(0)
    for number in range(96):
        target = made / "jpg" / f"c{number % 10}" / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        image.fromarray(draw.integers(0, 255, (80, 100, 3), dtype=np.uint8)).save(buffer, "JPEG")
        target.write_bytes(buffer.getvalue())
    return made


def test_the_patched_program_is_the_same_one_and_a_wrong_one_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = patched(folder, SCRIPT, "split_map", "steps_per_execution")
    assert not found["left"]
    new = found["files"][0][2]
    assert "def load(x, l):\n    x = x * scale\n    x = tf.image.random_flip_left_right(x)\n    return x, l\nds = (" in new
    chain = ["map(load_cached)", "cache()", "shuffle(2000)", "map(load)", "batch(2))"]
    assert "".join(f"        .{call}\n" for call in chain) in new
    outcome = judged(found, folder)
    assert outcome.same is True, outcome
    for right, wrong, said in (
        ("[64, 64])\n", "[64, 64], 'bicubic')\n", "It is another program"),
        ("return x, l\ndef", "return y, l\ndef", "name 'y' is not defined"),
    ):
        assert right in new
        spoiled = {**found, "files": [[*found["files"][0][:2], new.replace(right, wrong, 1)]]}
        outcome = judged(spoiled, folder)
        assert outcome.same is False and said in outcome.why, outcome


@pytest.mark.xfail(
    strict=True,
    reason="refused for rounding: small biases that begin at zero are off by 7e-5 of their largest number after 16 steps of Adam with XLA",
)
def test_xla_beside_it_is_the_same_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    outcome = judged(patched(folder, SCRIPT, "split_map", "jit_compile"), folder)
    assert outcome.same is True, outcome
