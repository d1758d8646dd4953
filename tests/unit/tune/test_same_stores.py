"""Assignments that may yet change what a traced function keeps."""

from __future__ import annotations

import ast
import textwrap

import pytest

from outpace.tune.same.stores import Kept, Ran, may_change
from outpace.tune.texts.place import loops_of

LR, NAME = Kept("cfg.lr", "step", "lr", "cfg", kind="."), Kept("lr", "step", "lr")
ITEM = Kept("level[0]", "step", "0", "level", kind="[")
WHOLE = Kept("level", "step", "level")
FREE = Kept("lr", "step", "lr", free=True)


def changes(text: str, kept: Kept, during: tuple[int, ...] = (), before: tuple[int, ...] = ()) -> list[int]:
    tree = ast.parse(textwrap.dedent(text).lstrip())
    loop = next((node for _, path, node in loops_of(tree) if len(path) == 1), None)
    return [line for _, line in may_change(tree, loop, Ran(frozenset(before), frozenset(during)), [kept])]


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("cfg.lr *= 0.1", LR),
        ("cfg.lr = 0.1 if step < 500 else 0.01", LR),
        ("setattr(cfg, 'lr', f(step))", LR),
        ("setattr(cfg, name, f(step))", LR),
        ("level.update(new)", ITEM),
        ("lr = f(step)", NAME),
        ("level[0] = f(step)", ITEM),
        ("level[at] = f(step)", ITEM),
        ("level.append(1)", ITEM),
        ("level[0] = f(step)", WHOLE),
        ("del level[0]", WHOLE),
        ("level.sort()", WHOLE),
        ("config.lr = f(step)", NAME),
        ("globals()['lr'] = f(step)", NAME),
    ],
)
def test_in_the_loop(statement: str, kept: Kept) -> None:
    assert changes(f"for step in data:\n    {statement}", kept) == [2]
    assert changes(f"{statement}\nfor step in data: pass\n{statement}", kept) == []


@pytest.mark.parametrize(
    "statement", ["cfg.lr = 0.1", "other.rate = f(step)", "lr = f(step)", "cfg.get(step)", "cfg.update(x)", "print(cfg.lr)"]
)
def test_what_changes_nothing(statement: str) -> None:
    assert changes(f"for step in data:\n    {statement}", LR) == []


def test_behind_a_training_that_was_cut_there() -> None:
    """What stands behind it, in whatever it began in; constants, too, which were not set so far."""
    text = """
        def run():
            lr = 1.0
            train()
            cfg.lr = 0.05
            train()

        def train():
            for step in data: pass
            cfg.lr = 0.2

        cfg.lr = 0.1
        run()
        cfg.lr = 0.3
    """
    tree = ast.parse(textwrap.dedent(text).lstrip())
    loop = next(node for _, path, node in loops_of(tree) if len(path) == 1)

    def changed(around: dict[int, int]) -> list[int]:
        return [line for _, line in may_change(tree, loop, Ran(frozenset({2}), frozenset(), around), [LR])]

    assert changed({}) == []
    assert changed({0: 12, 1: 3, 7: 8}) == [4, 9, 13]


def test_a_constant_in_a_branch_that_did_not_run() -> None:
    text = "for step in data:\n    if step == 500:\n        cfg.lr = 0.01\n    else:\n        cfg.lr = 0.1"
    assert changes(text, LR, during=(5,)) == [3] and changes(text, LR, during=(3, 5)) == []


def test_functions_that_training_may_reach() -> None:
    text = "def setup(cfg):\n    cfg.lr = f()\nfor step in data: pass"
    assert changes(text, LR, before=(2,)) == []
    assert changes(text, LR) == [2] == changes(text, LR, before=(2,), during=(2,))


def test_a_function_that_ran_before_training_and_that_it_may_call_again() -> None:
    text = """
    def set_lr(value):
        cfg.lr = value
    def slow():
        set_lr(0.01)
    set_lr(0.1)
    for step in data:
        if loss < 0.1:
            slow()
    """
    assert changes(text, LR, before=(2,)) == [2]
    assert changes(text.replace("    slow()", "    print()"), LR, before=(2, 4)) == []


def test_variables_of_the_function_that_holds_the_loop() -> None:
    text = """
    def main():
        lr = f()
        for step in data:
            lr = f(step)
    """
    assert changes(text, FREE, before=(2,)) == [4]
    assert changes(text, NAME, before=(2,)) == []
    assert changes(text.replace("lr = f()", "global lr"), NAME, before=(2,)) == [4]


@pytest.mark.parametrize("call", ["append(x)", "appendleft(x)", "popleft()", "rotate(1)", "popitem()", "write(x)"])
def test_every_method_that_changes_an_object_is_seen_in_a_branch_that_has_not_run(call: str) -> None:
    assert changes(f"for x in data:\n    if x > 3:\n        level.{call}", WHOLE) == [3]
