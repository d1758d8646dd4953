"""The capture record: what Outpace noted while it captured a profile, kept beside it as
`<host>.outpace.json`.

A profile tells what ran; the record tells what a profile cannot: the source line of each tf.data
stage, which line made an op, how long steps took without the profiler, how many cores the process
was allowed to use. Standard library only, because the record is written inside the user's training
process.
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
from outpace.model.secret_masking import mask_secrets

SCHEMA = 1
RECORD_SUFFIX = ".outpace.json"
_MARK = "@python_samples@"


@dataclass(frozen=True)
class PipelineStage:
    """One tf.data operation as the script built it.

    `label` is the name given to TensorFlow, found again as stat `name` of the stage's `Iterator::`
    events; None when the user's own name could not be read or the operation takes none. `inputs`
    are ids of the stages that feed it. `inner` are the stages built inside its function (the files
    of an interleave). `stateful` lists what keeps TensorFlow from running the stage in parallel by
    itself: stateful operations inside its function, and `captured variable`. `varying` names the
    operations of the function that give something else in every epoch. `library` names the package
    whose code built the stage on behalf of the line, `entry` its function that the line calls.
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
    """One graph that a `tf.function` built: where the function stands, when (Unix ns), how long
    (ns), and for which arguments.

    `arguments` maps parameter names to the types that TensorFlow told apart: `TensorSpec(...)` or
    `Literal[...]` for Python values.
    """

    function: str
    file: str
    line: int
    start_ns: int
    duration_ns: int
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OpSources:
    """The user's lines that made the ops of graphs.

    `lines` are (file, line, text of the line). `by_function`: for each function, by its name in the
    profile, the ops of its graph and of the functions inside it, with the index of their line. Ops
    without a line, and gradient ops whose name says what they are the gradient of, are left out.
    """

    lines: tuple[tuple[str, int, str], ...] = ()
    by_function: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class LayerSource:
    """What Keras calls in a name scope: `kind` is model, layer, metric or optimizer, `type` its
    class.

    `file`, `line` and `text` are the user's line that made it, empty where unknown; `inner` says
    that library code made it on behalf of that line. `call_file` and `call_line` are where its
    `call` stands if the user wrote it. Of an optimizer, `variables` are the paths of those that it
    updates, in their order, and `updates` how many ops of each name it runs for each of them
    (`mul`: `Mul`, `Mul_1`, ...).
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


@dataclass(frozen=True)
class CapturedSteps:
    """The captured steps: numbers of the marks, and what was counted before and around them.

    `interrupted` are the numbers of marks that also hold something else than a step (an epoch's
    end, a validation). `steps` counts calls; one call is `steps_per_execution` training steps.
    `cpu_seconds` is the processor time that the process used meanwhile, all threads together,
    `machine_busy` the share of the machine's that all processes used; 0 where it was not measured.
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
    """Durations of single steps in nanoseconds, in order: before, inside and after the captured
    window.

    rounds: where single steps were not timed, of how many steps each of those durations is the
    mean, from one's start to the next one's.
    """

    before_ns: tuple[int, ...] = ()
    during_ns: tuple[int, ...] = ()
    after_ns: tuple[int, ...] = ()
    rounds: tuple[int, ...] = ()


GARBAGE_COLLECTION, ITERATOR_END = "garbage collection", "end of a data set's iterator"


@dataclass(frozen=True)
class PythonSamples:
    """Stacks of the training thread while the profile was recorded, fifty to a hundred moments a
    second.

    base_unix_ns: Unix time from which the samples count. `thread`: name of the thread. `method`:
    `signal`, or `thread` where samples had to wait for the GIL (`capture/ticks.py` says what that
    means). `frames`: (file, function, its first line, owner); the owner is `""` for the user's own
    code, `python` for the standard library, `outpace`, or the name of the package. `stacks`:
    outermost first, each place an index of a frame and a line. `samples`: (ns since the base, ns
    that it stands for, index of the stack). `text`: (index of a frame, line, source) of the user's
    innermost lines. `dropped`: samples too many to keep. `others`: what Python's other threads did
    meanwhile. `pauses`: (ns since the base, how long, ns, what) of times in which no line of the
    program ran, but what `capture/pauses.py` names.
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
    """A Python thread beside the one that trains: processor time that it used while it was watched
    (ns), for how long that was (ns), and how often each stack was met there (index into the stacks
    of `PythonSamples`, count). `used_ns`: for each of these the processor time that the thread used
    just before it was met there; empty in captures before 0.3.
    """

    name: str
    cpu_ns: int
    watched_ns: int
    stacks: tuple[tuple[int, int], ...]
    used_ns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Compilation:
    """One part of a compilation that JAX reported: when it ended (Unix ns), how long it took (ns),
    JAX's name of the part, and the user's line that led to it (an empty file where there is none).
    `program`: name of what was compiled, where this JAX says it.

    `arguments` are those that differ from the compilation before of the same function, `before`
    what they were then (None: there was none); both by parameter and path, described as
    `float32[16,64]`, or `Literal[...]` for static values. `arguments` is None where nothing is
    known.
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


