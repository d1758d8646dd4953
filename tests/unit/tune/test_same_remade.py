"""What an edit lets a script keep is made again: another where what goes into it changed."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if os.environ.get("OUTPACE_FAST"):
    pytest.skip("it imports a framework", allow_module_level=True)

from outpace.tune.same.remade import DUE, FREE, SHARE, Remade
from tests.integration.programs import needs_jax, needs_tensorflow

pytestmark = pytest.mark.slow
Seen = Callable[[str, str], dict[str, str]]


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """What a script keeps, edited in all its lines, that changed when something else has run."""

    def run(script: str, between: str) -> dict[str, str]:
        path = tmp_path / "train.py"
        path.write_text(script, encoding="utf-8")
        remade = Remade({os.path.realpath(path): {}}, contextlib.nullcontext, {})
        names: dict[str, Any] = {"np": np, "__name__": "__main__"}
        with monkeypatch.context() as patch:
            patch.setattr(functools, "lru_cache", functools.lru_cache)
            remade.on_functools()
            if "import jax" in script:
                jax = importlib.import_module("jax")
                patch.setattr(jax, "jit", jax.jit)
                remade.on_jax(jax)
            if "import tensorflow" in script:
                tf = importlib.import_module("tensorflow")
                kind = type(tf.function(lambda: None))
                for name in ("__call__", "__get__"):
                    patch.setattr(kind, name, getattr(kind, name))
                patch.setattr(tf, "function", tf.function)
                patch.setattr(tf.data.Dataset, "cache", tf.data.Dataset.cache)
                remade.on_tensorflow(tf)
            exec(compile(script, str(path), "exec"), names)
            for step in range(4):
                assert step > 2 or not remade.changed, remade.changed
                if step == 2:
                    exec(between, names)
                remade._share._took = 0.0
                exec(script.rpartition("\n#\n")[2], names)  # what it does in every step
                remade.look()
            assert not remade.unmade
        return remade.changed

    yield run
    sys.modules.pop("train", None)


JAX = """
import jax, os, threading, dataclasses, functools
import jax.numpy as jnp
os.environ["RATE"] = "1"
flag = threading.Event()
options = dataclasses.make_dataclass("Options", [("rate", float)])(0.5)
table = np.ones(1 << 21, np.float32)
rule = eval("lambda x: x * scale", names := {"scale": 2.0})
unused = [1]
def inner(w): return w * options.rate
@jax.jit
def by_variable(x): return x * float(os.getenv("RATE"))
@jax.jit
def by_event(x): return x * (2 if flag.is_set() else 1)
@jax.jit
def handed(x): return x * dataclasses.astuple(options)[0]
@functools.partial(jax.jit, static_argnums=1)
def large(x, n): return x * table[n:n + 2]
@jax.jit
def by_text(x): return rule(x)
@jax.jit
def nested(x): return jax.grad(lambda w: jax.checkpoint(lambda v: inner(v).sum())(w))(x)
#
x = jnp.ones(2)
by_variable(x); by_event(x); handed(x); large(x, 3); by_text(x); nested(x)
"""


@needs_jax
@pytest.mark.parametrize(
    ("between", "function"),
    [
        ("os.environ['RATE'] = '2'", {"by_variable"}),
        ("flag.set()", {"by_event"}),
        ("options.rate = 0.7", {"handed", "nested"}),
        ("memoryview(table)[4] = 7", {"large"}),
        ("names['scale'] = 3.0", {"by_text"}),
        ("unused.append(2); x = x * 2", set()),
    ],
)
def test_an_expression_of_jax(seen: Seen, between: str, function: set[str]) -> None:
    assert seen(JAX, between).keys() == function


TENSORFLOW = """
import os
import tensorflow as tf
import keras
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, activation="relu")])
optimizer = keras.optimizers.Adam(0.1)
trust, rate = [1.0] * 4000, tf.constant(0.5)
class Trainer:
    scale = deep = 1.0
    @tf.function
    def step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) * self.scale) * keras.losses.MeanSquaredError()(x, x * 2)
            while tf.reduce_sum(x) > 100:
                if tf.reduce_sum(x) > 200:
                    x *= self.deep
                x -= 1.0
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
@tf.function
def listed(x): return x * tf.constant(trust)[:2]
@tf.function(reduce_retracing=True)
def captured(x): return x * rate
halves = tf.Variable(0.5)
@tf.function
def halved(x):
    for _ in tf.range(2):
        x *= halves
    return x
