"""Rules about tf.data: what they find, and what only looks like it."""

from __future__ import annotations

import textwrap

import pytest

from outpace.lint import lint_text

HEAD = """import tensorflow as tf
def decode(path, label): return tf.io.decode_jpeg(tf.io.read_file(path)), label
def scale(x, y): return x / 255, y
def augment(x, y): return tf.image.random_flip_left_right(x), y
paths = tf.data.Dataset.from_tensor_slices((names, labels))
"""


def found(body: str, head: str = HEAD) -> list[tuple[int, str, str]]:
    """Line in the body, rule and level of each message."""
    messages = lint_text(head + textwrap.dedent(body))
    return [(message.line - head.count("\n"), message.rule, message.level.value) for message in messages]


def rules(body: str, head: str = HEAD) -> set[str]:
    return {rule for _, rule, _ in found(body, head)}


def warnings(body: str, head: str = HEAD) -> set[str]:
    return {rule for _, rule, level in found(body, head) if level == "warning"}


def test_a_good_pipeline_gets_no_message() -> None:
    assert not found("""
        ds = paths.map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(1000)
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)
        model.fit(ds)
    """)


@pytest.mark.parametrize(
    ("function", "is_stateful"),
    [
        ("scale", False),  # TensorFlow parallelises it
        ("decode", False),
        ("augment", True),
        ("lambda x, y: (tf.random.normal([3]) + x, y)", True),
        ("lambda x, y: (tf.random.stateless_normal([3], (1, 2)) + x, y)", False),
        ("lambda x, y: (tf.image.stateless_random_flip_left_right(x, (1, 2)), y)", False),
        ("lambda x, y: augment(x, y)", True),
        ("tf.function(augment)", True),
        ("tf.keras.layers.RandomFlip()", True),
        ("tf.keras.layers.Rescaling(1 / 255)", False),
        ("tf.keras.layers.StringLookup(vocabulary=words)", True),
        ("lambda x, y: (tf.py_function(f, [x], tf.float32), y)", True),
        ("something_imported", False),  # nothing is known of it
    ],
)
def test_a_sequential_map_is_named_only_where_tensorflow_cannot_parallelise_it(function: str, is_stateful: bool) -> None:
    assert ("DS102" in warnings(f"paths.map({function})")) == is_stateful
    off = f"options.experimental_optimization.map_parallelization = False\npaths.map({function})"
    assert "DS102" in warnings(off)


def test_state_outside_the_function_is_seen() -> None:
    body = """
    v = tf.Variable(1.0)
    table = tf.lookup.StaticHashTable(init, 0)
    layers = tf.keras.Sequential([tf.keras.layers.RandomFlip()])
    a = paths.map(lambda x, y: (x * v, y))
    b = paths.map(lambda x, y: (table.lookup(x), y))
    c = paths.map(lambda x, y: (layers(x), y))
    d = paths.map(lambda v, y: (v, y))  # its own v
    """
    assert [item for item in found(body) if item[1] == "DS102"] == [
        (5, "DS102", "warning"), (6, "DS102", "warning"), (7, "DS102", "warning"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        "map(augment, tf.data.AUTOTUNE)",
        "map(augment, num_parallel_calls=4)",
        "map(augment, **options)",
        "map(*arguments, **options)",
    ],
)
def test_a_map_that_is_parallel_or_may_be_gets_no_message(call: str) -> None:
    assert "DS102" not in rules(f"paths.{call}")


