"""A `keras.utils.PyDataset` whose batches are made once and kept in memory."""

from __future__ import annotations

import time
from typing import Any

from outpace.model.errors import CaptureError
from outpace.tune.data.verify import rows, same

TWICE = 2  # batches that are made twice, to see whether they are the same


def kept(x: Any) -> Any:
    """A PyDataset that gives another one's batches, each made at its first use; `fill` makes all of them, `hits` counts those out of memory."""
    import keras

    class Kept(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __init__(self) -> None:
            super().__init__(x.workers, x.use_multiprocessing, x.max_queue_size)
            self.hits = 0
            self._batches: dict[int, Any] = {}

        @property
        def num_batches(self) -> Any:
            return x.num_batches

        def __getitem__(self, index: int) -> Any:
            if index in self._batches:
                self.hits += 1
                return self._batches[index]
            return self._batches.setdefault(index, x[index])

        def fill(self, seconds: float) -> None:
            """Raises CaptureError where it takes longer than `seconds`, or where the first batches are others when they are made again."""
            end = time.monotonic() + seconds
            for index in range(x.num_batches):
                if index not in self._batches:
                    batch = x[index]
                    if index < TWICE and not same(rows(batch), rows(x[index])):
                        raise CaptureError(
                            f"Batch {index} was another one when it was made a second time, so it cannot be kept."
                        )
                    self._batches[index] = batch
                if time.monotonic() > end:
                    raise CaptureError(
                        f"Making all batches once takes longer than {seconds:.0f} s ({index + 1} of {x.num_batches}): give a larger budget."
                    )

    return Kept()
