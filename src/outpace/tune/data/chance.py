"""The random numbers of Python and NumPy, which generators and Python functions of a pipeline draw."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def chance_kept(seed: int | None = None) -> Iterator[None]:
    """Put the random numbers of Python and NumPy back at the end; inside they begin from a seed where one is given."""
    numpy = sys.modules.get("numpy")
    state, other = random.getstate(), numpy.random.get_state() if numpy is not None else None
    try:
        if seed is not None:
            random.seed(seed)
            if numpy is not None:
                numpy.random.seed(seed)
        yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(other)
