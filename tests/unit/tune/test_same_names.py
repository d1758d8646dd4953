"""Which names of a loop an edit may leave out: those that nobody reads before they are set anew."""

from __future__ import annotations

import pytest

from outpace.tune.same.names import dead_names
from outpace.tune.texts.place import Place

LOOP = Place("train.py", "<module>", (0,))


def dead(body: str, *, before: str = "", after: str = "", header: str = "for x in data:") -> set[str]:
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    return set(dead_names(f"{before}\n{header}\n{indented}{after}\n", LOOP))


def test_what_is_set_first_in_each_pass_is_dead() -> None:
    assert dead("loss = step(x)\nprint(loss)") == {"x", "loss"}


def test_what_is_read_behind_the_loop_or_before_it_is_set_lives() -> None:
    assert dead("loss = step(x)", after="print(loss)") == {"x"}
    assert dead("print(loss)\nloss = step(x)", before="loss = 0") == {"x"}
    assert dead("loss = step(loss, x)", before="loss = 0") == {"x"}
    assert dead("loss += step(x)", before="loss = 0") == {"x"}
    assert dead("x = 1", after="print(x)") == set()


@pytest.mark.parametrize(
    "body",
    [
        "if x:\n    loss = step(x)\nprint(loss)",
        "for y in x:\n    loss = step(y)\nprint(loss)",
        "try:\n    loss = step(x)\nexcept E:\n    pass\nprint(loss)",
        "loss.value = step(x)",
        "loss[0] = step(x)",
        "loss: int\nprint(loss)",
        "for loss in x:\n    pass\nprint(loss)",
        "for y in x:\n    print(loss)\n    loss = y",
        "for loss in loss:\n    pass",
    ],
    ids=["branch", "loop", "try", "attribute", "item", "annotation", "no item", "an item before", "its own items"],
)
def test_what_may_not_be_set_lives(body: str) -> None:
    assert dead(body, before="loss = 0") == {"x"} | ({"y"} & dead(body, before="loss = 0"))


@pytest.mark.parametrize(
    "body",
    [
        "loss, more = step(x)\nprint(loss)",
        "(loss, *_), y = step(x)\nprint(loss)",
        "loss = other = step(x)",
        "loss: float = step(x)",
        "with tape() as loss:\n    pass",
        "with tape():\n    loss = step(x)",
        "for loss in x:\n    print(loss)",
        "for y in x:\n    loss = y\n    print(loss)",
        "if x:\n    loss = 1\nelse:\n    loss = 2\nprint(loss)",
        "if x:\n    loss = step(x)\n    print(loss)",
    ],
    ids=["tuple", "nested", "twice", "annotated", "as", "inside of with", "loop's", "in a loop", "both branches", "one branch"],
)
def test_ways_to_set_a_name(body: str) -> None:
    assert "loss" in dead(body)


def test_a_closure_may_outlive_its_pass() -> None:
    assert dead("loss = step(x)\ntell(lambda: loss)") == {"x"}
    assert dead("def later():\n    return x\ntell(later)") == set()
    assert dead("class Kept:\n    loss = x") == set()


def test_a_name_that_is_another_function_s_too_lives() -> None:
    assert dead("loss = step(x)", after="def later():\n    global loss\n    loss = 1") == {"x"}
    assert dead("loss = step(x)", after="def later():\n    return loss") == {"x"}


def test_a_loop_with_a_condition_has_no_target() -> None:
    assert dead("loss = step(x)\nx += 1", header="while x < 5:", before="x = 0") == {"loss"}


def test_a_loop_that_is_not_there_has_no_names() -> None:
    assert dead_names("for x in data: y = x\n", Place("train.py", "main", (0,))) == frozenset()
    text = "def main():\n    for x in data:\n        y = x\n"
    assert dead_names(text, Place("train.py", "main", (0,))) == {"x", "y"}


@pytest.mark.parametrize(
    ("beside", "lives"),
    [
        ("def step(w, x): return w - x", False),
        ("step = lambda x: x + 1", False),
        ("def step(*x, **loss): return x", False),
        ("def step():\n    x = 1\n    return x", False),
        ("def step():\n    def inner(x): return x\n    return inner", False),
        ("def step(w): return w - x", True),
        ("def step(w, x=x): return w - x", True),
        ("def step(w): return [x for x in w] + [x]", True),
        ("def step(w):\n    def inner(x): pass\n    return x", True),
        ("class Step:\n    x = 1\n    def step(self): return x", True),
        ("@x\ndef step(x): pass", True),
    ],
)
def test_a_name_of_another_function_s_own_is_another_one(beside: str, lives: bool) -> None:
    assert dead("y = step(x)", before=beside) == ({"y"} if lives else {"x", "y"})
    indented = "".join(f"    {line}\n" for line in beside.splitlines())
    text = f"def main(data):\n{indented}    for x in data:\n        y = step(x)\n"
    assert dead_names(text, Place("train.py", "main", (0,))) == ({"y"} if lives else {"x", "y"})


def test_names_of_functions_beside_the_loop_s_own_are_others() -> None:
    text = "def main(data):\n    for x in data:\n        y = x\n\ndef other(z):\n    return x, y\n"
    assert dead_names(text, Place("train.py", "main", (0,))) == {"x", "y"}


def test_a_loop_of_a_class_has_names_that_are_seen_elsewhere() -> None:
    text = "class Kept:\n    for x in data:\n        y = x\n\nprint(Kept.y)\n"
    assert dead_names(text, Place("train.py", "Kept", (0,))) == frozenset()
