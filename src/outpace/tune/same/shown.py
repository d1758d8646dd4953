# SPDX-License-Identifier: Apache-2.0
"""Which passes of a loop are made where it is cut: the first, those around numbers that its text
names, and the last. Of a loop around it all are made where these are not too many, with few of the
innermost loop: what a program changes from epoch to epoch is seen so.

Of the other passes the items are drawn and the loop's body is left out, in both texts alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass

FEW = 8  # passes of the innermost loop, from the third time on that it is entered
OUTER = 2  # first passes of a loop around it that has too many
MOST_ENTRIES = 64  # passes of a loop around it that has them all made
DRAWING = 40.0  # seconds that this may take to draw items
MOST_SPANS, MOST_OUTER = 8, 3  # around numbers, of the innermost loop and of one around it
FULL = 2  # entries of a loop of which all is shown
Span = tuple[int, int]


@dataclass(frozen=True)
class Items:
    """How many items a loop's iterable gave in one run of it. ended: whether these are all.
    seconds: that drawing them took.
    """

    count: int
    ended: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class Shown:
    """What is shown of loops. first: passes of the innermost loop, 0 for all of every loop. every:
    passes of a group. numbers: that the texts name. items: by loop what its runs gave, as far as it
    was tried.
    """

    first: int
    every: int = 1
    numbers: tuple[int, ...] = ()
    items: Mapping[str, Sequence[Items]] = field(default_factory=dict)

    def near(self, number: int) -> bool:
        """Whether a pass, by its number from 1, ends a group with one that the texts name, from 0
        or 1 on.
        """
        return any(-(-(each + 1) // self.every) * self.every == number for each in self.numbers)

    def end(self, key: str, entry: int) -> int | None:
        """How many items a run of a loop has; None where it is left behind the last
        that is shown.
        """
        runs = self.items.get(key, ())
        found = runs[min(entry, len(runs)) - 1] if runs else None
        return found.count if found is not None and found.ended else None

    def spans(self, key: str, entry: int, inner: bool) -> tuple[Span, ...]:
        """Passes that are made in a run of a loop, as from and to; inner: whether it is the
        innermost loop.
        """
        every = self.every if inner else 1
        first = self._first(key, entry, inner)
        runs = self.items.get(key, ())
        found = runs[min(entry, len(runs)) - 1] if runs else Items(first, False)
        numbers = [each for each in self.numbers if entry <= FULL or not inner]
        spans = [(0, first), *_around(numbers, first, found.count, every, MOST_SPANS if inner else MOST_OUTER)]
        if found.ended:
            last = (found.count - 1) // every * every - (every if every > 1 else 1)
            spans.append((max(last, 0), found.count))
            if 2 * first >= found.count if inner else self._affordable(key, found.count):
                return ((0, found.count),)
        return _merged([(start, min(end, found.count) if found.ended else end) for start, end in spans])

    def run(self, key: str, entry: int, inner: bool) -> tuple[Span, ...]:
        """Passes that are made in a run of a loop of the script's own: one run of the innermost one
        ends without most of its last group, so that what an edit does with an incomplete group is
        seen, too; but not where the loop is entered once and shown as a whole.
        """
        spans = self.spans(key, entry, inner)
        made, (start, end) = sum(end - start for start, end in spans), spans[-1]
        nested = "." in key
        whole = not nested and made == self.end(key, entry)
        incomplete = made < self.every or made % self.every
        if not inner or self.every == 1 or incomplete or entry != (FULL if nested else 1) or whole:
            return spans
        return (*spans[:-1], (start, end - self.every + 1))

    def _affordable(self, key: str, count: int) -> bool:
        """Whether a loop around others has all of its passes made."""
        inside = [runs[-1] for other, runs in self.items.items() if other != key and not key.startswith(f"{other}.")]
        small = count <= MOST_ENTRIES and count * self.every <= FULL * max(self.first, 1)
        return small and count * sum(each.seconds for each in inside) <= DRAWING

    def _first(self, key: str, entry: int, inner: bool) -> int:
        if not inner:
            return OUTER
        if entry > FULL:
            around = self.end(key.rpartition(".")[0], 1) or FULL
            few = min(FEW, FULL * self.first // around)
            return min(self.first, max(-(-few // self.every), 1) * self.every)
        near = max((each for each in self.numbers if each + 2 <= 2 * self.first), default=0)
        return max(self.first, -(-(near + 2) // self.every) * self.every if near else 0)


def _around(numbers: Sequence[int], first: int, reached: int, every: int, most: int) -> Iterator[Span]:
    """What lies around numbers that the first passes do not reach, in whole groups: the last pass
    before, and what follows it.
    """
    later = [each for each in numbers if first < each + 2 and each < reached]
    for each in later[:most]:
        yield (each - 1) // every * every, -(-(each + 2) // every) * every


def _merged(spans: Sequence[Span]) -> tuple[Span, ...]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return tuple(found)


def number_of(spans: Sequence[Span], made: int) -> int:
    """The number, from 1, of the pass that is made as the n-th."""
    for start, end in spans:
        if made <= end - start:
            return start + made
        made -= end - start
    return (spans[-1][1] if spans else 0) + made


def said(spans: Sequence[Span], end: int | None) -> str:
    """Passes in words, numbered from 1."""
    parts = [f"{start + 1}-{stop}" if stop - start > 1 else str(stop) for start, stop in spans]
    return ", ".join(parts) + ("" if end is None else f" of {end}")


_MOST_MEMBERS = 16  # of a container
_COUNTED = (ast.Mod, ast.FloorDiv)
_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip


def numbers_of(tree: ast.AST, names: Mapping[str, Any]) -> list[int]:
    """Whole numbers, smallest first, that a text compares something with, divides it by without a
    rest, takes it modulo, or looks something up by, also where a small container holds them; names:
    the values of what it writes them by.
    """
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            sides = [each for each in node.keys if each is not None]
        elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            sides = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            sides = [node.func.value]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _COUNTED):
            sides = [node.right]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, _COUNTED):
            sides = [node.value]
        else:
            continue
        for side in sides:
            members = side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
            found.update(*(_numbers(each, names) for each in members))
    return sorted(found)


def _numbers(node: ast.expr, names: Mapping[str, Any]) -> set[int]:
    if not all(isinstance(each, _EXPRESSIONS) for each in ast.walk(node)):
        return set()
    try:
        found = eval(compile(ast.Expression(node), "<number>", "eval"), {"__builtins__": {}}, dict(names))
    except Exception:  # a name that is not there yet, and whatever an object of the user's raises
        return set()
    members = found if isinstance(found, (dict, list, tuple, set, frozenset)) and len(found) <= _MOST_MEMBERS else (found,)
    return {
        int(each)
        for each in members
        if isinstance(each, (int, float)) and not isinstance(each, bool) and each >= 1 and float(each).is_integer()
    }
