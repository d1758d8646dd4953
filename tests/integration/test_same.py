"""Edited scripts that run for real: wrong patches are refused, honest ones are the same program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from outpace.tune.same import Judgement, Original, Place, Standing
from outpace.tune.texts.place import loop_at
from tests.integration.programs import forks_for, needs_jax, needs_tensorflow

JAX = "import jax, jax.numpy as jnp, numpy as np\n"
CLOSURE = f"""{JAX}
def main():
    data = [np.full(3, float(i), np.float32) for i in range(400)]
    w = jnp.zeros(3)
    x = data[0]

    def loss(w):
        return ((w - x) ** 2).sum()

    for x in data:
        w = w - 0.01 * jax.grad(loss)(w)
    print(w)

main()
"""
NONLOCAL = f"""{JAX}
def main():
    data = [np.full(3, float(i), np.float32) for i in range(400)]
    lr = 0.1
    @jax.jit
    def step(w, x, lr): return w - lr * jax.grad(lambda w: ((w - x) ** 2).sum())(w)
    def decay():
        nonlocal lr
        lr *= 0.99
    w = jnp.zeros(3)
    for x in data:
        w = step(w, x, lr)
        decay()
    print(w, lr)
main()
"""
SETATTR = f"""{JAX}
class Config:
    lr = 0.1
cfg = Config()
data = [np.full(3, float(i), np.float32) for i in range(400)]
def grads(w, x): return jax.grad(lambda w: ((w - x) ** 2).sum())(w)
class Schedule:
    def __init__(self): self.t = 0
    def step(self): self.t += 1; setattr(cfg, "lr", 0.1 * 0.99 ** self.t)
sched = Schedule()
def train_step(w, x): return w - cfg.lr * grads(w, x)
w = jnp.zeros(3)
for x in data:
    w = train_step(w, x)
    sched.step()
print(w, cfg.lr)
"""
HEAD = """
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a * 2, b)).shuffle(640, seed=5).batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)])
"""
TENSORFLOW = f"""{HEAD}
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.01)
strength = 1.0

def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = strength * loss_fn(b, model(a, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for epoch in range(3):
    strength = 1.0 + epoch
    for a, b in data:
        loss = train_step(a, b)
    print("loss", float(loss))
"""
FIT = f"""{HEAD}
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=3, verbose=0)
"""
STANDING = (  # of the loop itself, at the level of the script, where an edit does without the names of a step
    HEAD
    + """
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.1)
for a, b in data:
    with tf.GradientTape() as tape:
        loss = loss_fn(b, model(a, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
)


@dataclass(frozen=True)
class Edit:
    """By pairs of texts. loop: a part of the line where it stands; none for the script's `fit`."""

    script: str
    loop: str
    pairs: tuple[tuple[str, str], ...]
    grouped: bool = False
    cut: int = 64
    whole: float = 15.0
    behind: float = 30.0

    def original(self, folder: Path) -> Original:
        """The script in a folder. It runs once, for however many edits."""
        path, script = folder / "train.py", self.script.lstrip()
        path.write_text(script, encoding="utf-8")
        place: Place | None = Place()
        if self.loop:
            line = next(at for at, text in enumerate(script.splitlines(), start=1) if self.loop in text)
            place = loop_at(script, line, str(path))
        assert place is not None
        forks = forks_for(script)
        return Original(
            str(path), place=place, folder=str(folder), cut=self.cut, whole=self.whole, behind=self.behind, forks=forks
        )

    def judged(self, folder: Path) -> Judgement:
        """The original against the edited text, which no file holds."""
        with self.original(folder) as original:
            return self.against(original)

    def against(self, original: Original) -> Judgement:
        """The same, with an original that other edits are held against, too."""
        path, script = Path(original.script), self.script.lstrip()
        found = original.against({str(path): self.edited}, self.grouped)
        assert path.read_text(encoding="utf-8") == script
        assert [each.name for each in path.parent.iterdir() if each.name != "__pycache__"] == ["train.py"]
        return found

    @property
    def edited(self) -> str:
        """The edited text."""
        edited = self.script.lstrip()
        for old, new in self.pairs:
            assert edited.count(old) == 1, old
            edited = edited.replace(old, new)
        compile(edited, "train.py", "exec")
        return edited


Originals = Callable[[Edit], Original]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Originals]:
    """One for all edits of a script: its runs as it is are most of what a comparison takes."""
    with ExitStack() as running:
        made: dict[tuple[str, str], Original] = {}

        def of(edit: Edit) -> Original:
            key = edit.script, edit.loop
            if key not in made:
                made[key] = running.enter_context(edit.original(tmp_path_factory.mktemp("script")))
            return made[key]

        yield of


