"""What a generator does for an item from the item alone, divided from the rest of it."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from outpace.model.errors import RebuildError
from outpace.tune.data.generators import Kept
from outpace.tune.data.item_split import item_split

HEAD = """
import random
import numpy as np

names = ["a", "bb", "ccc"]
seen = []

def load(name):
    return np.full((2, 2), len(name), np.float32)

"""
MIRRORED = """
def give():
    while True:
        for name in names:
            # the work
            image = load(name)
            pixels = image * 2
            yield (pixels[:, ::-1] if random.random() < 0.5 else pixels), len(name)
"""
WHOLE = """
def give():
    for number, name in enumerate(names):
        yield load(name), number
"""
CASES = {"the first statements": MIRRORED, "the whole element": WHOLE}
REFUSED = {
    "chance": (
        "def give():\n    for name in names:\n        x = random.random()\n        yield x\n",
        "nothing that depends on the item",
    ),
    "a counter": (
        "def give():\n    for name in names:\n        seen.append(name)\n        yield len(seen)\n",
        "nothing that depends on the item",
    ),
    "no loop": ("def give():\n    yield load('a')\n", "no for loop"),
    "two yields": (
        "def give():\n    for name in names:\n        yield load(name)\n        yield load(name)\n",
        "one plain yield",
    ),
    "while": ("def give():\n    while True:\n        yield load('a')\n", "no for loop"),
    "a random pick inside": (
        "def pick(name):\n    return load(random.choice(names))\n\ndef give():\n    for name in names:\n        yield pick(name)\n",
        "nothing that depends on the item",
    ),
}


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Any]:
    def made(text: str) -> ModuleType:
        path = tmp_path / "items_program.py"
        path.write_text(HEAD + text)
        spec = importlib.util.spec_from_file_location("items_program", path)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules["items_program"] = found
        spec.loader.exec_module(found)
        return found

    yield made
    sys.modules.pop("items_program", None)


def first(function: Any, count: int) -> list[Any]:
    random.seed(3)
    return [value for _, value in zip(range(count), function(), strict=False)]


@pytest.mark.parametrize("name", CASES)
def test_kept_items_give_the_same_elements(module: Any, name: str) -> None:
    program = module(CASES[name])
    holder: list[Kept] = []

    def keep(function: Any) -> Kept:
        holder.append(Kept(function))
        return holder[-1]

    made = item_split(program.give).made(keep)
    before, after = first(program.give, 7), first(made, 7)
    assert [repr(each) for each in before] == [repr(each) for each in after]
    assert len(holder[0].items) == 3


def test_the_source_of_the_parts(module: Any) -> None:
    split = item_split(module(MIRRORED).give)
    assert split.guarded(["pixels"]) == (
        "def give_item(name):\n    image = load(name)\n    pixels = image * 2\n"
        "    pixels.flags.writeable = False\n    return pixels\n"
    )
    assert "        pixels = give_item(name)\n" in split.generator and "random.random()" in split.generator


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_divided(module: Any, name: str) -> None:
    text, said = REFUSED[name]
    with pytest.raises(RebuildError, match=said):
        item_split(module(text).give)


def test_a_kept_array_cannot_be_changed() -> None:
    np = pytest.importorskip("numpy")
    kept = Kept(lambda name: np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        kept("a")[0] = 1
    with pytest.raises(TypeError, match="could be changed"):
        Kept(lambda name: [1, 2])("a")
