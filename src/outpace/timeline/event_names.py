# SPDX-License-Identifier: Apache-2.0
"""Interpretation of event names: what kind of work an event is.

This module, `op_names` and `function_names` are the only ones that know the names of TensorFlow's,
JAX' and XLA's events, and `work_kinds` those of their ops. Each distinct name of a profile is
classified once (`event_names`); other modules select events by `EventFlag`, and ops by their kind.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from enum import IntFlag, auto
from types import SimpleNamespace

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.model.arrays import Indices, Mask
from outpace.timeline.function_names import (
    JITTED_CALL_PREFIX,
    parse_called_function,
    parse_jitted_function,
    parse_pass_function,
)
from outpace.timeline.op_names import Op, OpKind, parse_op
from outpace.trace import Trace

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
    THUNK_END = auto()  # XLA's mark of the end of an op on a CPU, whose name follows the prefix
    GRAPH_COMMAND = auto()  # a command of an XLA program that launches a CUDA graph
    GRAPH_UPDATE = auto()  # an update of a CUDA graph's arguments
    GRAPH_LAUNCH = auto()  # the driver's call that launches a CUDA graph
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
_EAGER_OPS = "EagerLocalExecute: "
THUNK_END_PREFIX = "end: "
"""Prefix of the names of `EventFlag.THUNK_END`."""
_NAMES = {
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
_PREFIXES = {
    EventFlag.JIT_CALL: (JITTED_CALL_PREFIX,),
    EventFlag.JAX_CALL: ("PjitFunction", "PmapFunction"),
    EventFlag.JAX: (
        *(JITTED_CALL_PREFIX, "PJRT_LoadedExecutable_Execute", "TfrtCpuExecutable::Execute"),
        *("PjRtStreamExecutorLoadedExecutable", "PyLoadedExecutable"),
    ),
    EventFlag.EAGER_EXECUTE: ("EagerExecute",),
    EventFlag.EAGER_OP: (_EAGER_OPS,),
    EventFlag.EAGER_INPUT: (_EAGER_OPS + "IteratorGetNext",),
    EventFlag.WRAPPER: ("EagerExecute", "EagerLocalExecute", "EagerKernelExecute", "FunctionRun"),
    EventFlag.FUNCTION_RUN: ("FunctionRun",),
    EventFlag.SESSION_RUN: ("SessionRun", "RunGraph"),
    EventFlag.INFERENCE_RUN: ("SessionRun", "TFSessionRun", "Session::Run", "BatchingSessionRun", "TfServing"),
    EventFlag.TENSORFLOW: ("EagerExecute", "FunctionRun", "SessionRun", "TFE_", "ExecutorState::Process"),
    EventFlag.PYTHON_DISPATCH: ("TFE_Py_", "tf.constant", "convert_to_tensor"),
    EventFlag.COMPUTE_SCOPE: ("ExecutorState::Process", "ThunkExecutor::Execute", "InstantiatedCapturedFunction::"),
    EventFlag.THUNK_EXECUTOR: ("ThunkExecutor::Execute",),
    EventFlag.THUNK_END: (THUNK_END_PREFIX,),
    EventFlag.GRAPH_COMMAND: ("command_buffer_",),
    EventFlag.GRAPH_UPDATE: ("command_buffer::update",),
    EventFlag.GRAPH_LAUNCH: ("cuGraphLaunch", "hipGraphLaunch"),
    EventFlag.STAGE_FUNCTION: ("InstantiatedCapturedFunction::",),
    EventFlag.INPUT_WORK: ("InstantiatedCapturedFunction::", "Iterator::", "IteratorGetNextOp", "IteratorGetNextAsOptionalOp"),
    EventFlag.PYTHON_FRAME: ("$",),
    EventFlag.PYTHON_THREAD: ("$", "trace_to_jaxpr", "lower_", "backend_compile"),
    EventFlag.RUNTIME: (
        *("KernelAndDeviceFunc", "EagerCopy", "ValidateInput", "ExecutorDone", "ThreadpoolListener", "Memory"),
        *("CommonPjRt", "PjRt", "PJRT_", "Pjrt", "DevicePut", "DeviceMem", "GpuExecutable", "CpuExecutable"),
        *("Build buffer", "ThenExecute", "ParseArguments", "AllocateOutput", "Handle inputs", "shard_args"),
    ),
    EventFlag.KERAS_FUNCTION: (
        *("one_step_on_iterator", "multi_step_on_iterator", "one_step_on_data"),
        *("train_function", "test_function", "predict_function"),
    ),
    EventFlag.BUILD: (
        *("tf.function-graph_building", "XlaCompile", "XlaLaunch:Compile", "PjRtClient::Compile", "TfrtCpuClient::Compile"),
        *("CommonPjRtClient::Compile", "PjitFunction:compile", "HloPassPipeline", "JitCompilation", "trace_to_jaxpr"),
        *("lower_sharding_computation", "lower_mesh_computation", "backend_compile", "PjRtCpuClient::Compile"),
        *("PjRtStreamExecutorClient::Compile", "StreamExecutorGpuClient::Compile", "PjRtCApiClient::Compile"),
        *("TfrtTpuClient::Compile", "TfrtTpuCompiler::Compile", "CpuCompiler::", "GpuCompiler::", "FusionCompiler::Compile"),
        *("JitCompiler::Compile", "HLO passes"),
    ),
}
_SUFFIXES = {
    EventFlag.PRODUCER: ("Produce",),
    EventFlag.CONSUMER: ("Consume",),
    EventFlag.RESULT_WAIT: ("::Await", "block_until_ready", "BlockHostUntilReady"),
}
_BUILDS_IN_PYTHON = compile_lazily(  # frames of JAX functions that only build programs
    r"\$(?:pxla|compiler|mlir|partial_eval|stages)\.py:\d+ "
    r"(?:compile|compile_or_get_cached|backend_compile\w*|lower_sharding_computation|lower_jaxpr_to_module|trace_to_jaxpr\w*)"
)
_WRITES_LOGS = ("WriteSummary", "WriteRawProtoSummary", "WriteGraphSummary", "FlushSummaryWriter")
_PASSES_ON = ("_Send", "_Recv", "_HostSend", "_HostRecv")  # types of ops that move a tensor between devices
_MARKS = ("train", "test", "TraceContext")
_BLOCKS = ("Await", "BlockUntilReady", "BlockHostUntilReady", "block_until_ready")
_AWAITS_DEVICE = ("Synchronize", "BufferSequencingEvent", "Rendezvous")
_WAITS = ("wait", "block", "sleep", "poll", "select", "acquire", "join", "synchronize")
# Outside of any jitted function, JAX runs a primitive as a jitted function of the primitive's name;
# such calls are glue code, not the step.
_PICKS = frozenset(("dynamic_slice", "squeeze", "slice", "gather", "_unstack"))  # primitives of an index expression, `x[i]`
_GLUE = _PICKS | {
    *("add", "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "dynamic_update_slice", "fold_in", "iota"),
    *("multiply", "reshape", "scatter", "select_n", "subtract", "transpose", "true_divide"),
    *("_threefry_seed", "_threefry_split"),
}


class EventNames:
    """Classification of the names of a trace.

    ops: op of each name, in the order of `Trace.names`.
    """

    def __init__(self, texts: tuple[str, ...], find_rows: Callable[[Mask], Indices]) -> None:
        by_text = {text: (_classify(text, op := parse_op(text)), op) for text in dict.fromkeys(texts)}
        self._rows_named = find_rows
        self.ops = tuple(by_text[text][1] for text in texts)
        self._flags = np.fromiter((by_text[text][0] for text in texts), np.int64, len(texts))
        self._kind = np.fromiter((_KINDS[op.kind] for op in self.ops), np.uint8, len(texts))

    def mask(self, flags: EventFlag) -> Mask:
        """Return a boolean over the names: whether the name has one of these flags."""
        return np.asarray((self._flags & int(flags)) != 0)

    def rows(self, flags: EventFlag) -> Indices:
        """Return the sorted rows of events whose name has one of these flags."""
        return self._rows_named(self.mask(flags))

    def op_kind_mask(self, *kinds: OpKind) -> Mask:
        """Return a boolean over the names: whether the name is an op of one of these kinds."""
        kind_mask = np.zeros(len(_KINDS), bool)
        kind_mask[[_KINDS[kind] for kind in kinds]] = True
        return np.asarray(kind_mask[self._kind])


@memoize
def event_names(trace: Trace) -> EventNames:
    """Return the classification of a trace's names, cached in the trace."""
    reference = weakref.ref(trace)  # the trace caches the result: a strong reference would be a cycle that keeps the file open

    def rows_named(name_mask: Mask) -> Indices:
        live_trace = reference()
        assert live_trace is not None, "the trace is gone"
        return live_trace.find_rows_by_mask(name_mask)

    return EventNames(trace.names, rows_named)


