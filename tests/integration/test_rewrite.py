"""What rewrites say of real pipelines: where they apply, with what risk; asking changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_on_tensorflow

pytestmark = needs_tensorflow
START = """
import json, os, sys
import numpy as np, tensorflow as tf
from outpace.frameworks.tensorflow import OPERATIONS
from outpace.tune.data.tree import describe
from outpace.tune.optimisations import all_rewrites
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.risk import Risk

REWRITES = {rewrite.id: rewrite for rewrite in all_rewrites()}
numbers = lambda: tf.data.Dataset.range(20)

def show(*values):
    print(json.dumps(values))
    sys.stdout.flush()
    os._exit(0)
"""


def shown(source: str, folder: Path) -> list[Any]:
    done = run_on_tensorflow(START + source, folder)
    assert done.code == 0, done.err
    return list(json.loads(done.out.splitlines()[-1]))


ANSWERS = """
folder = sys.argv[1]
variable, generator = tf.Variable(3.0), tf.random.Generator.from_seed(5)
keys = tf.range(100, dtype=tf.int64)
table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 10), -1)
images = (np.arange(16 * 8 * 8 * 3) % 251).reshape(16, 8, 8, 3).astype("uint8")
encoded = [tf.io.encode_jpeg(image).numpy() for image in images]
paths = []
for number in range(3):
    paths.append(f"{folder}/{number}.tfrecord")
    with tf.io.TFRecordWriter(paths[-1]) as writer:
        for item in range(5):
            writer.write(f"{number}-{item}".encode())
plain = tf.data.Options()
plain.experimental_optimization.apply_default_optimizations = False
slices = tf.data.Dataset.from_tensor_slices
files = lambda: slices(paths)

def load(text, label):
    image = tf.image.resize(tf.io.decode_jpeg(text, channels=3), [6, 6]) * (variable / 255.0)
    image = tf.image.random_flip_left_right(image)
    return {"image": image + 1 if tf.random.uniform([]) < 0.5 else image}, label

def flipped(x):
    return tf.image.random_flip_left_right(tf.cast(x, tf.float32) / 255.0)

CASES = {
    "map": lambda: numbers().map(lambda x: x + 1).batch(4),
    "captured_variable": lambda: numbers().map(lambda x: tf.cast(x, tf.float32) * variable).batch(4),
    "lookup_table": lambda: numbers().map(lambda x: table.lookup(x)).batch(4),
    "random": lambda: numbers().map(lambda x: tf.random.uniform([])).batch(4),
    "random_seed": lambda: numbers().map(lambda x: tf.random.uniform([], seed=3)).batch(4),
    "random_stateless": lambda: numbers().map(lambda x: tf.random.stateless_uniform([], [x, 1])).batch(4),
    "random_generator": lambda: numbers().map(lambda x: generator.uniform([])).batch(4),
    "numpy_function": lambda: numbers().map(lambda x: tf.numpy_function(lambda v: v + 1, [x], tf.int64)).batch(4),
    "interleave": lambda: files().interleave(tf.data.TFRecordDataset, cycle_length=2).map(tf.strings.length).batch(4),
    "records_of_shuffled_files": lambda: tf.data.TFRecordDataset(files().shuffle(3, seed=2)).map(tf.strings.length).batch(4),
    "shuffle": lambda: numbers().shuffle(10, seed=1).map(lambda x: x + 1).batch(4).repeat(2),
    "cached": lambda: numbers().map(lambda x: x + 1).cache().map(lambda x: x * 2).batch(4).repeat(2),
    "zip": lambda: tf.data.Dataset.zip((numbers().map(lambda x: x + 1), numbers())).batch(4),
    "take": lambda: numbers().map(lambda x: x + 1).batch(4).take(2),
    "jpeg": lambda: slices((encoded, list(range(16)))).shuffle(16).map(load).batch(4),
    "standardised": lambda: slices(images.astype("float32")).map(tf.image.per_image_standardization).batch(4),
    "mean_of_an_element": lambda: slices(images.astype("float32")).map(tf.reduce_mean).batch(4),
    "constant_beside": lambda: numbers().map(lambda x: (x * 2, tf.constant(1))).batch(4),
    "float_then_flip": lambda: slices(images).map(flipped, num_parallel_calls=2).batch(4),
    "map_then_shuffle": lambda: numbers().map(lambda x: x * 3).shuffle(10, seed=4).batch(4),
    "late_shard": lambda: numbers().map(lambda x: x * 3).shard(3, 1).batch(2),
    "shuffle_then_cache": lambda: numbers().shuffle(20, seed=1).cache().map(lambda x: x + 1).batch(4),
    "optimisations_off": lambda: numbers().map(lambda x: x + 1).batch(4).with_options(plain),
}

