"""What the names of a profile say."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.timeline.names import Is, Names, OpKind


def names(*texts: str, code: tuple[int, ...] = ()) -> Names:
    return Names(texts, np.array(code, np.int32))


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
        ("PjRtBuffer::Await", Is.AWAITS | Is.BLOCKS | Is.AWAITS_DEVICE | Is.WAITS),
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


def test_events_and_rows_go_by_the_names_of_events() -> None:
    found = names("a/MatMul:MatMul", "$train.py:3 main", code=(1, 0, 0, 1))
    assert found.events(Is.PYTHON).tolist() == [True, False, False, True]
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