ENTERED, EAGER = "    for x in data:", "w = w - 0.01 * jax.grad(loss)(w)"
KEEPING = f"    step = jax.jit(lambda w: w - 0.01 * jax.grad(loss)(w))\n{ENTERED}"
FROZEN_CLOSURE = Edit(CLOSURE, "for x in data:", ((ENTERED, KEEPING), (EAGER, "w = step(w)")))
GROUPS = """\
    import itertools
    def groups(items):
        items = iter(items)
        while group := list(itertools.islice(items, 16)):
            yield group, len(group)
    @jax.jit
    def steps(w, xs, lr):
        for x in xs:
            w = step(w, x, lr)
        return w
    for group, size in groups(data):
        w = steps(w, group, lr)
        for _ in range(size):
            decay()
"""
STEPPED = f"{ENTERED}\n        w = step(w, x, lr)\n        decay()\n"
FROZEN_GROUPS = Edit(NONLOCAL, "for x in data:", ((STEPPED, GROUPS),), True)
FROZEN_SETATTR = Edit(SETATTR, "for x in data:", (("def train_step", "@jax.jit\ndef train_step"),))
FROZEN_GLOBAL = Edit(TENSORFLOW, "for a, b in data:", (("def train_step", "@tf.function\ndef train_step"),))
FEWER = Edit(FIT, "", (("epochs=3", "epochs=2"),))
OTHER_DATA = Edit(FIT, "", (("a * 2", "a * 2.01"),))
OTHER_RATE = Edit(FIT, "", (('compile("adam"', "compile(keras.optimizers.Adam(0.00101)"),))
FAILS = Edit(FIT, "", (("epochs=3", "epochs=three"),))
GIVEN = f"""{JAX}
data = [np.full(3, float(i), np.float32) for i in range(200)]
first = w = jnp.zeros(3)
kept = [first]

@jax.jit
def step(w, x): return w - 0.01 * jax.grad(lambda w: ((w - x) ** 2).sum())(w)

for i, x in enumerate(data):
    old = w
    w = step(w, x)
print(w, kept[-1])
"""
GIVE = ("@jax.jit", "from functools import partial\n@partial(jax.jit, donate_argnums=(0,))")
COPIED = ("for i, x in", "w = jax.tree.map(jax.numpy.copy, w)\nfor i, x in")
READ_LATER = Edit(GIVEN.replace("    old = w\n", "    kept.append(w)\n"), "for i, x in", (GIVE, COPIED))
READ_AT_ONCE = Edit(GIVEN.replace("step(w, x)\n", "step(w, x) + 0 * old\n"), "for i, x in", (GIVE, COPIED))
READ_FIRST = Edit(GIVEN.replace("    old = w\n", ""), "for i, x in", (GIVE,))
GIVEN_AWAY = Edit(GIVEN.replace("    old = w\n", ""), "for i, x in", (GIVE, COPIED))
AUGMENTED = """
import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(320, 8, 8, 3).astype("float32")
y = (x.mean((1, 2, 3)) > 0.5).astype("int64")


def augment(a, b):
    return tf.image.random_brightness(tf.image.random_flip_left_right(a), 0.2), b


data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320).map(augment).batch(8)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dropout(0.2), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=3, verbose=0)
"""
AUGMENTED_ONCE = Edit(AUGMENTED, "", ((".map(augment)", ".map(augment).cache()"),))
AUGMENTED_IN_PARALLEL = Edit(AUGMENTED, "", ((".map(augment)", ".map(augment, num_parallel_calls=4)"),))
PYTHON = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(320, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
strength = 1.0


def load(a):
    return a * np.float32(strength)


def loaded(a, b):
    return tf.ensure_shape(tf.numpy_function(load, [a], tf.float32), (6,)), b


class Ramp(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        global strength
        strength = 1.0 + epoch


data = tf.data.Dataset.from_tensor_slices((x, y)).map(loaded).batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=3, verbose=0, callbacks=[Ramp()])
"""
CACHED = ((".map(loaded)", ".map(loaded).cache()"),)
CACHED_STRENGTH = Edit(PYTHON, "", CACHED)
LOUD = PYTHON.replace("strength)\n\n\ndef loaded", "3.0)\n\n\ndef loaded")
CACHED_PRINT = Edit(LOUD.replace("def load(a):\n", "def load(a):\n    print('loads')\n"), "", CACHED)
LOGGED = "    with open('log.txt', 'a') as log:\n        log.write('x')\n    return a"
CACHED_FILE = Edit(PYTHON.replace("    return a * np.float32(strength)", LOGGED), "", CACHED)
DRAWS = """
import numpy as np, tensorflow as tf

x = np.random.default_rng(1).normal(size=(40, 8)).astype("float32")
w = tf.Variable(tf.ones(8))

def train_step(a):
    with tf.GradientTape() as tape:
        one, two = NOISE, NOISE
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(a[None] + 0.1 * one, w) - tf.linalg.matvec(a[None] + 0.1 * two, w) + w[0]))
    w.assign_sub(0.01 * tape.gradient(loss, w))

