"""What the names of a profile say."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.timeline.event_names import EventFlag, EventNames, classify_non_model_op
from outpace.timeline.op_names import Op, OpKind, parse_op
from outpace.timeline.work_kinds import WorkKind, classify_work


def names(*texts: str, code: tuple[int, ...] = ()) -> EventNames:
    return EventNames(texts, lambda wanted: np.flatnonzero(wanted[np.array(code, np.int32)]))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "ExecutorState::Process",
            EventFlag.EXECUTOR | EventFlag.EXECUTOR_ANY_CASE | EventFlag.COMPUTE_SCOPE | EventFlag.TENSORFLOW,
        ),
        ("executorstate::process", EventFlag.EXECUTOR_ANY_CASE),
        ("PjitFunction(step)", EventFlag.JIT_CALL | EventFlag.JAX_CALL | EventFlag.NAMED_CALL | EventFlag.JAX),
        (
            "PjitFunction(add)",
            EventFlag.JIT_CALL | EventFlag.JAX_CALL | EventFlag.NAMED_CALL | EventFlag.JAX | EventFlag.JAX_PRIMITIVE,
        ),
        (
            "PjitFunction(gather)",
            EventFlag.JIT_CALL
            | EventFlag.JAX_CALL
            | EventFlag.NAMED_CALL
            | EventFlag.JAX
            | EventFlag.JAX_PRIMITIVE
            | EventFlag.INDEXING_PRIMITIVE,
        ),
        ("PmapFunction(step)", EventFlag.JAX_CALL | EventFlag.NAMED_CALL),
        ("PjitFunction:compile", EventFlag.JAX_CALL | EventFlag.BUILD),
        ("EagerLocalExecute: IteratorGetNext", EventFlag.WRAPPER | EventFlag.EAGER_OP | EventFlag.EAGER_INPUT),
        ("Iterator::Root", EventFlag.INPUT_WORK | EventFlag.ITERATOR_ROOT),
        ("Iterator::Root::Map", EventFlag.INPUT_WORK),
        ("Iterator::Prefetch::Generator", EventFlag.INPUT_WORK | EventFlag.DEVICE_PIPELINE),
        ("IteratorGetNextOp::DoCompute", EventFlag.INPUT_REQUEST | EventFlag.INPUT_WORK | EventFlag.INPUT_OP),
        ("$compiler.py:33 backend_compile", EventFlag.PYTHON_FRAME | EventFlag.PYTHON_THREAD | EventFlag.BUILD),
        (
            "PjRtBuffer::Await",
            EventFlag.RESULT_WAIT | EventFlag.BLOCKING_WAIT | EventFlag.DEVICE_WAIT | EventFlag.ANY_WAIT | EventFlag.RUNTIME,
        ),
        ("cuStreamSynchronize", EventFlag.DEVICE_WAIT | EventFlag.ANY_WAIT),
        ("BufferSequencingEvent::Execute", EventFlag.DEVICE_WAIT),
        ("HLO passes after layout (jit_step)", EventFlag.BUILD | EventFlag.COMPILER_PASS),
        ("train", EventFlag.STEP_MARK),
        ("train/dense/MatMul:MatMul", EventFlag(0)),
        ("volta_fp16_s884gemm", EventFlag(0)),
    ],
)
def test_a_name_is_what_it_says(text: str, what: EventFlag) -> None:
    found = names(text)
    assert [each for each in EventFlag if found.mask(each)[0]] == [each for each in EventFlag if each & what]


def test_rows_go_by_the_names_of_events() -> None:
    found = names("a/MatMul:MatMul", "$train.py:3 main", code=(1, 0, 0, 1))
    assert found.rows(EventFlag.PYTHON_FRAME).tolist() == [0, 3]
    assert found.op_kind_mask(OpKind.TENSORFLOW, OpKind.JAX).tolist() == [True, False]
    assert [op.type for op in found.ops] == ["MatMul", ""]


def test_each_distinct_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> Op:
        read.append(text)
        return parse_op(text)

    monkeypatch.setattr("outpace.timeline.event_names.parse_op", counted)
    names("one", "two", "one", "one")
    assert read == ["one", "two"]


@pytest.mark.parametrize(
    ("op", "work"),
    [
        (("_MklNativeFusedConv2D",), WorkKind.CONVOLUTION),
        (("Conv2DBackpropFilter",), WorkKind.CONVOLUTION),
        (("fusion", "jit(step)/conv_general_dilated"), WorkKind.CONVOLUTION),
        (("convert", "jit(step)/convert_element_type"), WorkKind.CAST),
        (("Cast", "bert/dropout/Cast"), WorkKind.CAST),
        (("_MklMatMul",), WorkKind.MATMUL),
        (("dot", "jit(step)/transpose"), WorkKind.MATMUL),
        (("fusion", "wrapped_reduce-window.3"), WorkKind.POOLING),
        (("MaxPoolGrad",), WorkKind.POOLING),
        (("custom-call", "jit(loss_fn)/te_fused_attn_backward_ffi"), WorkKind.ATTENTION),
        (("MatMul", "mha/einsum/MatMul", "MultiHeadAttention"), WorkKind.ATTENTION),
        (("FusedBatchNormGradV3",), WorkKind.NORMALISATION),
        (("Mul", "ln/Mul", "LayerNormalization"), WorkKind.NORMALISATION),
        (("Mul", "lstm/while/Mul", "LSTM"), WorkKind.RECURRENT),
        (("CudnnRNNV3",), WorkKind.RECURRENT),
        (("ResourceGather",), WorkKind.EMBEDDING),
        (("UnsortedSegmentSum", "embedding/grad", "Embedding"), WorkKind.EMBEDDING),
        (("RandomUniform",), WorkKind.RANDOM),
        (("fusion", "jit(_normal)/jit(_uniform)/add"), WorkKind.RANDOM),
        (("ResourceApplyAdam",), WorkKind.OPTIMIZER),
        (("Sum",), WorkKind.REDUCTION),
        (("reduce", "jit(step)/reduce_sum"), WorkKind.REDUCTION),
        (("GreaterEqual",), WorkKind.ELEMENTWISE),
        (("fusion", "loop_add_fusion.12"), WorkKind.ELEMENTWISE),
        (("fusion", "transpose_copy_fusion.4"), WorkKind.MOVEMENT),
        (("GatherV2",), WorkKind.MOVEMENT),
        (("CollectiveReduceV2",), WorkKind.OTHER),
        (("TopKV2",), WorkKind.OTHER),
    ],
)
def test_the_kind_of_an_op(op: tuple[str, ...], work: WorkKind) -> None:
    assert classify_work(*op) is work


def test_what_is_no_part_of_a_model() -> None:
    assert classify_non_model_op("FlushSummaryWriter") is EventFlag.SUMMARY_WRITE
    assert classify_non_model_op("_Send") is classify_non_model_op("IteratorGetNext") is EventFlag.INPUT_OP
    assert classify_non_model_op("MatMul") is None
