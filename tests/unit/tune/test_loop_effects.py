"""What a function does that a graph would not."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.loop.effects import effect_of

NONE = "class T:\n    def __init__(self):\n        self.optimizer = None\n"
AGAIN = f"{NONE}    def again(self):\n        self.optimizer = object()\n"
GO = "    def go(self, x):\n        return self.optimizer\n"
DRAWS = "import numpy as np\nrng = np.random.default_rng(0)\n\ndef step(x):\n    return "
CLEAN = {
    "a step": "def step(x, y):\n    grads = []\n    grads.append(x)\n    return model(x) + y\n",
    "a helper": "def loss(x):\n    return x * 2\n\ndef step(x):\n    return loss(x)\n",
    "a constant": "SCALE = 3.0\n\ndef step(x):\n    return x * SCALE\n",
    "parameters that are called as a list is elsewhere": (
        "def init(sizes):\n    params = []\n    for size in sizes:\n        params.append(size)\n    return params\n\n"
        "def step(params, x, t):\n    return [w - t * x for w in params]\n\n"
        "params = init([1, 2])\nfor t in range(3):\n    params = step(params, 1.0, t)\n"
    ),
    "an optimiser that gives its state": "def step(x, state):\n    updates, state = tx.update(x, state)\n    return updates, state\n",
    "a metric": "def step(x):\n    metric.update_state(x)\n    return x\n",
    "functions of a library": (
        "import numpy as np\n\ndef step(x):\n    x + np.sort(x)\n    return x * np.append(x, np.add(x, 1))\n"
    ),
    "set up once": (
        "class T:\n    def __init__(self):\n        self.weight = 2.0\n"
        "    def go(self, x):\n        return x * self.weight\nstep = T().go\n"
    ),
    "a rate that changes": ("rate = 0.1\n\ndef step(x):\n    return x * rate\n\nfor at in range(0):\n    rate = rate * 0.9\n"),
    "an attribute that changes": (
        "class T:\n    def __init__(self):\n        self.rate = 0.1\n    def go(self, x):\n        return x * self.rate\n"
        "t = T()\nstep = t.go\nfor at in range(0):\n    t.rate = 0.2\n"
    ),
    "an object that a loop makes anew": (
        f"{AGAIN}    def epoch(self):\n        self.again()\n{GO}"
        "t = T()\nt.epoch()\nstep = t.go\nfor at in range(0):\n    t.epoch()\n"
    ),
    "an object that a callback makes anew": (
        f"{AGAIN}{GO}t = T()\nt.again()\nhooks = [t.again]\nstep = t.go\nfor hook in hooks:\n    hook()\n"
    ),
    "a rate in a dictionary": (
        "hyper = {'rate': 0.1}\n\ndef step(x):\n    return x * hyper['rate']\n\nfor at in range(0):\n    hyper['rate'] *= 0.9\n"
    ),
    "set up by a method": (
        f"{AGAIN}{GO}    def fit(self, data):\n        for x in data:\n            self.go(x)\n"
        "t = T()\nt.again()\nt.fit([])\nstep = t.go\n"
    ),
}
EFFECTS = {
    "a counter": ("count = 0\n\ndef step(x):\n    global count\n    count += 1\n    return x\n", "assigns count outside"),
    "an attribute": (
        "class T:\n    def go(self, x):\n        self.seen += 1\n        return x\nstep = T().go\n",
        "assigns self.seen",
    ),
    "a dictionary": ("logs = {}\n\ndef step(x):\n    logs.update(x)\n", "logs.update"),
    "a generator of keys": (
        "class Keys:\n    def __init__(self):\n        self.key = 0\n    def split(self):\n        self.key += 1\n        return self.key\n"
        "class Holder:\n    pass\nhold = Holder()\nhold.keys = Keys()\n\ndef step(x):\n    return x * hold.keys.split()\n",
        "calls hold.keys.split, which assigns self.key",
    ),
    "a queue": (
        "from collections import deque\nlast = deque()\n\ndef step(x):\n    last.rotate(1)\n    return x\n",
        "last.rotate",
    ),
    "a set": ("seen = set()\n\ndef step(x):\n    seen.discard(x)\n    return x\n", "seen.discard"),
    "the order of a list": ("losses = []\n\ndef step(x):\n    losses.sort()\n    return x\n", "losses.sort"),
    "a list in a comprehension": ("losses = []\n\ndef step(xs):\n    [losses.append(x) for x in xs]\n", "losses.append"),
    "a list": ("losses = []\n\ndef step(x):\n    losses.append(x)\n", "losses.append"),
    "a value": ("def step(x):\n    return x.numpy()\n", "numpy"),
    "a number": ("def step(x):\n    return float(x)\n", "float"),
    "printed": ("def step(x):\n    print(x)\n    return x\n", "print"),
    "chance": ("import random\n\ndef step(x):\n    return x * random.random()\n", "random.random"),
    "chance of a generator": (f"{DRAWS}x * rng.normal()\n", "calls rng.normal()"),
    "chance by its name": ("from random import random\n\ndef step(x):\n    return x * random()\n", "calls random()"),
    "chance of a module by another name": (
        "import numpy.random as chance\n\ndef step(x):\n    return x * chance.rand()\n",
        "calls chance.rand()",
    ),
    "a seed from a generator": (f"{DRAWS}dropout(x, seed=rng.integers(9))\n", "calls rng.integers()"),
    "a seed from Python": (
        "from random import Random\ndraw = Random(0)\n\ndef step(x):\n    return dropout(x, seed=draw.randint(0, 9))\n",
        "calls draw.randint()",
    ),
    "a seed that is set": ("def step(x):\n    tf.random.set_seed(3)\n    return x\n", "tf.random.set_seed"),
    "a generator that a trainer holds": (
        "import random\nclass T:\n    def __init__(self):\n        self.draw = random.Random(0)\n"
        "    def go(self, x):\n        return x * self.draw.random()\nstep = T().go\n",
        "calls self.draw.random()",
    ),
    "in a helper": (
        "seen = {}\n\ndef note(x):\n    seen['x'] = x\n\ndef step(x):\n    note(x)\n    return x\n",
        "assigns seen",
    ),
}


def made(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "program.py"
    path.write_text(text)
    module = types.ModuleType("program")
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), vars(module))
    sys.modules["program"] = module  # `inspect` asks for it
    return module.step


def bound(step: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    """A function, and a call of it as far as it is known."""
    owner = getattr(step, "__self__", None)
    return getattr(step, "__func__", step), [(owner,)] if owner is not None else []


@pytest.mark.parametrize("name", CLEAN)
def test_computing_and_reading_are_no_effects(tmp_path: Path, name: str) -> None:
    assert effect_of(*bound(made(tmp_path, CLEAN[name]))) is None


@pytest.mark.parametrize("name", EFFECTS)
def test_an_effect_is_named(tmp_path: Path, name: str) -> None:
    text, said = EFFECTS[name]
    assert said in (effect_of(*bound(made(tmp_path, text))) or "")


def test_python_numbers_that_change_from_call_to_call(tmp_path: Path) -> None:
    step, x = made(tmp_path, CLEAN["a step"]), object()
    assert "Python numbers that change" in (effect_of(step, [(1, x), (2, x)]) or "")
    assert effect_of(step, [(x, 0.1), (x, 0.1)]) is None
