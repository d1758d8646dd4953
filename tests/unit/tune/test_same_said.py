"""What a script's own code tells."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from types import CodeType

import pytest

from outpace.tune.same.said import Said

LIBRARY = compile("""
import logging, sys, warnings
def tell():
    print("1 of 5, 3 it/s")
    print("theirs", file=sys.stderr)
    logging.warning("theirs")
    warnings.warn("theirs", stacklevel=1)
""", "library.py", "exec")  # fmt: skip


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    """Of this file's code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for owner, name in ((logging.Logger, "handle"), (sys, "stdout"), (sys, "stderr"), (warnings, "showwarning")):
            monkeypatch.setattr(owner, name, getattr(owner, name))
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **kwargs: None)  # else pytest tells them
        yield Said(lambda file: file == __file__)


def _run(code: CodeType) -> None:
    names: dict[str, object] = {}
    exec(code, names)
    names["tell"]()  # type: ignore[operator]


def test_what_the_script_tells_is_heard_and_what_libraries_tell_is_not(said: Said) -> None:
    said.begin()
    _run(LIBRARY)
    print("mine on stderr", file=sys.stderr)
    logging.getLogger("x").warning("loss %.1f", 0.5)
    warnings.warn("mine", stacklevel=1)
    assert said.lines == ("WARNING loss 0.5", "UserWarning mine", "mine on stderr")


def test_lines_of_its_own_are_told_from_a_librarys(said: Said) -> None:
    said.begin()
    _run(LIBRARY)
    print("2 of 5,", "4 it/s")
    assert said.printed == {"2 of 5, 4 it/s"}
