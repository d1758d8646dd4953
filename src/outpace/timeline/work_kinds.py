# SPDX-License-Identifier: Apache-2.0
"""Kinds of work: what an op computes, as far as its type and its name show."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from outpace._lazy import compile_lazily
from outpace.timeline.op_names import parse_type_from_name

# Prefix of ops of JAX' own functions (`_normal`, `_uniform`), where a program calls one outside of
# any jitted function
_LIBRARY_PROGRAM = "jit(_"


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
    if layer and (whole := _classify_layer(layer)) is not WorkKind.OTHER:
        return whole
    of_type, compiled = _classify_type(op_type), op_type.islower()
    if compiled and _RANDOM_NAME.search(name):
        return WorkKind.RANDOM
    return (
        _classify_type(parse_type_from_name(name)) if compiled and of_type in (WorkKind.OTHER, WorkKind.MOVEMENT) else of_type
    )


@lru_cache(4096)
def _classify_layer(layer: str) -> WorkKind:
    whole = _first(_OF_LAYER, layer)
    return whole if whole in (WorkKind.RECURRENT, WorkKind.OTHER) else _first(_OF_LAYER, layer.rpartition("/")[2])


@lru_cache(4096)
def _classify_type(op_type: str) -> WorkKind:
    return WorkKind.RANDOM if _RANDOM.fullmatch(op_type) else _first(_WORK, op_type)


def _first(kinds: tuple[tuple[WorkKind, re.Pattern[str]], ...], text: str) -> WorkKind:
    return next((kind for kind, says in kinds if says.search(text)), WorkKind.OTHER)
