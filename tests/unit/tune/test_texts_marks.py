"""Marks in a text: it does the same, and every pass, entry and branch is told of."""

from __future__ import annotations

import ast
import builtins
import itertools
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outpace.tune.same.passes import END, Passes
from outpace.tune.same.shown import Shown
from outpace.tune.texts.marks import branches_of, install, instrumented
from outpace.tune.texts.place import Place, header_of

FILE = "/train.py"
NAMES = ("pass", "cut", "more", "enter", "left", "ran", "returned")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    for name in NAMES:
        if hasattr(builtins, f"_outpace_{name}"):
            delattr(builtins, f"_outpace_{name}")


def plain(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(text), FILE, "exec"), names)
    return names.get("said")


class Marked:
    """A text that ran with its marks, as where it is compared."""

    def __init__(
        self,
        text: str,
        place: Place,
        cut: int = 1_000_000,
        grouped: bool = False,
        header: str | None = None,
        run: bool = True,
        lines: dict[int, int] | None = None,
    ) -> None:
        text = textwrap.dedent(text)
        self.told: list[tuple[str, int, int]] = []
        self.began = 0
        innermost = ".".join(map(str, place.path))
        self.passes = Passes(Shown(cut), grouped, lambda frame: self._begin(), self._passed, innermost)
        self.passes.install()
        tree = instrumented(ast.parse(text), FILE, place, header if header is not None else header_of(text, place), lines=lines)
        self.names: dict[str, Any] = {}
        self.text = ast.unparse(tree)
        if run:
            exec(compile(tree, FILE, "exec"), self.names)

    def _begin(self) -> None:
        self.began += 1

    def _passed(self, key: str, entry: int, passes: int, frame: Any) -> None:
        assert frame.f_code.co_filename == FILE, "the frame is the user's"
        self.told.append((key, entry, passes))

    @property
    def said(self) -> Any:
        return self.names["said"]

    @property
    def lines(self) -> list[int]:
        return sorted(self.passes.ran.get(FILE, ()))


INNER, OUTER = Place(FILE, "main", (0, 0)), Place(FILE, "main", (0,))
LOOPS = {
    "continue": "if x % 2: continue",
    "break": "if x == 5: break",
    "return": "if x == 5: return said",
    "try": """
            try:
                if x == 3: raise ValueError
                if x == 4: continue
            except ValueError:
                said.append('caught')
            finally:
                said.append('finally')""",
    "with": """
            with contextlib.suppress(KeyError):
                {}[x]""",
    "else": "pass",
    "rebound": "x = x * 2; several = x",
}
BODY = """
import contextlib
def main():
    said = []
    for epoch in range(3):
        for x in range(8):
            STATEMENT
            said.append((epoch, x))
        else:
            said.append('else')
        said.append(epoch)
    return said
said = main()
"""


def body(name: str) -> str:
    statement = LOOPS[name].lstrip("\n")
    return BODY.replace("            STATEMENT", statement if statement.startswith(" ") else f"            {statement}")


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("place", [INNER, OUTER], ids=["inner", "outer"])
def test_a_marked_text_runs_as_the_plain_one(name: str, place: Place) -> None:
    text = body(name)
    if place == INNER:  # loops around the innermost one are cut after two passes
        text = text.replace("range(3)", "range(2)")
    assert Marked(text, place).said == plain(text)


def test_passes_are_told_at_powers_of_two_and_at_the_cut_and_what_follows_a_loop() -> None:
    marked = Marked(BODY.replace("STATEMENT", "pass"), INNER, cut=6)
    inner = [[("0.0", entry, passes) for passes in (1, 2, 4, 6, END)] for entry in (1, 2)]
    assert marked.told == [*inner[0], ("0", 1, 1), *inner[1], ("0", 1, 2), ("0", 1, END), ("0 returned", 1, END)]
    assert marked.passes.passes == {"0": 2, "0.0": 6} and marked.began == 1
    assert [each for each in marked.said if isinstance(each, tuple)] == [(epoch, x) for epoch in (0, 1) for x in range(6)]


def test_a_cut_loop_takes_no_item_more_than_it_is_cut_after() -> None:
    """What a generator would do for another item is no part of what is compared."""
    text = """
    taken = []
    def items():
        for x in range(9):
            taken.append(x)
            yield x
    for x in items():
        pass
    said = taken
    """
    assert Marked(text, Place(FILE, "<module>", (0,)), cut=3).said == [0, 1, 2]
    assert Marked(text, Place(FILE, "<module>", (0,)), cut=0).said == [*range(9)], "0 is no cut"


def test_the_cut_is_inside_of_what_an_edit_puts_around_the_items() -> None:
    """An edited header goes over groups of the original's items, which are what is counted."""
    text = """
    import itertools
    def groups(items):
        items = iter(items)
        while group := list(itertools.islice(items, 4)):
            yield (group, len(group))
    said = []
    for item in groups(range(100)):
        said.append(item[0])
    """
    place = Place(FILE, "<module>", (0,))
    marked = Marked(text, place, cut=8, grouped=True, header="range(100)")
    assert "groups(_outpace_cut('0', range(100)))" in marked.text
    assert marked.said == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert marked.passes.passes == {"0": 8} and marked.told == [("0", 1, 4), ("0", 1, 8), ("0", 1, END)]


