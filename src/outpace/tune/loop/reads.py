"""Which reads of batches are the training's, and what they get."""

from __future__ import annotations

import weakref
from typing import Any

from outpace.capture.iterators import iterator_class
from outpace.tune.data.tree import describe


class Reads:
    """The reads of a loop's iterators. dataset: what its steps read; None where that is nothing of tf.data."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._known = shape_of(dataset) if dataset is not None else ""
        self._same: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._last: weakref.ref[Any] | None = None
        self._others: dict[int, int] = {}  # reads of other data sets

    def trains(self, iterator: Any) -> bool:
        """Whether an iterator reads the training's data set, or one that the loop has made anew in the same way."""
        dataset = getattr(iterator, "_dataset", None)
        if dataset is None or dataset is self.dataset:
            return dataset is not None
        if dataset not in self._same:
            self._same[dataset] = shape_of(dataset) == self._known
        return self._same[dataset]

    def begins(self, iterator: Any) -> bool:
        """The training reads an iterator: whether it read another one before, and an epoch begins."""
        last, self._last = self._last, weakref.ref(iterator)
        return last is not None and last() is not iterator

    def evaluates(self, iterator: Any, steps: int) -> bool:
        """Another data set is read: one of the step's own, where that happens in most of so many steps, else an evaluation's."""
        dataset = id(getattr(iterator, "_dataset", iterator))
        self._others[dataset] = self._others.get(dataset, 0) + 1
        return 2 * self._others[dataset] < steps

    def look_at(self, arguments: tuple[Any, ...]) -> None:
        """See whether the function of the steps is given an iterator, which it reads itself."""
        owned = iterator_class()
        for each in arguments:
            dataset = getattr(each, "_dataset", None) if owned is not None and isinstance(each, owned) else None
            if dataset is not None:
                self.dataset, self._known = dataset, shape_of(dataset)

    def given(self, argument: Any, iterator: Any) -> Any:
        """An argument of a step; the active iterator, if any, where that reads the training's data set itself."""
        owned = iterator_class()
        if iterator is not None and owned is not None and isinstance(argument, owned) and self.trains(argument):
            return iterator
        return argument


def shape_of(dataset: Any) -> str:
    """What tells a pipeline from others: the kinds of a pipeline's stages, and what it gives."""
    return f"{' '.join(stage.class_name for stage in describe(dataset).stages())} {dataset.element_spec}"
