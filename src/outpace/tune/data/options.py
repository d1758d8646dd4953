"""A pipeline with one option changed, and all others kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def with_option(dataset: Any, change: Callable[[Any], None]) -> Any:
    """The data set with an options stage behind it; `change` sets what differs on fresh `tf.data.Options`, the others are inherited."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    options = tf.data.Options()
    change(options)
    return dataset_ops._OptionsDataset(dataset, options)
