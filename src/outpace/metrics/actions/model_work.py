# SPDX-License-Identifier: Apache-2.0
"""Actions that make a kind of the model's work cheaper, and what each one needs.

What names a cause comes first, then what leaves the model as it is. Sources: the performance guides
of TensorFlow, Keras, JAX and NVIDIA (mixed precision, tensor cores' multiples of 8, cuDNN's
conditions for LSTM and GRU), and our own measurements: XLA's code for convolutions and pooling on a
CPU takes about twice as long as TensorFlow's (12.7 -> 26.6 ms, 9.2 -> 24.0 ms per step). On a CPU,
XLA gains where many small ops or chains of element-wise ops make up the step (6.2 -> 4.0 ms, 68 ->
43 ms), and loses where single large ops do: a gather with a dense gradient (164 -> 201 ms), a
metric of 300 thresholds (41 -> 71 ms).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.actions.table import Action, build_action, choose_action, iter_actions
from outpace.metrics.facts.workload import Workload
from outpace.timeline.work_kinds import WorkKind

CPU, GPU, TPU = "CPU", "GPU", "TPU"
_REFERENCE_GPU, _REFERENCE_FLOPS = "an A100", 19.5e12  # its peak in float32, FLOP/s, by its data sheet


@dataclass(frozen=True)
class OpTraits:
    """What the compiled program shows about the ops in question.

    is_aligned: whether the sizes of nearly all products, by FLOPs, are multiples of 8.
    may_be_causal: for an attention, whether its mask is known and not causal.
    has_padding: for an attention, whether it is known to have padding.
    dropout_rate: for an attention, its dropout rate; 0 for none, or where not known.
    is_memory_bound: whether reading and writing arrays takes the time.
    is_near_peak: whether the products come near the device's peak.
    recurrent_dropout: for a recurrent layer, the share of its state that it drops in each step of
        the sequence; 0 where not known.
    is_joinable: whether several of the products take the same array in the same way, so that one
        product could take their other factors beside each other.
    limit_text: which of these two limits applies, in words; "" for none.
    """

    is_aligned: bool = False
    may_be_causal: bool = False
    has_padding: bool = False
    dropout_rate: float = 0.0
    is_memory_bound: bool = False
    is_near_peak: bool = False
    recurrent_dropout: float = 0.0
    is_joinable: bool = False
    limit_text: str = ""


@dataclass(frozen=True)
class ActionContext:
    """What an action must fit: the program, its hardware, and what is in force.

    program: the framework and kind of the program.
    hardware: `CPU`, `GPU` or `TPU`.
    uses_xla: whether XLA compiles the program.
    uses_half: whether most of the work computes in 16 bits.
    gains_from_half: whether the hardware is faster in 16 bits, as far as known; for a CPU only the
        capture record says so.
    has_bfloat16: whether the device computes in bfloat16.
    has_convolutions: whether the model convolves or pools.
    uses_onednn: whether any op of a CPU is oneDNN's, without which the CPU has no fast 16 bits.
    traits: what the compiled program shows about the ops.
    shares_cores: whether the input pipeline takes cores from the model.
    program_count: number of programs per step over which a device's work is spread.
    has_short_ops: whether ops are short, or much of the step is spent around them.
    op: the op that takes most of the time.
    flops_per_s: its rate where it multiplies matrices or convolves, FLOP/s; else 0.
    """

    program: Workload
    hardware: str
    uses_xla: bool = False
    uses_half: bool = False
    gains_from_half: bool = True
    has_bfloat16: bool = True
    has_convolutions: bool = False
    uses_onednn: bool = True
    traits: OpTraits = field(default_factory=lambda: OpTraits())
    shares_cores: bool = False
    program_count: int = 1
    has_short_ops: bool = False
    op: str = ""
    flops_per_s: float = 0.0


_WRITES_ROWS = compile_lazily(r"^Assign(Add|Sub)VariableOp|Segment|scatter", re.IGNORECASE)
_GATHERS = compile_lazily(r"gather", re.IGNORECASE)
_FUSED_ATTENTION = ("fused", "flash", "fmha", "cudnn")  # parts of the names of libraries' implementations


class Precondition(Enum):
    """What must hold for an action, with the evidence."""

    ON_CPU = "no device was captured"
    ON_GPU = "a GPU was"
    ON_TPU = "a TPU was"
    ON_DEVICE = "one of the two was"
    TENSORFLOW = "TensorFlow runs the model"
    JAX = "JAX does"
    OWN_LOOP = "the loop is the user's, not Keras'"
    COMPILED = "XLA compiles the model"
    SEVERAL_PROGRAMS = "several programs share a device's work in each step"
    FUSIBLE = "XLA does not compile it, and on a CPU its ops are short and none convolves"
    SLOWER_IN_32_BITS = "it computes in 32 bits, and this hardware has faster code for the op in 16"
    COMPUTES_IN_16_BITS = "it computes in 16 bits"
    ODD_SIZES = "sizes of its products are no multiples of 8, as far as known"
    FIXED_COSTS = "neither memory nor arithmetic limits it, and on a CPU its ops are short: a larger batch shares their costs"
    LIMITED_BY_MEMORY = "reading and writing arrays takes the time"
    NEAR_PEAK = "its products come near the device's peak"
    SHARES_CORES = "the input pipeline takes cores from it"
    WITHOUT_ONEDNN = "no op of a CPU is oneDNN's"
    WRITES_ROWS = "the op writes rows of a table"
    COPIES_WHOLE = "the op copies whole arrays: it neither gathers nor writes rows"
    JOINABLE = "several of its products take one array in the same way, and are far from the peak"
    UNFUSED_ATTENTION = "no library's implementation computes the attention"
    FUSED_ATTENTION = "one does"
    DROPS_SCORES = "the attention has a dropout rate"
    HAS_PADDING = "the attention's sequences are padded"
    MAY_BE_CAUSAL = "the attention's mask is known, and not causal"
    DROPS_STATE = "the recurrent layer drops a part of its state in each step of the sequence"
    WITHOUT_CUDNN = "the op is not cuDNN's"
    RATED = "the rate of its products is known"


_EVIDENCE: Mapping[Precondition, Callable[[ActionContext], bool]] = {
    Precondition.ON_CPU: lambda here: here.hardware == CPU,
    Precondition.ON_GPU: lambda here: here.hardware == GPU,
    Precondition.ON_TPU: lambda here: here.hardware == TPU,
    Precondition.ON_DEVICE: lambda here: here.hardware != CPU,
    Precondition.TENSORFLOW: lambda here: not here.program.is_jax,
    Precondition.JAX: lambda here: here.program.is_jax,
    Precondition.OWN_LOOP: lambda here: not here.program.is_keras,
    Precondition.COMPILED: lambda here: here.uses_xla,
    Precondition.SEVERAL_PROGRAMS: lambda here: here.program_count > 1,
    Precondition.FUSIBLE: lambda here: (
        not here.uses_xla and (here.hardware != CPU or (here.has_short_ops and not here.has_convolutions))
    ),
    Precondition.SLOWER_IN_32_BITS: lambda here: not here.uses_half and here.gains_from_half and _has_code_for_half(here),
    Precondition.COMPUTES_IN_16_BITS: lambda here: here.uses_half,
    Precondition.ODD_SIZES: lambda here: not here.traits.is_aligned,
    Precondition.FIXED_COSTS: lambda here: (
        not (here.traits.is_memory_bound or here.traits.is_near_peak) and (here.hardware != CPU or here.has_short_ops)
    ),
    Precondition.LIMITED_BY_MEMORY: lambda here: here.traits.is_memory_bound,
    Precondition.NEAR_PEAK: lambda here: here.traits.is_near_peak,
    Precondition.SHARES_CORES: lambda here: here.shares_cores,
    Precondition.WITHOUT_ONEDNN: lambda here: here.hardware == CPU and not here.uses_xla and not here.uses_onednn,
    Precondition.WRITES_ROWS: lambda here: bool(_WRITES_ROWS.search(here.op)),
    Precondition.COPIES_WHOLE: lambda here: not _GATHERS.search(here.op) and not _WRITES_ROWS.search(here.op),
    Precondition.JOINABLE: lambda here: here.traits.is_joinable and not here.traits.is_near_peak,
    Precondition.UNFUSED_ATTENTION: lambda here: not _is_fused_attention(here),
    Precondition.FUSED_ATTENTION: lambda here: _is_fused_attention(here),
    Precondition.DROPS_SCORES: lambda here: here.traits.dropout_rate > 0,
    Precondition.HAS_PADDING: lambda here: here.traits.has_padding,
    Precondition.MAY_BE_CAUSAL: lambda here: here.traits.may_be_causal,
    Precondition.DROPS_STATE: lambda here: here.traits.recurrent_dropout > 0,
    Precondition.WITHOUT_CUDNN: lambda here: "cudnn" not in here.op.lower(),
    Precondition.RATED: lambda here: here.flops_per_s > 0,
}


def find_preconditions(here: ActionContext) -> frozenset[Precondition]:
    """Return the preconditions that hold for a part of the model."""
    return frozenset(need for need, holds in _EVIDENCE.items() if holds(here))


def _has_code_for_half(here: ActionContext) -> bool:
    """Whether the op has code for 16 bits. On a CPU, TensorFlow's has where it is oneDNN's: Eigen
    computes it without fast code.
    """
    if not (here.uses_onednn or here.uses_xla):
        return False
    return here.hardware != CPU or here.program.is_jax or here.op.startswith("_Mkl")


def _is_fused_attention(here: ActionContext) -> bool:
    """Whether the op is a library's implementation of attention."""
    return any(word in here.op.lower() for word in _FUSED_ATTENTION)