for a in x:
    train_step(a)
print("w", float(tf.reduce_sum(w)))
"""
AS_GRAPH = (("def train_step(a):", "@tf.function\ndef train_step(a):"), ("for a in x:", "for a in tf.constant(x):"))
ONE_SEED = Edit(DRAWS.replace("NOISE", "tf.random.normal((4, 8), seed=3)"), "for a in x:", AS_GRAPH)
TRAINED, SEEDING = "    train_step(a)\nprint", "    tf.random.set_seed(int(abs(a[0]) * 100))\n    train_step(a)\nprint"
SEEDED_ANEW = Edit(DRAWS.replace("NOISE", "tf.random.normal((4, 8))").replace(TRAINED, SEEDING), "for a in x:", AS_GRAPH)
DRAWN = "tf.random.poisson((4, 8), 2.0), tf.random.shuffle(tf.random.gamma((4, 8), 1.0))"
MANY_DRAWS = Edit(DRAWS.replace("NOISE, NOISE", DRAWN), "for a in x:", AS_GRAPH)
OWN_TEXT = Edit(
    JAX
    + """
import hashlib
seed = hashlib.sha256(open(__file__, "rb").read()).digest()[0]
w = jnp.ones(3) * seed
for x in [np.full(3, float(i), np.float32) for i in range(40)]:
    w = w - 0.01 * jax.grad(lambda w: ((w - x) ** 2).sum())(w)
print(w)
""",
    "for x in",
    (("import jax,", "import  jax,"),),
)
OWN_CHILD = Edit(
    JAX
    + """
import subprocess, sys
if len(sys.argv) > 1:
    print("learned", 2)
else:
    w = jnp.ones(3)
    for x in [np.full(3, float(i), np.float32) for i in range(40)]:
        w = w - 0.01 * jax.grad(lambda w: ((w - x) ** 2).sum())(w)
    print(subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True).stdout)
""",
    "for x in",
    (('"learned", 2', '"learned", 3'),),
)
TIMED = Edit(
    JAX
    + """
