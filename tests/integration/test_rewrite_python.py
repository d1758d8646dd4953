"""Python functions and lookup tables before a cache: seen to be functions of their elements, or
refused with what speaks against them.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow, run_on_tensorflow
from tests.integration.test_rewrite import START
from tests.integration.test_tune_patch import changed, judged, patched

pytestmark = [needs_tensorflow, pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="Pillow is not installed")]
Outcomes = dict[str, dict[str, tuple[object, str]]]
PYTHON = """
import itertools, random, time
from PIL import Image
from outpace.tune.purity import evidence
evidence.SECONDS = 600.0  # how many elements are compared must not depend on how busy this machine is
folder = sys.argv[1]
names = []
for number in range(26):
    names.append(f"{folder}/{number}.png")
    Image.fromarray(((np.arange(12 * 10 * 3) * (number + 3)) % 256).reshape(12, 10, 3).astype("uint8")).save(names[-1])

def read_image(path):
    image = Image.open(path.numpy().decode()).convert("RGB").resize((4, 4))
    return np.asarray(image, dtype=np.float32) / 255.0

def noisy(path):
    return read_image(path) + random.random()

def counting():
    count = 0
    def add(path):
        nonlocal count
        count += 1
        return read_image(path) + count
    return add

RNG = np.random.default_rng(0)
def drawn(path):
    return read_image(path) + np.float32(RNG.uniform())

def timed(path):
    return read_image(path) + np.float32(time.time() % 60)

class Reader:
    def __init__(self):
        self.read = 0
        self.side = 4
    def store(self, path):
        self.read += 1
        return read_image(path)
    def plain(self, path):
        return np.ones((self.side, self.side, 3), np.float32)

def size_of(path):
    with open(path, "rb") as file:
        return np.int64(len(file.read()))

def by_kernel(path):  # every reading of the file gives another text
    with open("/proc/sys/kernel/random/uuid", "rb") as file:
        return np.frombuffer(file.read(32), np.uint8).astype(np.float32)

def load(function):
    def image_of(path):
        image = tf.py_function(function, [path], tf.float32)
        image.set_shape((4, 4, 3))
        return image
    return image_of

def both(path):
    first = tf.py_function(read_image, [path], tf.float32)
    second = tf.numpy_function(size_of, [path], tf.int64)
    return tf.ensure_shape(first, (4, 4, 3)), second

def augmented(path):
    image = load(read_image)(path)
    return tf.image.random_flip_left_right(image + tf.random.uniform([]))

def half(path):
    noise = tf.ensure_shape(tf.py_function(noisy, [path], tf.float32), (4, 4, 3))
    return load(read_image)(path) + noise

files = tf.data.Dataset.from_tensor_slices(names)
by_lambda = lambda path: tf.py_function(lambda p: tf.strings.length(p), [path], tf.int32)

def inner(path):
    def length(p):
        if len(p.numpy()) > 3:
            return np.int64(size_of(p.numpy()))
        return np.int64(0)
    return tf.py_function(length, [path], tf.int64)

def inner_random(path):
    return tf.py_function(lambda p: size_of(p.numpy()) + random.randint(0, 9), [path], tf.int64)
words = tf.constant(["a", "b"])
static = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, tf.constant([5, 6])), -1)
vocabulary = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(words, tf.constant([0, 1], tf.int64)), 2)
mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, -1)
mutable.insert(words, tf.constant([5, 6]))
letters = tf.data.Dataset.from_tensor_slices(["a", "b", "c"])

def generate():
    yield from range(5)

def shuffling():
    for number in random.sample(range(50), 50):
        yield number

def numbered():
    counted.append(len(counted))
    yield from counted
counted = [1, 2]

def generated(function):
    return tf.data.Dataset.from_generator(function, output_signature=tf.TensorSpec([], tf.int64)).map(lambda x: x + 1)

CASES = {
    "pil": lambda: files.map(load(read_image)).shuffle(26).batch(8),
    "random": lambda: files.map(load(noisy)).batch(8),
    "counter": lambda: files.map(load(counting())).batch(8),
    "generator": lambda: files.map(load(drawn)).batch(8),
    "time": lambda: files.map(load(timed)).batch(8),
    "stores": lambda: files.map(load(Reader().store)).batch(8),
    "method": lambda: files.map(load(Reader().plain)).batch(8),
    "numpy": lambda: files.map(lambda p: tf.numpy_function(size_of, [p], tf.int64)).batch(8),
    "lambda": lambda: files.map(by_lambda).batch(8),
    "inner": lambda: files.map(inner).batch(8),
    "inner random": lambda: files.map(inner_random).batch(8),
    "two": lambda: files.map(both).batch(8),
    "then random": lambda: files.map(augmented).shuffle(8).batch(8),
    "by kernel": lambda: files.map(lambda p: tf.py_function(by_kernel, [p], tf.float32)),
    "one of two": lambda: files.map(half).batch(8),
    "in a branch": lambda: files.map(lambda p: tf.cond(tf.strings.length(p) > 3, lambda: load(read_image)(p), lambda: tf.zeros((4, 4, 3)))),
    "static": lambda: letters.map(lambda w: static.lookup(w)).batch(2),
    "vocabulary": lambda: letters.map(lambda w: vocabulary.lookup(w)).batch(2),
    "mutable": lambda: letters.map(lambda w: mutable.lookup(w)).batch(2),
    "filtered": lambda: numbers().map(lambda x: x * 3).filter(lambda x: x % 2 == 0).batch(4),
    "from_generator": lambda: generated(generate),
    "shuffling generator": lambda: generated(shuffling),
    "counting generator": lambda: generated(numbered),
    "iterator": lambda: generated(lambda: iter(range(5))),
}

