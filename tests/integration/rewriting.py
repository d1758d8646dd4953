"""The pipelines of the rewriting matrix: run as `python rewriting.py FOLDER NAME...`, it tries every rewrite on each and prints JSON.

Beside the verdict of `attempt`, every accepted rewrite is compared here with a second construction of the pipeline under the same global
seed, element by element over two epochs, without the help of verify.py. `equal` is None where two constructions differ by themselves.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
Case = Callable[[], Any]


def cases(tf: Any, np: Any, folder: str) -> dict[str, Case]:
    """Constructors by name; each call builds the pipeline anew."""
    return {**_functions(tf, np), **_sources(tf, np, folder), **_structures(tf), **_several(tf), **_practices(tf, np, folder)}


def plus_one(x: Any) -> Any:
    """Named, because the AutoGraph of TensorFlow 2.16 takes one lambda for another where a statement of several lines holds two."""
    return x + 1


def double(x: Any) -> Any:
    return x * 2


def _functions(tf: Any, np: Any) -> dict[str, Case]:
    variable, generator = tf.Variable(3.0), tf.random.Generator.from_seed(5)
    keys = tf.range(100, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys * 10), -1)
    numbers: Case = lambda: tf.data.Dataset.range(20)  # noqa: E731  # a constructor of each case's own source

    def restart_generator() -> Any:
        generator.reset_from_seed(5)
        return numbers()

    return {
        "map": lambda: numbers().map(lambda x: x + 1).batch(4),
        "captured_variable": lambda: numbers().map(lambda x: tf.cast(x, tf.float32) * variable).batch(4),
        "lookup_table": lambda: numbers().map(lambda x: table.lookup(x)).batch(4),
        "random_global_seed": lambda: numbers().map(lambda x: tf.random.uniform([])).batch(4),
        "random_op_seed": lambda: numbers().map(lambda x: tf.random.uniform([], seed=3)).batch(4),
        "random_stateless": lambda: numbers().map(lambda x: tf.random.stateless_uniform([], [x, 1])).batch(4),
        "random_generator": lambda: restart_generator().map(lambda x: generator.uniform([])).batch(4),
        "numpy_function": lambda: numbers().map(lambda x: tf.numpy_function(lambda v: v + 1, [x], tf.int64)).batch(4),
    }


def _sources(tf: Any, np: Any, folder: str) -> dict[str, Case]:
    paths = []
    for number in range(3):
        paths.append(f"{folder}/{number}.tfrecord")
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for item in range(5):
                writer.write(f"{number}-{item}".encode())
    wide = np.arange(40, dtype=np.float32)
    signature = tf.TensorSpec([], tf.int64)

    def ten() -> Any:
        return iter(range(10))

    def with_copy(d: Any) -> Any:
        return {**d, "c": d["a"]}

    files: Case = lambda: tf.data.Dataset.from_tensor_slices(paths)  # noqa: E731
    return {
        "from_generator": lambda: tf.data.Dataset.from_generator(ten, output_signature=signature).map(double).batch(4),
        "tensor_slices": lambda: tf.data.Dataset.from_tensor_slices({"a": wide, "b": wide * 2}).map(with_copy).batch(4),
        "interleave": lambda: files().interleave(tf.data.TFRecordDataset, cycle_length=2).map(tf.strings.length).batch(4),
        "interleave_default": lambda: files().interleave(tf.data.TFRecordDataset).map(tf.strings.length).batch(4),
        "records_of_shuffled_files": lambda: (
            tf.data.TFRecordDataset(files().shuffle(3, seed=2)).map(tf.strings.length).batch(4)
        ),
    }


def _structures(tf: Any) -> dict[str, Case]:
    plain: Case = lambda: tf.data.Dataset.range(20).map(lambda x: x + 1)  # noqa: E731
    filled: Case = lambda: tf.data.Dataset.range(20).map(lambda x: tf.fill([x % 3], x))  # noqa: E731
    unordered = tf.data.Options()

    def sparse(x: Any) -> Any:
        return tf.sparse.from_dense(tf.fill([3], x))

    def checked(x: Any) -> Any:
        return tf.debugging.check_numerics(1 / tf.cast(x, tf.float32), "")

    unordered.deterministic = False
    return {
        "shuffle_seed": lambda: tf.data.Dataset.range(20).shuffle(10, seed=1).map(lambda x: x + 1).batch(4).repeat(2),
        "shuffle_once": lambda: (
            tf.data.Dataset.range(20)
            .shuffle(10, seed=1, reshuffle_each_iteration=False)
            .map(lambda x: x + 1)
            .batch(4)
            .repeat(2)
        ),
        "cache": lambda: plain().cache().map(lambda x: x * 2).batch(4).repeat(2),
        "options": lambda: plain().batch(4).with_options(unordered),
        "window": lambda: plain().window(3).flat_map(lambda w: w.batch(3)),
        "padded": lambda: filled().padded_batch(4),
        "ragged": lambda: filled().ragged_batch(4),
        "sparse": lambda: tf.data.Dataset.range(6).map(sparse).map(tf.sparse.to_dense).batch(2),
        "filter_take_skip": lambda: plain().filter(lambda x: x % 2 == 0).skip(1).take(5).batch(2),
        "group_by_window": lambda: plain().group_by_window(lambda x: x % 2, lambda key, group: group.batch(3), window_size=3),
        "scan": lambda: plain().scan(tf.constant(0, tf.int64), lambda state, x: (state + x, state + x)).batch(4),
        "unbatch": lambda: tf.data.Dataset.range(20).batch(4).map(lambda x: x + 1).unbatch().batch(3),
        "ignore_errors": lambda: tf.data.Dataset.range(20).map(checked).ignore_errors().batch(2),
    }


def _several(tf: Any) -> dict[str, Case]:
    data = tf.data.Dataset
    plus: Case = lambda: data.range(20).map(lambda x: x + 1)  # noqa: E731
    times: Case = lambda: data.range(20).map(lambda x: x * 100)  # noqa: E731
    half = [0.5, 0.5]

    def parity(x: Any) -> Any:
        return tf.cast(x % 2, tf.int32)

    def second(_: Any, x: Any) -> Any:
        return x

    return {
        "zip": lambda: data.zip((plus(), times())).batch(4),
        "concatenate": lambda: data.range(5).map(lambda x: x + 1).concatenate(data.range(5)).batch(4),
        "sample_from_datasets": lambda: data.sample_from_datasets([plus(), times()], seed=3).batch(4),
        "choose_from_datasets": lambda: data.choose_from_datasets([plus(), times()], data.range(2).repeat(8)).batch(4),
        "rejection_resample": lambda: data.range(30).rejection_resample(parity, half, half, seed=3).map(second).batch(2),
    }


def _practices(tf: Any, np: Any, folder: str) -> dict[str, Case]:
    images = (np.arange(16 * 8 * 8 * 3) % 251).reshape(16, 8, 8, 3).astype("uint8")
    encoded = [tf.io.encode_jpeg(image).numpy() for image in images]
    scale = tf.Variable(1 / 255.0)
    plain = tf.data.Options()
    plain.experimental_optimization.apply_default_optimizations = False
    for number in range(4):
        os.makedirs(f"{folder}/images/{number % 2}", exist_ok=True)
        tf.io.write_file(f"{folder}/images/{number % 2}/{number}.jpg", encoded[number])

    def load(text: Any, label: Any) -> Any:
        image = tf.image.resize(tf.io.decode_jpeg(text, channels=3), [6, 6]) * scale
        tf.debugging.assert_equal(tf.rank(image), 3)
        image = tf.image.random_flip_left_right(image)
        return {"image": image + 1 if tf.random.uniform([]) < 0.5 else image}, label

    def keras_folder() -> Any:
        import keras

        return keras.utils.image_dataset_from_directory(
            f"{folder}/images", image_size=(8, 8), batch_size=2, seed=1, verbose=False
        )

    def flipped(x: Any) -> Any:
        return tf.image.random_flip_left_right(tf.cast(x, tf.float32) / 255.0)

    slices = tf.data.Dataset.from_tensor_slices
    floats = images.astype("float32")
    return {
        "keras_folder": keras_folder,
        "jpeg": lambda: slices((encoded, list(range(16)))).shuffle(16).map(load).batch(4),
        "elementwise": lambda: (
            slices((floats[:, 0, 0], np.arange(16) % 4)).map(lambda x, y: (x * 2 - 1, tf.one_hot(y, 4))).batch(4)
        ),
        "standardised": lambda: slices(floats).map(tf.image.per_image_standardization).batch(4),
        "averaged": lambda: slices(floats).map(lambda x: x - tf.reduce_mean(x)).batch(4),
        "float_then_flip": lambda: slices(images).map(flipped, num_parallel_calls=2).batch(4),
        "map_then_shuffle": lambda: tf.data.Dataset.range(20).map(lambda x: x * 3).shuffle(10, seed=4).batch(4),
        "late_shard": lambda: tf.data.Dataset.range(20).map(lambda x: x * 3).shard(3, 1).batch(2),
        "shuffle_then_cache": lambda: tf.data.Dataset.range(20).shuffle(20, seed=1).cache().map(lambda x: x + 1).batch(4),
        "optimisations_off": lambda: tf.data.Dataset.range(20).map(lambda x: x + 1).batch(4).with_options(plain),
        "endless": lambda: tf.data.Dataset.range(20).repeat().map(lambda x: x + 1).batch(4),
    }


def epochs(dataset: Any) -> list[list[str]]:
    """Two epochs as texts (an endless pipeline: its first 12 elements)."""
    from itertools import islice

    from outpace.tune.purity.evidence import key_of, rows

    return [[repr([key_of(part) for part in rows(element)]) for element in islice(iter(dataset), 12)] for _ in range(2)]


def tried(tf: Any, make: Case, rewrite: Any) -> dict[str, Any]:
    """What came of one rewrite on one pipeline."""
    from outpace.tune.data.tree import describe
    from outpace.tune.optimisations.optimisation import Rewritten, attempt

    def fresh() -> Any:
        tf.random.set_seed(7)
        return make()

    outcome = attempt(rewrite, describe(fresh()), elements=32)
    if not isinstance(outcome, Rewritten):
        return {"refused": outcome.sentence}
    first, second = epochs(fresh()), epochs(fresh())
    applied = rewrite.apply(describe(fresh()))
    equal = epochs(applied) == first if first == second else None
    return {
        "risk": outcome.reason.risk.value, "bitwise": outcome.verified.bitwise, "equal": equal, "reason": outcome.reason.sentence,
        "how": outcome.verified.how, "patch": len(rewrite.patch(describe(fresh()))),
    }  # fmt: skip


def main(folder: str, names: list[str]) -> None:
    import numpy as np
    import tensorflow as tf

    from outpace.tune.optimisations import all_rewrites

    tf.get_logger().setLevel("ERROR")
    made = cases(tf, np, folder)
    found = {name: {rewrite.id: tried(tf, made[name], rewrite) for rewrite in all_rewrites()} for name in names or made}
    print(json.dumps(found), flush=True)
    os._exit(0)  # a generator's pipeline would hang at the end of the interpreter


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