import time
slow, w, table = 0, jnp.ones(3), np.stack([np.arange(400) % 5, np.random.default_rng(0).normal(size=400)], 1)
sums = np.zeros(5)
began = time.perf_counter()
for row in table:
    at = time.perf_counter()
    w = w - 0.01 * jax.grad(lambda w: ((w - row[1].astype("float32")) ** 2).sum())(w)
    sums[row[0].astype(int)] += float(w[0])
    slow += int((time.perf_counter() - at) * 1e6)
print("w", w, "slow", slow, f"took {time.perf_counter() - began:.0f} s")
""",
    "for row in",
    (
        ("for row in", "step = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: ((w - x) ** 2).sum())(w))\nfor row in"),
        ('w - 0.01 * jax.grad(lambda w: ((w - row[1].astype("float32")) ** 2).sum())(w)', 'step(w, row[1].astype("float32"))'),
    ),
)
WRONG = {
    "a closure that is frozen": pytest.param(FROZEN_CLOSURE, marks=needs_jax),
    "groups that see one rate": pytest.param(FROZEN_GROUPS, marks=needs_jax),
    "an attribute that is frozen": pytest.param(FROZEN_SETATTR, marks=needs_jax),
    "a name that is frozen": pytest.param(FROZEN_GLOBAL, marks=needs_tensorflow),
    "a state that is given away and read by another name": pytest.param(READ_AT_ONCE, marks=[needs_jax, pytest.mark.verify]),
    "states that are given away and read at the end": pytest.param(READ_LATER, marks=[needs_jax, pytest.mark.verify]),
    "a first state that is given away and read at the end": pytest.param(READ_FIRST, marks=[needs_jax, pytest.mark.verify]),
    "an epoch less": pytest.param(FEWER, marks=[needs_tensorflow, pytest.mark.verify]),
    "other numbers": pytest.param(OTHER_DATA, marks=[needs_tensorflow, pytest.mark.verify]),
    "another rate": pytest.param(OTHER_RATE, marks=[needs_tensorflow, pytest.mark.verify]),
    "augmented once for all epochs": pytest.param(AUGMENTED_ONCE, marks=[needs_tensorflow, pytest.mark.verify]),
    "a name that changes by epoch, cached": pytest.param(CACHED_STRENGTH, marks=[needs_tensorflow, pytest.mark.verify]),
    "prints, cached": pytest.param(CACHED_PRINT, marks=[needs_tensorflow, pytest.mark.verify]),
    "a file, cached": pytest.param(CACHED_FILE, marks=[needs_tensorflow, pytest.mark.verify]),
    "two draws of one seed": pytest.param(ONE_SEED, marks=[needs_tensorflow, pytest.mark.verify]),
    "a seed for each batch": pytest.param(SEEDED_ANEW, marks=[needs_tensorflow, pytest.mark.verify]),
    "a script that reads itself": pytest.param(OWN_TEXT, marks=[needs_jax, pytest.mark.verify]),
    "a script that starts itself": pytest.param(OWN_CHILD, marks=[needs_jax, pytest.mark.verify]),
    "an exception": pytest.param(FAILS, marks=[needs_tensorflow, pytest.mark.verify]),
}


@pytest.mark.parametrize("edit", list(WRONG.values()), ids=list(WRONG))
def test_a_wrong_patch_is_refused(edit: Edit, originals: Originals) -> None:
    found = edit.against(originals(edit))
    assert found.same is False, found


PASSING = f"    step = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: ((w - x) ** 2).sum())(w))\n{ENTERED}"
PASSED_ON = Edit(CLOSURE, "for x in data:", ((ENTERED, PASSING), (EAGER, "w = step(w, x)")))
OWN_RATE = "def train_step(w, x): return w - cfg.lr * grads(w, x)"
MOVED = "@jax.jit\ndef moved(w, x, lr): return w - lr * grads(w, x)\ndef train_step(w, x): return moved(w, x, cfg.lr)"
JITTED = Edit(SETATTR, "for x in data:", ((OWN_RATE, MOVED),))
RATES = GROUPS.replace(
    "def steps(w, xs, lr):\n        for x in xs:", "def steps(w, xs, rates):\n        for x, lr in zip(xs, rates):"
).replace(
    "w = steps(w, group, lr)\n        for _ in range(size):\n            decay()",
    "rates = []\n        for _ in range(size):\n            rates.append(lr)\n            decay()\n        w = steps(w, group, rates)",
)
RIGHT_GROUPS = Edit(NONLOCAL, "for x in data:", ((STEPPED, RATES),), True)
GRAPH = ("def train_step(a, b):", "@tf.function\ndef train_step(a, b, strength):")
GIVEN_STRENGTH = ("train_step(a, b)\n    print", "train_step(a, b, tf.constant(strength))\n    print")
FUNCTION = Edit(TENSORFLOW, "for a, b in data:", (GRAPH, GIVEN_STRENGTH))
APPLY = "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
OUTLINED = Edit(
    STANDING,
    "for a, b in data:",
    (("for a, b in data:\n", "@tf.function\ndef step(a, b):\n"), (APPLY, f"{APPLY}\nfor a, b in data:\n    step(a, b)\n")),
)
SEVERAL = Edit(FIT, "", (("from_logits=True))", "from_logits=True), steps_per_execution=8)"),))
WITHOUT_LENGTH = FIT.replace(".batch(16)", ".filter(lambda a, b: b >= 0).batch(16)").replace(
    '"relu"), ', '"relu"), keras.layers.Dropout(0.2), '
)
SEVERAL_WITHOUT_LENGTH = Edit(WITHOUT_LENGTH, "", SEVERAL.pairs)  # Keras counts a step without data in one of the two
XLA_WITHOUT_LENGTH = Edit(WITHOUT_LENGTH, "", (("from_logits=True))", "from_logits=True), jit_compile=True)"),))
ON_JAX = Edit('import os\nos.environ["KERAS_BACKEND"] = "jax"\n' + FIT, "", (("(a * 2, b))", "(a * 2, b)).cache()"),))
PARALLEL = Edit(FIT, "", (("(a * 2, b))", "(a * 2, b), num_parallel_calls=tf.data.AUTOTUNE).cache()"),))
NOTHING = Edit(FIT, "", (("model.fit", "# a remark\nmodel.fit"),))
RIGHT = {
    "jax.jit with the batch as an argument": pytest.param(PASSED_ON, marks=needs_jax),
    "jax.jit with the rate as an argument": pytest.param(JITTED, marks=[needs_jax, pytest.mark.verify]),
    "groups with the rate of each step": pytest.param(RIGHT_GROUPS, marks=needs_jax),
    "a state that is given away": pytest.param(GIVEN_AWAY, marks=[needs_jax, pytest.mark.verify]),
    "tf.function": pytest.param(FUNCTION, marks=needs_tensorflow),
    "a step that becomes a function": pytest.param(OUTLINED, marks=[needs_tensorflow, pytest.mark.verify]),
    "steps_per_execution": pytest.param(SEVERAL, marks=needs_tensorflow),
    "steps_per_execution where the data end without notice": pytest.param(SEVERAL_WITHOUT_LENGTH, marks=needs_tensorflow),
    "XLA where the data end without notice": pytest.param(XLA_WITHOUT_LENGTH, marks=[needs_tensorflow, pytest.mark.verify]),
    "a cache, where Keras trains with JAX": pytest.param(ON_JAX, marks=[needs_jax, needs_tensorflow, pytest.mark.verify]),
    "a parallel map and a cache": pytest.param(PARALLEL, marks=[needs_tensorflow, pytest.mark.verify]),
    "augmented in parallel": pytest.param(AUGMENTED_IN_PARALLEL, marks=[needs_tensorflow, pytest.mark.verify]),
    "draws of all kinds": pytest.param(MANY_DRAWS, marks=[needs_tensorflow, pytest.mark.verify]),
    "what hangs on time, and labels among numbers": pytest.param(TIMED, marks=needs_jax),
    "a remark": pytest.param(NOTHING, marks=[needs_tensorflow, pytest.mark.verify]),
}


@pytest.mark.parametrize("edit", list(RIGHT.values()), ids=list(RIGHT))
def test_an_honest_patch_is_the_same_program(edit: Edit, originals: Originals) -> None:
    found = edit.against(originals(edit))
    assert found.same is True, found
    assert found.compared > 20 and found.passes >= 30


LATE = (
    JAX
    + """
