"""Interpretation of event names: framework op, tf.data iterator, memory copy, and further names
that frameworks give to their work.

This is the one module that knows the names of TensorFlow's, JAX' and XLA's events. Each distinct
name of a profile is parsed once (`event_names`); other modules select events by `EventFlag`, and
ops by their kind.

Names follow conventions of TensorFlow and XLA (`scope/op:Type`, `Iterator::A::B`, `MemcpyH2D`); the
meaning of each convention is that of `tf_op_utils.cc` in XLA's profiler utilities.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from enum import Enum, IntFlag, auto
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.model.arrays import Indices, Mask
from outpace.trace import Trace

_TF_NAME = compile_lazily(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*")
_TF_TYPE = compile_lazily(r"[A-Z_][a-zA-Z0-9_]*")
_JAX_TYPE = compile_lazily(r"[a-z_][a-z0-9_]*(\[.*\])?", re.DOTALL)
_DIRECTIONS = ("HToD", "DToH", "DToD", "HToH", "PToP")  # directions of copies; PToP is between devices
_COPIES = {f"memcpy{way}".lower(): f"Memcpy{way}" for way in _DIRECTIONS}
_OLD_COPIES = {f"memcpy{way.replace('To', '2')}".lower(): f"Memcpy{way}" for way in _DIRECTIONS}


JITTED_CALL_PREFIX = "PjitFunction("  # prefix of the name of a call of a jitted function, in JAX
_REMAT = "/rematted_computation/"  # part of the names of ops that JAX computes a second time
# Prefix of ops of JAX' own functions (`_normal`, `_uniform`), where a program calls one outside of
# any jitted function
_LIBRARY_PROGRAM = "jit(_"
CUDNN_MARKER = "cudnn"  # part of the names of cuDNN's kernels, of which one call may launch several
ONEDNN_PREFIX = "_Mkl"  # prefix of the types of TensorFlow's ops that oneDNN computes
INPUT_THREADS = "tf_data"  # prefix of the names of TensorFlow's input threads
GET_NEXT_THREADS = INPUT_THREADS + "_iterator_get_next"  # prefix of input threads that also run ops of the step after the input
INTRA_OP_THREADS = "tf_numa_-1_Eigen"  # prefix of the threads of the pool that divides an op among the cores
COMPILER_THREADS = "tf_pjrt_compile_thread_pool"  # prefix of the threads on which XLA compiles for JAX
WAITING_OP_TYPES = ("IteratorGetNext", "Collective")  # prefixes of the types of ops that wait for input or for other workers
CORE_THREADS = (INTRA_OP_THREADS, "tf_XLAEigen")  # pools with a thread per core, unless the program sets another number
# TensorFlow's name of a stage that fetches from the host's pipeline, for a device or a replica
DEVICE_PREFETCH_STAGE = "device_prefetch"


class EventFlag(IntFlag):
    """Classification of an event name, in addition to its op."""

    EXECUTOR = auto()  # a run of TensorFlow's executor
    EXECUTOR_DONE = auto()  # the end of a run of TensorFlow's executor
    INPUT_REQUEST = auto()  # an op that requests input from an iterator
    REGION_START = auto()  # the start of a task in XLA's thread pool
    REGION_STOP = auto()  # the end of a task in XLA's thread pool
    KERAS_BATCH = auto()  # Keras' own mark of a batch
    DEVICE_PIPELINE = auto()  # the part of a tf.data pipeline on the device's side
    COPY_TO_DEVICE = auto()  # a copy by JAX' client of a CPU
    ARRAY_FETCH = auto()  # a copy of a JAX array to the host
    INTRA_OP_TASK = auto()  # a task of the intra-op pool
    ALLOCATION = auto()  # an allocation of memory
    DEALLOCATION = auto()  # a deallocation of memory
    JIT_CALL = auto()  # a call of a jitted function
    JAX_CALL = auto()  # a call of a jitted or pmapped function
    NAMED_CALL = auto()  # a call of a jitted or pmapped function, with the function's name
    EAGER_EXECUTE = auto()  # an eager op, as the runtime records it
    EAGER_OP = auto()  # an eager op, as its kernel records it
    EAGER_INPUT = auto()  # an eager op that requests input
    SESSION_RUN = auto()  # a run of a session's graph
    INFERENCE_RUN = auto()  # a run of a session or of a signature
    FUNCTION_RUN = auto()  # a run of a function
    WRAPPER = auto()  # an event of TensorFlow that encloses ops: no work of a step itself
    PYTHON_FRAME = auto()  # a frame of a profiler's Python tracer
    GRADIENT_TAPE = auto()  # an op of a backward pass
    THUNK_EXECUTOR = auto()  # XLA's executor on a CPU
    STAGE_FUNCTION = auto()  # the function that a tf.data stage runs for each element
    INPUT_WORK = auto()  # work of tf.data
    ITERATOR_ROOT = auto()  # the root iterator of a pipeline
    PRODUCER = auto()  # production of an element for another thread
    CONSUMER = auto()  # consumption of an element of another thread
    COMPUTE_SCOPE = auto()  # an event during which its thread computes
    WAITING_OP = auto()  # an op that waits for input or for other workers
    RESULT_WAIT = auto()  # a wait for the results of a call
    BLOCKING_WAIT = auto()  # a wait for the results of a call, by a word anywhere in the name
    DEVICE_WAIT = auto()  # a wait for the completion of launched work, or for other devices
    ANY_WAIT = auto()  # a wait for anything, as far as the name shows
    PYTHON_THREAD = auto()  # an event that only threads running Python record
    BUILD = auto()  # the build of a graph or a program
    COMPILER_PASS = auto()  # a pass of XLA's compiler that names the program
    JAX_PRIMITIVE = auto()  # a primitive that JAX runs outside of any jitted function
    INDEXING_PRIMITIVE = auto()  # such a primitive of an index expression, `x[i]`
    JAX = auto()  # an event that occurs only in JAX programs
    TENSORFLOW = auto()  # an event of TensorFlow's runtime
    KERAS_FUNCTION = auto()  # a function of Keras' loop
    STEP_MARK = auto()  # a mark that spans a step and is no work
    HOST_TO_DEVICE_OP = auto()  # an op that copies to a device
    EXECUTOR_ANY_CASE = auto()  # a run of TensorFlow's executor, in upper or lower case
    INPUT_OP = auto()  # an op that requests input, in upper or lower case
    PYTHON_DISPATCH = auto()  # the dispatch of an op, or a constant, from Python
    RUNTIME = auto()  # work of a framework's runtime for a call
    SUMMARY_WRITE = auto()  # writing logs for TensorBoard, in a training or at the end of a capture


_TRAINS = compile_lazily(
    r"MatMul|Conv\dD|Conv2d|Einsum|XlaDot|RNN|LSTM|GRU|Attention|Backprop|Grad|ResourceApply|ResourceSparseApply|Assign(?:Add|Sub)?Variable"
)
_JITTED = JITTED_CALL_PREFIX.rstrip("(")
_EAGER_OPS = "EagerLocalExecute: "
_EXACTLY = {
    "ExecutorState::Process": EventFlag.EXECUTOR,
    "ExecutorDoneCallback": EventFlag.EXECUTOR_DONE,
    "IteratorGetNextOp::DoCompute": EventFlag.INPUT_REQUEST,
    "IteratorGetNextAsOptionalOp::DoCompute": EventFlag.INPUT_REQUEST,
    "ThreadpoolListener::StartRegion": EventFlag.REGION_START,
    "ThreadpoolListener::StopRegion": EventFlag.REGION_STOP,
    "Profiled batch": EventFlag.KERAS_BATCH,
    "Iterator::Prefetch::Generator": EventFlag.DEVICE_PIPELINE,
    "H2D Dispatch": EventFlag.COPY_TO_DEVICE,
    "np.asarray(jax.Array)": EventFlag.ARRAY_FETCH,
    "ArrayImpl.copy_to_host_async": EventFlag.ARRAY_FETCH,
    "ParallelFor": EventFlag.INTRA_OP_TASK,
    "MemoryAllocation": EventFlag.ALLOCATION,
    "MemoryDeallocation": EventFlag.DEALLOCATION,
}
_BEGINS = {
    JITTED_CALL_PREFIX: EventFlag.JIT_CALL | EventFlag.JAX,
    _JITTED: EventFlag.JAX_CALL,
    "PmapFunction": EventFlag.JAX_CALL,
    "EagerExecute": EventFlag.EAGER_EXECUTE | EventFlag.WRAPPER | EventFlag.TENSORFLOW,
    "EagerLocalExecute": EventFlag.WRAPPER,
    _EAGER_OPS: EventFlag.EAGER_OP,
    _EAGER_OPS + "IteratorGetNext": EventFlag.EAGER_INPUT,
    "EagerKernelExecute": EventFlag.WRAPPER,
    "FunctionRun": EventFlag.FUNCTION_RUN | EventFlag.WRAPPER | EventFlag.TENSORFLOW,
    "SessionRun": EventFlag.SESSION_RUN | EventFlag.TENSORFLOW | EventFlag.INFERENCE_RUN,
    "RunGraph": EventFlag.SESSION_RUN,
    **dict.fromkeys(("TFSessionRun", "Session::Run", "BatchingSessionRun", "TfServing"), EventFlag.INFERENCE_RUN),
    "TFE_": EventFlag.TENSORFLOW,
    **dict.fromkeys(("TFE_Py_", "tf.constant", "convert_to_tensor"), EventFlag.PYTHON_DISPATCH),
    "ExecutorState::Process": EventFlag.COMPUTE_SCOPE | EventFlag.TENSORFLOW,
    "ThunkExecutor::Execute": EventFlag.COMPUTE_SCOPE | EventFlag.THUNK_EXECUTOR,
    "InstantiatedCapturedFunction::": EventFlag.COMPUTE_SCOPE | EventFlag.STAGE_FUNCTION | EventFlag.INPUT_WORK,
    "Iterator::": EventFlag.INPUT_WORK,
    "IteratorGetNextOp": EventFlag.INPUT_WORK,
    "IteratorGetNextAsOptionalOp": EventFlag.INPUT_WORK,
    "$": EventFlag.PYTHON_FRAME | EventFlag.PYTHON_THREAD,
    "trace_to_jaxpr": EventFlag.PYTHON_THREAD,
    "lower_": EventFlag.PYTHON_THREAD,
    "backend_compile": EventFlag.PYTHON_THREAD,
    **dict.fromkeys(
        ("KernelAndDeviceFunc", "EagerCopy", "ValidateInput", "ExecutorDone", "ThreadpoolListener", "Memory"), EventFlag.RUNTIME
    ),
    **dict.fromkeys(
        ("CommonPjRt", "PjRt", "PJRT_", "Pjrt", "DevicePut", "DeviceMem", "GpuExecutable", "CpuExecutable"), EventFlag.RUNTIME
    ),
    **dict.fromkeys(
        ("Build buffer", "ThenExecute", "ParseArguments", "AllocateOutput", "Handle inputs", "shard_args"), EventFlag.RUNTIME
    ),
    **dict.fromkeys(("PJRT_LoadedExecutable_Execute", "TfrtCpuExecutable::Execute"), EventFlag.JAX),
    **dict.fromkeys(("PjRtStreamExecutorLoadedExecutable", "PyLoadedExecutable"), EventFlag.JAX),
    **dict.fromkeys(("one_step_on_iterator", "multi_step_on_iterator", "one_step_on_data"), EventFlag.KERAS_FUNCTION),
    **dict.fromkeys(("train_function", "test_function", "predict_function"), EventFlag.KERAS_FUNCTION),
}
_ENDS = {
    "Produce": EventFlag.PRODUCER,
    "Consume": EventFlag.CONSUMER,
    "::Await": EventFlag.RESULT_WAIT,
    "block_until_ready": EventFlag.RESULT_WAIT,
    "BlockHostUntilReady": EventFlag.RESULT_WAIT,
}
_BUILDS = (
    *("tf.function-graph_building", "XlaCompile", "XlaLaunch:Compile", "PjRtClient::Compile", "TfrtCpuClient::Compile"),
    *("CommonPjRtClient::Compile", "PjitFunction:compile", "HloPassPipeline", "JitCompilation", "trace_to_jaxpr"),
    *("lower_sharding_computation", "lower_mesh_computation", "backend_compile", "PjRtCpuClient::Compile"),
    *("PjRtStreamExecutorClient::Compile", "StreamExecutorGpuClient::Compile", "PjRtCApiClient::Compile"),
    *("TfrtTpuClient::Compile", "TfrtTpuCompiler::Compile", "CpuCompiler::", "GpuCompiler::", "FusionCompiler::Compile"),
    *("JitCompiler::Compile", "HLO passes"),
)
_BUILDS_IN_PYTHON = compile_lazily(  # frames of JAX functions that only build programs
    r"\$(?:pxla|compiler|mlir|partial_eval|stages)\.py:\d+ "
    r"(?:compile|compile_or_get_cached|backend_compile\w*|lower_sharding_computation|lower_jaxpr_to_module|trace_to_jaxpr\w*)"
)
_OF_MODULE = compile_lazily(
    r"\((jit_\S+|pmap_\S+)\)$"
)  # program in the name of a pass: `HLO passes after layout assignment (jit_step)`
_CALL = compile_lazily(r"(?:PjitFunction|PmapFunction)\((.*)\)")
_WRITES_LOGS = ("WriteSummary", "WriteRawProtoSummary", "WriteGraphSummary", "FlushSummaryWriter")
_PASSES_ON = ("_Send", "_Recv", "_HostSend", "_HostRecv")  # types of ops that move a tensor between devices
_MARKS = ("train", "test", "TraceContext")
_BLOCKS = ("Await", "BlockUntilReady", "BlockHostUntilReady", "block_until_ready")
_AWAITS_DEVICE = ("Synchronize", "BufferSequencingEvent", "Rendezvous")
_WAITS = ("wait", "block", "sleep", "poll", "select", "acquire", "join", "synchronize")
# Outside of any jitted function, JAX runs a primitive as a jitted function of the primitive's name;
# such calls are glue code, not the step.
_PICKS = frozenset(("dynamic_slice", "squeeze", "slice", "gather", "_unstack"))  # primitives of an index expression, `x[i]`
_GLUE = _PICKS.union(
    (
        "add",
        "broadcast_in_dim",
        "concatenate",
        "convert_element_type",
        "copy",
        "dynamic_update_slice",
        "fold_in",
        "iota",
        "multiply",
    ),
    ("reshape", "scatter", "select_n", "subtract", "transpose", "true_divide", "_threefry_seed", "_threefry_split"),
)


class OpKind(str, Enum):
    """Family of an op."""

    TENSORFLOW = "tensorflow"
    TF_DATA = "tf.data"
    JAX = "jax"
    COPY = "copy"
    OTHER = "other"


class WorkKind(str, Enum):
    """Kind of work of an op, as far as its name shows; the advice on making it cheaper depends on
    the kind. The value is its name for people.
    """

    ATTENTION = "attention"
    RECURRENT = "recurrent loops"
    OPTIMIZER = "the optimizer"
    CONVOLUTION = "convolutions"
    POOLING = "pooling"
    NORMALISATION = "normalisation"
    RANDOM = "random numbers"
    MATMUL = "matrix products"
    EMBEDDING = "embedding lookups"
    CAST = "casts"
    REDUCTION = "reductions"
    ELEMENTWISE = "element-wise ops"
    MOVEMENT = "copies and reshapes"
    OTHER = "other ops"


_RANDOM = compile_lazily(
    r"Random[A-Z]\w*|Stateless(Random|TruncatedNormal|Multinomial|Parameterized|Shuffle|SampleDistorted)\w*|Multinomial|"
    r"(Parameterized)?TruncatedNormal|Stateful(Uniform|StandardNormal|Random|TruncatedNormal)\w*|Rng\w*|rng(-\w+)*"
)
_RANDOM_NAME = compile_lazily(
    r"StatelessRandom|threefry|random_bits|rng_bit_generator|rng_uniform|RandomUniform|RandomStandardNormal|"
    r"jit\(_(?:uniform|normal|truncated_normal|gumbel|randint|shuffle|gamma|laplace|bernoulli)\)"
)
_WORK = tuple(
    (kind, compile_lazily(pattern, re.IGNORECASE))
    # The first pattern that matches decides. It is searched in the type of an op, and in the last
    # part of a compiled op's name
    for kind, pattern in {
        WorkKind.OTHER: r"^(Collective|Nccl|all-|reduce-scatter)",
        WorkKind.ATTENTION: r"attention|attn|fmha",
        WorkKind.RECURRENT: r"CudnnRNN|BlockLSTM|LSTMBlock|GRUBlock",
        WorkKind.OPTIMIZER: r"^(Resource)?(Sparse)?Apply[A-Z]",
        WorkKind.CONVOLUTION: r"conv(olution|_general|[123]d|forward|backward)|depthwise",
        WorkKind.POOLING: r"(max|avg|average)_?pool|reduce[-_]window|select[-_]and[-_](scatter|gather)",
        WorkKind.NORMALISATION: r"(batch|layer|group|rms|instance)_?norm|\bLRN",
        WorkKind.MATMUL: r"mat_?mul|einsum|gemm|^dot|[^a-z]dot(_general)?\b",
        WorkKind.EMBEDDING: r"^ResourceGather|EmbeddingLookup",
        WorkKind.CAST: r"^(_?Cast|_?MklCast)$|^convert|[^a-z]convert(_element_type)?\b",
        WorkKind.REDUCTION: r"^(Sum|Mean|Max|Min|Prod|All|Any|L2Loss|BiasAddGrad|Cum(sum|prod))$|arg_?(max|min)|reduce|Softmax|Entropy",
        WorkKind.ELEMENTWISE: r"^(_Mkl)?(Add(N|V2)?|Sub|Mul(NoNan)?|Real[Dd]iv|Div(NoNan)?|Floor(Div|Mod)?|Neg|Abs|Sign|Exp(m1)?|"
        r"Log(1p|istic)?|"
        r"Pow|R?sqrt(Grad)?|Square|SquaredDifference|Reciprocal|Inv(Grad)?|Maximum|Minimum|Tanh(Grad)?|Sigmoid(Grad)?|Relu6?(Grad)?|"
        r"LeakyRelu(Grad)?|[ES]elu(Grad)?|Soft(plus|sign)(Grad)?|Erf|Sin|Cos|Tan|Select(V2|_n)?|Greater(Equal)?|Less(Equal)?|(Not)?Equal|"
        r"Logical(And|Or|Not)|Ceil|Round|Clip\w*|ZerosLike|OnesLike|Fill|BiasAdd|IsFinite|Assign(Add|Sub)?VariableOp|integer_pow|add_any)$|"
        r"(add|multiply|subtract|divide|maximum|minimum|compare|select|exponential|tanh)\w*_fusion",
        WorkKind.MOVEMENT: r"transpose|copy|Concat|Slice|^Pad|Tile|Split|Pack|Reshape|Broadcast(To|_in_dim)|DynamicStitch|Reverse|Bitcast|"
        r"Gather|Scatter|Unsorted_?Segment",
    }.items()
)
_OF_LAYER = tuple(  # kinds of layers that consist of several ops and can only be made cheaper as a whole
    (kind, compile_lazily(pattern, re.IGNORECASE))
    for kind, pattern in {
        WorkKind.RECURRENT: r"lstm|(^|[/_])gru|(^|[/_])rnn|simple_?rnn",
        WorkKind.ATTENTION: r"attention|attn",
        WorkKind.NORMALISATION: r"(batch|layer|group|rms|instance|unit)_?norm",
        WorkKind.EMBEDDING: r"embedding",
    }.items()
)


def is_jax_library_op(name: str) -> bool:
    """Whether a compiled op belongs to a program that is only one of JAX' own functions, and so not
    to the step.
    """
    return name.startswith(_LIBRARY_PROGRAM)


def is_rematerialized(name: str) -> bool:
    """Whether a compiled op belongs to a forward pass that the backward pass repeats
    (`jax.checkpoint`).
    """
    return _REMAT in name


def is_random_op(op_type: str, name: str) -> bool:
    """Whether an op draws random numbers, by its type, or for compiled programs by its name."""
    return bool(_RANDOM.fullmatch(op_type) or _RANDOM_NAME.search(name))


def classify_work(op_type: str, name: str = "", layer: str = "") -> WorkKind:
    """Return the kind of an op.

    op_type: type of the op (`Conv2D`).
    name: name of the op, which is used where the type is that of a compiled op (`fusion`, `dot`).
    layer: class or path of the layer that the op belongs to; every op of a recurrent layer is
        `RECURRENT`.
    """
    if layer and (whole := _of_layer(layer)) is not WorkKind.OTHER:
        return whole
    found, compiled = _of_type(op_type), op_type.islower()
    if compiled and _RANDOM_NAME.search(name):
        return WorkKind.RANDOM
    return _of_type(_type_from_name(name)) if compiled and found in (WorkKind.OTHER, WorkKind.MOVEMENT) else found


@lru_cache(4096)
def _of_layer(layer: str) -> WorkKind:
    whole = _first(_OF_LAYER, layer)
    return whole if whole in (WorkKind.RECURRENT, WorkKind.OTHER) else _first(_OF_LAYER, layer.rpartition("/")[2])


@lru_cache(4096)
def _of_type(op_type: str) -> WorkKind:
    return WorkKind.RANDOM if _RANDOM.fullmatch(op_type) else _first(_WORK, op_type)


def _first(kinds: tuple[tuple[WorkKind, re.Pattern[str]], ...], text: str) -> WorkKind:
    return next((kind for kind, says in kinds if says.search(text)), WorkKind.OTHER)


class Op(NamedTuple):
    """Op in an event name. `type` is "Dataset" for tf.data iterators and "" for events that are no
    op.
    """

    kind: OpKind
    name: str
    type: str


class EventNames:
    """Classification of the names of a trace.

    ops: op of each name, in the order of `Trace.names`.
    """

    def __init__(self, texts: tuple[str, ...], find_rows: Callable[[Mask], Indices]) -> None:
        known = {text: (_flags(text, op := parse_op(text)), op) for text in dict.fromkeys(texts)}
        self._rows_named = find_rows
        self.ops = tuple(known[text][1] for text in texts)
        self._flags = np.fromiter((known[text][0] for text in texts), np.int64, len(texts))
        self._kind = np.fromiter((_KINDS[op.kind] for op in self.ops), np.uint8, len(texts))

    def mask(self, flags: EventFlag) -> Mask:
        """Return a boolean over the names: whether the name has one of these flags."""
        return np.asarray((self._flags & int(flags)) != 0)

    def rows(self, flags: EventFlag) -> Indices:
        """Return the sorted rows of events whose name has one of these flags."""
        return self._rows_named(self.mask(flags))

    def op_kind_mask(self, *kinds: OpKind) -> Mask:
        """Return a boolean over the names: whether the name is an op of one of these kinds."""
        wanted = np.zeros(len(_KINDS), bool)
        wanted[[_KINDS[kind] for kind in kinds]] = True
        return np.asarray(wanted[self._kind])


@memoize
def event_names(trace: Trace) -> EventNames:
    """Return the classification of a trace's names, cached in the trace."""
    of = weakref.ref(trace)  # the trace caches the result: a strong reference would be a cycle that keeps the file open

    def rows_named(wanted: Mask) -> Indices:
        kept = of()
        assert kept is not None, "the trace is gone"
        return kept.find_rows_by_mask(wanted)

    return EventNames(trace.names, rows_named)