def _says(text: str) -> Callable[[ActionContext], str]:
    """Return a renderer of one text for all programs."""
    return lambda here: text


def _by_program(*, tensorflow: str, jax: str, keras: str = "") -> Callable[[ActionContext], str]:
    """Return a renderer of a text for each kind of program."""
    return lambda here: here.program.select_text(keras=keras, tensorflow=tensorflow, jax=jax)


def _render_half(here: ActionContext) -> str:
    kind = "bfloat16" if here.hardware != GPU or here.has_bfloat16 else "float16"
    where = " (this CPU has instructions for it)" if here.hardware == CPU else ""
    return here.program.select_text(
        keras=f"compute in 16 bits{where} (set_global_policy('mixed_{kind}'))",
        tensorflow=f"compute in {kind}{where}, with variables in float32",
        jax=f"compute in {kind}{where}, with parameters in float32",
    )


def _render_join_programs(here: ActionContext) -> str:
    return (
        "call such functions in one under jax.jit, so that XLA fuses them: "
        f"today {here.program_count} programs read and write whole arrays"
    )


def _render_recurrent_dropout(here: ActionContext) -> str:
    return (
        f"leave recurrent_dropout={here.traits.recurrent_dropout:g} out, for dropout between the layers: it masks the state in each step of "
        "the sequence (it changes the training)"
    )


