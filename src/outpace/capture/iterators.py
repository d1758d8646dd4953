"""The only access to TensorFlow's iterator class, which is private."""

from __future__ import annotations

import sys
from typing import Any


def iterator_class() -> Any:
    """Return the class of `iter(dataset)`; None where this TensorFlow has none.

    It is looked up in its module, so that no data set has to be made.
    """
    return getattr(sys.modules.get("tensorflow.python.data.ops.iterator_ops"), "OwnedIterator", None)
