# SPDX-License-Identifier: Apache-2.0
"""Calls of libraries (`custom-call`): which library and operation a target stands for, and what one
call costs.

The operations of linear algebra are those of LAPACK Working Note 41 and of Golub and Van Loan,
"Matrix Computations"; those of attention are its two products forward and five backward, of which a
causal mask leaves half. A sort has n log2 n comparisons, and must read and write everything once; a
radix sort does so once per digit, which is a property of the algorithm and no roof.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.timeline.hlo.cost import UNKNOWN_COST, Cost, product_cost
from outpace.timeline.hlo.cost.arithmetic import contraction_flops
from outpace.timeline.hlo.cost.convolutions import convolution_flops
from outpace.timeline.hlo.graph import Instruction
from outpace.timeline.hlo.shape import Shape

_CONTRACTED = compile_lazily(r'"lhs_contracting_dimensions":\[((?:"?\d{1,9}"?,?){0,9})\]')
_TRANSPOSED = compile_lazily(r'"transpose_a":\s*true')
_SCORES = compile_lazily(r'"intermediate_tensor_shape":\{[^}]*?"dimensions":\[((?:"?\d{1,9}"?,?){1,6})\]')
_SIZES = compile_lazily(r"\b(attn_heads|input_batch|kv_max_seqlen|q_max_seqlen|qk_head_dim|v_head_dim) = (\d{1,9})")
_CAUSAL = compile_lazily(r"mask_type\W+(?:\w*CAUSAL|[2-5]\b)")
_BACKWARD = compile_lazily(r"backward|bwd", re.IGNORECASE)
_FORWARD_PRODUCTS, _BACKWARD_PRODUCTS = (1, 1), (3, 2)  # products of an attention as wide as its keys, and as its values


@dataclass(frozen=True)
class LibraryCall:
    """What the targets of one kind of custom call stand for.

    library: name of the library on NVIDIA and CPUs; `ops.AMD_LIBRARIES` has AMD's names.
    operation: what it computes, in a word or two.
    flops: function that returns the operations of one call; None where they are not known.
    is_product: whether these are those of matrix products or convolutions.
    traffic: function that returns the bytes of one call; None for operands and first result.
    """

    library: str
    operation: str
    flops: Callable[[Instruction], float] | None = None
    is_product: bool = False
    traffic: Callable[[Instruction], float] | None = None


def _matrix_product(call: Instruction) -> float:
    """Return the operations of a library's matrix product, which sums over the last dimension of
    its left operand where its configuration does not say.
    """
    left, config = _operands(call)[0], _CONTRACTED.search(call.backend_config)
    last = len(left.dimensions) - (2 if _TRANSPOSED.search(call.backend_config) else 1)
    return contraction_flops(call.shapes[0], left, _numbers(config[1]) if config else [last])


def _numbers(text: str) -> list[int]:
    """Return the numbers of a JSON list, which may be in quotes."""
    return [int(n) for n in text.replace('"', "").split(",") if n]


def _attention(call: Instruction) -> float:
    """Return the operations of an attention, from the number of its scores and the widths of its
    keys and values: its products of queries and keys, and of scores and values.
    """
    sizes, scores = {key: int(n) for key, n in _SIZES.findall(call.backend_config)}, _SCORES.search(call.backend_config)
    if scores:
        count, keys = math.prod(_numbers(scores[1])), _last(_operands(call)[0])
    else:
        count = math.prod(sizes.get(key, 0) for key in ("attn_heads", "input_batch", "kv_max_seqlen", "q_max_seqlen"))
        keys = sizes.get("qk_head_dim", 0)
    of_keys, of_values = _BACKWARD_PRODUCTS if _BACKWARD.search(call.custom_call_target) else _FORWARD_PRODUCTS
    width = of_keys * keys + of_values * sizes.get("v_head_dim", keys)
    return 2.0 * count * width / (2 if _CAUSAL.search(call.backend_config) else 1)


def _sort(call: Instruction) -> float:
    count = _operands(call)[0].element_count
    return count * math.log2(max(count, 1))


def _sort_bytes(call: Instruction) -> float:
    """Return the bytes of a sort: keys and what belongs to them are read and written."""
    return 2.0 * sum(shape.byte_size for shape in _operands(call))


def _squares(factor: float) -> Callable[[Instruction], float]:
    """Return the function that counts `factor` n^3 operations of a batch of square matrices."""
    return lambda call: factor * _operands(call)[0].element_count * _last(_operands(call)[0])


def _orthogonal(call: Instruction) -> float:
    """Return the operations of a QR decomposition of m x n: 2 k^2 (max - k / 3), k the smaller."""
    matrix = _operands(call)[0]
    rows, columns = (*matrix.dimensions[-2:], 1, 1)[:2]
    small, large = sorted((rows, columns))
    return 2.0 * small**2 * (large - small / 3) * matrix.element_count / max(rows * columns, 1)


def _singular_values(call: Instruction) -> float:
    """Return the operations of a singular value decomposition of m x n with both factors: 4 m^2 n +
    8 m n^2 + 9 n^3.
    """
    matrix = _operands(call)[0]
    small, large = sorted((*matrix.dimensions[-2:], 1, 1)[:2])
    return (4.0 * large**2 * small + 8.0 * large * small**2 + 9.0 * small**3) * matrix.element_count / max(small * large, 1)


def _solve(call: Instruction) -> float:
    arrays = _operands(call)
    return float(arrays[1].element_count * _last(arrays[0])) if len(arrays) > 1 else 0.0


def _last(shape: Shape) -> int:
    return shape.dimensions[-1] if shape.dimensions else 0


def _operands(call: Instruction) -> list[Shape]:
    return [operand.shapes[0] for operand in call.operands if operand.shapes]


def _whole(call: Instruction) -> float:
    """Return one operation per element that the call reads."""
    return float(_operands(call)[0].element_count)


def _nothing(call: Instruction) -> float:
    return 0.0


_SOLVER = r"(?:^|[^a-z])(?:cusolver|hipsolver|cublas|lapack)_"
_TABLE = tuple(
    (compile_lazily(pattern, re.IGNORECASE), call)
    # The first pattern that is found in a target decides.
    for pattern, call in (
        (r"cublas.*(?:gemm|matmul)", LibraryCall("cuBLAS", "matrix product", _matrix_product, True)),
        (r"onednn.*(?:matmul|dot)", LibraryCall("oneDNN", "matrix product", _matrix_product, True)),
        (r"cublas.*trsm|[sdcz]trsm", LibraryCall("cuBLAS", "triangular solve", _solve)),
        (r"^te_fused_attn", LibraryCall("Transformer Engine", "attention", _attention, True)),
        (r"fmha|fused_attn|flash_?att|attention", LibraryCall("cuDNN", "attention", _attention, True)),
        (r"cudnn.*conv", LibraryCall("cuDNN", "convolution", convolution_flops, True)),
        (r"onednn.*conv", LibraryCall("oneDNN", "convolution", convolution_flops, True)),
        (r"cudnn.*norm", LibraryCall("cuDNN", "normalisation", _whole)),
        (r"onednn.*(?:softmax|norm)", LibraryCall("oneDNN", "normalisation", _whole)),
        (r"cub_?sort|radix_?sort", LibraryCall("CUB", "sort", _sort, traffic=_sort_bytes)),
        (r"cub.*scan|cumsum", LibraryCall("CUB", "prefix sum", _whole)),
        (r"top_?k", LibraryCall("XLA", "top k", _whole)),
        (r"threefry|rng", LibraryCall("XLA", "random numbers", _nothing)),
        (r"cufft|hipfft|ducc", LibraryCall("cuFFT", "FFT")),
        (f"{_SOLVER}[sdczbf]?[sdcz]?potrf", LibraryCall("cuSOLVER", "Cholesky decomposition", _squares(1 / 3))),
        (f"{_SOLVER}[sdcz]?getrf", LibraryCall("cuSOLVER", "LU decomposition", _squares(2 / 3))),
        (f"{_SOLVER}[sdcz]?(?:geqrf|orgqr|ungqr|ormqr|unmqr)", LibraryCall("cuSOLVER", "QR decomposition", _orthogonal)),
        (f"{_SOLVER}[sdcz]?(?:syev|heev)", LibraryCall("cuSOLVER", "eigenvalues", _squares(9))),
        (f"{_SOLVER}[sdcz]?geev", LibraryCall("cuSOLVER", "eigenvalues", _squares(25))),
        (f"{_SOLVER}[sdcz]?(?:gesvd|gesdd)", LibraryCall("cuSOLVER", "singular values", _singular_values)),
        (_SOLVER, LibraryCall("cuSOLVER", "linear algebra")),
        (r"nccl|rccl", LibraryCall("NCCL", "collective")),
        (r"mosaic|pallas|tpu_custom_call", LibraryCall("Pallas", "kernel")),
        (r"triton", LibraryCall("Triton", "kernel")),
        (r"callback", LibraryCall("Python", "callback")),
        (r"^(?:Sharding|SPMD\w*|MoveTo(?:Host|Device)|annotate_device_placement|AssumeGatherIndicesInBound|Pin|Unpin)$",
         LibraryCall("XLA", "annotation", _nothing, traffic=_nothing)),
        (r"PadToStatic|SliceToDynamic", LibraryCall("XLA", "copy", _nothing)),
    )
)  # fmt: skip


def find_library_call(instruction: Instruction) -> LibraryCall | None:
    """Return what a custom call's target stands for; None for an unknown target, and for every
    other instruction.
    """
    if instruction.opcode != "custom-call":
        return None
    target = instruction.custom_call_target
    return next((call for pattern, call in _TABLE if pattern.search(target)), None)


def is_sort(instruction: Instruction) -> bool:
    """Whether an instruction sorts, itself or by a library."""
    call = find_library_call(instruction)
    return instruction.opcode == "sort" or (call is not None and call.operation == "sort")


def library_cost(instruction: Instruction) -> Cost:
    """Return the cost of a custom call. Results after the first are its working memory. The cost of
    an unknown target is not complete: it has the bytes of operands and result alone.
    """
    call, arrays = find_library_call(instruction), _operands(instruction)
    if not arrays or not instruction.shapes:
        return UNKNOWN_COST
    moved = float(sum(shape.byte_size for shape in (*instruction.operand_shapes, *instruction.shapes[:1])))
    if call is None or call.flops is None:
        return Cost(bytes=moved, is_complete=False)
    moved = moved if call.traffic is None else call.traffic(instruction)
    flops = float(call.flops(instruction))
    if call.is_product and not flops:  # its configuration does not tell its sizes
        return Cost(bytes=moved, is_complete=False)
    return product_cost(flops, moved) if call.is_product else Cost(flops, bytes=moved)