def said(answer):
    return [answer.risk.value if isinstance(answer, Applies) else answer.word, answer.sentence]

show({name: {id: said(each.applies(describe(make()))) for id, each in REWRITES.items() if not each.instead_of} for name, make in CASES.items()})
"""
EXACT, ORDER, STATISTICAL = "exact", "order", "statistical"
# What is not named is not applicable; `thread_pool`, which changes nothing but options, applies to
# each and is left out.
EXPECTED: dict[str, dict[str, str]] = {
    "map": {"batch_before_map": EXACT, "cache": EXACT},
    "captured_variable": {"batch_before_map": EXACT, "parallel_map": EXACT, "split_map": EXACT},
    "lookup_table": {"batch_before_map": EXACT, "cache": EXACT, "parallel_map": EXACT},
    "random": {"parallel_map": STATISTICAL},
    "random_seed": {"parallel_map": STATISTICAL},
    "random_stateless": {"cache": EXACT},
    "random_generator": {"parallel_map": STATISTICAL},
    "numpy_function": {"cache": EXACT, "parallel_map": STATISTICAL},
    "interleave": {"batch_before_map": EXACT, "cache": EXACT, "parallel_interleave": EXACT},
    "records_of_shuffled_files": {"batch_before_map": EXACT},
    "shuffle": {"batch_before_map": EXACT, "cache": EXACT},
    "cached": {"batch_before_map": EXACT, "cache": EXACT},
    "zip": {"cache": EXACT},
    "take": {"batch_before_map": EXACT, "cache": EXACT},
    "jpeg": {"parallel_map": STATISTICAL, "split_map": EXACT},
    "standardised": {"batch_before_map": EXACT, "cache": EXACT},
    "mean_of_an_element": {"cache": EXACT},
    "constant_beside": {"cache": EXACT},
    "float_then_flip": {"split_map": EXACT},
    "map_then_shuffle": {"cache": EXACT, "shuffle_before_map": EXACT},
    "late_shard": {"cache": EXACT},
    "shuffle_then_cache": {"batch_before_map": EXACT, "cache_before_shuffle": ORDER},
    "optimisations_off": {"batch_before_map": EXACT, "cache": EXACT, "parallel_map": EXACT, "prefetch": EXACT},
}


def test_what_each_rewrite_says_of_pipelines(tmp_path: Path) -> None:
    done = run_on_tensorflow(START + ANSWERS, tmp_path, str(tmp_path))
    assert done.code == 0, done.err
    (found,) = json.loads(done.out.splitlines()[-1])
    answers = {
        name: {id: word for id, (word, _) in rewrites.items() if word != "not applicable" and id != "thread_pool"}
        for name, rewrites in found.items()
    }
    assert answers == EXPECTED
    for name, rewrites in found.items():
        assert rewrites["thread_pool"][0] == EXACT, name
        for id, (word, sentence) in rewrites.items():
            where = f"{id} on {name}: {word}: {sentence}"
            assert len(sentence) > 20 and (word != "not applicable" or sentence.endswith(".")), where


OPAQUE = """
variable = tf.Variable(3, dtype=tf.int64)
dataset = numbers().map(lambda x: x * variable).batch(4)
behind = numbers().batch(4).map(lambda x: x * 2).shuffle(5)

