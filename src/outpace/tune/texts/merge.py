# SPDX-License-Identifier: Apache-2.0
"""Edits of one text put together, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from outpace.tune.texts.load import source_of

Texts = Mapping[str, str]  # by absolute path of the file that each stands in for


def merged(base: Texts, one: Texts, two: Texts) -> dict[str, str] | None:
    """The texts with what `one` and `two` each change of `base`; None where both change the same
    lines. A file that texts do not hold is as it is.
    """
    found = {}
    for path in {*one, *two}:
        texts = [held.get(path) for held in (base, one, two)]
        if None in texts:
            texts = [source_of(path) if text is None else text for text in texts]
        made = _merged(*(str(text).splitlines(keepends=True) for text in texts))
        if made is None:
            return None
        found[path] = "".join(made)
    return found


def _merged(base: Sequence[str], one: Sequence[str], two: Sequence[str]) -> list[str] | None:
    edits = sorted({*_edits(base, one), *_edits(base, two)})
    made, at = list[str](), 0
    for index, (first, last, new) in enumerate(edits):
        before = edits[index - 1] if index else None
        if before is not None and (first < before[1] or (first, last) == before[:2]):
            return None
        made += [*base[at:first], *new]
        at = last
    return [*made, *base[at:]]


def _edits(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, tuple[str, ...]]]:
    """First and last line of `old`, and what stands there in `new`."""
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(i, j, tuple(new[k:m])) for tag, i, j, k, m in codes if tag != "equal"]
