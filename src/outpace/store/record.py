# SPDX-License-Identifier: Apache-2.0
"""The capture record: what Outpace noted while it captured a profile, stored next to the profile as
`<host>.outpace.json`.

A profile tells what ran; the record tells what a profile cannot: the source line of each tf.data
stage, which line created an op, how long steps took without the profiler, how many cores the
process was allowed to use. Standard library only, because the record is written inside the user's
training process.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.codec import decode
from outpace.model.files import parse_json, write_atomically
from outpace.store.startup import Startup

SCHEMA = 1  # version of the record's format
RECORD_SUFFIX = ".outpace.json"
_MARK = "@python_samples@"


@dataclass(frozen=True)
class PipelineStage:
    """One tf.data operation as the script built it.

    id: number of the stage in the record.
    op: name of the tf.data operation (`map`, `batch`).
    label: name passed to TensorFlow, which is the stat `name` of the stage's `Iterator::` events;
        None when the user's own name could not be read or the operation takes none.
    file: the script's file that built the stage.
    line: line in that file.
    text: source text of that line.
    kwargs: arguments of the operation.
    inputs: ids of the stages that feed it.
    stateful: what keeps TensorFlow from running the stage in parallel by itself: stateful
        operations inside its function, and `captured variable`.
    inner: ids of the stages built inside its function (the files of an interleave).
    function: name of its function, where it has one.
    library: package whose code built the stage on behalf of the line.
    varying: operations of the function whose result differs from epoch to epoch.
    entry: function of that library that the line calls.
    """

    id: int
    op: str
    label: str | None
    file: str
    line: int
    text: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[int, ...] = ()
    stateful: tuple[str, ...] = ()
    inner: tuple[int, ...] = ()
    function: str | None = None
    library: str | None = None
    varying: tuple[str, ...] = ()
    entry: str | None = None


@dataclass(frozen=True)
class FunctionTrace:
    """One graph that a `tf.function` built.

    function: name of the function.
    file: file in which the function is defined.
    line: line in that file.
    start_ns: when it was built, Unix time in ns.
    duration_ns: how long that took, ns.
    arguments: types that TensorFlow distinguished, by parameter: `TensorSpec(...)`, or
        `Literal[...]` for Python values.
    """

    function: str
    file: str
    line: int
    start_ns: int
    duration_ns: int
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RepeatedGradient:
    """Gradients of the same weights, through the same ops, that a graph computes several times.

    times: how often.
    file, line: the user's line that asks for the last of them; "" and 0 where unknown.
    """

    times: int
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class OpSources:
    """The user's lines that created the ops of graphs.

    lines: (file, line, text of the line).
    by_function: for each function, by its name in the profile, the ops of its graph and of the
        functions inside it, with the index of their line in `lines`. Ops without a line are left
        out, and so are gradient ops whose name says what they are the gradient of.
    repeated: for each function in which most gradients are computed several times, how often.
    """

    lines: tuple[tuple[str, int, str], ...] = ()
    by_function: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    repeated: Mapping[str, RepeatedGradient] = field(default_factory=dict)


AFTER = "after"
"""In the text of an op in `GraphShapes`: the product that the op follows stands behind it."""
MAX_TEXT = 1000
"""Maximum number of characters of a text in `GraphShapes`."""


@dataclass(frozen=True)
class GraphShapes:
    """Shapes of the ops of graphs.

    texts: an op's type, its operands and its results, `MatMul f32[s0,784] f32[784,10] ->
        f32[s0,10]`. `s0` is an open dimension of an argument of the function, `8s0` a multiple of
        it, `?` not known. An op that TensorFlow may compute together with the product before it has
        that product's text behind the word `AFTER`.
    by_function: for each function, by its name in the profile, the ops of its graph and of the
        functions that it calls, with the index of their text; -1 where ops of one name differ.
    needed: for each function that has such ops, (share of its result that anything but gradients
        reads, name of the op that takes that part) of each op of whose result not all is read.
    tables: for each function that has such variables, (shape, name of the op that looks up rows in
        it, name of an op of the forward pass that takes all of it, as a penalty does; "" for none)
        of each look-up.
    """

    texts: tuple[str, ...] = ()
    by_function: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    needed: Mapping[str, Mapping[str, tuple[float, str]]] = field(default_factory=dict)
    tables: Mapping[str, tuple[tuple[str, str, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class LayerSource:
    """What Keras calls in a name scope.

    name: the Keras name of the object.
    kind: model, layer, metric or optimizer.
    type: its class.
    file: file of the user's line that created it; empty where unknown.
    line: that line.
    text: source text of that line.
    inner: whether library code created it on behalf of that line.
    call_file: file of its `call`, where the user wrote it.
    call_line: line of its `call`, where the user wrote it.
    variables: for an optimizer, the paths of the variables that it updates, in their order.
    updates: for an optimizer, how many ops of each name it runs for each variable (`mul`: `Mul`,
        `Mul_1`, ...).
    recurrent_dropout: for a recurrent layer, the share of its state that it drops in each step of
        the sequence.
    is_frozen: whether a layer has weights, none of which train.
    """

    name: str
    kind: str
    type: str
    file: str = ""
    line: int = 0
    text: str = ""
    inner: bool = False
    call_file: str = ""
    call_line: int = 0
    variables: tuple[str, ...] = ()
    updates: dict[str, int] = field(default_factory=dict)
    recurrent_dropout: float = 0.0
    is_frozen: bool = False


@dataclass(frozen=True)
class CapturedSteps:
    """The captured steps: numbers of the step marks, and what was counted before and around them.

    first_step: number of the first captured step.
    steps: number of captured calls; one call is `steps_per_execution` training steps.
    warmup: steps before the capture.
    seconds: length of the capture, s.
    interrupted: numbers of marks that also contain something other than a step (an epoch's end, a
        validation).
    cpu_seconds: processor time of the process during the capture, all threads together, s; 0 where
        not measured.
    machine_busy: share of the machine's processor time that all processes used during the capture;
        0 where not measured.
    """

    first_step: int
    steps: int
    warmup: int
    seconds: float
    interrupted: tuple[int, ...] = ()
    cpu_seconds: float = 0.0
    machine_busy: float = 0.0


@dataclass(frozen=True)
class StepDurations:
    """Durations of single steps, in order.

    before_ns: before the captured window, ns.
    during_ns: inside the captured window, ns.
    after_ns: after the captured window, ns.
    rounds: where single steps were not timed, the number of steps of which each duration is the
        mean, from one's start to the next one's.
    """

    before_ns: tuple[int, ...] = ()
    during_ns: tuple[int, ...] = ()
    after_ns: tuple[int, ...] = ()
    rounds: tuple[int, ...] = ()


GARBAGE_COLLECTION, ITERATOR_END = "garbage collection", "end of a data set's iterator"


@dataclass(frozen=True)
class PythonSamples:
    """Stacks of the training thread while the profile was recorded, sampled fifty to a hundred
    times a second.

    base_unix_ns: Unix time that the samples' times count from, ns.
    thread: name of the thread.
    method: `signal`, or `thread` where samples had to wait for the GIL (`capture/ticks.py` explains
        the consequences).
    frames: (file, function, its first line, owner). The owner is `""` for the user's own code,
        `python` for the standard library, `outpace`, or the name of the package.
    stacks: outermost frame first, each entry the index of a frame and a line.
    samples: (ns since the base, ns that the sample stands for, index of the stack).
    text: (index of a frame, line, source text) of the user's innermost lines.
    dropped: number of samples that were too many to store.
    others: samples of Python's other threads over the same time.
    pauses: (ns since the base, length in ns, what) of times in which no line of the program ran,
        but something that `capture/pauses.py` names.
    """

    base_unix_ns: int
    thread: str
    method: str
    frames: tuple[tuple[str, str, int, str], ...]
    stacks: tuple[tuple[tuple[int, int], ...], ...]
    samples: tuple[tuple[int, int, int], ...]
    text: tuple[tuple[int, int, str], ...] = ()
    dropped: int = 0
    others: tuple[ThreadSamples, ...] = ()
    pauses: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class ThreadSamples:
    """Samples of a Python thread other than the training thread.

    name: name of the thread.
    cpu_ns: processor time that it used while it was watched, ns.
    watched_ns: how long it was watched, ns.
    stacks: (index into the stacks of `PythonSamples`, number of samples with that stack).
    used_ns: for each of `stacks`, the processor time that the thread used just before those
        samples, ns; empty in captures before 0.3.
    """

    name: str
    cpu_ns: int
    watched_ns: int
    stacks: tuple[tuple[int, int], ...]
    used_ns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Compilation:
    """One part of a compilation that JAX reported.

    unix_ns: when it ended, Unix time in ns.
    duration_ns: how long it took, ns.
    event: JAX's name of the part.
    file: file of the user's line that led to it; empty where there is none.
    line: that line.
    function: function of that line.
    program: name of the compiled program, where this version of JAX reports it.
    before: previous values of `arguments`; None where the function was not compiled before.
    arguments: arguments that differ from the previous compilation of the same function; None where
        nothing is known. Both are by parameter and path, described as `float32[16,64]`, or
        `Literal[...]` for static values.
    library_call: function of a library that the line called, such as `pad` of `jnp.pad(x, 1)`; ""
        where it called a compiled function itself, and in records of earlier versions.
    cache: what JAX's persistent cache said: `hit`, `miss`, or "" where it was not asked.
    library: package of the function in `library_call`.
    """

    unix_ns: int
    duration_ns: int
    event: str
    file: str
    line: int
    function: str
    program: str = ""
    before: Mapping[str, str] | None = None
    arguments: Mapping[str, str] | None = None
    library_call: str = ""
    cache: str = ""
    library: str = ""


@dataclass(frozen=True)
class CaptureRecord:
    """Everything noted about one host's capture.

    outpace: version of Outpace.
    script: path of the script; "" in a notebook.
    argv: arguments of the script, with dots for secrets (`model/secret_masking.py`) unless
        `secrets` is set; records of earlier versions lose their secrets when they are read.
    versions: versions of the frameworks, by name.
    python: version of Python.
    mode: how the steps were recognised.
    window: the captured steps.
    steps_per_execution: training steps per call.
    overhead: step durations before, during and after the captured window, which show the cost of
        profiling.
    pipeline: tf.data operations that the script built.
    cpu_count: number of cores that the process may be scheduled on.
    traces: graphs that `tf.function` built.
    python_samples: stacks of the training thread and of other threads; None where Python was not
        sampled.
    compilations: parts of compilations that JAX reported.
    startup: what happened before the training was steady; None where the capture did not begin with
        the script.
    op_sources: the user's lines that created the ops.
    graph_shapes: the shapes of these ops.
    layers: what Keras calls, by name scope in the graph.
    callbacks: (file, line, text) of the line that created the first callback of each class of
        Keras' own callbacks.
    cpu_flags: the CPU's instruction sets for 16 bits (`_cpus.py`).
    cpu_peaks: highest rates per second that `outpace doctor --peaks` measured on this machine, by
        name (`CpuPeaks.highest`); empty without a measurement.
    calibration: ns that short loops took just before the profiler opened, by name of the loop
        (`capture/calibration.py`), a measure of the machine's speed.
    faults: how often Outpace's own code failed during the training, by file, line and kind.
    command_buffers: whether XLA might use CUDA graphs, which `--command-buffers off` forbids.
    cells: names of a notebook's cells (`In [3]`), by the file that they were compiled under.
    exit: exit code of the script; None where it was not known when the record was written.
    stopped: whether the capture stopped the script.
    created: when the record was built, ISO 8601 in UTC.
    secrets: whether the user asked for secrets to be recorded.
    schema: version of the record's format.
    """

    outpace: str
    script: str
    argv: tuple[str, ...]
    versions: Mapping[str, str]
    python: str
    mode: str
    window: CapturedSteps
    steps_per_execution: int
    overhead: StepDurations
    pipeline: tuple[PipelineStage, ...]
    cpu_count: int
    traces: tuple[FunctionTrace, ...] = ()
    python_samples: PythonSamples | None = None
    compilations: tuple[Compilation, ...] = ()
    startup: Startup | None = None
    op_sources: OpSources = field(default_factory=OpSources)
    graph_shapes: GraphShapes = field(default_factory=GraphShapes)
    layers: Mapping[str, LayerSource] = field(default_factory=dict)
    callbacks: Mapping[str, tuple[str, int, str]] = field(default_factory=dict)
    cpu_flags: tuple[str, ...] = ()
    cpu_peaks: Mapping[str, float] = field(default_factory=dict)
    calibration: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    command_buffers: bool = True
    cells: Mapping[str, str] = field(default_factory=dict)
    exit: int | None = None
    stopped: bool = False
    created: str = ""
    secrets: bool = False
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.argv and not self.secrets:
            from outpace.model.secret_masking import mask_secrets  # few runs have options to look at

            object.__setattr__(self, "argv", mask_secrets(self.argv))

    def to_json(self) -> str:
        """Return the record as JSON text. The samples, which are thousands, stand on one line."""
        samples = json.dumps(self.as_dict()["python_samples"], separators=(",", ":"))
        head, mark, rest = json.dumps({**self.as_dict(), "python_samples": _MARK}, indent=1, default=str).partition(
            f'"{_MARK}"'
        )
        return head + samples + rest + "\n" if mark else head + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain mappings and tuples, in the form of `Run.records`."""
        samples = self.python_samples
        # asdict() would copy every number of the samples.
        plain = dataclasses.asdict(dataclasses.replace(self, python_samples=None))
        if samples is None:
            return {**plain, "python_samples": None}
        return {**plain, "python_samples": {**vars(samples), "others": [dict(vars(thread)) for thread in samples.others]}}

    @classmethod
    def from_json(cls, text: str) -> CaptureRecord:
        """Read a record from JSON text. Raises ValueError with a reason when the text is not a
        record that this version can read.
        """
        try:
            data = parse_json(text)
        except ValueError as error:
            raise ValueError(f"it is not JSON ({error})") from None
        if not isinstance(data, dict):
            raise ValueError("it is not a JSON object")
        if data.get("schema") != SCHEMA:
            raise ValueError(f"its schema is {data.get('schema')!r}, this version of Outpace reads {SCHEMA}")
        try:
            record: CaptureRecord = decode(cls, data)
            if record.python_samples is not None:
                _check(record.python_samples)
            if any(
                line not in range(len(record.op_sources.lines))
                for ops in record.op_sources.by_function.values()
                for line in ops.values()
            ):
                raise ValueError("an op names a line that is not there")
            texts = range(-1, len(record.graph_shapes.texts))
            if any(text not in texts for ops in record.graph_shapes.by_function.values() for text in ops.values()):
                raise ValueError("an op names a text that is not there")
            if any(len(text) > MAX_TEXT for text in record.graph_shapes.texts):
                raise ValueError(f"the text of an op has more than {MAX_TEXT} characters")
        except (TypeError, ValueError) as error:
            raise ValueError(f"a field is missing or of the wrong kind ({error})") from None
        return record


def record_path(folder: str, host: str) -> str:
    """Return the path of a host's record in a run folder."""
    return folder.rstrip("/") + "/" + host + RECORD_SUFFIX


def write_record(folder: str, host: str, record: CaptureRecord) -> str:
    """Write a record into a local run folder, whole or not at all, and return its path."""
    path = record_path(folder, host)
    with write_atomically(path, "The capture's record") as file:
        file.write(record.to_json().encode("utf-8"))
    return path


def _check(samples: PythonSamples) -> None:
    """Raise ValueError where an index points to no frame or stack."""
    frames, stacks = range(len(samples.frames)), range(len(samples.stacks))
    if any(not stack or any(frame not in frames for frame, _ in stack) for stack in samples.stacks):
        raise ValueError("a stack is empty, or names a frame that is not there")
    if any(stack not in stacks for *_, stack in samples.samples):
        raise ValueError("a sample names a stack that is not there")
    if any(stack not in stacks for other in samples.others for stack, _ in other.stacks):
        raise ValueError("a thread names a stack that is not there")