def test_interleave() -> None:
    assert warnings("paths.interleave(tf.data.TFRecordDataset)") == {"DS103"}
    assert not rules("paths.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.experimental.AUTOTUNE)")
    assert not rules("paths.interleave(tf.data.TFRecordDataset, 4, 16, tf.data.AUTOTUNE)")
    assert not rules("paths.interleave(tf.data.TFRecordDataset, cycle_length=1)")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("model.fit(paths.batch(32))", {"DS101"}),
        ("for x, y in paths.batch(32): step(x)", {"DS101"}),
        ("model.fit(paths.batch(32).prefetch(1))", set()),
        ("ds = paths.batch(32)\nds = ds.prefetch(1)\nmodel.fit(ds)", set()),
        ("for x, y in paths.batch(32).take(1): show(x)", set()),
        ("print(paths.batch(32))", set()),
        ("ds = tf.keras.utils.image_dataset_from_directory('x')\nmodel.fit(ds)", set()),
    ],
)
def test_a_missing_prefetch_is_named_where_tensorflow_adds_none(body: str, expected: set[str]) -> None:
    assert not rules(body)
    assert rules(f"options.experimental_optimization.inject_prefetch = False\n{body}") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ds = paths.shuffle(9).cache()", {"DS104"}),
        ("ds = paths.shuffle(9)\nds = ds.cache()\nmodel.fit(ds.batch(32).prefetch(1))", {"DS104"}),
        ("ds = paths.cache().shuffle(9)", set()),
        ("ds = paths.shuffle(9).cache().shuffle(9)", set()),
        ("ds = paths.shuffle(9).cache()\nds = ds.shuffle(99).batch(32)", set()),
        ("ds = paths.shuffle(9, reshuffle_each_iteration=False).cache()", set()),
        ("ds = paths.shuffle(9).cache().batch(9).prefetch(1)\nmodel.evaluate(ds)", set()),
        ("ds = paths.shuffle(9).cache().batch(9).prefetch(1)\nmodel.fit(x, validation_data=ds)", set()),
    ],
)
def test_cache_after_shuffle(body: str, expected: set[str]) -> None:
    assert warnings(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("paths.map(augment, 2).cache()", {"DS105"}),
        ("paths.map(augment, 2).batch(8).cache()", {"DS105"}),
        ("paths.cache().map(augment, 2)", set()),
        ("paths.map(decode, 2).cache()", set()),
    ],
)
def test_cache_after_random_augmentation(body: str, expected: set[str]) -> None:
    assert warnings(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("paths.map(decode, 2).shuffle(9)", [("DS108", "warning")]),
        ("paths.map(lambda x, y: (tf.image.resize(x, [9, 9]), y), 2).shuffle(9)", [("DS108", "note")]),
        ("paths.map(lambda x, y: tf.io.decode_csv(x, columns), 2).shuffle(9)", []),
        (
            "def whole(x, y): return tf.py_function(abs, [x], tf.int32), y\npaths.map(whole, 2).shuffle(9)",
            [("DS107", "warning")],
        ),
        (
            "def read(x): return np.load(x)\ndef load(x, y): return tf.numpy_function(read, [x], tf.int32), y\npaths.map(load, 2).shuffle(9)",
            [("DS107", "warning"), ("DS108", "warning")],
        ),
        ("paths.map(scale, 2).shuffle(9)", []),  # nothing gets larger that is known of
        ("paths.map(decode, 2).cache().shuffle(9)", []),  # the order that TFDS recommends
        ("paths.shuffle(9).map(decode, 2).shuffle(9)", []),
        ("paths.shuffle(9).map(decode, 2)", []),
    ],
)
def test_shuffle_after_decoding(body: str, expected: list[tuple[str, str]]) -> None:
    assert [(rule, level) for _, rule, level in found(body)] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("paths.batch(32).shuffle(9)", [("DS109", "warning")]),
        ("paths.shuffle(999).batch(32).shuffle(9)", [("DS109", "note")]),
        ("tf.keras.utils.image_dataset_from_directory('x').cache().shuffle(9)", [("DS109", "note")]),
        ("tf.keras.utils.image_dataset_from_directory('x', batch_size=None).shuffle(9)", []),
        ("paths.batch(101).shuffle(9).batch(32)", []),  # an element is a sequence
        ("paths.batch(32).unbatch().shuffle(9)", []),
        ("paths.shuffle(9).batch(32)", []),
    ],
)
def test_shuffle_after_batch(body: str, expected: list[tuple[str, str]]) -> None:
    assert [(rule, level) for _, rule, level in found(body)] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("paths.map(decode, 2).shard(n, i)", {"DS113"}),
        ("paths.batch(32).shard(n, i)", {"DS113"}),
        ("tf.data.TFRecordDataset(files).shard(n, i)", {"DS113"}),
        ("paths.shard(n, i).map(decode, 2)", set()),
        ("tf.data.Dataset.list_files(p).shard(n, i)", set()),
    ],
)
def test_late_shard(body: str, expected: set[str]) -> None:
    assert warnings(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("model.fit(paths.batch(4).prefetch(1))", {"DS112"}),
        ("SIZE = 2\nmodel.fit(paths.batch(SIZE).prefetch(1))", {"DS112"}),
        ("model.fit(x, y, batch_size=1)", {"DS112"}),
        ("model.fit(paths.batch(8).prefetch(1))", set()),
        ("model.fit(paths.batch(size).prefetch(1))", set()),
        ("model.fit(paths.window(9).flat_map(lambda w: w.batch(3)).batch(32).prefetch(1))", set()),
        ("model.fit(paths.batch(3).batch(32).prefetch(1))", set()),
        ("model.evaluate(paths.batch(1))", set()),
    ],
)
def test_a_small_batch_is_a_note(body: str, expected: set[str]) -> None:
    assert rules(body) == expected
    assert not warnings(body)


