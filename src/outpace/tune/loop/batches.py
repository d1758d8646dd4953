"""What a patch writes into a file of the user's, word for word: batches in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np


def in_groups(
    items: Iterable[Any], size: int, used: int, ends: Callable[[Any, int], bool] | None = None
) -> Iterator[tuple[list[Any], Any]]:
    """Lists of `size` items, each with a stack of their first `used` parts; None for a stack where items are fewer, or of several shapes.

    ends: whether a list ends with an item, the n-th of it.
    """
    items = iter(items)
    while True:
        group = []
        for item in items:
            group.append(item)
            if len(group) == size or (ends is not None and ends(item, len(group))):
                break
        if not group:
            return
        parts = [item[:used] for item in group]
        shapes = {tuple((np.shape(leaf), np.result_type(leaf)) for leaf in jax.tree.leaves(part)) for part in parts}
        alike = len(group) == size and len(shapes) == 1
        yield group, jax.tree.map(lambda *leaves: np.stack(leaves), *parts) if alike else None


def each_of(results: Any, count: int) -> list[Any]:
    """The results of each of so many steps, of a stack of them."""
    leaves, form = jax.tree.flatten(jax.device_get(results))
    return [jax.tree.unflatten(form, [leaf[at] for leaf in leaves]) for at in range(count)]
