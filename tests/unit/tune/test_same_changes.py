"""Lines that may change what a traced function keeps."""

from __future__ import annotations

import ast
import textwrap

import pytest

from outpace.tune.same.changes import Ran, TraceRead, iter_changes
from outpace.tune.texts.place import loops_of

LR, NAME = TraceRead("cfg.lr", "step", "lr", "cfg"), TraceRead("lr", "step", "lr")
ITEM = TraceRead("level[0]", "step", "0", "level")
WHOLE = TraceRead("level", "step", "level")
FREE = TraceRead("lr", "step", "lr", is_free=True)


def changes(text: str, kept: TraceRead, during: tuple[int, ...] = (), before: tuple[int, ...] = ()) -> list[int]:
    tree = ast.parse(textwrap.dedent(text).lstrip())
    loop = next((node for _, path, node in loops_of(tree) if len(path) == 1), None)
    return [line for _, line in iter_changes(tree, loop, Ran(frozenset(before), frozenset(during)), [kept])]


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("cfg.lr *= 0.1", LR),
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
def test_in_the_loop_and_behind_it(statement: str, kept: TraceRead) -> None:
    assert changes(f"for step in data:\n    {statement}", kept) == [2]
    assert changes(f"{statement}\nfor step in data: pass\n{statement}", kept) == [3]


@pytest.mark.parametrize("statement", ["other.rate = f(step)", "lr = f(step)", "cfg.get(step)", "print(cfg.lr)"])
def test_what_changes_nothing(statement: str) -> None:
    assert changes(f"for step in data:\n    {statement}", LR) == []


def test_functions_that_training_runs_or_that_did_not_run_before_it() -> None:
    text = "def setup(cfg):\n    cfg.lr = f()\nfor step in data: pass"
    assert changes(text, LR, before=(2,)) == []
    assert changes(text, LR) == [2] == changes(text, LR, before=(2,), during=(2,))


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