data = [np.full(3, float(i), np.float32) for i in range(905)]
rate, made = {"lr": 0.1}, 0
@jax.jit
def step(w, x, lr): return w - lr * jax.grad(lambda w: ((w - x) ** 2).sum())(w)
w = jnp.zeros(3)
for i, x in enumerate(data):
    if i == 500:
        rate["lr"] *= 0.1
    w = step(w, x, rate["lr"])
    made += 1
    if made == 800:
        print(w)
print(w)
"""
)
DECAYED = """    if i == 500:
        rate["lr"] *= 0.1
"""
STEP = '    w = step(w, x, rate["lr"])\n'
BAND = "    knobs.update(lr=0.01 if 200.5 < float(w[0]) < 205.5 else 0.1)\n"
HIDDEN = LATE.replace(DECAYED, BAND).replace("w = jnp", "knobs = rate\nw = jnp", 1)
COUNTS = (
    LATE.replace("made += 1", "made += 1; seen.append(made)").replace("w = jnp", "seen = []\nw = jnp", 1) + "print(seen[700])\n"
)
KEEPS = (("w, x, lr): return w - lr", 'w, x, lr): return w - rate["lr"]'),)
SAME = (("import jax,", "import  jax,"),)
CUT = {
    "a number that the text names": (Edit(LATE, "for i, x", (("*= 0.1", "*= 0.2"),), whole=1e-4), False, ""),
    "the last passes": (Edit(LATE, "for i, x", (("enumerate(data)", "enumerate(data[:900])"),), whole=1e-4), False, ""),
    "what a function keeps": (Edit(LATE, "for i, x", KEEPS, whole=1e-4), False, ""),
    "what a function keeps and a value changes that no pass has": (
        Edit(HIDDEN, "for i, x", KEEPS, whole=1e-4), True,
        "It compiles step, which keeps rate['lr'] as it was then.",  # by another name
    ),
    "a value that no pass has": (Edit(HIDDEN, "for i, x", SAME, whole=1e-4), True, ""),
    "a script that counts on its length": (Edit(COUNTS, "for i, x", SAME, whole=1e-4), True, ""),
    "another end of it": (Edit(COUNTS, "for i, x", (("seen[700]", "seem[700]"),), whole=1e-4), None, ""),
    "an edited line that did not run": (
        Edit(LATE, "for i, x", (("        print(w)", "        print(w + 1)"),), whole=1e-4), True,
        "What it changes in line 14 of train.py did not run where it was compared.",
    ),
    "nothing": (Edit(LATE, "for i, x", SAME, whole=1e-4), True, ""),
}  # fmt: skip


@needs_jax
@pytest.mark.verify
@pytest.mark.parametrize(("edit", "same", "remark"), list(CUT.values()), ids=list(CUT))
def test_of_a_training_that_is_cut_the_passes_that_matter_are_compared(
    edit: Edit, same: bool | None, remark: str, tmp_path: Path
) -> None:
    found = edit.judged(tmp_path)
    assert found.same is same, found
    assert same is not True or found.standing is Standing.COMPARED, found
    assert found.remarks == ((remark,) if remark else ()), found.remarks


@needs_jax
@pytest.mark.parametrize(("old", "new", "same"), [("*= 0.1", "*= 0.2", False), ("import jax,", "import  jax,", True)])
def test_what_takes_long_behind_the_training_is_not_waited_for(old: str, new: str, same: bool, tmp_path: Path) -> None:
    script = LATE + "import time\nfor k in range(900):\n    time.sleep(0.1)\n    print(k)\n"
    found = Edit(script, "for i, x", ((old, new),), behind=1.0).judged(tmp_path)
    assert found.same is same and found.passes == 512 and not found.whole, found
    assert not same or (found.standing is Standing.COMPARED and found.share == 1.0), "nothing behind it is compared"


NOISY = """
import tensorflow as tf
tf.random.set_seed(5)
w = tf.Variable(tf.ones(4))

