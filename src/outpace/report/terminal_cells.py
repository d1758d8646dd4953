# SPDX-License-Identifier: Apache-2.0
"""Text of a column in a small width: names lose the parts that they share with others, and are
broken at their joints; parts that differ are never cut.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rich.cells import cell_len

from outpace._lazy import compile_lazily
from outpace.model.text import ELLIPSIS, elide, shorten

_TREE = " └"  # prefix of a name in a tree
_SCOPE = compile_lazily(r"[/ ,:;<(]")
_WORD = compile_lazily(r"[_.\-)\]>=]|[a-z0-9](?=[A-Z])")
_PHRASE = compile_lazily(r"[^/:<_ ]+(?: [^/:<_ ]+)+")  # words, where a name has joints
_ONE_WORD = compile_lazily(r"[A-Za-z]?[a-z]+")
_PLACE = compile_lazily(r"\S*/([^/\s]+:[0-9]+)")  # line of a file; its folder seldom distinguishes it from another
_SCOPED = compile_lazily(r"[/:<]")  # a name with parts that may be shared with other names
MAX_LINES = 8
"""Maximum lines of one cell: no real name needs more, but a profile may contain names of any
length.
"""


def truncate(text: str, width: int) -> str:
    """Cut `text` in the middle so that it takes at most `width` terminal cells."""
    if cell_len(text) <= width:
        return text
    short = shorten(text, width)
    if cell_len(short) <= width:
        return short
    # wide (CJK) characters take two cells each, so both halves are cut by cells
    head = (width - 1) // 2
    return _first(text, head) + ELLIPSIS + _first(text[::-1], width - 1 - head)[::-1]


def longest_word_width(cells: Sequence[str]) -> int:
    """Return the width in cells of the longest word among the words and phrases of a column, which
    have no joint at which they could be broken.
    """
    phrases = (cell.split() for cell in cells if _PHRASE.fullmatch(cell.strip()) or _ONE_WORD.fullmatch(cell))
    return max((cell_len(word) for words in phrases for word in words), default=0)


@functools.lru_cache(maxsize=2048)
def max_line_count(cells: tuple[str, ...], width: int, prose: bool) -> int:
    """Return the number of lines of the highest cell of a column."""
    return max(map(len, wrap_cells(cells, width, prose)), default=0)


def is_prose(cells: Sequence[str]) -> bool:
    """Whether a column contains sentences, of which every word is significant."""
    return any(cell.endswith(".") and " " in cell for cell in cells)


def wrap_cells(cells: Sequence[str], width: int, prose: bool) -> list[list[str]]:
    """Return the cells of one column in lines of at most `width` cells: in one line where only
    shared parts of names are lost, else in several.
    """
    heads = [cell[: len(cell) - len(cell.lstrip(_TREE))] for cell in cells]
    names = [cell[len(head) :] for cell, head in zip(cells, heads, strict=True)]
    phrases = [prose or bool(_PHRASE.fullmatch(name)) for name in names]
    room = max(4, width - max(map(len, heads), default=0))
    short, longer = _elide_names(names, phrases, room), _elide_names(names, phrases, 2 * room - 2)
    wrapped = []
    for head, one, two, phrase in zip(heads, short, longer, phrases, strict=True):
        line_room = max(1, width - len(head))
        lines = _break_text(one if cell_len(one) <= line_room else two, line_room, phrase)
        if len(lines) > MAX_LINES and not phrase:
            lines = _break_text(truncate(two, line_room * MAX_LINES // 2), line_room, phrase)
        wrapped.append([(" " * len(head) if at else head) + line for at, line in enumerate(lines)])
    return wrapped


def _elide_names(names: Sequence[str], phrases: Sequence[bool], width: int) -> list[str]:
    """Return the names without their shared parts, as far as the width requires; phrases and shapes
    are not shortened.
    """
    scoped = [not phrase and bool(_SCOPED.search(name)) for name, phrase in zip(names, phrases, strict=True)]
    short = iter(elide([name for name, may in zip(names, scoped, strict=True) if may], width, cut=False))
    places = _places({name for name in names if len(name) > width})
    return [places.get(name, next(short) if may else name) for name, may in zip(names, scoped, strict=True)]


def _places(names: set[str]) -> dict[str, str]:
    """Return source locations without their folders, by the full location; empty where two files of
    the same name are among them.
    """
    places = {name: f"{ELLIPSIS}/{place[1]}" for name in names if (place := _PLACE.fullmatch(name))}
    return places if len(set(places.values())) == len(places) else {}


def _break_text(text: str, width: int, phrase: bool) -> list[str]:
    """Return a text in lines: phrases are broken between words, names after a joint, preferably
    that of a scope if no line becomes half empty.
    """
    lines = []
    while cell_len(text) > width:
        head = _first(text, width) or text[:1]
        end = len(head) if text[len(head)] == " " else _joint(head, phrase)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def _joint(head: str, phrase: bool) -> int:
    """Return the position at which to end a line that can contain `head`, before further text."""
    if phrase:
        return head.rfind(" ") + 1 or len(head)
    for joint, least in ((_SCOPE, len(head) // 2), (_WORD, len(head) // 2), (_SCOPE, 1), (_WORD, 1)):
        ends = [match.end() for match in joint.finditer(head) if match.end() >= least]
        if ends:
            return ends[-1]
    return len(head)


def _first(text: str, width: int) -> str:
    """Return the longest prefix of a text that fits into `width` cells."""
    head = text[: max(width, 0)]
    while cell_len(head) > width:
        head = head[:-1]
    return head
