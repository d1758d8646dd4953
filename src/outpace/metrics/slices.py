# SPDX-License-Identifier: Apache-2.0
"""The largest parts of a sum, with the remainder as one part: the slices of a pie chart."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 10
REST_LABEL = "all others"


def top_slices(labels: Iterable[str], sizes: Iterable[int]) -> list[tuple[str, int]]:
    """Return the ten largest items of `sums` (label to size), largest first, and the rest as one
    item.

    The rest is labelled "all others" and left out where it is 0. Items of equal size keep their
    order. The result is empty where all sizes are 0.
    """
    sums: dict[str, int] = {}
    for label, size in zip(labels, sizes, strict=True):
        sums[label] = sums.get(label, 0) + size
    ranked = sorted(sums.items(), key=lambda item: -item[1])
    rest = sum(size for _, size in ranked[_MOST:])
    items = [*ranked[:_MOST], *([(REST_LABEL, rest)] if rest else [])]
    return items if any(size for _, size in items) else []