@tf.function
def noise():
    return tf.random.normal([4])

def step(x):
    w.assign(0.9 * w + 0.01 * (x + tf.random.normal([4]) - noise()))

for x in tf.data.Dataset.range(40).map(lambda at: tf.cast(at, tf.float32)):
    step(x)
print(w.numpy())
"""


@needs_tensorflow
@pytest.mark.parametrize("seeded", [False, pytest.param(True, marks=pytest.mark.verify)])
def test_ops_of_two_graphs_that_draw_the_same_numbers_are_seen(seeded: bool, tmp_path: Path) -> None:
    script = NOISY if seeded else NOISY.replace("tf.random.set_seed(5)\n", "")
    found = Edit(script, "for x in", (("def step", "@tf.function\ndef step"),)).judged(tmp_path)
    assert found.same is not seeded, found
    assert not seeded or "random numbers of train.py:10 and train.py:7 are the same" in found.why


BEHIND = (
    JAX
    + """
import time
data = [np.full(3, float(i), np.float32) for i in range(40)]
rate = {"lr": 0.1}
@jax.jit
def step(w, x, lr): return w - lr * jax.grad(lambda w: ((w - x) ** 2).sum())(w)
w = jnp.zeros(3)
for x in data:
    w = step(w, x, rate["lr"])