def _render_dropout(here: ActionContext) -> str:
    return f"leave attention's dropout of {here.traits.dropout_rate:g} out: it draws a number for each score (it changes the training)"


def _render_larger_batch(here: ActionContext) -> str:
    return "use a larger batch" + " (it changes the training: compare the time per example)" * (not here.program.is_inference)


def _render_other_device(here: ActionContext) -> str:
    peak, mean = f"{_REFERENCE_FLOPS / 1e9:,.0f} GFLOP/s", f"{here.flops_per_s / 1e9:.3g} in the mean"
    return f"train on a GPU or TPU: {_REFERENCE_GPU} multiplies float32 at up to {peak}, here it is {mean}"


def _row(
    name: str,
    kinds: str,
    render: str | Callable[[ActionContext], str],
    *preconditions: Precondition,
    reaches_roof: bool = False,
) -> Action[WorkKind, Precondition, [ActionContext]]:
    """Return a row of the table (`build_action`), with a text or what renders one."""
    renders = _says(render) if isinstance(render, str) else render
    return build_action(WorkKind, name, kinds, renders, *preconditions, reaches_roof=reaches_roof)


_FUSED_KINDS = "NORMALISATION RECURRENT REDUCTION ELEMENTWISE RANDOM CAST OPTIMIZER MOVEMENT OTHER"
MODEL_ACTIONS: tuple[Action[WorkKind, Precondition, [ActionContext]], ...] = (
    _row("leave_recurrent_dropout", "RECURRENT", _render_recurrent_dropout, Precondition.DROPS_STATE),
    _row(
        "meet_cudnn",
        "RECURRENT",
        "meet cuDNN's conditions (tanh and sigmoid as activations, no recurrent_dropout, no unroll, a GRU with reset_after, masks padded "
        "on the right)",
        Precondition.ON_GPU,
        Precondition.TENSORFLOW,
        Precondition.WITHOUT_CUDNN,
        reaches_roof=True,
    ),
    _row(
        "fuse_attention",
        "ATTENTION",
        _by_program(
            keras="use a fused implementation (MultiHeadAttention(flash_attention=True), where the backend has one)",
            tensorflow="use a fused implementation instead of MatMul, Softmax and MatMul",
            jax="use a fused implementation (jax.nn.dot_product_attention, on NVIDIA with implementation='cudnn')",
        ),
        Precondition.ON_DEVICE,
        Precondition.UNFUSED_ATTENTION,
        reaches_roof=True,
    ),
    _row(
        "use_cheap_generator",
        "RANDOM",
        "use a cheaper generator (jax_default_prng_impl='rbg')",
        Precondition.JAX,
        reaches_roof=True,
    ),
    _row(
        "keep_layout",
        "MOVEMENT",
        "keep one layout from layer to layer, so that nothing is transposed or copied",
        Precondition.COPIES_WHOLE,
        reaches_roof=True,
    ),
    _row(
        "update_rows",
        "ELEMENTWISE MOVEMENT",
        _by_program(
            keras="keep the gradient of a table sparse, so that only the rows that a batch reads are updated",
            tensorflow="keep the gradient of a table sparse (tf.IndexedSlices, scatter_sub), so that only the rows that a batch reads are "
            "updated",
            jax="update only the rows that a batch reads (x.at[rows].add(...))",
        ),
        Precondition.WRITES_ROWS,
        reaches_roof=True,
    ),
    _row(
        "update_table_rows",
        "EMBEDDING",
        "update only the rows that a batch reads: plain SGD does, Adam updates the whole table (it changes the training)",
    ),
    _row("join_programs", _FUSED_KINDS, _render_join_programs, Precondition.SEVERAL_PROGRAMS, reaches_roof=True),
    _row(
        "compile",
        _FUSED_KINDS,
        _by_program(
            keras="let XLA fuse such ops with their neighbours (compile(..., jit_compile=True))",
            tensorflow="let XLA fuse such ops with their neighbours (@tf.function(jit_compile=True))",
            jax="let XLA fuse such ops with their neighbours (one jax.jit)",
        ),
        Precondition.FUSIBLE,
        reaches_roof=True,
    ),
    _row("donate", "OPTIMIZER OTHER", "update in place (donate_argnums)", Precondition.JAX, Precondition.OWN_LOOP),
    _row(
        "unroll",
        "RECURRENT",
        _by_program(
            keras="unroll short sequences (unroll=True)",
            tensorflow="unroll short sequences",
            jax="unroll the scan (jax.lax.scan(..., unroll=8))",
        ),
        reaches_roof=True,
    ),
    _row("project_inputs", "RECURRENT", "project all inputs at once, in one matrix product before the loop", reaches_roof=True),
    _row(
        "leave_xla",
        "CONVOLUTION POOLING",
        "compare with jit_compile=False: XLA's code for it is slow on a CPU",
        Precondition.COMPILED,
        Precondition.ON_CPU,
        Precondition.TENSORFLOW,
        reaches_roof=True,
    ),
    _row(
        "pool_by_reshape",
        "POOLING",
        "pool by reshape and maximum, where windows do not overlap",
        Precondition.COMPILED,
        Precondition.ON_CPU,
        reaches_roof=True,
    ),
    _row(
        "free_cores", "CONVOLUTION MATMUL", "lighten the input pipeline, which takes cores from it", Precondition.SHARES_CORES
    ),
    _row(
        "compute_in_16_bits",
        "CONVOLUTION MATMUL ATTENTION NORMALISATION POOLING REDUCTION ELEMENTWISE",
        _render_half,
        Precondition.SLOWER_IN_32_BITS,
    ),
    _row(
        "use_onednn",
        "CONVOLUTION MATMUL",
        "use oneDNN, which no op here does (TF_ENABLE_ONEDNN_OPTS=1 on x86, elsewhere a build with it), or this machine's GPU (on a Mac: "
        "tensorflow-metal)",
        Precondition.WITHOUT_ONEDNN,
        reaches_roof=True,
    ),
    _row(
        "align_for_tensor_cores",
        "CONVOLUTION MATMUL",
        "make sizes multiples of 8, as tensor cores want",
        Precondition.ON_GPU,
        Precondition.COMPUTES_IN_16_BITS,
        Precondition.ODD_SIZES,
        reaches_roof=True,
    ),
    _row(
        "align_for_matrix_unit",
        "CONVOLUTION MATMUL",
        "make sizes multiples of 128, as the matrix unit wants",
        Precondition.ON_TPU,
        Precondition.COMPUTES_IN_16_BITS,
        reaches_roof=True,
    ),
    _row("leave_dropout", "ATTENTION", _render_dropout, Precondition.DROPS_SCORES),
    _row("pack", "ATTENTION", "pack short sequences, so that nothing is computed for padding", Precondition.HAS_PADDING),
    _row("say_causal", "ATTENTION", "say where a mask is causal: half of the work is skipped then", Precondition.MAY_BE_CAUSAL),
    _row(
        "compare_attention",
        "ATTENTION",
        "compare another fused implementation of attention",
        Precondition.FUSED_ATTENTION,
        reaches_roof=True,
    ),
    _row("draw_less", "RANDOM", "draw smaller tensors, or the same ones for several steps"),
    _row("keep_dtype", "CAST", "keep what lies between layers in one dtype, and cast constants once"),
    _row("update_seldom", "OPTIMIZER", "use a larger batch, so that it runs less often per example (it changes the training)"),
    _row(
        "use_larger_batch",
        "CONVOLUTION MATMUL NORMALISATION POOLING RECURRENT EMBEDDING ELEMENTWISE MOVEMENT OTHER",
        _render_larger_batch,
        Precondition.FIXED_COSTS,
    ),
    _row(
        "stay_on_chip",
        "NORMALISATION REDUCTION ELEMENTWISE MOVEMENT OTHER",
        "keep intermediate arrays on the chip: a kernel of your own (jax.experimental.pallas), or smaller arrays",
        Precondition.LIMITED_BY_MEMORY,
    ),
    _row(
        "join_products",
        "MATMUL",
        "join the products of one input into one (their factors beside each other)",
        Precondition.JOINABLE,
        reaches_roof=True,
    ),
    _row(
        "multiply_less",
        "CONVOLUTION MATMUL",
        "multiply less (smaller layers, fewer tokens or pixels, 8-bit floats): nothing else makes it much faster",
        Precondition.NEAR_PEAK,
    ),
)
"""Actions on work of the model, in order of worth."""