def test_python_in_the_pipeline() -> None:
    assert warnings("tf.data.Dataset.from_generator(g, tf.int32)") == {"DS106"}
    assert found("def write(g, path):\n    w = tf.data.experimental.TFRecordWriter(path)\n"
                 "    w.write(tf.data.Dataset.from_generator(g, tf.string))") == [(3, "DS106", "note")]  # fmt: skip
    body = """
    def read(path): return tf.numpy_function(load, [path], tf.float32)
    def outer(path, label): return read(path), label
    ds = paths.map(outer, num_parallel_calls=4)
    """
    assert found(body) == [(2, "DS107", "warning")]
    assert found("def metric(y, p): return tf.py_function(score, [y, p], tf.float32)") == [(1, "DS107", "note")]


@pytest.mark.parametrize(
    "body",
    [
        "import pandas as pd\nframe = pd.read_csv('x')\nframe = frame.map(f).shuffle(9).cache()",
        "from multiprocessing import Pool\nPool(4).map(f, items)",
        "random.shuffle(names)",
        "loader.batch(4).shuffle(9)",
        "class Set:\n    def map(self, f): return self\nSet().map(augment).cache()",
    ],
)
def test_names_that_only_look_like_tf_data(body: str) -> None:
    assert not found(body)


def test_without_an_import_of_tensorflow_nothing_is_said() -> None:
    assert not found("ds = tf.data.Dataset.range(9).map(f).batch(1).shuffle(9)\nmodel.fit(ds)", head="")


@pytest.mark.parametrize(
    ("head", "source"),
    [
        ("import tensorflow\n", "tensorflow.data.Dataset.range(9)"),
        ("import tensorflow as T\n", "T.data.Dataset.range(9)"),
        ("from tensorflow import data\n", "data.Dataset.range(9)"),
        ("from tensorflow.data import Dataset\n", "Dataset.range(9)"),
        ("import tensorflow.compat.v2 as tf\n", "tf.data.Dataset.range(9)"),
        ("import tensorflow as tf\nDataset = tf.data.Dataset\n", "Dataset.range(9)"),
        ("import tensorflow as tf\n", "tf.data.TFRecordDataset(files)"),
        ("import tensorflow_datasets as tfds\nimport tensorflow as tf\n", "tfds.load('mnist', split='train')"),
    ],
)
def test_the_ways_to_name_tensorflow(head: str, source: str) -> None:
    assert warnings(f"{source}.batch(32).shuffle(9)", head) == {"DS109"}
