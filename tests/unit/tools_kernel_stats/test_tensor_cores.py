"""Which kernels use tensor cores: by their names where a library made them, by the program where
XLA did.
"""

from __future__ import annotations

import pytest

from outpace.timeline.command_buffers import is_named_after
from outpace.timeline.hlo.cost import product_cost
from outpace.timeline.hlo.ops import HloOp
from outpace.tools.kernel_stats.tensor_cores import program_uses_tensor_cores, uses_tensor_cores
from tests.support import PROFILES, opened

H100 = (9, 0)


@pytest.mark.parametrize(
    ("kernel", "used"),
    [
        (
            "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_stage4_warpsize1x1x4",
            True,
        ),
        ("sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tensor16x8x8", True),
        ("sm90_xmma_dgrad_implicit_gemm_indexed_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize256x64x32", True),
        ("sm80_xmma_fprop_direct_conv_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_ffma", False),
        ("void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, false, true, 0, 0, int, float, __nv_bfloat16>", False),
        ("void tensorTransformGeneric<__nv_bfloat16, __nv_bfloat16, float, true>", False),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16>", False),
    ],
)
def test_kernels_of_libraries(kernel: str, used: bool) -> None:
    assert uses_tensor_cores(kernel) == used


@pytest.mark.parametrize(
    ("kernel", "instruction", "own"),
    [
        ("gemm_fusion_dot_8", "gemm_fusion_dot.12", True),  # instructions may share a kernel
        ("gemm_fusion_dot.kd", "gemm_fusion_dot.3", True),
        ("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_TNT", "custom-call.6", False),
        ("void cudnn::cnn::conv2d_grouped_direct_kernel<false>", "cudnn-conv.16", False),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "fusion.4", False),
    ],
)
def test_whose_kernel_it_is(kernel: str, instruction: str, own: bool) -> None:
    assert is_named_after(kernel, instruction) == own


def test_products_of_triton() -> None:
    half, single = (
        HloOp("fusion", cost=product_cost(8.0), precision_bits=16, product="dot"),
        HloOp("fusion", cost=product_cost(8.0), precision_bits=32, product="dot"),
    )
    assert program_uses_tensor_cores("gemm_fusion_dot_1", half, H100) and not program_uses_tensor_cores(
        "gemm_fusion_dot_1", half, (6, 0)
    )
    assert program_uses_tensor_cores("gemm_fusion_dot_1", single, H100) and not program_uses_tensor_cores(
        "loop_fusion", single, H100
    )


@pytest.mark.parametrize("name", [p for p in PROFILES if p.startswith("jax_h")])
def test_a_librarys_kernel_never_counts_by_its_call(name: str) -> None:
    (kernels,) = (t for t in opened(name).page("kernel_stats").tables() if t.name == "kernels")
    for row in kernels.records():
        if row["tensor_cores"] and not is_named_after(row["kernel"], row["hlo_op"]):
            assert uses_tensor_cores(row["kernel"])