time.sleep(2)
rate["lr"] = 0.05
for late in data:
    w = step(w, late, rate["lr"])
print(w)
"""
)


@needs_jax
@pytest.mark.parametrize("behind", [0.5, 1.5])
def test_what_the_edit_keeps_may_change_where_nothing_is_compared_any_more(behind: float, tmp_path: Path) -> None:
    edit = Edit(BEHIND, "for x in data", (("w, x, lr): return w - lr", 'w, x, lr): return w - rate["lr"]'),), behind=behind)
    found = edit.judged(tmp_path)
    assert found.same is True and found.standing is Standing.COMPARED, found
    assert found.remarks == ("It compiles step, which keeps rate['lr'] as it was then, and train.py:12 may change that.",), (
        found
    )


UNKNOWN = LATE.replace("for i, x in enumerate(data):", "import itertools, time\nfor i in itertools.count():").replace(
    DECAYED + STEP,
    """    time.sleep(0.01)
    if i == 700:
        break
    w = step(w, data[i], rate["lr"])
""",
)


@needs_jax
@pytest.mark.verify
@pytest.mark.parametrize(
    ("old", "new", "same"), [("import jax,", "import  jax,", True), ("made += 1", "made += 2 if i == 400 else 1", False)]
)
def test_a_training_whose_length_nobody_knew_is_compared_as_a_whole_behind_the_edited_one(
    old: str, new: str, same: bool, tmp_path: Path
) -> None:
    found = Edit(UNKNOWN, "for i in itertools", ((old, new),), cut=256, whole=5.0).judged(tmp_path)
    assert found.same is same and found.whole, found


ENDLESS = LATE.replace("for i, x in enumerate(data):", "import itertools\nfor i in itertools.count():").replace(
    DECAYED + STEP,
    """    if float(w[0]) > 1e9:
        break
    w = step(w, data[i % 905], rate["lr"])
