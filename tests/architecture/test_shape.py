"""Sizes and separation of the sources. Exceptions are listed with their reason, and the lists only
shrink.
"""

from __future__ import annotations

import ast
import re

import pytest

from outpace.tools import discover_tools
from tests.architecture.source import FILES, SOURCE, functions, imported, literals, place, tree

LONGEST_FUNCTION = 60

LONG_FUNCTIONS: dict[str, str] = {}
OTHER_MEANINGS = {
    ("timeline/event_names.py", "tf_data"): "prefix of the names that TensorFlow gives its input threads",
    ("cli/__init__.py", "explain"): "name of a command",
    ("metrics/facts/workload.py", "inference"): "what a program does that predicts",
    ("timeline/gradients.py", "inference"): "a word in the names of functions",
}


def test_functions_are_short() -> None:
    long = {name for path in FILES for name, length in functions(path) if length > LONGEST_FUNCTION}
    assert long == set(LONG_FUNCTIONS)


OWN_JSON = {
    "capture/options.py": "what a capture hands to its process, and back",
    "capture/remote/ray_.py": "what workers of Outpace's register at Ray",
    "doctor/facts.py": "what a probe says",
    "doctor/trial.py": "what a trial capture says",
    "mcp/dry_run.py": "what a dry run prints",
    "model/files.py": "the one that reads what comes from elsewhere",
    "tune/edited.py": "a plan",
    "tune/hosted.py": "a plan",
    "tune/same/plan.py": "a plan",
    "tune/starts/server.py": "a plan, and requests of the parent",
    "tune/trial/plan.py": "a plan",
}


def test_json_from_elsewhere_is_read_in_one_place() -> None:
    """JSON that is nested deeply raises no ValueError where it is read: `model.files.parse_json`
    makes one of it. What reads its own process' JSON is listed.
    """
    reads = {
        place(p)
        for p in FILES
        for node in ast.walk(tree(p))
        if isinstance(node, ast.Attribute) and node.attr in ("load", "loads") and ast.unparse(node.value) in ("json", "jsonlib")
    }
    assert reads == set(OWN_JSON)


def test_a_module_that_is_run_is_whole_by_then() -> None:
    """What is defined behind `if __name__ == "__main__"` is not there where the module is run."""
    cut = {
        place(p)
        for p in FILES
        for each in tree(p).body[:-1]
        if isinstance(each, ast.If) and "__main__" in ast.unparse(each.test)
    }
    assert cut == set()


def test_no_exception_is_asked_for_its_truth() -> None:
    """An exception is true whatever it says: `error or 'no reason'` never gives the second. Its
    text may be empty.
    """
    asked = {
        f"{place(p)}:{test.lineno}"
        for p in FILES
        for handler in ast.walk(tree(p))
        if isinstance(handler, ast.ExceptHandler) and handler.name
        for node in ast.walk(handler)
        for test in (
            node.values if isinstance(node, ast.BoolOp) else [node.test] if isinstance(node, (ast.If, ast.IfExp)) else []
        )
        if isinstance(test, ast.Name) and test.id == handler.name and test is not getattr(node, "values", [None])[-1]
    }
    assert asked == set()


@pytest.mark.parametrize("tool", [t.id for t in discover_tools()])
def test_a_tool_is_named_in_its_own_folder_only(tool: str) -> None:
    """Nothing outside may know a tool: adding or removing one touches one folder. Where a tool
    refers to a table of another, a report without that one has no link.
    """
    word = re.compile(rf"(?<!\w){re.escape(tool)}(?!\w)")
    named = word.search if "_" in tool else word.fullmatch  # one word alone may be plain English inside a sentence
    elsewhere = [p for p in FILES if not place(p).startswith(f"tools/{tool}/")]
    reference = re.compile(rf"{re.escape(tool)}\.[a-z_]+")
    users = {
        place(p)
        for p in elsewhere
        if any(named(text) and not (place(p).startswith("tools/") and reference.fullmatch(text)) for text in literals(p))
    }
    assert users == {file for file, meant in OTHER_MEANINGS if meant == tool}, (
        f"`{tool}` is a text in these files: choose another id for the tool, of two words joined by `_`"
    )


def test_no_tool_imports_a_tool() -> None:
    folders = {p.parent.name for p in SOURCE.glob("tools/*/__init__.py")}
    assert folders
    for path in FILES:
        parts = place(path).split("/")
        own = parts[1] if parts[0] == "tools" and len(parts) > 2 else None
        others = tuple(f"outpace.tools.{name}" for name in folders - {own})
        wrong = [m for m in imported(path) if m.startswith(others) and (m + ".").startswith(tuple(o + "." for o in others))]
        assert not wrong, f"{place(path)} imports {wrong}"
