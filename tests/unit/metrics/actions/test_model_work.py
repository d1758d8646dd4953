"""Actions fit the kind of op, the framework, the hardware and what is in force: asked for every
combination.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest

from outpace.metrics.actions.model_work import (
    CPU,
    GPU,
    LAST_RESORT,
    MODEL_ACTIONS,
    TPU,
    ActionContext,
    OpTraits,
    Precondition,
    find_preconditions,
    reaches_roof,
    render_actions,
)
from outpace.metrics.actions.table import Action, iter_actions
from outpace.metrics.facts.workload import Framework, Workload
from outpace.timeline.work_kinds import WorkKind

ModelAction = Action[WorkKind, Precondition, [ActionContext]]
OWN_WORDS = {  # words that fit these kinds of op only
    r"filter|kernel size|units|earlier pooling|smaller": {WorkKind.RANDOM, WorkKind.REDUCTION},
    r"cudnn's|unroll|scan|loop": {WorkKind.RECURRENT},
    r"mask|padding|sequence": {WorkKind.ATTENTION, WorkKind.RECURRENT},
    r"flash_attention|dot_product_attention": {WorkKind.ATTENTION},
    r"window|\bpool\b": {WorkKind.POOLING},
    r"generator|prng|\bdraw": {WorkKind.RANDOM},
    r"\btable": {WorkKind.EMBEDDING},
    r"\brows\b": {WorkKind.EMBEDDING, WorkKind.ELEMENTWISE, WorkKind.OTHER},
    r"layout|transposed": {WorkKind.MOVEMENT},
    r"donate": {WorkKind.OPTIMIZER, WorkKind.OTHER},
    r"oneDNN": {WorkKind.CONVOLUTION, WorkKind.MATMUL},
}


def every() -> Iterator[tuple[WorkKind, ActionContext]]:
    flags = (False, True)
    for framework, hardware, xla, half, fast, convolves in product(Framework, (CPU, GPU, TPU), flags, flags, flags, flags):
        program = Workload(framework)
        here = ActionContext(program, hardware, xla or program.is_jax, half, fast, True, convolves)
        yield from ((work, here) for work in WorkKind)


def test_each_kind_has_its_own_words() -> None:
    for work, here in every():
        said = render_actions(work, here)
        assert said.endswith(".") and said[0].isupper(), (work, here)
        for words, kinds in OWN_WORDS.items():
            assert work in kinds or not re.search(words, said, re.IGNORECASE), (work, said)


def test_nothing_is_advised_that_is_in_force_or_impossible() -> None:
    for work, here in every():
        said = render_actions(work, here)
        if here.uses_xla or (here.hardware == CPU and here.has_convolutions):
            assert "jit_compile=True" not in said and "one jax.jit" not in said
        if here.uses_half or not here.gains_from_half:
            assert "bfloat16" not in said and "16 bits" not in said and "float16" not in said
        if here.hardware == CPU:
            assert "tensor core" not in said and "cuDNN" not in said
        else:
            assert "AMX" not in said and "oneDNN" not in said
        if here.program.is_jax:
            assert "tf.function" not in said and "TF_" not in said
        else:
            assert "jax." not in said and "jax_" not in said and "donate" not in said


@pytest.mark.parametrize("work", [WorkKind.CONVOLUTION, WorkKind.POOLING])
def test_on_a_cpu_the_code_without_xla_is_the_first_thing_to_compare(work: WorkKind) -> None:
    here = ActionContext(Workload(Framework.KERAS), CPU, uses_xla=True, has_convolutions=True)
    assert render_actions(work, here).startswith("Compare with jit_compile=False")
    assert "jit_compile" not in render_actions(work, ActionContext(Workload(Framework.KERAS), CPU, has_convolutions=True))
    assert "jit_compile=False" not in render_actions(
        work, ActionContext(Workload(Framework.KERAS), GPU, uses_xla=True, has_convolutions=True)
    )


def test_what_the_op_itself_shows_is_in_force() -> None:
    keras = Workload(Framework.KERAS)
    without = render_actions(WorkKind.MATMUL, ActionContext(keras, CPU, op="MatMul", uses_onednn=False))
    assert "ONEDNN" in without and "16 bits" not in without
    assert "ONEDNN" not in render_actions(WorkKind.MATMUL, ActionContext(keras, CPU, op="_MklMatMul"))
    assert "cuDNN's conditions" in render_actions(WorkKind.RECURRENT, ActionContext(keras, GPU, op="While"))
    assert "cuDNN's conditions" not in render_actions(WorkKind.RECURRENT, ActionContext(keras, GPU, op="CudnnRNNV3"))
    jax = Workload(Framework.JAX)
    assert "dot_product_attention" in render_actions(
        WorkKind.ATTENTION, ActionContext(jax, GPU, uses_xla=True, op="dot_general")
    )
    fused = render_actions(
        WorkKind.ATTENTION, ActionContext(jax, GPU, uses_xla=True, uses_half=True, op="te_fused_attn_backward_ffi")
    )
    assert "Compare another fused" in fused and "16" not in fused


def test_cores_that_the_input_takes_come_first() -> None:
    here = ActionContext(Workload(Framework.KERAS), CPU, shares_cores=True, op="_MklMatMul")
    assert render_actions(WorkKind.MATMUL, here).startswith("Lighten the input pipeline, which takes cores from it, or")
    assert "input pipeline" not in render_actions(
        WorkKind.MATMUL, ActionContext(Workload(Framework.KERAS), CPU, op="_MklMatMul")
    )


def test_16_bits_on_a_cpu_are_onednns() -> None:
    keras = Workload(Framework.KERAS)
    assert "16 bits (this CPU has instructions for it)" in render_actions(
        WorkKind.MATMUL, ActionContext(keras, CPU, op="_MklMatMul")
    )
    assert "16 bits" not in render_actions(WorkKind.MATMUL, ActionContext(keras, CPU, op="MatMul"))
    assert "16 bits" not in render_actions(WorkKind.MATMUL, ActionContext(keras, CPU, gains_from_half=False, op="_MklMatMul"))
    assert "bfloat16" in render_actions(
        WorkKind.MATMUL, ActionContext(Workload(Framework.JAX), CPU, uses_xla=True, op="dot_general")
    )


def test_a_larger_batch_on_a_cpu_needs_a_reason() -> None:
    assert "larger batch" not in render_actions(WorkKind.POOLING, ActionContext(Workload(Framework.KERAS), CPU))
    assert "larger batch" in render_actions(WorkKind.POOLING, ActionContext(Workload(Framework.KERAS), CPU, has_short_ops=True))


LARGE = (
    WorkKind.ELEMENTWISE,
    WorkKind.OTHER,
    WorkKind.MOVEMENT,
    WorkKind.REDUCTION,
    WorkKind.NORMALISATION,
    WorkKind.CAST,
    WorkKind.OPTIMIZER,
)


@pytest.mark.parametrize("work", LARGE)
def test_xla_is_said_of_small_ops_on_a_cpu_and_of_all_on_a_gpu(work: WorkKind) -> None:
    keras = Workload(Framework.KERAS)
    assert "jit_compile=True" not in render_actions(work, ActionContext(keras, CPU))
    assert "jit_compile=True" in render_actions(work, ActionContext(keras, CPU, has_short_ops=True))
    assert "jit_compile=True" in render_actions(work, ActionContext(keras, GPU))


@pytest.mark.parametrize(
    "op, says", [("AssignSubVariableOp", "Keep the gradient of a table sparse"), ("Mul", "Train on a GPU")]
)
def test_large_element_wise_ops_are_told_what_makes_them_cheaper(op: str, says: str) -> None:
    assert render_actions(WorkKind.ELEMENTWISE, ActionContext(Workload(Framework.TENSORFLOW), CPU, op=op)).startswith(says)


@pytest.mark.parametrize(
    "op, says, never",
    [
        ("_MklTranspose", "Keep one layout", "sparse"),
        ("UnsortedSegmentSum", "sparse", "layout"),
        ("GatherV2", "", "layout"),
    ],
)
def test_copies_are_told_by_what_they_copy(op: str, says: str, never: str) -> None:
    said = render_actions(WorkKind.MOVEMENT, ActionContext(Workload(Framework.TENSORFLOW), CPU, op=op))
    assert says in said and never not in said


def test_the_last_resort_says_what_it_would_bring() -> None:
    here = ActionContext(Workload(Framework.JAX), CPU, uses_xla=True, uses_half=True)
    assert "what they are made for" in render_actions(WorkKind.MATMUL, here)
    rated = render_actions(WorkKind.MATMUL, ActionContext(Workload(Framework.JAX), CPU, True, True, flops_per_s=5.47e10))
    assert "up to 19,500 GFLOP/s, here it is 54.7 in the mean" in rated


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        pytest.param(row, kind, id=f"{row.name}-{kind.name}")
        for row in MODEL_ACTIONS
        for kind in sorted(row.kinds, key=lambda kind: kind.name)
    ],
)
def test_an_action_needs_each_of_its_preconditions(row: ModelAction, kind: WorkKind) -> None:
    assert row in iter_actions(MODEL_ACTIONS, kind, row.preconditions)
    for need in row.preconditions:
        assert row not in iter_actions(MODEL_ACTIONS, kind, row.preconditions - {need}), need


def test_each_precondition_is_of_use_and_has_evidence() -> None:
    assert set().union(*(row.preconditions for row in (*MODEL_ACTIONS, *LAST_RESORT))) == set(Precondition)
    held = [find_preconditions(here) for _, here in every()]
    traits = OpTraits(True, True, True, 0.1, True, True, 0.1)
    held += [
        find_preconditions(ActionContext(Workload(Framework.KERAS), CPU, shares_cores=True, uses_onednn=False, traits=traits)),
        find_preconditions(ActionContext(Workload(Framework.JAX), GPU, program_count=2, op="flash scatter", flops_per_s=1e9)),
        find_preconditions(ActionContext(Workload(Framework.JAX), GPU, op="cudnn", traits=OpTraits(is_joinable=True))),
    ]
    assert frozenset().union(*held) == set(Precondition), "nothing shows what is missing"
    assert not frozenset.intersection(*held), "what always holds is no precondition"


@pytest.mark.parametrize(
    ("here", "work", "reaches"),
    [
        (ActionContext(Workload(Framework.JAX), CPU, uses_xla=True, has_short_ops=True), WorkKind.MATMUL, False),
        (ActionContext(Workload(Framework.KERAS), CPU, shares_cores=True), WorkKind.CONVOLUTION, False),
        (ActionContext(Workload(Framework.JAX), GPU, uses_xla=True), WorkKind.OPTIMIZER, False),
        (ActionContext(Workload(Framework.JAX), CPU, uses_xla=True), WorkKind.MOVEMENT, True),
        (ActionContext(Workload(Framework.KERAS), CPU, has_short_ops=True), WorkKind.ELEMENTWISE, True),
        (ActionContext(Workload(Framework.KERAS), CPU, uses_xla=True), WorkKind.POOLING, True),
    ],
    ids=["larger batch", "input pipeline", "donate", "keep the layout", "fuse", "without XLA"],
)
def test_only_what_gives_the_same_in_less_time_reaches_the_roof(here: ActionContext, work: WorkKind, reaches: bool) -> None:
    assert reaches_roof(work, here) is reaches, render_actions(work, here)
