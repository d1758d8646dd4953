# SPDX-License-Identifier: Apache-2.0
"""Training run with known times: the profile that TensorFlow would record of a loop with exactly
the requested times.

Event names, stats and links between threads are those of TensorFlow 2.21 on a CPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.model.space_builder import LineBuilder, SpaceBuilder, StatValue, Unsigned

MS = 1_000_000_000  # picoseconds per millisecond
DEFAULT_OPS = (("model/dense/MatMul", "MatMul", 4 * MS), ("model/dense/BiasAdd", "BiasAdd", 1 * MS))
DEFAULT_PIPELINE = ("Root", "Prefetch", "ParallelMapV2", "Shuffle", "TensorSlice")

_MAIN, _COMPUTE, _KERAS_INPUT, _POOL = "python", "tf_Compute/1", "tf_data_iterator_get_next/1", "tf_data_private_threadpool/1"
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # odd multiplier, so that the hashes of different numbers below 2^64 differ
_HANDOVER = 1_000  # duration of the event that takes over an element, ps
_ASYNC = ("Prefetch", "ParallelMap", "ParallelInterleave", "ParallelBatch", "ParallelFilter", "MapAndBatch")
_MARKS = {"train": "train_step", "keras": "multi_step_on_iterator", None: "train_step"}


def training_run(
    *,
    steps: int = 10,
    step_ps: int | None = None,
    input_ps: int | Sequence[int] = 2 * MS,
    ops: Sequence[tuple[str, str, int]] = DEFAULT_OPS,
    python_ps: int = 0,
    marks: str | None = "train",
    pipeline: Sequence[str] = DEFAULT_PIPELINE,
    work_ps: Mapping[str, int] | None = None,
    hostname: str = "vm",
    timestamp_ns: int = 0,
) -> SpaceBuilder:
    """Return a builder with the profile of `steps` steps that follow each other without a gap.

    A step waits `input_ps` for its input (one number, or one per step), spends `python_ps` outside
    of any op, and calls a `tf.function` for the rest, which runs `ops` (op name, op type, ps) one
    after the other. `step_ps` is the length of every step; without it a step is as long as its
    parts. `marks` selects the marks of the steps: "train" (`tf.profiler.experimental.Trace`),
    "keras" (`Profiled batch`; the function requests the input itself) or None. `pipeline` lists the
    tf.data stages, outermost first, and `work_ps` the work of a stage per step, by its type: on the
    thread that calls it, or, for an asynchronous stage, of its function in the thread pool. A run
    has one host; for several, write one per `hostname` into the same folder. (The innermost stage
    takes up to 2 ns more: the time in which an element is handed over.) Raises ValueError for
    impossible times.

    >>> space = training_run(steps=3, input_ps=4 * MS)
    """
    if marks not in _MARKS:
        raise ValueError(f"marks must be one of {', '.join(map(repr, _MARKS))}, not {marks!r}")
    waits = [input_ps] * steps if isinstance(input_ps, int) else list(input_ps)
    if len(waits) != steps:
        raise ValueError(f"there are {steps} steps but {len(waits)} input times")
    log, stages, start_ps = _Log(), _Stages(pipeline, work_ps or {}), 0
    for number, wait in enumerate(waits):
        parts = wait + python_ps + sum(ps for _, _, ps in ops)
        step = _Step(number, start_ps, wait, parts if step_ps is None else step_ps, python_ps, ops)
        if step.length < parts:
            raise ValueError(f"step {number} takes {step.length} ps but its parts take {parts} ps")
        (_keras_step if marks == "keras" else _loop_step)(log, step, stages, marked=marks is not None)
        start_ps = step.end
    return log.build(hostname, timestamp_ns)


@dataclass
class _Log:
    """Events in nesting order, by thread; times may be negative until all are known."""

    events: list[tuple[str, str, int, int, dict[str, StatValue]]] = field(default_factory=list)
    runs: int = 0

    def add(self, thread: str, name: str, start: int, end: int, **stats: StatValue) -> None:
        self.events.append((thread, name, start, end, stats))

    def new_run(self) -> int:
        """Return the id of another run of a function: a signed hash, as in TensorFlow."""
        self.runs += 1
        return _signed(_hash(self.runs))

    def build(self, hostname: str, timestamp_ns: int) -> SpaceBuilder:
        space = SpaceBuilder(hostname)
        plane, lines = space.plane("/host:CPU"), dict[str, LineBuilder]()
        origin = min((start for _, _, start, _, _ in self.events), default=0)
        for thread, name, start, end, stats in self.events:
            line = lines.get(thread) or lines.setdefault(thread, plane.line(thread, timestamp_ns=timestamp_ns))
            line.event(name, start - origin, end - start, num_occurrences=None, **stats)
        last = max((end for _, _, _, end, _ in self.events), default=0)
        environment = space.plane("Task Environment").stat("profile_start_time", Unsigned(timestamp_ns))
        environment.stat("profile_stop_time", Unsigned(timestamp_ns + (last - origin) // 1000))
        return space


@dataclass(frozen=True)
class _Step:
    number: int
    start: int
    wait: int
    length: int
    python: int
    ops: Sequence[tuple[str, str, int]]

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def ready(self) -> int:
        """Time at which the input is ready, ps."""
        return self.start + self.wait


def _loop_step(log: _Log, step: _Step, stages: _Stages, *, marked: bool) -> None:
    """Add a step of `for batch in dataset: train_step(batch)`: input, Python, call."""
    if marked:
        log.add(_MAIN, "train", step.start, step.end, step_num=step.number, _r=1)
    for name, stats in (
        ("TFE_Py_FastPathExecute_C", {}),
        ("EagerExecute", {"eager_op": "IteratorGetNext", "is_func": 0}),
        ("EagerLocalExecute: IteratorGetNext", {}),
        ("IteratorGetNextOp::DoCompute", {"id": log.new_run(), "iter_num": 0}),
    ):
        log.add(_MAIN, name, step.start, step.ready, **stats)
    stages.call(log, _MAIN, step)
    start = step.ready + step.python
    run = _call(log, _MARKS["train"], start, step.end)
    _compute(log, step, start, run)


def _keras_step(log: _Log, step: _Step, stages: _Stages, *, marked: bool) -> None:
    """Add a step of `model.fit`: the call fetches its input on an input thread; Python (callbacks)
    follows.
    """
    log.add(_MAIN, "Profiled batch", step.start, step.end, step_num=step.number)
    run = _call(log, _MARKS["keras"], step.start, step.end - step.python)
    log.add(_KERAS_INPUT, "IteratorGetNextOp::DoCompute", step.start, step.ready, id=run, iter_num=0)
    stages.call(log, _KERAS_INPUT, step)
    _compute(log, step, step.ready, run)


def _call(log: _Log, function: str, start: int, end: int) -> int:
    """Add the main thread's events of a `tf.function` call; return the id of the run."""
    run = log.new_run()
    inner = f"__inference_{function}_530"
    for name, stats in (
        (function, {"tf_function_call": "notTraced-nonXla", "tracing_count": 1}),
        ("TFE_Py_ExecuteCancelable", {}),
        ("EagerExecute", {"eager_op": inner, "is_func": 1}),
        (f"EagerLocalExecute: {inner}", {}),
        ("FunctionRun", {"id": run, "_r": 1, "_pt": 2, "_p": _link(run)}),
    ):
        log.add(_MAIN, name, start, end, **stats)
    return run