LAST_RESORT: tuple[Action[WorkKind, Precondition, [ActionContext]], ...] = (
    _row("do_less", "", "compute on fewer or smaller arrays", Precondition.ON_DEVICE),
    _row("other_device_at_rate", "", _render_other_device, Precondition.RATED),
    _row("other_device", "", "train on a GPU or TPU: this is what they are made for"),
)
"""What is said where no action fits."""

_MOST, _ONE_SENTENCE = 3, 2  # maximum number of actions, and how many of them form the first sentence


def reaches_roof(work: WorkKind, context: ActionContext) -> bool:
    """Whether the first sentence of the advice has an action that reaches the roof, so that a
    saving of what is above the device's limits may be promised.
    """
    return any(action.reaches_roof for action in _first_actions(work, context))


def _first_actions(work: WorkKind, context: ActionContext) -> list[Action[WorkKind, Precondition, [ActionContext]]]:
    """Return the actions of the first sentence of the advice; none for the last resort alone."""
    return list(iter_actions(MODEL_ACTIONS, work, find_preconditions(context)))[:_ONE_SENTENCE]


def advises_half(work: WorkKind, context: ActionContext) -> bool:
    """Whether computing in 16 bits is in the first sentence of the advice."""
    return any(action.name == "compute_in_16_bits" for action in _first_actions(work, context))


def render_actions(work: WorkKind, context: ActionContext) -> str:
    """Return up to three actions as prose, the first two as one sentence."""
    holds = find_preconditions(context)
    actions = list(iter_actions(MODEL_ACTIONS, work, holds)) or [choose_action(LAST_RESORT, work, holds)]
    texts = [action.render(context) for action in actions[:_MOST]]
    first = ", or ".join(texts[:_ONE_SENTENCE])
    alternatives = (f"or {more}" for more in texts[_ONE_SENTENCE:])
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in (first, *alternatives))
