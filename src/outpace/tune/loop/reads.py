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
        self._shapes: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._last: weakref.ref[Any] | None = None
        self._spared, self._last_spared = 0, -1  # steps that read no other data set, as a graph stood for `predict`
        # By shape of another data set: steps that read it, and the last one of them.
        self._others: dict[str, tuple[int, int]] = {}

    def trains(self, iterator: Any) -> bool:
        """Whether an iterator reads the training's data set, or one that the loop has made anew in the same way."""
        dataset = getattr(iterator, "_dataset", None)
        if dataset is None or dataset is self.dataset:
            return dataset is not None
        return self._shape(dataset) == self._known

    def begins(self, iterator: Any) -> bool:
        """The training reads an iterator: whether it read another one before, and an epoch begins."""
        last, self._last = self._last, weakref.ref(iterator)
        return last is not None and last() is not iterator

    def evaluates(self, iterator: Any, step: int) -> bool:
        """Another data set is read in the step of that number: one of the step's own (each `model.predict` makes one), where that happens in
        most steps, else an evaluation's."""
        dataset = getattr(iterator, "_dataset", None)
        shape = self._shape(dataset) if dataset is not None else ""
        steps, last = self._others.get(shape, (0, -1))
        self._others[shape] = steps + (last != step), step
        return 2 * self._others[shape][0] < step - self._spared

    def spare(self, step: int) -> None:
        """The step of that number asks a graph in the place of a `model.predict`: it says nothing about what steps read."""
        self._spared, self._last_spared = self._spared + (self._last_spared != step), step

    def _shape(self, dataset: Any) -> str:
        if dataset not in self._shapes:
            self._shapes[dataset] = shape_of(dataset)
        return self._shapes[dataset]

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
