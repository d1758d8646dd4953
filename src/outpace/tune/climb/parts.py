# SPDX-License-Identifier: Apache-2.0
"""The parts of a Keras model that its step's time goes to: a short profile of a `fit` that runs."""

from __future__ import annotations

import glob
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from outpace.capture.sources import SourceRecorder
from outpace.metrics.savings.budget import category_share
from outpace.metrics.views.model_parts import model_parts
from outpace.model import Table
from outpace.model.categories import Category
from outpace.timeline import Run
from outpace.trace import open_trace

STEPS = 12
_HOST = "here"


class Profiled:
    """The profiler around some batches of a `fit`. sources: knows the layers and lines, where it
    was there before the model was built.
    """

    def __init__(self, sources: SourceRecorder | None) -> None:
        self._sources, self._folder = sources, ""
        self._steps, self._room = 0, tempfile.TemporaryDirectory(prefix="outpace-")
        self._mark: Any = None

    def begin(self) -> None:
        """From the next batch on; nothing where another profiler runs, or where it is no program of
        TensorFlow.
        """
        try:
            self._profiler.start(self._room.name)
            self._folder = self._room.name
        except Exception:  # a tuning without this table is a tuning all the same
            self._folder = ""

    @property
    def _profiler(self) -> Any:
        return sys.modules["tensorflow"].profiler.experimental

    def between(self, kind: Any, done: Callable[[], object]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What stands at the ends and the beginnings of batches, in the class of callbacks; `done`
        is called after enough of them.
        """
        plain_end, plain_begin = kind.on_train_batch_end, kind.on_train_batch_begin

        def begins(this: Any, *args: Any, **kwargs: Any) -> Any:
            found = plain_begin(this, *args, **kwargs)
            if self._folder:
                self._mark = self._profiler.Trace("train", step_num=self._steps, _r=1)
                self._mark.__enter__()
            return found

        def ends(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._mark is not None:
                self._mark.__exit__(None, None, None)
            found = plain_end(this, *args, **kwargs)
            self._steps += 1
            if self._steps >= STEPS or not self._folder:
                done()
            return found

        return ends, begins

    def shares(self) -> tuple[Table | None, float | None]:
        """The rows of `model_parts`, the largest first, and the share of a step that waits for its
        input; None where there is no profile.
        """
        if not self._folder:
            return None, None
        try:
            self._profiler.stop()
            file = glob.glob(os.path.join(self._folder, "**", "*.xplane.pb"), recursive=True)[0]
            sources = self._sources.build_sources() if self._sources is not None else None  # while the step's graph is there
            record = {
                "op_sources": asdict(sources.ops) if sources is not None else None,
                "layers": {name: asdict(each) for name, each in sources.layers.items()} if sources is not None else {},
            }
            run = Run.from_traces([open_trace(file, _HOST)], self._folder, records={_HOST: record})
            table, waits = model_parts(run), category_share(run, Category.INPUT)
        except Exception:
            return None, None
        return (table, waits) if len(table) else (None, None)
