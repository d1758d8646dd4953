# SPDX-License-Identifier: Apache-2.0
"""What `fit` reads: one door for all that Keras accepts, through Keras' own adapters."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Mapping
from typing import Any

from outpace.frameworks.keras import EPOCH_ITERATOR, SPLIT_VALIDATION
from outpace.model.errors import UsageError
from outpace.tune.reason import reason_of


class Source:
    """The input of one `fit`. own: whether it is the user's own tf.data pipeline. generator:
    whether it is one of Python's, which can be read only once. py_dataset: where it is one of
    Keras.
    """

    def __init__(self, x: Any, arguments: Mapping[str, Any]) -> None:
        tf, keras = sys.modules.get("tensorflow"), sys.modules.get("keras")  # Keras on JAX imports the first where it needs it
        self._x, self._arguments = x, arguments
        self.own = tf is not None and isinstance(x, tf.data.Dataset)
        self.generator = isinstance(x, types.GeneratorType)
        self.py_dataset = x if keras is not None and isinstance(x, keras.utils.PyDataset) else None

    @property
    def dataset(self) -> Any:
        """A data set of its batches, read anew by each iterator but those of a generator. Raises
        UsageError where Keras makes none.
        """
        if self.own:
            return self._x
        try:
            adapter = self._adapter()
            with contextlib.suppress(AttributeError):  # Keras before 3.5
                adapter.on_epoch_begin()
            return adapter.get_tf_dataset()
        except Exception as error:
            kind = type(self._x).__name__
            raise UsageError(
                f"Keras makes no batches of this input, a {kind}: {reason_of(error)}. Does the training run without Outpace?"
            ) from error

    @property
    def spare(self) -> Any:
        """The first batch; None for a generator. Raises UsageError where there is none."""
        if self.generator:
            return None
        try:
            first = self.py_dataset[0] if self.py_dataset is not None else next(iter(self.dataset.take(1)), None)
        except UsageError:
            raise
        except Exception as error:  # the script would meet it in its own first step
            raise UsageError(f"The input fails before its first batch: {reason_of(error)}.") from error
        if first is None:
            raise UsageError("The data set is empty, so there is no step to measure.")
        return first

    @property
    def batches(self) -> int | None:
        """Batches in one epoch, None where they are not known, or without end. A generator is not
        asked.
        """
        if self.generator:
            return None
        found = int(self._x.cardinality()) if self.own else self._adapter().num_batches
        return int(found) if found is not None and found >= 0 else None

    def _adapter(self) -> Any:
        """Keras' adapter, as `fit` makes it."""
        given = self._arguments
        x, y, weights = self._x, given.get("y"), given.get("sample_weight")
        if given.get("validation_split") and given.get("validation_data") is None:
            (x, y, weights), _ = SPLIT_VALIDATION.value((x, y, weights), validation_split=given["validation_split"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fit says them again
            return EPOCH_ITERATOR.value(
                x=x,
                y=y,
                sample_weight=weights,
                batch_size=given.get("batch_size"),
                steps_per_epoch=given.get("steps_per_epoch"),
                shuffle=given.get("shuffle", True),
                class_weight=given.get("class_weight"),
            ).data_adapter