def _classify(text: str, op: Op) -> int:
    """Return the flags of a name."""
    flags = _FLAGS_OF_NAMES.get(text, 0)
    if text.startswith(_ANY_PREFIX):
        flags |= sum(flag for flag, prefixes in _FLAGS_OF_PREFIXES if text.startswith(prefixes))
    if text.endswith(_ANY_SUFFIX):
        flags |= sum(flag for flag, suffixes in _FLAGS_OF_SUFFIXES if text.endswith(suffixes))
    lower = text.lower()
    awaits = flags & _BITS.RESULT_WAIT or any(word in text for word in _BLOCKS)
    function = parse_jitted_function(text) if text.startswith((JITTED_CALL_PREFIX, "jit_", "pmap_")) else ""
    conditions = (
        (_BITS.BUILD, flags & _BITS.PYTHON_FRAME and _BUILDS_IN_PYTHON.fullmatch(text)),
        (_BITS.BLOCKING_WAIT, awaits),
        (_BITS.DEVICE_WAIT, awaits or flags & _BITS.ARRAY_FETCH or any(word in text for word in _AWAITS_DEVICE)),
        (_BITS.ANY_WAIT, any(word in lower for word in _WAITS)),
        (_BITS.NAMED_CALL, flags & _BITS.JAX_CALL and parse_called_function(text) is not None),
        (_BITS.COMPILER_PASS, text.endswith(")") and "Execute" not in text and parse_pass_function(text)),
        (_BITS.STEP_MARK, text.startswith(_MARKS) and "/" not in text and ":" not in text),
        (_BITS.GRADIENT_TAPE, "/gradient_tape/" in f"/{text}"),  # also below a call that was not inlined
        (_BITS.EXECUTOR_ANY_CASE, lower.startswith("executorstate::process")),
        (_BITS.INPUT_OP, lower.startswith("iteratorgetnext")),
        (_BITS.ITERATOR_ROOT, op.kind is OpKind.TF_DATA and text.count("::") == 1),
        (_BITS.WAITING_OP, op.type.startswith(WAITING_OP_TYPES)),
        (_BITS.SUMMARY_WRITE, op.type in _WRITES_LOGS),
        (_BITS.HOST_TO_DEVICE_OP, op.type in ("InfeedEnqueue", "InfeedEnqueueTuple", "MemcpyHToD")),
        (_BITS.JAX_PRIMITIVE, function in _GLUE),
        (_BITS.INDEXING_PRIMITIVE, function in _PICKS),
    )
    for flag, holds in conditions:
        if holds:
            flags |= flag
    return flags


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


_KINDS = {kind: code for code, kind in enumerate(OpKind)}
# Flags as ints: thousands of names are classified, and an operation of `EventFlag` takes ten times
# as long as one of int.
_BITS = SimpleNamespace(**{str(flag.name): int(flag) for flag in EventFlag})
_FLAGS_OF_NAMES = {name: int(flag) for name, flag in _NAMES.items()}
_FLAGS_OF_PREFIXES = tuple((int(flag), prefixes) for flag, prefixes in _PREFIXES.items())
_FLAGS_OF_SUFFIXES = tuple((int(flag), suffixes) for flag, suffixes in _SUFFIXES.items())
_ANY_PREFIX, _ANY_SUFFIX = (tuple(text for texts in by.values() for text in texts) for by in (_PREFIXES, _SUFFIXES))