def _compute(log: _Log, step: _Step, start: int, run: int) -> None:
    """Add the executor's events of a call: its ops."""
    end = start + sum(ps for _, _, ps in step.ops)
    log.add(_COMPUTE, "ExecutorState::Process", start, end, id=run, iter_num=0, _ct=2, _c=_link(run))
    for name, op_type, ps in step.ops:
        log.add(_COMPUTE, f"{name}:{op_type}", start, start + ps)
        start += ps


class _Stages:
    """Simulated tf.data pipeline. Stages up to the first asynchronous one run in the thread that
    requests the input; each asynchronous stage has a thread that produces elements from the
    stages below it, and may run a function for each in the thread pool.

    All events of a step's element are timed backwards from the moment that it is ready.
    """

    def __init__(self, pipeline: Sequence[str], work: Mapping[str, int]) -> None:
        if unknown := set(work) - set(pipeline):
            raise ValueError(f"work_ps names stages that the pipeline does not have: {', '.join(sorted(unknown))}")
        self.types = tuple(pipeline)
        self.work = work
        self._free: dict[str, int] = {}  # end of each thread's work for the previous step, ps

    def call(self, log: _Log, thread: str, step: _Step) -> None:
        """Add one call of the root, with the duration of the wait."""
        if not self.types:
            return
        own_ps = sum(self.work.get(stage, 0) for stage in self._chain(0) if not _is_async(stage))
        if own_ps > step.wait:
            raise ValueError(f"the training thread's own stages work {own_ps} ps, longer than the {step.wait} ps that it waits")
        self._run_chain(log, thread, 0, step.start, step.ready, step.number)

    def _chain(self, first: int) -> tuple[str, ...]:
        """Return the types of the stages from `first` up to and including the next asynchronous
        one.
        """
        for index in range(first, len(self.types)):
            if _is_async(self.types[index]):
                return self.types[first : index + 1]
        return self.types[first:]

    def _run_chain(self, log: _Log, thread: str, first: int, start: int, end: int, element: int) -> None:
        """Add nested calls of a chain; each stage does its own work after its callee returned."""
        chain = self._chain(first)
        for index, stage in enumerate(chain, start=first):
            stats: dict[str, StatValue] = {"id": _iterator(index)}
            if index:
                stats["parent_id"] = _iterator(index - 1)
            log.add(thread, "::".join(("Iterator", *self.types[: index + 1])), start, end, **stats)
            if not _is_async(stage):
                end -= self.work.get(stage, 0)
        if chain and _is_async(chain[-1]):
            begin = max(start, end - _HANDOVER)
            log.add(thread, f"{_short(chain[-1])}Consume", begin, end, element_id=_element(first + len(chain), element))
            self._produce(log, first + len(chain) - 1, begin, element)

    def _produce(self, log: _Log, stage: int, ready: int, element: int) -> None:
        """Add the production of one element of an asynchronous stage, finished at `ready`."""
        name, thread = self.types[stage], f"tf_data_iterator_resource/{stage}"
        function = self.work.get(name, 0)
        self._occupy(_POOL if function else "", ready - function, ready, name)
        end = ready - function
        length = max(self._wall(stage + 1), 2 * _HANDOVER)
        self._occupy(thread, end - length, end, name)
        log.add(thread, f"{_short(name)}Produce", end - length, end, element_id=_element(stage + 1, element))
        if function:
            run = log.new_run()
            log.add(thread, "InstantiatedCapturedFunction::RunAsync", end - _HANDOVER, end, id=run)
            log.add(thread, "FunctionRun", end - _HANDOVER, end, id=run, _r=1, _pt=2, _p=_link(run))
            log.add(_POOL, "ExecutorState::Process", end, ready, id=run, iter_num=0, _ct=2, _c=_link(run))
            log.add(_POOL, "resize/ResizeBilinear:ResizeBilinear", end, ready)
            end -= _HANDOVER
            length -= _HANDOVER
        self._run_chain(log, thread, stage + 1, end - length, end, element)

    def _wall(self, first: int) -> int:
        """Return the duration of a call of the chain from `first`, ps: its own work, or that of the
        slowest stage below that it waits for.
        """
        chain = self._chain(first)
        own_ps = sum(self.work.get(stage, 0) for stage in chain if not _is_async(stage))
        if not chain or not _is_async(chain[-1]):
            return own_ps + 2 * _HANDOVER
        return max(own_ps + 2 * _HANDOVER, self.work.get(chain[-1], 0), self._wall(first + len(chain)))

    def _occupy(self, thread: str, start: int, end: int, stage: str) -> None:
        if thread and start < self._free.get(thread, start):
            raise ValueError(f"stage {stage} works longer on an element than a step lasts; its thread cannot keep up")
        self._free[thread] = end


def _is_async(stage: str) -> bool:
    """Whether the stage has threads of its own that produce its elements."""
    return stage.startswith(_ASYNC)


def _short(stage: str) -> str:
    """Return the stage's name in its produce and consume events: `ParallelMapV2` is `ParallelMap`
    there.
    """
    return re.sub(r"V\d+$", "", stage)


def _element(stage: int, element: int) -> int:
    return (stage << 32) + element + 1


def _hash(number: int) -> int:
    """Return a distinct 64-bit number for each number: TensorFlow's ids are hashes, half of them
    beyond 2^63.
    """
    return number * _GOLDEN % (1 << 64)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _iterator(stage: int) -> int:
    """Return the id of a stage's iterator, unsigned."""
    return _hash((1 << 32) + stage)


def _link(run: int) -> int:
    """Return the id that links the caller and the executor of a run, unsigned."""
    return _hash((1 << 48) + run)