@dataclass(frozen=True)
class CaptureRecord:
    """Everything noted about one host's capture; see the fields' own types. `layers` are by name
    scope in the graph.

    `cpu_flags`: of the CPU's instructions for 16 bits (`_cores.py`), those that it has.
    `callbacks`: (file, line, text) of the line that made the first of each class of Keras' own
    callbacks. `argv` has dots for secrets (`model/secret_masking.py`) unless `secrets` says that
    they were asked for; records of earlier versions lose them here. `calibration`: ns that short
    loops took just before the profiler opened, by their names (`capture/calibration.py`), which
    tells how fast the machine was. `faults`: how often code of ours failed beside the training, by
    file, line and kind. `command_buffers`: whether XLA might use CUDA graphs, which
    `--command-buffers off` forbids. `cells`: of a notebook, what its cells are called (`In [3]`),
    by the file that they were compiled under.
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
    op_sources: OpSources = field(default_factory=OpSources)
    layers: Mapping[str, LayerSource] = field(default_factory=dict)
    callbacks: Mapping[str, tuple[str, int, str]] = field(default_factory=dict)
    cpu_flags: tuple[str, ...] = ()
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
        if not self.secrets:
            object.__setattr__(self, "argv", mask_secrets(self.argv))

    def to_json(self) -> str:
        """The record as JSON text; samples stand on one line, being thousands."""
        samples = json.dumps(self.as_dict()["python_samples"], separators=(",", ":"))
        head, mark, rest = json.dumps({**self.as_dict(), "python_samples": _MARK}, indent=1, default=str).partition(
            f'"{_MARK}"'
        )
        return head + samples + rest + "\n" if mark else head + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The record as plain mappings and tuples, as `Run.records` holds it."""
        samples = self.python_samples
        plain = dataclasses.asdict(dataclasses.replace(self, python_samples=None))  # copies every single number
        if samples is None:
            return {**plain, "python_samples": None}
        return {**plain, "python_samples": {**vars(samples), "others": [dict(vars(thread)) for thread in samples.others]}}

    @classmethod
    def from_json(cls, text: str) -> CaptureRecord:
        """Read JSON text; raises ValueError with a reason when it is not a record this version can
        read.
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
        except (TypeError, ValueError) as error:
            raise ValueError(f"a field is missing or of the wrong kind ({error})") from None
        return record


def record_path(folder: str, host: str) -> str:
    """Path of a host's record in a run folder."""
    return folder.rstrip("/") + "/" + host + RECORD_SUFFIX


def write_record(folder: str, host: str, record: CaptureRecord) -> str:
    """Write a record into a local run folder, whole or not at all; returns its path."""
    path = record_path(folder, host)
    with write_atomically(path, "The capture's record") as file:
        file.write(record.to_json().encode("utf-8"))
    return path


def _check(samples: PythonSamples) -> None:
    """Raise ValueError where an index leads nowhere."""
    frames, stacks = range(len(samples.frames)), range(len(samples.stacks))
    if any(not stack or any(frame not in frames for frame, _ in stack) for stack in samples.stacks):
        raise ValueError("a stack is empty, or names a frame that is not there")
    if any(stack not in stacks for *_, stack in samples.samples):
        raise ValueError("a sample names a stack that is not there")
    if any(stack not in stacks for other in samples.others for stack, _ in other.stacks):
        raise ValueError("a thread names a stack that is not there")
