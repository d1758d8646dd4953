"""Seconds of a training step, as a script trains: python bench/plain_fit.py SCRIPT [ARGUMENTS ...].

The script runs without Outpace up to the end of its first Keras fit of two epochs or more; printed are the seconds of a step, validation
and first epoch left out. It ends there.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import keras

FIRST = 1  # epochs that count for nothing: they trace, compile, and fill caches


class Clock(keras.callbacks.Callback):
    """Times epochs from their begin to the end of their last batch."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[tuple[float, int]] = []
        self._began = self._last = 0.0
        self._batch = -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._last, self._batch = time.perf_counter(), batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append((self._last - self._began, self._batch + 1))


def main() -> None:
    original = keras.Model.fit

    def fit(self: Any, *args: Any, **named: Any) -> Any:
        clock = Clock()
        named["callbacks"] = [*(named.get("callbacks") or []), clock]
        done = original(self, *args, **named)
        counted = clock.epochs[FIRST:]
        if not counted:
            return done
        print(f"\nseconds of a step: {sum(spent for spent, _ in counted) / sum(steps for _, steps in counted):.9f}", flush=True)
        os._exit(0)

    keras.Model.fit = fit
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit("The script called no Keras fit of two epochs or more.")


if __name__ == "__main__":
    main()