def _flags(text: str, op: Op) -> int:
    found = int(_EXACTLY.get(text, 0))
    if text.startswith(_ANY_BEGIN):
        found |= reduce(or_, (flag for begin, flag in _BEGIN_FLAGS if text.startswith(begin)))
    if text.endswith(_ANY_END):
        found |= reduce(or_, (flag for end, flag in _END_FLAGS if text.endswith(end)))
    lower = text.lower()
    awaits, blocks = found & _AWAITED, any(word in text for word in _BLOCKS)
    holds = (  # conditions for the flags in `_TOLD`, in the same order
        text.startswith(_BUILDS) or (found & _IN_PYTHON and _BUILDS_IN_PYTHON.fullmatch(text)),
        awaits or blocks,
        awaits or blocks or found & _FETCHED or any(word in text for word in _AWAITS_DEVICE),
        any(word in lower for word in _WAITS),
        found & _CALLED and _CALL.fullmatch(text),
        text.endswith(")") and "Execute" not in text and _OF_MODULE.search(text),
        text.startswith(_MARKS) and "/" not in text and ":" not in text,
        text.startswith("gradient_tape/") or "/gradient_tape/" in text,  # the latter below a call that was not inlined
        lower.startswith("executorstate::process"),
        lower.startswith("iteratorgetnext"),
        op.kind is OpKind.TF_DATA and text.count("::") == 1,
        op.type.startswith(WAITING_OP_TYPES),
        op.type in _WRITES_LOGS,
        op.type in ("InfeedEnqueue", "InfeedEnqueueTuple", "MemcpyHToD"),
    )
    found |= sum(flag for flag, told in zip(_TOLD, holds, strict=True) if told)
    if text.startswith((JITTED_CALL_PREFIX, "jit_", "pmap_")) and (function := parse_jitted_function(text)) in _GLUE:
        found |= int(EventFlag.JAX_PRIMITIVE | (EventFlag.INDEXING_PRIMITIVE if function in _PICKS else 0))
    return found


