# SPDX-License-Identifier: Apache-2.0
"""Shortening of names for small spaces so that they remain distinguishable."""

from __future__ import annotations

from collections.abc import Iterable

from outpace._lazy import compile_lazily

_WORD = compile_lazily(r"(?:[A-Za-z]+|[0-9]+)\Z")
# minimum number of characters for the head of a name to be meaningful; `flame_tree.js` has the same
# constant
_LEAST = 4


def shorten_name(name: str, others: Iterable[str], room: int) -> str:
    """Return a name shortened to `room` characters: cut where it agrees with the names in `others`,
    never where it differs; "" where that does not fit.
    """
    if len(name) <= room:
        return name
    if room < 2:
        return ""
    same = max((common_prefix_length(name, other) for other in others if other != name), default=0)
    if room >= _LEAST and room - 1 > same:
        return name[: room - 1] + "…"
    word = _WORD.search(name[:same])
    begin = word.start() if word else same  # beginning of the word in which the names differ
    if begin and len(name) - begin + 1 <= room:
        return "…" + name[begin:]
    end = begin + room - 2
    if begin and room > _LEAST and end > same and not name[end].isdecimal():
        return "…" + name[begin:end] + "…"
    return ""


def common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two names."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