def made(name):
    tf.random.set_seed(7)
    return CASES[name]()

def outcome(name, rewrite):
    found = rewrite.applies(describe(made(name)))
    return [found.risk is Risk.EXACT if isinstance(found, Applies) else "refused", found.sentence]

found = {name: {id: outcome(name, REWRITES[id]) for id in ("cache", "split_map")} for name in CASES}
print(json.dumps(found))
sys.stdout.flush()
os._exit(0)
"""
EQUAL = {  # case: the rewrite, and words of its reason
    "pil": ("cache", "read_image returned the same twice on 24 elements"),
    "method": ("cache", "plain returned the same twice on 4 elements"),
    "numpy": ("cache", "size_of returned the same twice"),
    "lambda": ("cache", "<lambda> returned the same twice"),
    "inner": ("cache", "length returned the same twice"),
    "stores": ("cache", "store returned the same twice"),  # whoever reads `read` later sees another program
    "iterator": ("cache", "<lambda> returned the same twice on 5 elements"),
    "two": ("cache", "read_image, size_of returned the same twice"),
    "then random": ("split_map", "read_image returned the same twice on 24 elements"),
    "one of two": ("split_map", "read_image returned the same twice on 24 elements"),
    "in a branch": ("cache", "read_image returned the same twice"),
    "static": ("cache", "the same elements in every epoch"),
    "vocabulary": ("cache", "the same elements in every epoch"),
    "filtered": ("cache", "the same elements in every epoch"),
    "from_generator": ("cache", "generate returned the same twice on 5 elements"),
}
REFUSED = {
    "random": "noisy gave something else for element 0 when it ran a second time",
    "counter": "add gave something else",
    "generator": "drawn gave something else",
    "time": "timed gave something else",
    "inner random": "<lambda> gave something else",
    "mutable": "may give other elements in the next epoch (captured variable)",
    "by kernel": "by_kernel gave something else for element 0 when it ran a second time",
    "shuffling generator": "shuffling gave something else",
    "counting generator": "numbered gave something else",
}


@pytest.fixture(scope="module")
def python_cases(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What is said of caching each pipeline of PYTHON, and of dividing its map."""
    folder = tmp_path_factory.mktemp("python")
    done = run_on_tensorflow(START + PYTHON, folder, str(folder))
    assert done.code == 0, done.err
    return dict(json.loads(done.out.splitlines()[-1]))


@pytest.mark.parametrize("case", EQUAL)
def test_a_function_of_its_arguments_may_be_cached(python_cases: Outcomes, case: str) -> None:
    rewrite, words = EQUAL[case]
    exact, sentence = python_cases[case][rewrite]
    assert exact is True, sentence
    assert words in sentence
    assert all(outcome[0] == "refused" for name, outcome in python_cases[case].items() if name != rewrite)


@pytest.mark.parametrize("case", REFUSED)
def test_what_speaks_against_a_cache_is_named(python_cases: Outcomes, case: str) -> None:
    assert {outcome[0] for outcome in python_cases[case].values()} == {"refused"}
    assert REFUSED[case] in python_cases[case]["cache"][1]


CACHED = """
import keras, numpy as np, tensorflow as tf

def doubled(v):
    return np.float32(v.numpy() * 2)

x = np.arange(640, dtype="float32").reshape(160, 4)
ds = tf.data.Dataset.from_tensor_slices((x, np.arange(160)))
ds = ds.map(lambda a, b: (tf.ensure_shape(tf.py_function(doubled, [a], tf.float32), [4]), b))
ds = ds.shuffle(160)
ds = ds.batch(16)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds, epochs=2, verbose=0)
"""


@pytest.mark.verify
def test_a_script_that_keeps_what_python_gave_is_the_same_program(tmp_path: Path) -> None:
    found = patched(tmp_path, CACHED, "cache")
    (line,) = changed(found, "+")
    assert line == "ds = ds.cache()"
    outcome = judged(found, tmp_path)
    assert outcome.same is True and outcome.whole, outcome