def is_training_op(op_type: str) -> bool:
    """Whether an op is one that nearly every training has: of a layer with weights, of a backward
    pass, or of an optimizer.
    """
    return _TRAINS.search(op_type) is not None


def classify_non_model_op(op_type: str) -> EventFlag | None:
    """Return the flag of an op in a step that is no part of a model: `SUMMARY_WRITE` for writing
    logs, `INPUT_OP` for requesting input or moving tensors between devices; None for all others.
    """
    if op_type in _WRITES_LOGS:
        return EventFlag.SUMMARY_WRITE
    return EventFlag.INPUT_OP if op_type in _PASSES_ON or op_type.startswith("IteratorGetNext") else None


def parse_called_function(call: str) -> str | None:
    """Return the function in the name of a call (`step` for `PjitFunction(step)`); None for other
    names.
    """
    found = _CALL.fullmatch(call)
    return found and found[1]


def parse_pass_function(name: str) -> str:
    """Return the function whose program a pass of XLA's compiler works on, from the pass's name; ""
    where the name has none.
    """
    found = _OF_MODULE.search(name)
    return found[1].partition("_")[2] if found else ""


def parse_op(full_name: str) -> Op:
    """Return the op in an event name, with its kind, name and type."""
    name, colon, op_type = full_name.partition(":")
    if not colon:
        return _parse_copy(full_name)
    if name == "Iterator" and op_type.startswith(":"):
        return Op(OpKind.TF_DATA, full_name, "Dataset")
    if _TF_NAME.fullmatch(name) and _TF_TYPE.fullmatch(op_type):
        return Op(OpKind.TENSORFLOW, name, op_type)
    derived = op_type or _type_from_name(name)
    if _JAX_TYPE.fullmatch(derived):
        return Op(OpKind.JAX, name, derived.split("[", 1)[0])
    if not op_type:
        return Op(OpKind.TENSORFLOW, name, derived)
    return Op(OpKind.OTHER, full_name, "")


