"""Python generators behind from_generator: items kept and stacks instead of elements give the same bits, in the pipeline and in the patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow
from tests.integration.test_rewrite import shown
from tests.integration.test_tune_patch import HEAD, MODEL, judged, patched

pytestmark = needs_tensorflow
GENERATOR = """
import random

names = [f"n{number}" for number in range(40)]

def load(name):
    return np.full((4,), len(name) * 1.5, np.float32) + int(name[1:])

def read():
    while True:
        for name in names:
            row = load(name)
            yield (row[::-1] if random.random() < 0.5 else row), len(name)

def made():
    signature = (tf.TensorSpec((4,)), tf.TensorSpec([], tf.int32))
    return tf.data.Dataset.from_generator(read, output_signature=signature).batch(8)
"""


def test_both_rewrites_give_the_same_elements_in_either_order(tmp_path: Path) -> None:
    source = """
    found = []
    for order in (["kept_items", "generator_chunks"], ["generator_chunks", "kept_items"]):
        data = made().take(20)
        for name in order:
            outcome = attempt(REWRITES[name], describe(data))
            assert isinstance(outcome, Rewritten), outcome
            found.append([name, outcome.verified.bitwise, outcome.verified.elements])
            data = outcome.dataset
        iterator = iter(data)
        next(iterator), next(iterator)
        found.append([REWRITES[name].proof(iterator, describe(data)) for name in order])
    show(*found)
    """
    found = shown(GENERATOR + source.replace("\n    ", "\n"), tmp_path)
    assert [row[:2] for row in found if len(row) == 3] == [  # type: ignore[index, arg-type]
        ["kept_items", True],
        ["generator_chunks", True],
        ["generator_chunks", True],
        ["kept_items", True],
    ]
    proofs = [row for row in found if len(row) == 2]  # type: ignore[arg-type]
    assert all("items came from memory" in str(row) and "32 elements per call" in str(row) for row in proofs), found


def test_an_iterator_that_still_reads_ahead_disturbs_no_comparison(tmp_path: Path) -> None:
    source = """
    import time
    def draw():
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            random.random()
    threading.Thread(target=draw, daemon=True).start()
    outcome = attempt(REWRITES["generator_chunks"], describe(made().take(20)))
    show(isinstance(outcome, Rewritten), str(outcome))
    """
    found = shown(GENERATOR + source.replace("\n    ", "\n"), tmp_path)
    assert found[0] is True, found


def test_what_cannot_be_kept_or_stacked_is_said(tmp_path: Path) -> None:
    source = """
    def drawn():
        for name in names:
            row = load(random.choice(names))
            yield row
    def ragged():
        for name in names:
            yield np.zeros(len(name))
    given = lambda function, shape: describe(tf.data.Dataset.from_generator(function, output_signature=tf.TensorSpec(shape)).batch(1))
    show(REWRITES["kept_items"].applies(given(drawn, (4,))).sentence,
         REWRITES["generator_chunks"].applies(given(ragged, (None,))).sentence,
         REWRITES["kept_items"].applies(given(lambda: iter([1.0]), ())).sentence)
    """
    found = [str(each) for each in shown(GENERATOR + source.replace("\n    ", "\n"), tmp_path)]
    assert "nothing that depends on the item alone" in found[0]
    assert "no fixed shapes" in found[1]
    assert "something else than a generator function" in found[2]


@pytest.mark.verify
def test_the_patched_program_is_the_same_one(tmp_path: Path) -> None:
    pytest.importorskip("libcst")
    made = HEAD + GENERATOR + "\nds = made().take(20).map(lambda row, length: (row, tf.cast(length, tf.float32)))" + MODEL
    found = patched(tmp_path, made, "kept_items", "generator_chunks")
    assert not found["left"], found["left"]
    for part in (
        "+import functools",
        "+import itertools",
        "+@functools.cache",
        "+def read_item(name):",
        "+    row.flags.writeable = False",
        "+            row = read_item(name)",
        "+def read_in_chunks():",
        "+    while chunk := list(itertools.islice(elements, 32)):",
        ".flat_map(lambda *parts: tf.data.Dataset.from_tensor_slices(parts)).batch(8)",
        "output_signature=(tf.TensorSpec((None, 4), tf.float32), tf.TensorSpec((None,), tf.int32))",
    ):
        assert part in found["diff"], found["diff"]
    outcome = judged(found, tmp_path)
    assert outcome.same is True, outcome