def test_what_is_cut_is_otherwise_what_it_was() -> None:
    text = """
    class Data:
        name = 'data'
        def __iter__(self): return iter(range(9))
        def __len__(self): return 9
        def size(self): return len(self)
    said = []
    for at, x in enumerate(data if (data := Data()) else ()):
        said.append(x)
    """
    marked = Marked(text, Place(FILE, "<module>", (0,)), cut=4, header="data")
    assert marked.said == [0, 1, 2, 3]
    cut = builtins._outpace_cut("0", marked.names["data"])  # type: ignore[attr-defined]
    assert (len(cut), cut.name, cut.size()) == (4, "data", 9)


@pytest.mark.parametrize("header", ["x < 5", "True"])
def test_a_loop_with_a_condition(header: str) -> None:
    text = """
    said, x = [], 0
    while HEADER:
        x += 1
        if x == 3: continue
        if x == 6: break
        said.append(x)
    else:
        said.append('else')
    """.replace("HEADER", header)
    place = Place(FILE, "<module>", (0,))
    marked = Marked(text, place)
    assert marked.said == plain(text)
    assert marked.told[:3] == [("0", 1, 1), ("0", 1, 2), ("0", 1, 4)] and marked.told[-1] == ("0", 1, END)
    assert Marked(text, place, cut=2).passes.passes == {"0": 2}


def test_a_loop_with_a_condition_that_is_entered_again_counts_anew() -> None:
    text = """
    said = []
    for epoch in range(2):
        x = 0
        while x < 4:
            x += 1
            if x == 2 and epoch == 0: break
            said.append((epoch, x))
    """
    marked = Marked(text, Place(FILE, "<module>", (0, 0)))
    assert marked.said == plain(text)
    assert marked.told == [
        *(("0.0", 1, 1), ("0.0", 1, END), ("0", 1, 1)),
        *(("0.0", 2, 1), ("0.0", 2, 2), ("0.0", 2, 4), ("0.0", 2, END), ("0", 1, 2), ("0", 1, END)),
    ]


BRANCHES = """\
def main(x):
    if x > 1:
        said = 'many'
    elif x:
        said = 'one'
    else:
        said = 'none'
    try:
        1 / x
    except ZeroDivisionError:
        said += ', by zero'
    if x == 7: said = 'seven'
    return said
said = [main(x) for x in VALUES]
"""


@pytest.mark.parametrize(("values", "ran"), [((2,), [3]), ((1,), [5]), ((0,), [7, 11]), ((0, 1, 2, 7), [3, 5, 7, 11, 12])])
def test_the_branches_that_ran(values: tuple[int, ...], ran: list[int]) -> None:
    text = BRANCHES.replace("VALUES", repr(values))
    marked = Marked(text, Place("/other.py", "main", (0,)))
    assert marked.said == plain(text) and marked.lines == [2, *ran], "functions are told of as well"
    assert branches_of(ast.parse(text)) == {3, 5, 7, 11, 12}


def test_docstrings_and_imports_of_the_future_stay_first() -> None:
    text = '"""What it is."""\nfrom __future__ import annotations\nfor x in range(2):\n    said = __doc__\n'
    marked = Marked(text, Place(FILE, "<module>", (0,)))
    assert marked.said == "What it is."


@pytest.mark.parametrize("items", ["range(3)", "(named := range(3))"])
def test_a_loop_without_an_end_begins_again_with_items_that_are_made_anew(items: str) -> None:
    """As races run it: a function gives what the loop goes over, and its names to the script."""
    text = f"for x in {items}:\n    said.append(x)\n    " + ("assert len(named) == 3\n" if "named" in items else "pass\n")
    tree = instrumented(ast.parse(text), FILE, Place(FILE, "<module>", (0,)), endless=True)
    said: list[int] = []

    def again(key: str, make: Callable[[], Any]) -> Iterator[Any]:
        assert key == "0"
        yield from itertools.chain(make(), make())

    install(pass_=again, enter=lambda key: None, left=lambda key: None, ran=lambda file, line: None)
    exec(compile(tree, FILE, "exec"), {"said": said})
    assert said == [0, 1, 2, 0, 1, 2]


def test_other_loops_and_files_have_no_marks() -> None:
    text = "for x in a: pass\nfor y in b: pass\n"
    marked = Marked(text, Place(FILE, "<module>", (1,)), run=False)
    assert marked.text.splitlines()[0] == "for x in a:" and "_outpace_pass('1', _outpace_cut('1', b))" in marked.text
    assert "_outpace" not in Marked(text, Place("/other.py", "<module>", (1,)), header="b", run=False).text


def test_what_an_edit_puts_behind_a_loop_belongs_to_it() -> None:
    text = """\
kept, said = [], []
for at in range(2):
    kept.append(at)
for each in kept:
    said.append(each)
late = list(said)
"""
    seen: list[int] = []
    place = Place(FILE, "<module>", (0,))
    for lines, known in ((None, 0), ({1: 1, 2: 2, 5: 3, 6: 4}, 2)):
        marked = Marked(text, place, run=False, lines=lines)
        marked.passes.passed = lambda key, entry, passes, frame: (
            seen.append(len(frame.f_locals["said"])) if passes == END else None
        )
        exec(compile(ast.parse(marked.text), FILE, "exec"), marked.names)
        assert seen.pop() == known and not seen