def _parse_copy(full_name: str) -> Op:
    start = full_name[:10].lower()
    for known, op_type in _COPIES.items():
        if start == known:
            return Op(OpKind.COPY, full_name, op_type)
    for known, op_type in _OLD_COPIES.items():
        if start.startswith(known):
            return Op(OpKind.COPY, full_name, op_type)
    return Op(OpKind.OTHER, full_name, "")


def _type_from_name(name: str) -> str:
    last = name.rsplit("/", 1)[-1]
    head, _, suffix = last.rpartition("_")
    return head if head and suffix.lstrip("+-").isdigit() else last


def parse_jitted_function(call: str) -> str:
    """Return the function in the name of a call (`PjitFunction(step)`) or of a program
    (`jit_step(8)`, or `jit_step` in a stat); "" for other names.
    """
    if call.startswith(JITTED_CALL_PREFIX):
        return call[len(JITTED_CALL_PREFIX) :].rstrip(")")
    kind, _, function = call.partition("_")
    return re.sub(r"\(\d+\)$", "", function) if kind in ("jit", "pmap") else ""


def normalize_function_name(function: str) -> str:
    """Return a function's name in XLA's spelling for programs, which has letters, digits and `_`:
    `<lambda>` becomes `_lambda`.
    """
    return _UNSPELT.sub("_", function).rstrip("_")


