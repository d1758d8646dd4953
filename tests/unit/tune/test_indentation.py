"""Source that is moved to another indentation stays the same program, strings of several lines
included.
"""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

import outpace
from outpace.tune.texts.indentation import dedent_code, indent_code

FILES = sorted(Path(outpace.__file__).parent.rglob("*.py"))[::4]
LINES = '''\
note = """step
{} of 60""".format(i)
    # a comment that stands by itself
said = f"""{note}
  two {
      note!r} three
\t"""
total = (note +
  said)
'''


def first_inside(text: str) -> str:
    """The first statement inside of the first one, as its tree."""
    node = ast.parse(text).body[0]
    assert isinstance(node, (ast.For, ast.If))
    return ast.dump(node.body[0])


@pytest.mark.parametrize("margin", ["    ", "\t", " " * 12])
def test_strings_of_several_lines_stay_as_they_are(margin: str) -> None:
    moved = indent_code(LINES, margin)
    assert first_inside(f"for i in x:\n{moved}") == ast.dump(ast.parse(LINES).body[0])
    assert all(line in moved.splitlines() for line in ('{} of 60""".format(i)', '\t"""'))
    assert ast.dump(ast.parse(dedent_code(moved))) == ast.dump(ast.parse(LINES))
    assert textwrap.dedent(moved) == moved, "a string's line at the left is what misleads it"


def test_what_is_only_a_part_of_a_statement_is_moved_as_well() -> None:
    assert indent_code("x = (1,\n2", "  ") == "  x = (1,\n  2"
    assert dedent_code("    x = (1,\n    2") == "x = (1,\n2"
    assert dedent_code('        a = 1\n    s = """q\n  r"""\n') == '    a = 1\ns = """q\n  r"""\n'
    assert indent_code('x = "a\u2028b"\n\x0c\ns = """a\nb"""\n', " ") == ' x = "a\u2028b"\n\x0c\n s = """a\nb"""\n'
    assert (indent_code("", "  "), dedent_code("\n  \n")) == ("", "\n  \n")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_function_of_a_file_is_the_same_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list:
            own = "".join(lines[node.lineno - 1 : node.end_lineno])
            assert ast.dump(ast.parse(dedent_code(own)).body[0]) == ast.dump(node)
            assert first_inside("if x:\n" + indent_code(dedent_code(own), "   ")) == ast.dump(node)
