"""What a capture costs while it runs, per tracer level: python bench/overhead.py {tensorflow,jax}
[options].

In one process, blocks of steps without a profiler alternate with blocks under one; the level
changes from block to block, so that all levels see the same machine. Starting and saving stand
outside the blocks, and the first steps of each block are left out. A block's step time is the lower
quartile of its steps (what else runs on a machine only adds to some of them). A ratio is the step
time under the profiler / the mean of the blocks before and after it; the table gives the median of
the ratios with a 95 % bootstrap interval. The process's CPU time per step is compared in the same
way: it says less about waiting, and is less disturbed by a busy machine. Run it with the Python of
the environment whose framework is meant, and PYTHONPATH=src.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from compare import interval
from results import Figure, add_record, record

from outpace.capture.options import CaptureOptions
from outpace.capture.profilers import PROFILER_CLASSES
from outpace.trace import open_trace

LEVELS = {
    "host 1": {"host_level": 1},
    "host 2 (default)": {"host_level": 2},
    "host 3": {"host_level": 3},
    "host 2, Python tracer": {"host_level": 2, "python_level": 1},
}
SETTLE = 4  # steps of a block that are left out: the first ones after a profiler's start or stop are not like the others
Step = Callable[[], object]


def keras_model(filters: int) -> Any:
    """A small image classifier of four convolutions with batch normalisation."""
    import keras

    layers: list[Any] = [keras.Input((32, 32, 3))]
    for number in range(4):
        layers += [
            keras.layers.Conv2D(filters, 3, strides=1 + number % 2),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
        ]
    model = keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def dataset(batch: int) -> Any:
    """Endless batches, one stage of tf.data away from memory."""
    import numpy as np
    import tensorflow as tf

    images, labels = np.random.default_rng(0).random((batch, 32, 32, 3), np.float32), np.arange(batch) % 10
    return tf.data.Dataset.from_tensors((images, labels)).repeat().map(lambda x, y: (x * 2 - 1, y)).prefetch(2)


def tensorflow_step(filters: int) -> Callable[[Any, Any], Any]:
    """A training step as one `tf.function` of a batch."""
    import tensorflow as tf

    model = keras_model(filters)
    model.optimizer.build(model.trainable_variables)

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.loss(y, model(x, training=True))
        variables = model.trainable_variables
        model.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return train_step


def jax_loop(width: int, batch: int) -> Step:
    """A custom loop of one jitted function per step, awaited."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    data = np.random.default_rng(0).random((batch, width), np.float32)

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return (x**2).mean()

    @jax.jit
    def train_step(weights: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return value, [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)]

    state = [jnp.eye(width) * 0.9 for _ in range(8)]

    def step() -> float:
        nonlocal state
        value, state = train_step(state, data)
        return float(value)

    return step


class Blocks:
    """Alternates blocks without and with the profiler; the loop calls `boundary`
    between its steps.
    """

    def __init__(self, framework: str, levels: list[str], rounds: int, length: int) -> None:
        module = sys.modules[framework]
        self.profilers = {level: PROFILER_CLASSES[framework](module, CaptureOptions(**LEVELS[level])) for level in levels}
        self.plan: list[str | None] = [None, *(item for _ in range(rounds) for level in levels for item in (level, None))]
        self.length = length + SETTLE
        self.times: list[
            tuple[str | None, float, float]
        ] = []  # level, wall and CPU seconds of a step, in the order of the plan
        self.events: dict[str, float] = {}
        self._block: list[float] = []
        self._cpu = 0.0
        self._last: float | None = None
        self._mark: Callable[[], None] | None = None

    def boundary(self) -> bool:
        """A step ends here and the next one begins; False when there are enough."""
        now = time.perf_counter()
        if self._mark is not None:
            self._mark()
        if self._last is not None:
            self._block.append(now - self._last)
            if len(self._block) == SETTLE:
                self._cpu = time.process_time()
        if len(self._block) == self.length:
            self._end()
        if not self.plan:
            return False
        if not self._block:
            self._begin()
        level = self.plan[0]
        self._mark = self.profilers[level].begin_mark("train", len(self._block)) if level else None
        self._last = time.perf_counter()
        return True

    def _begin(self) -> None:
        level = self.plan[0]
        if level:
            self._folder = tempfile.mkdtemp()
            self.profilers[level].start(self._folder)

    def _end(self) -> None:
        level = self.plan.pop(0)
        cpu = (time.process_time() - self._cpu) / (self.length - SETTLE)
        self.times.append((level, statistics.quantiles(self._block[SETTLE:], n=4)[0], cpu))
        self._block, self._mark = [], None
        if level:
            self.profilers[level].stop(save=True)
            found = sorted(Path(self._folder).rglob("*.xplane.pb"))
            if level not in self.events and found:
                self.events[level] = len(open_trace(str(found[0]))) / self.length
            shutil.rmtree(self._folder)

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """One row per level."""
        for level in self.profilers:
            places = [place for place, row in enumerate(self.times) if row[0] == level]
            ratios = []
            for kind in (1, 2):  # wall, CPU
                beside = [(self.times[place - 1][kind] + self.times[place + 1][kind]) / 2 for place in places]
                ratios.append(interval([self.times[place][kind] / other for place, other in zip(places, beside, strict=True)]))
            spread = statistics.quantiles([self.times[place - 1][1] for place in places], n=4)
            yield {
                "loop": name,
                "level": level,
                "step_ms": spread[1] * 1e3,
                "noise": (spread[2] - spread[0]) / spread[1],
                "wall": ratios[0],
                "cpu": ratios[1],
                "events": self.events.get(level, float("nan")),
            }