@tf.function
def several(stack): return tf.map_fn(halved, stack, parallel_iterations=1)
trainer = Trainer()
level = {"noise": 1.0}
kept = tf.data.Dataset.range(6).map(lambda at: tf.numpy_function(lambda at: float(at) * level["noise"], [at], tf.float64)).cache()
#
x = tf.ones((1, 2))
trainer.step(x); listed(x); captured(x); several(tf.ones((3, 2))); list(kept)
"""


@needs_tensorflow
@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ("model.layers[0].activation = keras.activations.tanh", {"step": "compiled"}),
        ("trainer.scale = 2.0", {"step": "compiled"}),
        ("trainer.deep = 2.0", {"step": "compiled"}),
        ("trust[3] = 2.0", {"listed": "compiled"}),
        ("rate = tf.constant(0.7)", {"captured": "compiled"}),
        ("level['noise'] = 2.0", {"a cache": "cached"}),
        ("model.layers[0].kernel.assign(np.ones((2, 2))); level['other'] = 1", {}),
    ],
)
def test_a_graph_of_tensorflow(seen: Seen, between: str, kept: dict[str, str]) -> None:
    assert seen(TENSORFLOW, between) == kept


KEPT = """
import datetime, functools, os, types
import tensorflow as tf
{source}
kept = tf.data.Dataset.range(6).map(lambda at: tf.numpy_function(lambda x: np.float64(load(float(x))), [at], tf.float64)).cache()
#
list(kept)
"""
SCALE = """class Scale:
    def __init__(self):
        self.scale, self.table = 1.0, {'a': 1}
        def on_epoch(): self.scale += 0.1
        self.hook = on_epoch
    def apply(self, x): return x * self.scale
    def looked_up(self, x): return x * self.table['a']
    def advance(self): self.table['a'] += 1
scale = Scale()
"""
TABLE = "TABLE = {'s': 1.0, 'l': [1.0]}\ndef load(x): return x * TABLE['s'] * TABLE['l'][0]\n"
CONFIG = "config = types.SimpleNamespace(strength=1.0)\ndef load(x): return x * config.strength\n"
# By name: what a cache keeps is made by, and what the program does in the next epoch.
BY_EPOCH = {
    "a name": ("S = 1.0\ndef load(x): return x + S", "S = 2.0"),
    "a name that a function assigns": ("S = 1\ndef load(x): return x + S\ndef ramp():\n    global S\n    S += 1", "ramp()"),
    "a name by globals": ("S = 1\ndef load(x): return x + S\ndef ramp(): globals()['S'] = 2", "ramp()"),
    "a variable around the function": (
        "def made():\n    s = 1.0\n    def load(x): return x + s\n    def ramp():\n        nonlocal s\n        s += 1\n"
        "    return load, ramp\nload, ramp = made()",
        "ramp()",
    ),
    "a table": (TABLE, "TABLE['s'] = 2.0"),
    "a table by a lambda": (TABLE + "ramp = lambda e: TABLE.update(s=e)", "ramp(2.0)"),
    "a table that is handed on": (TABLE + "def bump(counts):\n    mine = counts\n    mine['s'] += 1", "bump(counts=TABLE)"),
    "a table by another name": (TABLE + "def ramp():\n    t = TABLE\n    t['s'] = 2", "ramp()"),
    "a list in a table": (TABLE + "def ramp():\n    for k, t in TABLE.items():\n        if k == 'l': t[0] = 2", "ramp()"),
    "an attribute": (CONFIG, "config.strength = 2.0"),
    "an attribute by its name": (CONFIG, "setattr(config, 'strength', 2.0)"),
    "an attribute by vars": (CONFIG, "vars(config).update(strength=2.0)"),
    "an attribute of a class": ("class C:\n    rate = 1.0\ndef load(x): return x * C.rate", "C.rate *= 0.5"),
    "an attribute of a module": ("os.rate = 1.0\ndef load(x): return x * os.rate", "os.rate = 2.0"),
    "an attribute of a method's object": (SCALE + "load = scale.apply", "scale.hook()"),
    "a table of a method's object": (SCALE + "load = scale.looked_up", "scale.advance()"),
    "a transform in a list": (
        SCALE + "PIPE = [scale]\ndef load(x): return [t.apply(x) for t in PIPE][0]",
        "PIPE[0].scale = 2.0",
    ),
    "the environment": ("def load(x): return x + float(os.environ.get('RATE_OF_TEST', 1))", "os.environ['RATE_OF_TEST'] = '2'"),
    "the date": (
        "today = datetime.date.today\ndef load(x): return x + today().year",
        "today = lambda: datetime.date(1970, 1, 1)",
    ),
    "one element of many": ("S = 1.0\ndef load(x): return x + S if x == 5 else x", "S = 2.0"),
}
HONEST = {
    "a copy": (TABLE, "t = dict(TABLE); t['s'] = 2.0"),
    "what is only shown": (TABLE + "def show(t): return t['s']", "show(TABLE)"),
    "a local name": (TABLE + "def other():\n    S = 2.0\n    return S", "other()"),
    "a memory": ("MEMORY = {}\ndef load(x): return MEMORY.setdefault(x, len(MEMORY))", "MEMORY['more'] = 1"),
    "transforms that nobody changes": (
        SCALE + "PIPE = [scale]\ndef load(x): return [t.apply(x) for t in PIPE][0]",
        "scale.other = 1",
    ),
}


@needs_tensorflow
@pytest.mark.parametrize("name", BY_EPOCH)
def test_elements_that_depend_on_what_changes_by_epoch(seen: Seen, name: str) -> None:
    source, between = BY_EPOCH[name]
    assert seen(KEPT.replace("{source}", source), between) == {"a cache": "cached"}


@needs_tensorflow
@pytest.mark.parametrize("name", HONEST)
def test_elements_that_do_not(seen: Seen, name: str) -> None:
    source, between = HONEST[name]
    assert seen(KEPT.replace("{source}", source), between) == {}


RESULTS = """
import functools
class Data:
    noise = 1.0
    @functools.cache
    def __getitem__(self, at): return np.full(3, at * self.noise), {"y": at}
