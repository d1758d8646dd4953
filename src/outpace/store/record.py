"""The capture record: what Outpace noted while it captured a profile, kept beside it as `<host>.outpace.json`.

A profile tells what ran; the record tells what a profile cannot: the source line of each tf.data stage, which line made
an op, how long steps took without the profiler, how many cores the process was allowed to use. Standard library only,
because the record is written inside the user's training process.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.files import whole

SCHEMA = 1
SUFFIX = ".outpace.json"
_MARK = "@python_samples@"


@dataclass(frozen=True)
class PipelineStage:
    """One tf.data operation as the script built it.

    `label` is the name given to TensorFlow, found again as stat `name` of the stage's `Iterator::` events; None when
    the user's own name could not be read or the operation takes none. `inputs` are ids of the stages that feed it.
    `inner` are the stages built inside its function (the files of an interleave).
    `stateful` lists what keeps TensorFlow from running the stage in parallel by itself: stateful operations inside its
    function, and `captured variable`. `varying` names the operations of the function that give something else in every epoch.
    `library` names the package whose code built the stage on behalf of the line, `entry` its function that the line calls.
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
    """One graph that a `tf.function` built: where the function stands, when (Unix ns), how long (ns), and for which arguments.

    `arguments` maps parameter names to the types that TensorFlow told apart: `TensorSpec(...)` or `Literal[...]` for Python values.
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

    `lines` are (file, line, text of the line). `by_function`: for each function, by its name in the profile, the ops of its graph and of the
    functions inside it, with the index of their line. Ops without a line, and gradient ops whose name says what they are the gradient of,
    are left out.
    """

    lines: tuple[tuple[str, int, str], ...] = ()
    by_function: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class LayerSource:
    """What Keras calls in a name scope: `kind` is model, layer, metric or optimizer, `type` its class.

    `file`, `line` and `text` are the user's line that made it, empty where unknown; `inner` says that library code made it on behalf of
    that line. `call_file` and `call_line` are where its `call` stands if the user wrote it.
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


@dataclass(frozen=True)
class Window:
    """The captured steps: numbers of the marks, and what was counted before and around them.

    `interrupted` are the numbers of marks that also hold something else than a step (an epoch's end, a validation).
    `steps` counts calls; one call is `steps_per_execution` training steps. `cpu_seconds` is the processor time that the process
    used meanwhile, all threads together, `machine_busy` the share of the machine's that all processes used; 0 where it was not measured.
    """

    first_step: int
    steps: int
    warmup: int
    seconds: float
    interrupted: tuple[int, ...] = ()
    cpu_seconds: float = 0.0
    machine_busy: float = 0.0


@dataclass(frozen=True)
class Overhead:
    """Durations of single steps in nanoseconds, in order: before, inside and after the captured window."""

    before_ns: tuple[int, ...] = ()
    during_ns: tuple[int, ...] = ()
    after_ns: tuple[int, ...] = ()


@dataclass(frozen=True)
class PythonSamples:
    """Stacks of the training thread while the profile was recorded, fifty to a hundred moments a second.

    base_unix_ns: Unix time from which the samples count. `thread`: name of the thread. `method`: `signal`, or `thread` where samples had to
    wait for the GIL (`capture/ticks.py` says what that means). `frames`: (file, function, its first line, owner); the owner is `""` for the
    user's own code, `python` for the standard library, `outpace`, or the name of the package. `stacks`: outermost first, each place an
    index of a frame and a line. `samples`: (ns since the base, ns that it stands for, index of the stack). `text`: (index of a frame, line,
    source) of the user's innermost lines. `dropped`: samples too many to keep. `others`: what Python's other threads did meanwhile.
    """

    base_unix_ns: int
    thread: str
    method: str
    frames: tuple[tuple[str, str, int, str], ...]
    stacks: tuple[tuple[tuple[int, int], ...], ...]
    samples: tuple[tuple[int, int, int], ...]
    text: tuple[tuple[int, int, str], ...] = ()
    dropped: int = 0
    others: tuple[OtherThread, ...] = ()


@dataclass(frozen=True)
class OtherThread:
    """A Python thread beside the one that trains: processor time that it used while it was watched (ns), for how long that was (ns), and how
    often each stack was met there (index into the stacks of `PythonSamples`, count)."""

    name: str
    cpu_ns: int
    watched_ns: int
    stacks: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Compilation:
    """One part of a compilation that JAX reported: when it ended (Unix ns), how long it took (ns), JAX's name of the part, and the user's
    line that led to it (an empty file where there is none). `program`: name of what was compiled, where this JAX says it.

    `arguments` are those that differ from the compilation before of the same function, `before` what they were then (None: there was none);
    both by parameter and path, described as `float32[16,64]`, or `Literal[...]` for static values. `arguments` is None where nothing is known.
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
    """Everything noted about one host's capture; see the fields' own types. `layers` are by name scope in the graph.

    `callbacks`: (file, line, text) of the line that made the first of each class of Keras' own callbacks.
    """

    outpace: str
    script: str
    argv: tuple[str, ...]
    versions: Mapping[str, str]
    python: str
    mode: str
    window: Window
    steps_per_execution: int
    overhead: Overhead
    pipeline: tuple[PipelineStage, ...]
    cpu_count: int
    traces: tuple[FunctionTrace, ...] = ()
    python_samples: PythonSamples | None = None
    compilations: tuple[Compilation, ...] = ()
    op_sources: OpSources = field(default_factory=OpSources)
    layers: Mapping[str, LayerSource] = field(default_factory=dict)
    callbacks: Mapping[str, tuple[str, int, str]] = field(default_factory=dict)
    exit: int | None = None
    stopped: bool = False
    created: str = ""
    schema: int = SCHEMA

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
        """Read JSON text; raises ValueError with a reason when it is not a record this version can read."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is not JSON ({error})") from None
        if not isinstance(data, dict):
            raise ValueError("it is not a JSON object")
        if data.get("schema") != SCHEMA:
            raise ValueError(f"its schema is {data.get('schema')!r}, this version of Outpace reads {SCHEMA}")
        try:
            return _build(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"a field is missing or of the wrong kind ({error})") from None


def record_path(folder: str, host: str) -> str:
    """Path of a host's record in a run folder."""
    return folder.rstrip("/") + "/" + host + SUFFIX


def write_record(folder: str, host: str, record: CaptureRecord) -> str:
    """Write a record into a local run folder, whole or not at all; returns its path."""
    path = record_path(folder, host)
    with whole(path, "The capture's record") as file:
        file.write(record.to_json().encode("utf-8"))
    return path


def _known(cls: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Only the fields that this version knows, so that a later version may add some."""
    names = {item.name for item in dataclasses.fields(cls)}
    return {key: value for key, value in data.items() if key in names}


def _stage(data: Mapping[str, Any]) -> PipelineStage:
    known = _known(PipelineStage, data)
    known.update({key: tuple(int(item) for item in known.get(key, ())) for key in ("inputs", "inner")})
    known.update({key: tuple(str(item) for item in known.get(key, ())) for key in ("stateful", "varying")})
    known["kwargs"] = dict(known.get("kwargs", {}))
    known["id"], known["line"] = int(known["id"]), int(known["line"])
    return PipelineStage(**known)


def _trace(data: Mapping[str, Any]) -> FunctionTrace:
    known = _known(FunctionTrace, data)
    known.update({key: int(known[key]) for key in ("line", "start_ns", "duration_ns")})
    known["arguments"] = {str(name): str(text) for name, text in known.get("arguments", {}).items()}
    return FunctionTrace(**known)


def _compilation(data: Mapping[str, Any]) -> Compilation:
    known = _known(Compilation, data)
    known.update({key: int(known[key]) for key in ("unix_ns", "duration_ns", "line")})
    known.update({key: str(known[key]) for key in ("event", "file", "function")}, program=str(known.get("program", "")))
    for key in ("before", "arguments"):
        given = known.get(key)
        known[key] = None if given is None else {str(name): str(text) for name, text in given.items()}
    return Compilation(**known)


def _other(data: Mapping[str, Any]) -> OtherThread:
    stacks = tuple((int(stack), int(count)) for stack, count in data["stacks"])
    return OtherThread(str(data["name"]), int(data["cpu_ns"]), int(data["watched_ns"]), stacks)


def _samples(data: Mapping[str, Any] | None) -> PythonSamples | None:
    if data is None:
        return None
    known = _known(PythonSamples, data)
    known.update(base_unix_ns=int(known["base_unix_ns"]), thread=str(known["thread"]), method=str(known["method"]))
    frames = tuple((str(file), str(function), int(line), str(owner)) for file, function, line, owner in known["frames"])
    stacks = tuple(tuple((int(frame), int(line)) for frame, line in stack) for stack in known["stacks"])
    samples = tuple((int(moment), int(weight), int(stack)) for moment, weight, stack in known["samples"])
    text = tuple((int(frame), int(line), str(source)) for frame, line, source in known.get("text", ()))
    if any(not 0 <= frame < len(frames) for stack in stacks for frame, _ in stack):
        raise ValueError("a stack names a frame that is not there")
    if any(not 0 <= stack < len(stacks) for *_, stack in samples):
        raise ValueError("a sample names a stack that is not there")
    others = tuple(_other(item) for item in known.get("others", ()))
    if any(not 0 <= stack < len(stacks) for other in others for stack, _ in other.stacks):
        raise ValueError("a thread names a stack that is not there")
    known.update(frames=frames, stacks=stacks, samples=samples, text=text, dropped=int(known.get("dropped", 0)), others=others)
    return PythonSamples(**known)


def _sources(data: Mapping[str, Any]) -> OpSources:
    lines = tuple((str(file), int(line), str(text)) for file, line, text in data.get("lines", ()))
    functions = {
        str(name): {str(op): int(line) for op, line in ops.items() if 0 <= int(line) < len(lines)}
        for name, ops in data.get("by_function", {}).items()
    }
    return OpSources(lines, functions)


def _layer(data: Mapping[str, Any]) -> LayerSource:
    known = _known(LayerSource, data)
    known.update({key: int(known.get(key, 0)) for key in ("line", "call_line")})
    return LayerSource(**known)


def _build(data: Mapping[str, Any]) -> CaptureRecord:
    known = _known(CaptureRecord, data)
    window = _known(Window, data["window"])
    window["interrupted"] = tuple(int(item) for item in window.get("interrupted", ()))
    window.update({key: int(window[key]) for key in ("first_step", "steps", "warmup")})
    window.update(seconds=float(window["seconds"]), cpu_seconds=float(window.get("cpu_seconds", 0.0)))
    window.update(machine_busy=float(window.get("machine_busy", 0.0)))
    overhead = {key: tuple(int(item) for item in value) for key, value in _known(Overhead, data["overhead"]).items()}
    known.update(
        argv=tuple(str(item) for item in data["argv"]),
        versions={str(key): str(value) for key, value in data["versions"].items()},
        window=Window(**window),
        overhead=Overhead(**overhead),
        pipeline=tuple(_stage(item) for item in data["pipeline"]),
        traces=tuple(_trace(item) for item in data.get("traces", ())),
        python_samples=_samples(data.get("python_samples")),
        compilations=tuple(_compilation(item) for item in data.get("compilations", ())),
        op_sources=_sources(data.get("op_sources", {})),
        layers={str(path): _layer(item) for path, item in data.get("layers", {}).items()},
        callbacks={
            str(name): (str(file), int(line), str(text)) for name, (file, line, text) in data.get("callbacks", {}).items()
        },
        steps_per_execution=int(data["steps_per_execution"]),
        cpu_count=int(data["cpu_count"]),
    )
    return CaptureRecord(**known)