def parse_iterator_type(long_name: str) -> str:
    """Return the last part of a tf.data iterator's long name: `Map` for `Iterator::Root::Map`."""
    return long_name.rsplit("::", 1)[-1]


_UNSPELT = compile_lazily(r"[^\w.-]")
_KINDS = {kind: code for code, kind in enumerate(OpKind)}
# Flags as ints: thousands of names are classified, and an operation of `EventFlag` takes ten times
# as long as one of int.
_AWAITED, _IN_PYTHON, _FETCHED, _CALLED = map(
    int, (EventFlag.RESULT_WAIT, EventFlag.PYTHON_FRAME, EventFlag.ARRAY_FETCH, EventFlag.JAX_CALL)
)
_TOLD = tuple(
    map(
        int,
        (
            *(
                EventFlag.BUILD,
                EventFlag.BLOCKING_WAIT,
                EventFlag.DEVICE_WAIT,
                EventFlag.ANY_WAIT,
                EventFlag.NAMED_CALL,
                EventFlag.COMPILER_PASS,
                EventFlag.STEP_MARK,
                EventFlag.GRADIENT_TAPE,
            ),
            *(
                EventFlag.EXECUTOR_ANY_CASE,
                EventFlag.INPUT_OP,
                EventFlag.ITERATOR_ROOT,
                EventFlag.WAITING_OP,
                EventFlag.SUMMARY_WRITE,
                EventFlag.HOST_TO_DEVICE_OP,
            ),
        ),
    )
)
_ANY_BEGIN, _ANY_END = tuple(_BEGINS), tuple(_ENDS)
_BEGIN_FLAGS = tuple((begin, int(flag)) for begin, flag in _BEGINS.items())
_END_FLAGS = tuple((end, int(flag)) for end, flag in _ENDS.items())
