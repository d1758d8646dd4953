# SPDX-License-Identifier: Apache-2.0
"""Actions that make a kind of work cheaper, by kind of op, framework and hardware. Actions that
leave the model as it is come first.

An action returns "" where it is in force already, or impossible. Sources: the performance guides of
TensorFlow, Keras, JAX and NVIDIA (mixed precision, tensor cores' multiples of 8, cuDNN's conditions
for LSTM and GRU), and our own measurements: XLA's code for convolutions and pooling on a CPU takes
about twice as long as TensorFlow's (12.7 -> 26.6 ms, 9.2 -> 24.0 ms per step). On a CPU, XLA gains
where many small ops or chains of element-wise ops make up the step (6.2 -> 4.0 ms, 68 -> 43 ms),
and loses where single large ops do: a gather with a dense gradient (164 -> 201 ms), a metric of 300
thresholds (41 -> 71 ms).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
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


Action = Callable[[ActionContext], str]
_WRITES_ROWS = compile_lazily(r"^Assign(Add|Sub)VariableOp|Segment|scatter", re.IGNORECASE)
_GATHERS = compile_lazily(r"gather", re.IGNORECASE)


def _fuse(here: ActionContext) -> str:
    """Return the action to let XLA fuse the ops: with one program instead of several, or by
    compiling with XLA; "" where that gains nothing.
    """
    if here.program_count > 1:
        return (
            "call them in one function under jax.jit, so that XLA fuses them: "
            f"today {here.program_count} programs read and write whole arrays"
        )
    if here.uses_xla or (here.hardware == CPU and (here.has_convolutions or not here.has_short_ops)):
        return ""
    how = here.program.select_text(
        keras="compile(..., jit_compile=True)", tensorflow="@tf.function(jit_compile=True)", jax="one jax.jit"
    )
    return f"let XLA fuse them with their neighbours ({how})"


def _unfuse(here: ActionContext) -> str:
    if not here.uses_xla or here.hardware != CPU or here.program.is_jax:
        return ""
    return "compare with jit_compile=False: XLA's code for it is slow on a CPU"


def _half(here: ActionContext) -> str:
    """Return the action to compute in 16 bits; "" where the hardware does not gain from that, or
    the ops have no code for it.
    """
    if here.uses_half or not here.gains_from_half or not (here.uses_onednn or here.uses_xla):
        return ""
    # Eigen, which then computes the op, has no fast code for 16 bits.
    if here.hardware == CPU and not here.program.is_jax and not here.op.startswith("_Mkl"):
        return ""
    kind = "bfloat16" if here.hardware != GPU or here.has_bfloat16 else "float16"
    where = " (this CPU has instructions for it)" if here.hardware == CPU else ""
    return here.program.select_text(
        keras=f"compute in 16 bits{where} (set_global_policy('mixed_{kind}'))",
        tensorflow=f"compute in {kind}{where}, with variables in float32",
        jax=f"compute in {kind}{where}, with parameters in float32",
    )


def _batch(here: ActionContext) -> str:
    # Where memory is the limit, each example moves as many bytes as before; near the device's peak,
    # each example has as much to multiply.
    if here.traits.is_memory_bound or here.traits.is_near_peak or (here.hardware == CPU and not here.has_short_ops):
        return ""
    return "use a larger batch" + " (it changes the training: compare the time per example)" * (not here.program.is_inference)


def _cores(here: ActionContext) -> str:
    return "lighten the input pipeline, which takes cores from it" if here.shares_cores else ""


def _on_chip(here: ActionContext) -> str:
    if not here.traits.is_memory_bound:
        return ""
    return "keep what it makes on the chip: a kernel of your own (jax.experimental.pallas) that does not write it to memory, or smaller arrays"


def _once(here: ActionContext) -> str:
    return "do it every few steps, not in each, where the training allows that"


def _onednn(here: ActionContext) -> str:
    if here.hardware != CPU or here.uses_xla or here.uses_onednn:
        return ""
    how = "TF_ENABLE_ONEDNN_OPTS=1 on x86, elsewhere a build with it"
    return f"use oneDNN, which no op here does ({how}), or this machine's GPU (on a Mac: tensorflow-metal)"


def _other_device(here: ActionContext) -> str:
    """Return the action where nothing else is known to help."""
    if here.hardware != CPU:
        return "give it less to do: fewer or smaller arrays"
    if here.flops_per_s <= 0:
        return "train on a GPU or TPU: this is what they are made for"
    peak, mean = f"{_REFERENCE_FLOPS / 1e9:,.0f} GFLOP/s", f"{here.flops_per_s / 1e9:.3g} in the mean"
    return f"train on a GPU or TPU: {_REFERENCE_GPU} multiplies float32 at up to {peak}, here it is {mean}"


def _aligned(here: ActionContext) -> str:
    sizes = {GPU: "multiples of 8, as tensor cores want", TPU: "multiples of 128, as the matrix unit wants"}
    applies = here.hardware in sizes and here.uses_half and not (here.hardware == GPU and here.traits.is_aligned)
    return f"make its sizes {sizes[here.hardware]}" if applies else ""


def _is_fused(here: ActionContext) -> bool:
    """Whether the op is a library's implementation of attention."""
    return any(word in here.op.lower() for word in ("fused", "flash", "fmha", "cudnn"))


