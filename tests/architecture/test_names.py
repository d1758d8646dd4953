"""Names of packages, files, classes and public functions keep to the field's words.

`tune/` has its old names until it is cut.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import FILES, place, tree

OUT = re.compile(
    "aside|beside|among|alike|apart|kept|keeps|held|holds|told|tell|tells|said|say|says|seen|taker|given|gone|later|"
    "hosted|remade|joined|twin|odd|every|each|awaited|patience|judged|knob|arm|climb|lane|shown|taken|made|found"
)
"""Words that name no thing of the field: participles, relations, and words of our own."""
PUBLIC = {
    "_native/__init__.py:MadeSlicesStruct": "the core's own name of it, `ox_made_slices`",
    "model/errors.py:NotFoundError": "a file that was not found, as Python names it",
    "api.py:made": "asked for by its name in 0.2",
    "metrics/facts/missing_steps.py:later_capture_command": "the command of a capture that begins later",
    "metrics/savings/best_case.py:taken_ps": "the time that ops took",
    "capture/session.py:shown_path": "the path as the screen shows it",
}
"""Names with such a word that stay, with the reason."""


def words(name: str) -> list[str]:
    """The words of an identifier in snake or camel case, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def names(path: str, module: ast.Module) -> Iterator[str]:
    """The names of a file and its folders, and of its public classes, functions and methods."""
    yield from path.removesuffix(".py").split("/")
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name
            inner = node.body if isinstance(node, ast.ClassDef) else []
            yield from (item.name for item in inner if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"))


def out(path: str, module: ast.Module) -> list[str]:
    """Which names of a file hold a word that is out."""
    return [f"{path}:{name}" for name in names(path, module) if any(map(OUT.fullmatch, words(name)))]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("trace/kept.py", ""),
        ("told/file.py", ""),
        ("a.py", "class Seen: ..."),
        ("a.py", "def rows_among(rows): ..."),
        ("a.py", "class Run:\n    def held(self): ..."),
        ("a.py", "class HeldUp: ..."),
    ],
)
def test_a_word_that_is_out_is_found(path: str, text: str) -> None:
    assert out(path, ast.parse(text))


@pytest.mark.parametrize(
    "text", ["def rows(): ...", "class Armature: ...", "def _kept(): ...", "class Run:\n    def _told(self): ..."]
)
def test_other_words_are_not(text: str) -> None:
    assert not out("trace/columns.py", ast.parse(text))


def test_names_keep_to_the_fields_words() -> None:
    files = {place(path): path for path in FILES if not place(path).startswith("tune/")}
    assert {name for at, path in files.items() for name in out(at, tree(path))} == set(PUBLIC), "see CONTRIBUTING, Names"