known = [stage.opaque for stage in describe(dataset).stages()]
del OPERATIONS["_BatchDataset"]
unknown = [stage.opaque for stage in describe(dataset).stages()]
edited = REWRITES["parallel_map"].applies(describe(dataset))
no_cache = REWRITES["cache"].applies(describe(behind))
show(known, unknown, isinstance(edited, Applies), [isinstance(no_cache, Applies), no_cache.sentence])
"""


def test_a_class_that_is_not_known_is_opaque_and_nothing_moves_past_it(tmp_path: Path) -> None:
    known, unknown, edited, no_cache = shown(OPAQUE, tmp_path)
    assert known == [False, False, False] and unknown == [True, False, False]
    assert edited is True  # the keyword of a known map, whatever stands behind it
    assert no_cache[0] is False and "_BatchDataset" in no_cache[1], no_cache


def test_asking_leaves_the_users_pipeline_and_variables_as_they_were(tmp_path: Path) -> None:
    source = """
generator = tf.random.Generator.from_seed(5)
def make():
    return numbers().shuffle(20, seed=3).map(lambda x: (x, generator.uniform([]))).batch(4)
def epoch(dataset):
    generator.reset_from_seed(5)
    return [x.numpy().tolist() for x, _ in dataset]
alone = make()
expected = [epoch(alone), epoch(alone)]
tried = make()
generator.reset_from_seed(9)
state = generator.state.numpy().tolist()
answers = [rewrite.applies(describe(tried)) for rewrite in REWRITES.values()]
kept = generator.state.numpy().tolist() == state
show(sum(isinstance(one, Applies) for one in answers), kept, [epoch(tried), epoch(tried)] == expected, expected[0] != expected[1])
"""
    applies, *kept = shown(source, tmp_path)
    assert isinstance(applies, int) and applies >= 2
    assert kept == [True, True, True]


def test_stages_carry_their_source_lines_and_what_makes_them_stateful(tmp_path: Path) -> None:
    source = """
from outpace.capture.pipeline import PipelineRecorder
recorder = PipelineRecorder(); recorder.install(tf)
counter = tf.Variable(0, dtype=tf.int64)
def generate():
    yield from range(3)
def count(x):
    counter.assign_add(1)
    return tf.numpy_function(lambda v: v, [x], tf.int64)
dataset = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([], tf.int64))
dataset = dataset.map(count)
dataset = dataset.shuffle(3).cache("/tmp/never_written")
pipeline = describe(dataset, recorder)
kept = {stage.op: stage.record.line for stage in pipeline.stages() if stage.record}
facts = next(stage for stage in pipeline.stages() if stage.op == "map").functions[0]
show([stage.op for stage in pipeline.spine()][:4], kept, [list(facts.writes), facts.python], pipeline.root.arguments,
     REWRITES["parallel_map"].applies(pipeline).sentence, os.path.exists("/tmp/never_written.index"))
"""
    ops, lines, (writes, python), arguments, parallel, written = shown(source, tmp_path)
    assert ops == ["cache", "shuffle", "map", "from_generator"]
    assert lines["map"] == lines["from_generator"] + 1 == lines["shuffle"] - 1
    assert python and any("AssignAddVariableOp" in each for each in writes), (writes, python)
    assert arguments == {"filename": "/tmp/never_written"}
    assert "writes to state" in parallel and "parallel calls would race" in parallel
    assert not written


def test_an_interleave_whose_cycle_tensorflow_chooses_is_explained(tmp_path: Path) -> None:
    source = """