def _attend(here: ActionContext) -> str:
    if _is_fused(here) or here.hardware == CPU:
        return ""
    return here.program.select_text(
        keras="use a fused implementation (MultiHeadAttention(flash_attention=True), where the backend has one)",
        tensorflow="use a fused implementation instead of MatMul, Softmax and MatMul",
        jax="use a fused implementation (jax.nn.dot_product_attention, on NVIDIA with implementation='cudnn')",
    )


def _dropout(here: ActionContext) -> str:
    drops = here.traits.dropout_rate
    return f"leave its dropout of {drops:g} out: it draws a number for each score (it changes the training)" if drops else ""


def _packed(here: ActionContext) -> str:
    return "pack short sequences, so that nothing is computed for padding" if here.traits.has_padding else ""


def _causal(here: ActionContext) -> str:
    return "say where a mask is causal: half of the work is skipped then" if here.traits.may_be_causal else ""


def _other_attention(here: ActionContext) -> str:
    return "compare another fused implementation of it" if _is_fused(here) else ""


def _recurrent_dropout(here: ActionContext) -> str:
    rate = here.traits.recurrent_dropout
    return (
        f"leave recurrent_dropout={rate:g} out, for dropout between the layers: it masks the state in each step of the sequence (it changes "
        "the training)"
        if rate
        else ""
    )


def _cudnn(here: ActionContext) -> str:
    if here.hardware != GPU or "cudnn" in here.op.lower() or here.program.is_jax:
        return ""
    return (
        "meet cuDNN's conditions (tanh and sigmoid as activations, no recurrent_dropout, no unroll, a GRU with reset_after, masks padded "
        "on the right)"
    )


def _unroll(here: ActionContext) -> str:
    return here.program.select_text(
        keras="unroll short sequences (unroll=True)",
        tensorflow="unroll short sequences",
        jax="unroll the scan (jax.lax.scan(..., unroll=8))",
    )


def _generator(here: ActionContext) -> str:
    return "use a cheaper generator (jax_default_prng_impl='rbg')" if here.program.is_jax else ""


def _donate(here: ActionContext) -> str:
    return "update in place (donate_argnums)" if here.program.is_jax and not here.program.is_keras else ""


def _sparse(here: ActionContext) -> str:
    return "update only the rows that a batch reads: plain SGD does, Adam updates the whole table (it changes the training)"


def _window(here: ActionContext) -> str:
    return "pool by reshape and maximum, where windows do not overlap" if here.uses_xla and here.hardware == CPU else ""


