"""The pipelines of the shared profiles, rebuilt: run as `python pipelines.py NAME OUT`, it captures
one, times its prefixes, and prints JSON.

A prefix is the pipeline up to one of its stages. What a stage costs is what it adds to the time per
batch of a consumer that does nothing else, with everything behind it left out and one prefetch at
the end, so that stages overlap as they do in the whole.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BATCH = 32


def records(tf: Any, np: Any, count: int, side: int) -> str:
    """A folder with four TFRecord files of JPEG images."""
    folder, rng = tempfile.mkdtemp(), np.random.default_rng(0)
    for shard in range(4):
        with tf.io.TFRecordWriter(f"{folder}/{shard}.tfrecord") as writer:
            for i in range(shard, count, 4):
                image = tf.io.encode_jpeg(rng.integers(0, 255, (side, side, 3)).astype("uint8")).numpy()
                feature = {
                    "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 10])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return folder


def parser(tf: Any, side: int) -> Callable[[Any], Any]:
    def parse(record: Any) -> Any:
        spec = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([], tf.int64)}
        found = tf.io.parse_single_example(record, spec)
        image = tf.image.resize(tf.cast(tf.io.decode_jpeg(found["x"], channels=3), tf.float32), (side, side)) / 255.0
        return image, found["y"]

    return parse


def tfrecord(tf: Any, np: Any) -> Iterator[tuple[str, Any]]:
    """Records, parsed, cached, then augmented: with a warm cache the augmentation is what works."""
    data = tf.data.Dataset.list_files(records(tf, np, 512, 64) + "/*.tfrecord", seed=1)
    data = data.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2)
    data = data.map(parser(tf, 64), num_parallel_calls=tf.data.AUTOTUNE).cache().shuffle(256).repeat()
    yield "ShuffleAndRepeat", data

    def augment(image: Any, label: Any) -> Any:
        image = tf.image.random_flip_left_right(tf.image.resize(image, (96, 96)))
        return tf.image.random_crop(image, (64, 64, 3)), label

    yield "MapAndBatch", data.map(augment, num_parallel_calls=2)


def heavy(tf: Any, np: Any) -> Iterator[tuple[str, Any]]:
    """Parsed records zipped with a generator that sleeps, filtered, augmented: it limits all."""
    data = tf.data.Dataset.list_files(records(tf, np, 512, 64) + "/*.tfrecord", seed=1)
    data = data.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2)
    data = data.map(parser(tf, 32), num_parallel_calls=2).cache().shuffle(256, seed=2).repeat()
    yield "ShuffleAndRepeat", data

    def side() -> Iterator[Any]:
        while True:
            time.sleep(0.0004)
            yield np.float32(1)

    data = tf.data.Dataset.zip((data, tf.data.Dataset.from_generator(side, output_signature=tf.TensorSpec((), tf.float32))))
    yield "Generator", data
    data = data.filter(lambda a, _: a[1] != 9)
    yield "Filter", data
    yield "Map", data.map(lambda a, b: (tf.image.random_flip_left_right(a[0]) + 0 * b, a[1]))


def settle() -> None:
    """Wait for batches that the last pipeline still makes: they would count for the next one."""
    while True:
        before = time.process_time()
        time.sleep(0.05)
        if time.process_time() - before < 0.002:
            return


def per_batch(tf: Any, data: Any, batches: int, clock: Callable[[], float]) -> float:
    """Seconds of that clock per batch, after a warm-up that fills caches and buffers."""
    settle()
    iterator = iter(data.batch(BATCH, num_parallel_calls=2).prefetch(2))
    for _ in range(20):
        next(iterator)
    start = clock()
    for _ in range(batches):
        next(iterator)
    return (clock() - start) / batches


def main(name: str, out: str) -> None:
    import numpy as np
    import tensorflow as tf

    stages = list({"tfrecord": tfrecord, "heavy": heavy}[name](tf, np))
    # What works is told by the CPU time that it takes, whatever else the machine does; what sleeps,
    # only by the time that passes.
    clock, batches = (time.process_time, 100) if name == "tfrecord" else (time.perf_counter, 15)
    rounds = [{stage: per_batch(tf, data, batches, clock) for stage, data in stages} for _ in range(3)]
    whole = stages[-1][1].batch(BATCH, num_parallel_calls=2).prefetch(2)
    if name == "tfrecord":  # as written: the last map and batch are fused
        whole = stages[-1][1].batch(BATCH).prefetch(2)
    iterator = iter(whole)
    for _ in range(20):
        next(iterator)
    with tf.profiler.experimental.Profile(out):
        for step in range(20):
            with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
                next(iterator)
    print(json.dumps(rounds))
    sys.stdout.flush()
    os._exit(0)  # a generator pipeline can hang at interpreter exit


if __name__ == "__main__":
    main(*sys.argv[1:])
