"""The largest parts of a sum, and the rest as one."""

from __future__ import annotations

from collections.abc import Mapping

_MOST = 10
REST_LABEL = "all others"


def top_slices(sums: Mapping[str, int]) -> list[tuple[str, int]]:
    """The ten largest of `sums` (label to size), largest first, and what is left as "all others";
    nothing where they sum to nothing.

    Parts of equal size keep their order.
    """
    ranked = sorted(sums.items(), key=lambda item: -item[1])
    rest = sum(size for _, size in ranked[_MOST:])
    found = [*ranked[:_MOST], *([(REST_LABEL, rest)] if rest else [])]
    return found if any(size for _, size in found) else []
