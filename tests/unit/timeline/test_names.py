"""What the names of a profile say."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.timeline.names import Is, Names, OpKind, Work, outside_model, work_of


def names(*texts: str, code: tuple[int, ...] = ()) -> Names:
    return Names(texts, lambda wanted: np.flatnonzero(wanted[np.array(code, np.int32)]))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ExecutorState::Process", Is.EXECUTOR | Is.EXECUTES | Is.WORKS | Is.TENSORFLOW),
        ("executorstate::process", Is.EXECUTES),
        ("PjitFunction(step)", Is.JITTED | Is.JAX_CALL | Is.CALL | Is.JAX),
        ("PjitFunction(add)", Is.JITTED | Is.JAX_CALL | Is.CALL | Is.JAX | Is.GLUE),
        ("PjitFunction(gather)", Is.JITTED | Is.JAX_CALL | Is.CALL | Is.JAX | Is.GLUE | Is.PICKS),
        ("PmapFunction(step)", Is.JAX_CALL | Is.CALL),
        ("PjitFunction:compile", Is.JAX_CALL | Is.BUILDS),
        ("EagerLocalExecute: IteratorGetNext", Is.WRAPPER | Is.EAGER_OP | Is.EAGER_INPUT),
        ("Iterator::Root", Is.INPUT_WORK | Is.ITERATOR_ROOT),
        ("Iterator::Root::Map", Is.INPUT_WORK),
        ("Iterator::Prefetch::Generator", Is.INPUT_WORK | Is.DEVICE_PIPELINE),
        ("IteratorGetNextOp::DoCompute", Is.INPUT_REQUEST | Is.INPUT_WORK | Is.INPUT),
        ("$compiler.py:33 backend_compile", Is.PYTHON | Is.ON_PYTHON | Is.BUILDS),
        ("PjRtBuffer::Await", Is.AWAITS | Is.BLOCKS | Is.AWAITS_DEVICE | Is.WAITS | Is.RUNTIME),
        ("cuStreamSynchronize", Is.AWAITS_DEVICE | Is.WAITS),
        ("BufferSequencingEvent::Execute", Is.AWAITS_DEVICE),
        ("HLO passes after layout (jit_step)", Is.BUILDS | Is.OF_MODULE),
        ("train", Is.MARK),
        ("train/dense/MatMul:MatMul", Is(0)),
        ("volta_fp16_s884gemm", Is(0)),
    ],
)
def test_a_name_is_what_it_says(text: str, what: Is) -> None:
    found = names(text)
    assert [each for each in Is if found.are(each)[0]] == [each for each in Is if each & what]


def test_rows_go_by_the_names_of_events() -> None:
    found = names("a/MatMul:MatMul", "$train.py:3 main", code=(1, 0, 0, 1))
    assert found.rows(Is.PYTHON).tolist() == [0, 3]
    assert found.of_kind(OpKind.TENSORFLOW, OpKind.JAX).tolist() == [True, False]
    assert [op.type for op in found.ops] == ["MatMul", ""]


def test_each_distinct_name_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from outpace.timeline import names as module

    read: list[str] = []
    parse = module.parse_op

    def counted(text: str) -> module.Op:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(module, "parse_op", counted)
    names("one", "two", "one", "one")
    assert read == ["one", "two"]


@pytest.mark.parametrize(
    ("op", "work"),
    [
        (("_MklNativeFusedConv2D",), Work.CONVOLUTION),
        (("Conv2DBackpropFilter",), Work.CONVOLUTION),
        (("fusion", "jit(step)/conv_general_dilated"), Work.CONVOLUTION),
        (("convert", "jit(step)/convert_element_type"), Work.CAST),
        (("Cast", "bert/dropout/Cast"), Work.CAST),
        (("_MklMatMul",), Work.MATMUL),
        (("dot", "jit(step)/transpose"), Work.MATMUL),
        (("fusion", "wrapped_reduce-window.3"), Work.POOLING),
        (("MaxPoolGrad",), Work.POOLING),
        (("custom-call", "jit(loss_fn)/te_fused_attn_backward_ffi"), Work.ATTENTION),
        (("MatMul", "mha/einsum/MatMul", "MultiHeadAttention"), Work.ATTENTION),
        (("FusedBatchNormGradV3",), Work.NORMALISATION),
        (("Mul", "ln/Mul", "LayerNormalization"), Work.NORMALISATION),
        (("Mul", "lstm/while/Mul", "LSTM"), Work.RECURRENT),
        (("CudnnRNNV3",), Work.RECURRENT),
        (("ResourceGather",), Work.EMBEDDING),
        (("UnsortedSegmentSum", "embedding/grad", "Embedding"), Work.EMBEDDING),
        (("RandomUniform",), Work.RANDOM),
        (("fusion", "jit(_normal)/jit(_uniform)/add"), Work.RANDOM),
        (("ResourceApplyAdam",), Work.OPTIMIZER),
        (("Sum",), Work.REDUCTION),
        (("reduce", "jit(step)/reduce_sum"), Work.REDUCTION),
        (("GreaterEqual",), Work.ELEMENTWISE),
        (("fusion", "loop_add_fusion.12"), Work.ELEMENTWISE),
        (("fusion", "transpose_copy_fusion.4"), Work.MOVEMENT),
        (("GatherV2",), Work.MOVEMENT),
        (("CollectiveReduceV2",), Work.OTHER),
        (("TopKV2",), Work.OTHER),
    ],
)
def test_the_kind_of_an_op(op: tuple[str, ...], work: Work) -> None:
    assert work_of(*op) is work


def test_what_is_no_part_of_a_model() -> None:
    assert outside_model("FlushSummaryWriter") is Is.WRITES_LOGS
    assert outside_model("_Send") is outside_model("IteratorGetNext") is Is.INPUT
    assert outside_model("MatMul") is None