def _fewer(here: ActionContext) -> str:
    if here.has_short_ops or here.hardware != CPU:
        return ""
    return "give it fewer elements (rows, thresholds of a metric), or compute once what stays the same from step to step"


def _rows(here: ActionContext) -> str:
    if not _WRITES_ROWS.search(here.op):
        return ""
    return here.program.select_text(
        keras="keep the gradient of a table sparse, so that only the rows that a batch reads are updated",
        tensorflow="keep the gradient of a table sparse (tf.IndexedSlices, scatter_sub), so that only the rows that a batch reads are updated",
        jax="update only the rows that a batch reads (x.at[rows].add(...))",
    )


def _layout(here: ActionContext) -> str:
    if _GATHERS.search(here.op) or _WRITES_ROWS.search(here.op):
        return ""
    return "keep one layout from layer to layer, so that nothing is transposed or copied"


def _join(here: ActionContext) -> str:
    joins = here.traits.is_joinable and not here.traits.is_near_peak
    return "join the products of one input into one (their factors beside each other)" if joins else ""


def _fewer_flops(here: ActionContext) -> str:
    return (
        "let it multiply less (smaller layers, fewer tokens or pixels, 8-bit floats): nothing else makes it much faster"
        if here.traits.is_near_peak
        else ""
    )


def _says(text: str) -> Action:
    return lambda here: text


ACTIONS: Mapping[WorkKind, tuple[Action, ...]] = {
    WorkKind.CONVOLUTION: (_unfuse, _cores, _half, _onednn, _aligned, _batch, _fewer_flops),
    WorkKind.MATMUL: (_cores, _half, _onednn, _aligned, _batch, _join, _fewer_flops),
    WorkKind.ATTENTION: (
        _attend,
        _half,
        _dropout,
        _packed,
        _causal,
        _other_attention,
    ),
    WorkKind.NORMALISATION: (_fuse, _half, _batch, _on_chip),
    WorkKind.POOLING: (_unfuse, _window, _half, _batch),
    WorkKind.RECURRENT: (
        _recurrent_dropout,
        _cudnn,
        _fuse,
        _unroll,
        _says("project all inputs at once, in one matrix product before the loop"),
        _batch,
    ),
    WorkKind.EMBEDDING: (_sparse, _batch),
    WorkKind.REDUCTION: (_fuse, _once, _half, _on_chip),
    WorkKind.ELEMENTWISE: (_fuse, _rows, _fewer, _half, _batch, _on_chip),
    WorkKind.RANDOM: (_generator, _fuse, _says("draw smaller tensors, or the same ones for several steps")),
    WorkKind.CAST: (_fuse, _says("keep what lies between layers in one dtype, and cast constants once")),
    WorkKind.OPTIMIZER: (
        _fuse,
        _donate,
        _says("use a larger batch, so that it runs less often per example (it changes the training)"),
    ),
    WorkKind.MOVEMENT: (_layout, _rows, _fuse, _batch, _on_chip),
    WorkKind.OTHER: (_fuse, _donate, _fewer, _batch, _on_chip),
}
"""Actions by kind of work, in order of worth; those that change least come first."""

_MOST, _ONE_SENTENCE = 3, 2  # maximum number of actions, and how many of them form the first sentence


def advises_half(work: WorkKind, context: ActionContext) -> bool:
    """Whether computing in 16 bits is in the first sentence of the advice."""
    return _half in [action for action in ACTIONS[work] if action(context)][:_ONE_SENTENCE]


def render_actions(work: WorkKind, context: ActionContext) -> str:
    """Return up to three actions as prose, the first two as one sentence."""
    texts = [text for action in ACTIONS[work] if (text := action(context))] or [_other_device(context)]
    texts = list(dict.fromkeys(texts))[:_MOST]
    first = ", or ".join(texts[:_ONE_SENTENCE])
    alternatives = (f"or {more}" for more in texts[_ONE_SENTENCE:])
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in (first, *alternatives) if text)
