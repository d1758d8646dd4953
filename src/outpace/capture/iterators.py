"""The one door to TensorFlow's iterator class, which is private."""

from __future__ import annotations

import sys
from typing import Any


def iterator_class() -> Any:
    """The class of `iter(dataset)`, found through its module and not by making a data set; None
    where this TensorFlow has none.
    """
    return getattr(sys.modules.get("tensorflow.python.data.ops.iterator_ops"), "OwnedIterator", None)
