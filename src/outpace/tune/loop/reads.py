# SPDX-License-Identifier: Apache-2.0
"""Which reads of batches are the training's."""

from __future__ import annotations

import weakref
from typing import Any

from outpace.frameworks.tensorflow import ITERATOR_CLASS, READ_DATASET
from outpace.tune.data.tree import describe


class Reads:
    """The reads of a loop's iterators. dataset: what its steps read; None where that is nothing of
    tf.data.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._known = shape_of(dataset) if dataset is not None else ""
        self._shapes: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def trains(self, iterator: Any) -> bool:
        """Whether an iterator reads the training's data set, or one that the loop has made anew in
        the same way.
        """
        dataset = READ_DATASET.of(iterator)
        if dataset is None or dataset is self.dataset:
            return dataset is not None
        return self._shape(dataset) == self._known

    def _shape(self, dataset: Any) -> str:
        if dataset not in self._shapes:
            self._shapes[dataset] = shape_of(dataset)
        return self._shapes[dataset]

    def look_at(self, arguments: tuple[Any, ...]) -> None:
        """See whether the function of the steps is given an iterator, which it reads itself."""
        owned = ITERATOR_CLASS.value
        for each in arguments:
            dataset = READ_DATASET.of(each) if owned is not None and isinstance(each, owned) else None
            if dataset is not None:
                self.dataset, self._known = dataset, shape_of(dataset)


def shape_of(dataset: Any) -> str:
    """What tells a pipeline from others: the kinds of a pipeline's stages, and what it gives."""
    return f"{' '.join(stage.class_name for stage in describe(dataset).stages())} {dataset.element_spec}"