data = Data()
#
[data[at] for at in range(4)]
"""


@pytest.mark.parametrize(
    ("between", "kept"),
    [("Data.noise = 2.0", {"__getitem__": "kept"}), ("data[3][0][:] = 7", {"__getitem__": "kept"}), ("Data.other = 1", {})],
)
def test_results_of_a_function(seen: Seen, between: str, kept: dict[str, str]) -> None:
    assert seen(RESULTS, between) == kept


def test_what_cannot_be_made_again_is_said() -> None:
    remade = Remade({}, contextlib.nullcontext, {})
    with remade.turn("step", anyway=True) as turn:
        assert turn and remade.making
        with remade.turn("another") as other:
            assert not other  # one at a time
        raise ZeroDivisionError
    assert remade.unmade == {"step"} and not remade.changed and not remade.making


def test_where_what_it_has_read_changed_a_function_is_made_again_beyond_the_usual_share() -> None:
    remade = Remade({}, contextlib.nullcontext, {})
    function = object()
    remade._share._took = FREE + 0.01 + SHARE * 1e-3
    remade._share._began -= (remade._share._took - FREE) / DUE + 0.01
    with remade.turn("step", function) as turn:
        assert not turn
    assert not remade.missed and not remade.decided
    remade.changes += 1
    with remade.turn("step", function) as turn:
        assert turn
    assert remade.decided
    remade._share._took = 1e9
    remade.changes += 1
    with remade.turn("step", function) as turn:
        assert not turn
    assert remade.missed and not remade.decided


RATE = [1.0]


def functions(times: int) -> list[Any]:
    """Each is kept at the same place."""
    made: list[Any] = []
    for at in range(times):

        @functools.cache
        def function(x: float) -> float:
            return x * RATE[0]

        function.__wrapped__.__name__ = str(at)
        made.append(function)
    return made


@pytest.mark.parametrize(("known", "times", "watched"), [(0, 1, 1), (1, 1, 0), (1, 2, 1), (3, 1, 1), (2, 2, 0)])
def test_what_the_original_keeps_as_often_is_its_own(
    monkeypatch: pytest.MonkeyPatch, known: int, times: int, watched: int
) -> None:
    plain = functools.lru_cache
    monkeypatch.setattr(functools, "lru_cache", plain)
    counted = Remade({}, contextlib.nullcontext)
    counted.on_functools()
    functions(1)
    (place,) = counted.kept
    monkeypatch.setattr(functools, "lru_cache", plain)
    remade = Remade({}, contextlib.nullcontext, {place: known})
    remade.on_functools()
    monkeypatch.setitem(globals(), "RATE", [1.0])
    made = functions(times)
    for factor in (1.0, 3.0):
        RATE[0] = factor
        for function in made:
            remade._share._took = 0.0
            function(2.0)
    assert remade.kept == {place: times} and len(remade.changed) == watched
