"""The slices of a pie: the largest parts of a sum, and the rest as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outpace.model import Field, Table

_MOST = 10
OTHERS = "all others"


def slices(sums: Mapping[str, int], name: str, title: str, fields: Sequence[Field]) -> Table | None:
    """The ten largest of `sums` (label to size), largest first, and what is left as "all others"; None when they sum to nothing.

    `fields` describe the two columns, label and size. Parts of equal size keep their order.
    """
    ranked = sorted(sums.items(), key=lambda item: -item[1])
    rest = sum(size for _, size in ranked[_MOST:])
    rows = [*ranked[:_MOST], *([(OTHERS, rest)] if rest else [])]
    return Table.from_rows(name, title, fields, rows) if any(size for _, size in rows) else None