read = lambda x: tf.data.Dataset.range(x)
answers = [REWRITES["parallel_interleave"].applies(describe(numbers().interleave(read, **given))) for given in ({}, {"cycle_length": 2})]
show(*[type(each).__name__ for each in answers], answers[0].reason)
"""
    chosen, named, reason = shown(source, tmp_path)
    assert (chosen, named) == ("Explained", "Applies")
    assert "name a cycle_length first" in str(reason)


@pytest.mark.parametrize(("size", "word"), [(10**15, "more than half of the"), (10, "the same elements in every epoch")])
def test_a_cache_must_fit(tmp_path: Path, size: int, word: str) -> None:
    source = f"""
from outpace.tune.data import size
size.element_bytes = lambda element: {size}
show(getattr(REWRITES["cache"].applies(describe(numbers().map(lambda x: x * 2).batch(4))), "sentence"))
"""
    (sentence,) = shown(source, tmp_path)
    assert word in str(sentence)


FILES = """
def files(shuffled=True):
    made = tf.data.Dataset.range(6)
    made = made.shuffle(6) if shuffled else made
    return made.interleave(lambda at: tf.data.Dataset.range(at * 10, at * 10 + 10), cycle_length=2)
"""


@pytest.mark.parametrize(
    ("pipeline", "where", "shuffles"),
    [
        ("files().map(square).batch(4)", "map(square)", True),
        ("files().map(square).shuffle(20).batch(4)", "map(square)", False),
        ("files().shuffle(20).map(square).batch(4)", "map(square)", False),
        ("files().map(noisy).batch(4)", "interleave", True),
        ("files().batch(4).map(square)", "map(square)", True),
    ],
)
def test_a_cache_of_what_comes_in_any_order_stands_before_what_shuffles(
    pipeline: str, where: str, shuffles: bool, tmp_path: Path
) -> None:
    source = f"""
{FILES}
def square(x):
    return x * x
def noisy(x):
    return x + tf.random.uniform([], maxval=5, dtype=tf.int64)
pipeline = describe({pipeline})
exact, free = (REWRITES[name].applies(pipeline) for name in ("cache", "cache_any_order"))
inserted = [each.insert for each in REWRITES["cache_any_order"].patch(pipeline) if each.insert]
show(type(exact).__name__, type(free).__name__, free.sentence, getattr(free, "risk", None) and free.risk.consent, inserted)
"""
    exact, free, sentence, consent, inserted = shown(source, tmp_path)
    assert (exact, free, consent) == ("NotApplicable", "Applies", "order")
    assert str(sentence).startswith(where) and "in another order" in str(sentence)
    assert inserted == [".cache()", *([f".shuffle({15 if 'batch(4).map' in pipeline else 60})"] if shuffles else [])]


def test_a_function_that_counts_is_not_kept_in_any_order(tmp_path: Path) -> None:
    source = f"""
{FILES}
count = iter(range(10**6))
def counted(x):
    return np.int64(next(count))
pipeline = describe(files().map(lambda x: tf.numpy_function(counted, [x], tf.int64)).batch(4))
show(REWRITES["cache_any_order"].applies(pipeline).sentence)
"""
    (sentence,) = shown(source, tmp_path)
    assert str(sentence).startswith("interleave")


def test_an_interleave_is_as_the_call_says_though_tensorflow_forgets_it(tmp_path: Path) -> None:
    source = """
from outpace.capture.pipeline import PipelineRecorder
recorder = PipelineRecorder(label=False)
recorder.install(tf)
found = []
for given in ({}, {"deterministic": False}, {"deterministic": True}):
    data = numbers().interleave(lambda at: tf.data.Dataset.range(at), num_parallel_calls=2, **given).batch(4)
    stage = next(stage for stage in describe(data, recorder).stages() if stage.op == "interleave")
    found.append([stage.deterministic, type(REWRITES["cache"].applies(describe(data, recorder))).__name__])
show(*found)
"""
    assert shown(source, tmp_path) == [[True, "Applies"], [False, "NotApplicable"], [True, "Applies"]]
