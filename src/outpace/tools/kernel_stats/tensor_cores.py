"""Tensor cores (AMD: matrix cores): which kernels use them, and which ops could.

Names tell it of libraries' kernels, as in the reference; of those that XLA makes itself, which are
named alike whatever they are made of, the program where the profile holds it. What a library's call
computes in says nothing of its kernels: cuDNN convolves groups of 16-bit numbers without tensor
cores.
"""

from __future__ import annotations

import re
from functools import lru_cache

from outpace.timeline.hlo_analysis import HALF, SINGLE
from outpace.timeline.hlo_modules import HloOp

# kernel_stats_utils.cc of openxla/xprof: cuBLAS, cuDNN and CUTLASS kernels from Volta to Ampere.
_REFERENCE = (
    "16816",
    "c1688",
    "conv1x1",
    "conv2d_c1_k1",
    "dgrad_1x1_stride_2x2",
    "direct_group",
    "first_layer_wgrad_kernel",
    "h1688",
    "h884",
    "hmma",
    "i16832",
    "i8816",
    "s884",
    "s1688",
    "xmma_gemm",
    "xmma_implicit_gemm",
    "xmma_sparse_conv",
    "xmma_sparse_gemm",
    "xmma_warp_specialized_implicit_gemm",
)
# Any `xmma` kernel but for those of plain multiply-adds (`ffma`): the reference knows some of them.
# Hopper and Blackwell: `gmma` is the warp-group instruction (PTX `wgmma`; SASS `hgmma`, `bgmma`,
# `qgmma`, `igmma`), `tcgen05` and `utc?mma` are Blackwell's (PTX ISA, CUDA Binary Utilities);
# `nvjet_` is cuBLAS' kernel family for both, `cutlass3x_sm90...tensorop` is CUTLASS 3's naming
# (`cutlass_library`). A name counts that holds all words of one of the groups below.
_NEWER = (
    ("gmma",),
    ("tcgen05",),
    ("utcmma",),
    ("utchmma",),
    ("utcqmma",),
    ("nvjet_",),
    ("cutlass", "tensorop"),
)
_XMMA = re.compile(r"sm\d+_xmma_(?!.*ffma)")
# AMD's matrix cores, as XProf 2.24.2 (PyPI) tells them, found by asking it: the instructions (CDNA
# `mfma`, `smfmac`; RDNA `wmma`), XLA's matrix multiplications by Triton, and Composable Kernel's
# operators, `xdl` or `xdlops`. Tensile (rocBLAS, hipBLASLt) names its kernels after the order of
# the indices, `Cijk_`, and the matrix instruction that a kernel is made of, `_MI16x16x16x1`; those
# tuned by hand are `Custom_Cijk_`. Tensile kernels without `_MI` are made of vector instructions.
# Of CK Tile's fused attention, the kernels that multiply do, and those that prepare or convert do
# not.
_AMD = ("mfma", "smfmac", "wmma", "gemm_fusion", "xdl", "custom_cijk_")
_CK_TILE = re.compile(r"ck_tile::(?:Fmha(?:Fwd(?:SplitKV|PagedKV)?|BwdDQDKDV)|\w*Gemm)Kernel\b")
_TENSILE = re.compile(r"Cijk_.*_MI\d")

_TRITON = "gemm_fusion"

_OP_ENDS = (
    "Conv2D",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "Conv3D",
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter",
    "DepthwiseConv2dNativeBackpropInput",
    "/MatMul",
    "FusedMatMul",
    "/CudnnRNN",
    "XlaDot",
    "XlaDotV2",
)
_OP_PARTS = ("BatchMatMul", "CudnnRNNV", "CudnnRNNForward", "CudnnRNNBackprop")
# JAX primitives, by the last part of an op's name; XProf 2.24.2 counts them too.
_JAX_PARTS = ("dot_general", "conv_general_dilated")


@lru_cache(maxsize=10_000)
def uses_tensor_cores(kernel: str, is_amd: bool = False) -> bool:
    """Whether the name is that of a kernel with tensor-core instructions (on an AMD device:
    matrix-core instructions).
    """
    lower = kernel.lower()
    if is_amd:
        return any(part in lower for part in _AMD) or any(made.search(kernel) for made in (_CK_TILE, _TENSILE))
    newer = any(all(part in lower for part in group) for group in _NEWER)
    return newer or any(part in kernel for part in _REFERENCE) or bool(_XMMA.search(lower))


def program_uses_tensor_cores(kernel: str, op: HloOp, capability: tuple[int, int]) -> bool:
    """Whether a kernel that XLA made for an instruction uses the tensor cores of an NVIDIA GPU, as
    far as its program tells: for products of 16-bit numbers, and of 32-bit ones that XLA hands to
    Triton, unless all digits are wanted (TF32 is XLA's default).
    """
    if op.flops <= 0 or op.precision_bits not in (HALF, SINGLE):
        return False
    return (
        capability >= (7, 0)
        if op.precision_bits == HALF
        else capability >= (8, 0) and kernel.startswith(_TRITON) and not op.is_highest_precision
    )


def can_use_tensor_cores(op: str, equation: str = "") -> bool:
    """Whether an op could use tensor cores: by its name (rules of `IsOpTensorCoreEligible`), or as
    an einsum of two operands.
    """
    if op.endswith(_OP_ENDS) or any(part in op for part in (*_OP_PARTS, *_JAX_PARTS)):
        return True
    operands, arrow, result = equation.partition("->")
    return bool(arrow) and "->" not in result and operands.count(",") == 1


def parse_equation(annotation: str) -> str:
    """The einsum equation in an op name's tail (`einsum:Einsum#equation=ab,bc->ac#`), "" without
    one.

    An equation has commas of its own; the next key of the tail ends it.
    """
    _, found, rest = annotation.partition("equation=")
    if not found:
        return ""
    rest = rest.split("#", 1)[0].split(";", 1)[0]
    head, equals, _ = rest.partition("=")
    return (head.rpartition(",")[0] if equals else head).strip()
