"""What `outpace.Monitor` costs per step: python bench/monitor.py [--seconds 20].

A Keras fit and a custom TensorFlow loop of about 5 ms per step run with the monitor at its
defaults. Every call into the monitor is timed in place (`perf_counter_ns` before and after it),
lines, memory and scalars included; what the two clock calls cost themselves is measured beside it
and stays in the numbers. In Keras, the time stamps that are traced into the train function run
inside of it: their cost is the difference between a graph that has them and one that has not, per
execution. The table gives the mean per step with a 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from overhead import dataset, keras_model, tensorflow_step
from results import Figure, add_record, record

from outpace.model.interval import bootstrap_mean, median
from outpace.model.units import Unit
from outpace.monitor import Monitor

STEP_US = 5000.0
FILTERS, BATCH = 8, 16


class Timed:
    """Adds up what calls into the monitor take, one sum per step (ns)."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.inside = 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter_ns()
            try:
                return call(*args, **kwargs)
            finally:
                self.inside += time.perf_counter_ns() - began

        return timed

    def next_step(self) -> None:
        self.steps.append(self.inside)
        self.inside = 0


def keras_fit(seconds: float, logdir: str) -> tuple[list[int], float]:
    """Own ns of each step, and the ms of a step."""
    import keras

    timed, monitor = Timed(), Monitor(logdir)
    monitor.on_train_batch_begin = timed.wrap(monitor.on_train_batch_begin)  # type: ignore[method-assign]
    end = time.perf_counter() + seconds

    class Counter(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            timed.next_step()
            if time.perf_counter() > end:
                self.model.stop_training = True

    keras_model(FILTERS).fit(dataset(BATCH), steps_per_epoch=10**6, verbose=0, callbacks=[monitor, Counter()])
    return timed.steps, monitor._core._run.mean_ms


def custom_loop(seconds: float, logdir: str) -> tuple[list[int], float]:
    """The same for a loop with `input` and `step`."""
    own: list[int] = []
    train_step, clock = tensorflow_step(FILTERS), time.perf_counter_ns
    end = time.perf_counter() + seconds
    with Monitor(logdir) as monitor:
        waits, reader = monitor._core.input_clock, monitor.input(dataset(BATCH))
        while time.perf_counter() < end:
            waited, began = waits.waited, clock()
            batch = next(reader)
            inside = clock() - began - (waits.waited - waited)  # what the data set itself takes is not the monitor's
            began = clock()
            step = monitor.step()
            step.__enter__()
            inside += clock() - began
            float(train_step(*batch))
            del batch  # freeing it, when the next one takes its name, is not the monitor's either
            began = clock()
            step.__exit__(None, None, None)
            own.append(inside + clock() - began)
    return own, monitor._core._run.mean_ms


def in_graph(rounds: int = 40, executions: int = 2000) -> list[float]:
    """ns per step of the traced time stamps around a read: a loop in a graph with them, minus one
    without, per round.
    """
    import tensorflow as tf

    from outpace.monitor.input_wait import KerasInputClock, _graph

    clock = KerasInputClock(None)

    def bare(number: Any) -> Any:
        return tf.identity(number)

    def watched(number: Any) -> Any:
        return _graph.traced(tf, bare, number, clock)

    def loop(read: Any, count: Any) -> Any:
        last = tf.constant(0)
        for number in tf.range(count):
            last = read(number)
        return last

    graphs = [tf.function(loop).get_concrete_function(read, tf.TensorSpec((), tf.int32)) for read in (bare, watched)]
    count, differences = tf.constant(executions), []
    for _ in range(rounds + 1):
        taken = []
        for graph in graphs:
            began = time.perf_counter_ns()
            graph(count)
            taken.append((time.perf_counter_ns() - began) / executions)
        differences.append(taken[1] - taken[0])
    assert clock.read_totals().batches == (rounds + 1) * executions
    return differences[1:]


def row(what: str, values: list[float], step_ms: float | None = None) -> dict[str, Any]:
    """Mean with its interval and median, in us."""
    samples = np.asarray(values) / 1e3
    mean = bootstrap_mean(samples, Unit.COUNT, "")
    numbers = {"mean": float(samples.mean()), "low": mean.low, "high": mean.high, "median": median(samples)}
    return {"what": what, "n": samples.size, "step_ms": step_ms, **numbers}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    import tensorflow as tf

    lines = [
        f"TensorFlow {tf.__version__}; {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}; "
        f"load {os.getloadavg()[0]:.1f}\n",
        "| work | samples | step | mean [95 %] | median | upper end, share of 5 ms |",
        "|---|---|---|---|---|---|",
    ]
    for item in rows:
        mean = f"{item['mean']:.2f} us [{item['low']:.2f}, {item['high']:.2f}]"
        step = f"{item['step_ms']:.1f} ms" if item["step_ms"] else "–"
        share = f"{item['high'] / STEP_US:.2%}"
        lines.append(f"| {item['what']} | {item['n']} | {step} | {mean} | {item['median']:.2f} us | {share} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of the two loops")
    parser.add_argument("--json", type=Path, metavar="FILE")
    add_record(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fit, fit_ms = keras_fit(options.seconds, f"{folder}/fit")
        loop, loop_ms = custom_loop(options.seconds, f"{folder}/loop")
        timer = Timed()
        for _ in range(5000):
            timer.wrap(int)()
            timer.next_step()
        rows = [
            row("Keras fit, callback", [float(value) for value in fit[10:]], fit_ms),
            row("Keras fit, time stamps in the graph", in_graph()),
            row("custom loop, `input` and `step`", [float(value) for value in loop[10:]], loop_ms),
            row("of these, the timing of one call itself", [float(value) for value in timer.steps]),
        ]
    print(table(rows), flush=True)
    for each in rows:
        figure = Figure(
            f"own work per step, {each['what']}", f"{each['mean']:.2f}", f"{each['low']:.2f} to {each['high']:.2f}", "us"
        )
        record(options, "monitor", [figure])
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # data sets may hang at the interpreter's end


if __name__ == "__main__":
    main()
