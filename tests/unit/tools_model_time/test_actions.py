"""Actions fit the kind of op, the framework, the hardware and what is in force: asked for every combination."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest

from outpace.metrics.program.program import Framework, Program
from outpace.timeline.names import Work
from outpace.tools.model_time.actions import CPU, GPU, TPU, Here, cheaper

OWN_WORDS = {  # words that fit these kinds of op only
    r"filter|kernel size|units|earlier pooling|smaller": {Work.RANDOM},
    r"cudnn's|unroll|scan|loop": {Work.RECURRENT},
    r"mask|padding|sequence": {Work.ATTENTION, Work.RECURRENT},
    r"flash_attention|dot_product_attention": {Work.ATTENTION},
    r"window|\bpool\b": {Work.POOLING},
    r"generator|prng|\bdraw": {Work.RANDOM},
    r"\btable": {Work.EMBEDDING},
    r"\brows\b": {Work.EMBEDDING, Work.ELEMENTWISE, Work.OTHER},
    r"layout|transposed": {Work.MOVEMENT},
    r"donate": {Work.OPTIMIZER, Work.OTHER},
    r"oneDNN": {Work.CONVOLUTION, Work.MATMUL},
}


def every() -> Iterator[tuple[Work, Here]]:
    flags = (False, True)
    for framework, hardware, xla, half, fast, convolves in product(Framework, (CPU, GPU, TPU), flags, flags, flags, flags):
        program = Program(framework)
        here = Here(program, hardware, xla or program.is_jax, half, fast, True, convolves)
        yield from ((work, here) for work in Work)


def test_each_kind_has_its_own_words() -> None:
    for work, here in every():
        said = cheaper(work, here)
        assert said.endswith(".") and said[0].isupper(), (work, here)
        for words, kinds in OWN_WORDS.items():
            assert work in kinds or not re.search(words, said, re.IGNORECASE), (work, said)


def test_nothing_is_advised_that_is_in_force_or_impossible() -> None:
    for work, here in every():
        said = cheaper(work, here)
        if here.xla or (here.hardware == CPU and here.convolves):
            assert "jit_compile=True" not in said and "one jax.jit" not in said
        if here.half or not here.faster_half:
            assert "bfloat16" not in said and "16 bits" not in said and "float16" not in said
        if here.hardware == CPU:
            assert "tensor core" not in said and "cuDNN" not in said
        else:
            assert "AMX" not in said and "oneDNN" not in said
        if here.program.is_jax:
            assert "tf.function" not in said and "TF_" not in said
        else:
            assert "jax." not in said and "jax_" not in said and "donate" not in said


@pytest.mark.parametrize("work", [Work.CONVOLUTION, Work.POOLING])
def test_on_a_cpu_the_code_without_xla_is_the_first_thing_to_compare(work: Work) -> None:
    here = Here(Program(Framework.KERAS), CPU, xla=True, convolves=True)
    assert cheaper(work, here).startswith("Compare with jit_compile=False")
    assert "jit_compile" not in cheaper(work, Here(Program(Framework.KERAS), CPU, convolves=True))
    assert "jit_compile=False" not in cheaper(work, Here(Program(Framework.KERAS), GPU, xla=True, convolves=True))


def test_what_the_op_itself_shows_is_in_force() -> None:
    keras = Program(Framework.KERAS)
    without = cheaper(Work.MATMUL, Here(keras, CPU, op="MatMul", onednn=False))
    assert "ONEDNN" in without and "16 bits" not in without
    assert "ONEDNN" not in cheaper(Work.MATMUL, Here(keras, CPU, op="_MklMatMul"))
    assert "cuDNN's conditions" in cheaper(Work.RECURRENT, Here(keras, GPU, op="While"))
    assert "cuDNN's conditions" not in cheaper(Work.RECURRENT, Here(keras, GPU, op="CudnnRNNV3"))
    jax = Program(Framework.JAX)
    assert "dot_product_attention" in cheaper(Work.ATTENTION, Here(jax, GPU, xla=True, op="dot_general"))
    fused = cheaper(Work.ATTENTION, Here(jax, GPU, xla=True, half=True, op="te_fused_attn_backward_ffi"))
    assert "use a fused" not in fused and "16" not in fused and "padding" in fused


def test_cores_that_the_input_takes_come_first() -> None:
    here = Here(Program(Framework.KERAS), CPU, shared=True, op="_MklMatMul")
    assert cheaper(Work.MATMUL, here).startswith("Lighten the input pipeline, which takes cores from it, or")
    assert "input pipeline" not in cheaper(Work.MATMUL, Here(Program(Framework.KERAS), CPU, op="_MklMatMul"))


def test_16_bits_on_a_cpu_are_onednns() -> None:
    keras = Program(Framework.KERAS)
    assert "16 bits (this CPU has instructions for it)" in cheaper(Work.MATMUL, Here(keras, CPU, op="_MklMatMul"))
    assert "16 bits" not in cheaper(Work.MATMUL, Here(keras, CPU, op="MatMul"))
    assert "16 bits" not in cheaper(Work.MATMUL, Here(keras, CPU, faster_half=False, op="_MklMatMul"))
    assert "bfloat16" in cheaper(Work.MATMUL, Here(Program(Framework.JAX), CPU, xla=True, op="dot_general"))


def test_a_larger_batch_on_a_cpu_needs_a_reason() -> None:
    assert "larger batch" not in cheaper(Work.POOLING, Here(Program(Framework.KERAS), CPU))
    assert "larger batch" in cheaper(Work.POOLING, Here(Program(Framework.KERAS), CPU, small=True))


LARGE = (Work.ELEMENTWISE, Work.OTHER, Work.MOVEMENT, Work.REDUCTION, Work.NORMALISATION, Work.CAST, Work.OPTIMIZER)


@pytest.mark.parametrize("work", LARGE)
def test_xla_is_said_of_small_ops_on_a_cpu_and_of_all_on_a_gpu(work: Work) -> None:
    keras = Program(Framework.KERAS)
    assert "jit_compile=True" not in cheaper(work, Here(keras, CPU))
    assert "jit_compile=True" in cheaper(work, Here(keras, CPU, small=True))
    assert "jit_compile=True" in cheaper(work, Here(keras, GPU))


@pytest.mark.parametrize(
    "op, says", [("AssignSubVariableOp", "Keep the gradient of a table sparse"), ("Mul", "Give it fewer elements")]
)
def test_large_element_wise_ops_are_told_what_makes_them_cheaper(op: str, says: str) -> None:
    assert cheaper(Work.ELEMENTWISE, Here(Program(Framework.TENSORFLOW), CPU, op=op)).startswith(says)


@pytest.mark.parametrize(
    "op, says, never",
    [
        ("_MklTranspose", "Keep one layout", "sparse"),
        ("UnsortedSegmentSum", "sparse", "layout"),
        ("GatherV2", "", "layout"),
    ],
)
def test_copies_are_told_by_what_they_copy(op: str, says: str, never: str) -> None:
    said = cheaper(Work.MOVEMENT, Here(Program(Framework.TENSORFLOW), CPU, op=op))
    assert says in said and never not in said