def in_loop(blocks: Blocks, step: Step) -> None:
    for _ in range(30):
        step()
    while blocks.boundary():
        step()


def in_fit(blocks: Blocks, filters: int, batch: int) -> None:
    import keras

    model, data = keras_model(filters), dataset(batch)

    class Callback(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, number: int, logs: Any = None) -> None:
            if number >= 30 and not blocks.boundary():
                self.model.stop_training = True

    model.fit(data, steps_per_epoch=10**6, epochs=1, verbose=0, callbacks=[Callback()])


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows of this environment's framework."""
    rows: list[dict[str, Any]] = []
    for filters, batch, width, length in ((8, 12, 256, 24), (24, 80, 512, 8)):
        for kind in ("custom loop",) if options.framework == "jax" else ("Keras fit", "custom loop"):
            if options.framework == "jax":
                step = jax_loop(width, batch * 8)
            elif kind == "custom loop":
                train_step, batches = tensorflow_step(filters), iter(dataset(batch))
                step = functools.partial(lambda train, read: float(train(*next(read))), train_step, batches)
            else:
                import tensorflow  # noqa: F401  # the profiler is taken from the imported module
            blocks = Blocks(options.framework, options.levels, options.rounds, length)
            if kind == "custom loop":
                in_loop(blocks, step)
            else:
                in_fit(blocks, filters, batch)
            rows += blocks.rows(kind)
    return rows


def table(rows: list[dict[str, Any]], framework: str) -> str:
    """The rows as Markdown."""
    module = sys.modules[framework]
    machine = f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    lines = [
        f"{framework} {module.__version__}; {machine}; load {os.getloadavg()[0]:.1f}\n",
        "| loop | step without | level | events per step | step time under the profiler / without [95 %] | CPU time, the same |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        wall, cpu = (f"{ratio:.2f} [{low:.2f}, {high:.2f}]" for ratio, low, high in (row["wall"], row["cpu"]))
        step = f"{row['step_ms']:.1f} ms ± {row['noise'] / 2:.0%}"
        lines.append(f"| {row['loop']} | {step} | {row['level']} | {row['events']:.0f} | {wall} | {cpu} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["tensorflow", "jax"])
    parser.add_argument("--levels", nargs="+", choices=list(LEVELS), default=list(LEVELS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    add_record(parser)
    options = parser.parse_args()
    rows = measure(options)
    print(table(rows, options.framework), flush=True)
    for row in rows:
        wall, low, high = row["wall"]
        name = f"step under the profiler, {options.framework} {row['loop']} of {row['step_ms']:.0f} ms, {row['level']}"
        record(options, "overhead", [Figure(name, f"{wall:.2f}", f"{low:.2f} to {high:.2f}", "x")])
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    os._exit(0)  # data sets may hang at the interpreter's end


if __name__ == "__main__":
    main()
