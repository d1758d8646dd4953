"""A pattern that is compiled on first use is as the standard library's."""

from __future__ import annotations

import re

import pytest

from outpace._lazy import compile_lazily


def test_it_finds_what_the_pattern_finds() -> None:
    lazy, plain = compile_lazily(r"(?P<name>[a-z]+)\d", re.IGNORECASE), re.compile(r"(?P<name>[a-z]+)\d", re.IGNORECASE)
    assert (lazy.pattern, lazy.groups) == (plain.pattern, plain.groups)
    for text in ("Ab1 c2", "none", ""):
        assert lazy.findall(text) == plain.findall(text)
        assert lazy.sub(r"<\g<name>>", text) == plain.sub(r"<\g<name>>", text)
    assert compile_lazily(rb"\x80[\x02-\x05]").match(b"\x80\x04") is not None


def test_an_error_shows_on_first_use() -> None:
    lazy = compile_lazily("(")
    with pytest.raises(re.error):
        lazy.match("")
