"""Edited lines that did not run."""

from __future__ import annotations

import ast

import pytest

from outpace.tune.same.unrun import unrun

TEXT = """\
def used():
    if a:
        one()
    elif b:
        two()
    else:
        three()

def unused():
    four()

try:
    used()
except ValueError:
    five()
"""


@pytest.mark.parametrize(
    ("ran", "lines"),
    [({2}, [3, 5, 7, 10, 15]), ({2, 3}, [5, 7, 10, 15]), ({2, 5, 7, 10, 15}, [3]), (set(), [2, 3, 4, 5, 7, 10, 15])],
)
def test_branches_and_functions(ran: set[int], lines: list[int]) -> None:
    assert unrun(ast.parse(TEXT), set(range(1, 20)), ran) == lines
    assert unrun(ast.parse(TEXT), {1, 3, 13}, ran) == [each for each in lines if each == 3]
