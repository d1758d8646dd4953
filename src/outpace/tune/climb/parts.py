"""Which parts of the model take the step's time, where the model holds a program back: a short profile of its step on a batch in memory."""

from __future__ import annotations

import glob
import os
import sys
import tempfile
from dataclasses import asdict

from outpace.capture.sources import SourceRecorder
from outpace.metrics.model_parts import model_parts
from outpace.model import Table
from outpace.timeline import Run
from outpace.trace import open_trace
from outpace.tune.climb.limits import Limits, in_memory
from outpace.tune.program.program import Program
from outpace.tune.program.source import Feed
from outpace.tune.program.stepper import Stepper

BOUND = 1.5  # times as fast alone as today, at most: then the model takes most of the step
WARMUP, STEPS = 3, 12
_HOST = "here"


def slow_parts(program: Program, limits: Limits | None, sources: SourceRecorder | None = None) -> Table | None:
    """The rows of `model_parts`, the largest first; None where the input holds the program back, or where no profile can be made.

    `sources`: knows the layers and lines, where it was there before the model was built. Trains some steps: the caller puts back what they
    change, where that is to be.
    """
    if program.model is None or limits is None or limits.model_ratio is None or limits.model_ratio.low > BOUND:
        return None
    try:
        return _profiled(program, sources)
    except Exception:  # another profiler runs, for instance: a tuning without this table is a tuning all the same
        return None


def _profiled(program: Program, sources: SourceRecorder | None) -> Table | None:
    profiler = sys.modules["tensorflow"].profiler.experimental
    stepper = Stepper(program, Feed(in_memory(program)))
    stepper.compile()
    stepper.run(WARMUP)
    stepper.finish()
    with tempfile.TemporaryDirectory(prefix="outpace-") as folder:
        profiler.start(folder)
        try:
            for number in range(STEPS):
                with profiler.Trace("train", step_num=number, _r=1):
                    stepper.run(1)
                    stepper.finish()
        finally:
            profiler.stop()
        file = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)[0]
        ops, layers = sources.notes() if sources is not None else (None, {})  # while the step's graph is there
        record = {
            "op_sources": asdict(ops) if ops is not None else None,
            "layers": {name: asdict(each) for name, each in layers.items()},
        }
        table = model_parts(Run.of([open_trace(file, _HOST)], folder, records={_HOST: record}))
    return table if len(table) else None
