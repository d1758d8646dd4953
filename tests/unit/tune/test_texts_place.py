"""Where a loop stands in a text: its function, and its number in that."""

from __future__ import annotations

import ast
import textwrap

import pytest

from outpace.tune.texts.place import Place, header_of, loop_at, loops_of, may_be_left

TEXT = textwrap.dedent(
    """
    for a in one():
        pass

    def main():
        for b in two():
            while b:
                b -= 1
            for c in three():
                pass

        def inner():
            for d in four(): pass

        class Inside:
            def method(self):
                for e in [x for x in five()]:
                    pass

        for f in six():
            pass

    class Trainer:
        for g in seven():
            pass

        def fit(self):
            if self:
                with self:
                    try:
                        while True:
                            pass
                    finally:
                        for h in eight():
                            pass
                        else:
                            for i in nine():
                                pass

    async def later():
        async for j in ten():
            for k in eleven():
                pass

    given = lambda: [x for x in twelve()]
    """
)


def where(text: str = TEXT) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Function and path of each loop, by what it goes over."""
    found = {}
    for name, path, node in loops_of(ast.parse(text)):
        found[ast.unparse(node.iter if isinstance(node, ast.For) else node.test)] = (name, path)
    return found


def test_each_loop_has_its_function_as_python_names_it_and_its_numbers() -> None:
    assert where() == {
        "one()": ("<module>", (0,)),
        "two()": ("main", (0,)),
        "b": ("main", (0, 0)),
        "three()": ("main", (0, 1)),
        "four()": ("main.<locals>.inner", (0,)),
        "[x for x in five()]": ("main.<locals>.Inside.method", (0,)),
        "six()": ("main", (1,)),
        "seven()": ("Trainer", (0,)),
        "True": ("Trainer.fit", (0,)),
        "eight()": ("Trainer.fit", (1,)),
        "nine()": ("Trainer.fit", (1, 0)),
        "eleven()": ("later", (0,)),
    }


def test_the_names_are_those_that_python_gives() -> None:
    names: dict[str, object] = {}
    inside = "    class Inside:\n        def method(self): pass\n"
    exec(f"def main():\n    def inner(): pass\n{inside}    return inner, Inside.method", names)
    main = names["main"]
    assert callable(main)
    assert [each.__qualname__ for each in main()] == [where()[over][0] for over in ("four()", "[x for x in five()]")]


def test_a_place_stays_where_lines_move_and_other_functions_come() -> None:
    moved = TEXT.replace("def main():", "# moved\ndef new():\n    for z in thirteen(): pass\n\ndef main():\n    x = 1\n")
    after = where(moved)
    assert {over: at for over, at in after.items() if over != "thirteen()"} == where()


def line_of(part: str) -> int:
    return next(at for at, line in enumerate(TEXT.splitlines(), start=1) if part in line)


@pytest.mark.parametrize(
    ("part", "path"), [("for b in", (0,)), ("b -= 1", (0, 0)), ("for c in", (0, 1)), ("while b", (0, 0)), ("for f in", (1,))]
)
def test_the_innermost_loop_at_a_line(part: str, path: tuple[int, ...]) -> None:
    assert loop_at(TEXT, line_of(part), "/train.py") == Place("/train.py", "main", path)


def test_a_line_outside_of_all_loops_has_none() -> None:
    assert loop_at(TEXT, line_of("def main"), "/train.py") is None
    assert loop_at("", 1, "/train.py") is None


def test_a_loop_on_one_line_is_that_line_s() -> None:
    text = "for a in x:\n    for b in y: pass\n"
    assert loop_at(text, 2, "f") == Place("f", "<module>", (0, 0)) and loop_at(text, 1, "f") == Place("f", "<module>", (0,))


def test_what_a_loop_goes_over_is_told_in_one_form() -> None:
    text = "for a in zip( x,y ,  # both\n    z):\n    pass\nwhile a: pass\n"
    assert header_of(text, Place("f", "<module>", (0,))) == "zip(x, y, z)"
    assert header_of(text, Place("f", "<module>", (1,))) is None  # a condition
    assert header_of(text, Place("f", "<module>", (2,))) is None  # no such loop


def test_a_place_in_words() -> None:
    assert str(Place()) == "fit" and str(Place("/folder/train.py", "main", (0, 1))) == "train.py main loop 1.2"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("step(x)", False),
        ("if done: break", True),
        ("while a:\n        break", False),
        ("while a:\n        pass\n    else:\n        break", True),
        ("for y in x:\n        return", True),
        ("def inner():\n        return 1", False),
        ("try: step(x)\n    finally: break", True),
    ],
)
def test_whether_a_loop_may_be_left_before_its_last_pass(body: str, left: bool) -> None:
    text = f"for x in items:\n    {body}\n"
    assert may_be_left(next(node for _, path, node in loops_of(ast.parse(text)) if path == (0,))) is left