""",
)


@needs_jax
@pytest.mark.parametrize(
    ("script", "loop", "whole", "standing", "length"),
    [
        (LATE, "for i, x", 15.0, Standing.PROVEN, 905),
        (LATE, "for i, x", 1e-4, Standing.COMPARED, 905),
        (ENDLESS, "for i in itertools", 0.5, Standing.COMPARED, 0),
    ],
    ids=["whole", "cut", "of unknown length"],
)
def test_only_a_training_that_was_compared_as_a_whole_is_proven(
    script: str, loop: str, whole: float, standing: Standing, length: int, tmp_path: Path
) -> None:
    found = Edit(script, loop, (("import jax,", "import  jax,"),), whole=whole).judged(tmp_path)
    assert found.same is True and found.standing is standing, found
    assert (found.made, found.length) == (905, 905) if standing is Standing.PROVEN else 64 <= found.made < 905, found
    assert found.length == length


GROWING = (
    JAX
    + """
data = [np.full(3, float(i), np.float32) for i in range(64)]
rate = 0.01
@jax.jit
def step(w, x, rate): return w - rate * jax.grad(lambda w: ((w - x) ** 2).sum())(w)
w = jnp.zeros(3)
queue = list(range(64))
for at, i in enumerate(queue):
    w = step(w, data[i], rate)
    rate = rate * 0.9 if at == 1000 else rate
    if len(queue) < 2000:
        queue.append(i)
print(w)
"""
)


@needs_jax
def test_a_training_that_grows_while_it_runs_and_is_cut_is_not_proven(tmp_path: Path) -> None:
    """Items that were counted without the loop's body are not all that there are."""
    edit = Edit(GROWING, "for at, i", (("w, x, rate): return w - rate", "w, x, _): return w - 0.01"),), whole=1e-4)
    found = edit.judged(tmp_path)
    assert found.same is True and found.standing is Standing.COMPARED, found
    assert found.made < 1000 and found.length == 0, found


CHECKED = """
import tensorflow as tf
w = tf.Variable(tf.ones(4))

@tf.function()
def step(x):
    tf.debugging.assert_less(x, 100.0)
    w.assign(0.9 * w + 0.01 * x)

for at in range(40):
    step(tf.fill([4], float(at)))
print(w.numpy())
"""


@needs_tensorflow
def test_an_assertion_that_xla_leaves_out_is_no_proof(tmp_path: Path) -> None:
    found = Edit(CHECKED, "for at in", (("tf.function()", "tf.function(jit_compile=True)"),)).judged(tmp_path)
    assert found.same is True and found.standing is Standing.COMPARED, found
    assert any(each.startswith("the assertion of train.py:6") for each in found.omissions), found.omissions


@needs_tensorflow
def test_an_assertion_that_was_left_out_before_is_the_same(tmp_path: Path) -> None:
    script = CHECKED.replace("tf.function()", "tf.function(jit_compile=True)")
    found = Edit(script, "for at in", (("w = tf.Variable", "import math\nw = tf.Variable"),)).judged(tmp_path)
    assert found.standing is Standing.PROVEN, found


@needs_jax
def test_a_branch_that_did_not_run_is_named(tmp_path: Path) -> None:
    seldom = CLOSURE.replace(
        "        w = w - 0.01", "        if float(w[0]) > 1e6:\n            w = jnp.zeros(3)\n        w = w - 0.01"
    )
    found = Edit(seldom, "for x in data:", (("import jax,", "import  jax,"),)).judged(tmp_path)
    assert found.same is True and "1 branch did not run (line 13)" in found.sentence, found


def test_a_script_that_fails_as_it_is_proves_nothing(tmp_path: Path) -> None:
    found = Edit("for x in range(9):\n    w = [float(x)] / 0\n", "for x", (("/ 0", "/ 1"),)).judged(tmp_path)
    assert found.same is None and "ends with TypeError" in found.why
