# SPDX-License-Identifier: Apache-2.0
"""Tensor cores (AMD: matrix cores): which kernels use them, and which ops could.

For kernels of libraries the kernel's name decides, as in the reference. Kernels that XLA generates
have the same names whatever they compute; for these the compiled program decides, where the profile
holds it. The precision of a library call does not tell what its kernels use: cuDNN convolves groups
of 16-bit numbers without tensor cores.
"""

from __future__ import annotations

from functools import lru_cache

from outpace._lazy import compile_lazily
from outpace.timeline.hlo.ops import HloOp
from outpace.timeline.hlo.precision import HALF, SINGLE

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
# Names on Hopper and Blackwell: `gmma` is the warp-group instruction (PTX `wgmma`; SASS `hgmma`,
# `bgmma`, `qgmma`, `igmma`), `tcgen05` and `utc?mma` are Blackwell's (PTX ISA, CUDA Binary
# Utilities); `nvjet_` is cuBLAS' kernel family for both, `cutlass3x_sm90...tensorop` is CUTLASS 3's
# naming (`cutlass_library`). A name matches if it contains all words of one of the groups below.
_NEWER = (
    ("gmma",),
    ("tcgen05",),
    ("utcmma",),
    ("utchmma",),
    ("utcqmma",),
    ("nvjet_",),
    ("cutlass", "tensorop"),
)
# All `xmma` kernels except those of plain multiply-adds (`ffma`); the reference knows some of them.
_XMMA = compile_lazily(r"sm\d+_xmma_(?!.*ffma)")
# Names of kernels on AMD's matrix cores, as XProf 2.24.2 (PyPI) classifies them (found by
# querying it): the instructions (CDNA `mfma`, `smfmac`; RDNA `wmma`), XLA's matrix multiplications
# by Triton, and Composable Kernel's operators, `xdl` or `xdlops`. Tensile (rocBLAS, hipBLASLt)
# names its kernels after the order of the indices, `Cijk_`, and the matrix instruction that a
# kernel consists of, `_MI16x16x16x1`; kernels tuned by hand are `Custom_Cijk_`. Tensile kernels
# without `_MI` consist of vector instructions. Of CK Tile's fused attention, the kernels that
# multiply use matrix cores; those that prepare or convert data do not.
_AMD = ("mfma", "smfmac", "wmma", "gemm_fusion", "xdl", "custom_cijk_")
_CK_TILE = compile_lazily(r"ck_tile::(?:Fmha(?:Fwd(?:SplitKV|PagedKV)?|BwdDQDKDV)|\w*Gemm)Kernel\b")
_TENSILE = compile_lazily(r"Cijk_.*_MI\d")

_TRITON = "gemm_fusion"  # start of the names of matrix multiplications that XLA compiles with Triton

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
# JAX primitives, part of an op's name; XProf 2.24.2 counts them, too.
_JAX_PARTS = ("dot_general", "conv_general_dilated")


@lru_cache(maxsize=10_000)
def uses_tensor_cores(kernel: str, is_amd: bool = False) -> bool:
    """Whether a kernel has tensor-core instructions, judged by its name.

    is_amd: whether the device is AMD's; then matrix-core instructions count
    """
    lower = kernel.lower()
    if is_amd:
        return any(part in lower for part in _AMD) or any(pattern.search(kernel) for pattern in (_CK_TILE, _TENSILE))
    newer = any(all(part in lower for part in group) for group in _NEWER)
    return newer or any(part in kernel for part in _REFERENCE) or bool(_XMMA.search(lower))


def program_uses_tensor_cores(kernel: str, op: HloOp, capability: tuple[int, int]) -> bool:
    """Whether a kernel that XLA generated for an instruction uses the tensor cores of an NVIDIA
    GPU.

    That is inferred from the program: products of 16-bit numbers use them, and so do products of
    32-bit numbers that XLA compiles with Triton, unless the highest precision is requested (TF32 is
    XLA's default).
    """
    if not op.has_product or op.precision_bits not in (HALF, SINGLE):
        return False
    return (
        capability >= (7, 0)
        if op.precision_bits == HALF
        else capability >= (8, 0) and kernel.startswith(_TRITON) and not op.is_highest_precision
    )


def can_use_tensor_cores(op: str, equation: str = "") -> bool:
    """Whether an op could use tensor cores.

    It could by its name (rules of `IsOpTensorCoreEligible`), or if it is an einsum of two operands.
    """
    if op.endswith(_OP_ENDS) or any(part in op for part in (*_OP_PARTS, *_JAX_PARTS)):
        return True
    operands, arrow, result = equation.partition("->")
    return bool(arrow) and "->" not in result and operands.count(",") == 1


def parse_equation(annotation: str) -> str:
    """Return the einsum equation in the tail of an op name, such as
    `einsum:Einsum#equation=ab,bc->ac#`; "" without one.

    The equation itself may contain commas; it ends where the next key of the tail begins.
    """
    _, separator, rest = annotation.partition("equation=")
    if not separator:
        return ""
    rest = rest.split("#", 1)[0].split(";", 1)[0]
    head, equals, _ = rest.partition("=")
    return (head.rpartition(",")[0] if equals else head).strip()
