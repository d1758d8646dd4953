"""What names and detail texts say: launches, copies, tensor cores, occupancy."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.kernel_names import kernel_function_name, short_kernel_name
from outpace.testing import Dialect, Inline, Launch, SpaceBuilder
from outpace.timeline.gpu_details import CopyDetails, KernelDetails, copy_direction, parse_copy_details, parse_kernel_details
from outpace.timeline.hlo.cost import product_cost
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.tools.kernel_stats.occupancy import occupancy
from outpace.tools.kernel_stats.tensor_cores import (
    can_use_tensor_cores,
    parse_equation,
    program_uses_tensor_cores,
    uses_tensor_cores,
)
from outpace.trace import open_trace


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "regs:38 shm:512 grid:160,2,1 block:1024,1,1",
            KernelDetails(registers=38, shared=512, grid=(160, 2, 1), block=(1024, 1, 1)),
        ),
        (
            "regs:38 static_shared:16 dynamic_shared:512 grid:160,2,1 block:1024,1,1 occ_pct:43.75",
            KernelDetails(38, 16, 512, 528, (160, 2, 1), (1024, 1, 1), 0.4375),
        ),
        (
            " grid:1,1,1 block:512,1,1 private_mem:0 group_mem:8704 occ_pct:0",
            KernelDetails(shared=8704, grid=(1, 1, 1), block=(512, 1, 1)),
        ),
        ("regs:x grid:1,2 block:a,b,c occ_pct:nan shm:-1 more:1:2 word", KernelDetails()),
        ("regs:5\nstatic_shared:7", KernelDetails(registers=5, static_shared=7, shared=7)),
        ("", KernelDetails()),
    ],
)
def test_kernel_details(text: str, expected: KernelDetails) -> None:
    assert parse_kernel_details(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("size:802816 dest:0 async:1", CopyDetails("", "", 802816, True)),
        ("kind_src:pageable kind_dst:device size:4 dest:0 async:0", CopyDetails("pageable", "device", 4, False)),
        ("kind:Unknown size:0 dest:512 async:1", CopyDetails("", "", 0, True)),
        ("kind:device num_bytes:64 async:1", CopyDetails("", "device", 64, True)),
        ("kind:pinned num_bytes:64 addr:0x7f", CopyDetails("", "pinned", 64, None)),
        ("", CopyDetails()),
    ],
)
def test_copy_details(text: str, expected: CopyDetails) -> None:
    assert parse_copy_details(text) == expected


@pytest.mark.parametrize(
    ("name", "details", "kind"),
    [
        ("MemcpyH2D", CopyDetails(), "HToD"),
        ("MemcpyD2D", CopyDetails(), "DToD"),
        ("MemcpyP2P", CopyDetails(), "PToP"),
        ("MemcpyOther", CopyDetails("pinned", "device"), "HToD"),
        ("MemcpyOther", CopyDetails("device", "pageable"), "DToH"),
        ("MemcpyOther", CopyDetails(), "other"),
    ],
)
def test_kind_of_copy(name: str, details: CopyDetails, kind: str) -> None:
    assert copy_direction(name, details) == kind


def test_a_launch_reads_back_in_every_dialect() -> None:
    launch = Launch(40, 1024, 2048, (3, 2, 1), (128, 2, 1), 62.5)
    old, today, rocm = (parse_kernel_details(launch.text(d)) for d in (Dialect.TF_2_4, Dialect.CUDA, Dialect.ROCM))
    assert today == KernelDetails(40, 1024, 2048, 3072, (3, 2, 1), (128, 2, 1), 0.625)
    assert old == KernelDetails(40, None, None, 3072, (3, 2, 1), (128, 2, 1), None)
    assert rocm == KernelDetails(None, None, None, 3072, (3, 2, 1), (128, 2, 1), 0.625)


@pytest.mark.parametrize(
    "kernel",
    [
        "volta_h884gemm_128x64_ldg8_nn",
        "turing_fp16_s1688cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn",
        "sm80_xmma_fprop_implicit_gemm_xmma_implicit_gemm_f16f16",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "cutlass3x_sm90_tensorop_gmma_s64x128x16gemm_f16_f32_f16_f32_128x128x64",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_align8>",
        "nvjet_hsh_192x192_64x3_1x2_h_bz_coopA_NTN",
        "nvjet_sm100_tst_128x256_64x5_2x1_2cta_v_bz_TNT",
        "cutlass3x_sm100_tensorop_s128x128x16gemm_tcgen05",
        "flash_fwd_wgmma_kernel",
        "sm90_fp8_hgmma_qgmma",
    ],
)
def test_kernels_with_tensor_cores(kernel: str) -> None:
    assert uses_tensor_cores(kernel)


@pytest.mark.parametrize(
    ("kernel", "used"),
    [
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x16x1_SN.kd", True),
        ("Custom_Cijk_Alik_Bljk_F8HS_BH_MT128x128x128.kd", True),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1_TT4_4.kd", False),  # vector instructions
        ("kernel_gemm_xdlops_v2r3", True),
        ("DeviceGemmMultipleD_Xdl_CShuffle", True),
        ("rocwmma_gemm", True),
        ("attention_MFMA_32x32x8f16", True),
        ("gemm_fusion_dot_general_1.kd", True),
        ("void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<..>>>", True),
        ("void ck_tile::kentry<ck_tile::gfx950_t, 1, ck_tile::FmhaBwdDQDKDVKernel<ck_tile::BlockFmhaBwd<..>>>", True),
        (
            "void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaBwdOGradDotOKernel<ck_tile::BlockFmhaBwdOGradDotO<..>>>",
            False,
        ),
        ("void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaBwdConvertQGradKernel<..>>", False),
        ("input_transpose_fusion.kd", False),
        ("ampere_fp16_s16816gemm", False),
    ],
)
def test_kernels_with_matrix_cores(kernel: str, used: bool) -> None:
    assert uses_tensor_cores(kernel, is_amd=True) is used


def test_matrix_multiplications_by_triton_tell_nothing_on_nvidia() -> None:
    assert not uses_tensor_cores("gemm_fusion_dot_1"), "as in XProf; the name does not say which instructions were made"


HALF, SINGLE, DOUBLE = (HloOp("fusion", precision_bits=bits, cost=product_cost(1e9)) for bits in (16, 32, 64))
EXACT = HloOp("fusion", precision_bits=32, cost=product_cost(1e9), is_highest_precision=True)


@pytest.mark.parametrize(
    ("kernel", "op", "capability", "used"),
    [
        ("gemm_fusion_dot_1", HALF, (7, 0), True),
        ("gemm_fusion_dot_1", HALF, (6, 1), False),  # Pascal has none
        ("any_name", HALF, (9, 0), True),
        ("gemm_fusion_dot_1", SINGLE, (8, 0), True),
        ("gemm_fusion_dot_1", SINGLE, (7, 5), False),  # TF32 came with Ampere
        ("gemm_fusion_dot_1", EXACT, (9, 0), False),
        ("cutlass_80_simt_sgemm", SINGLE, (9, 0), False),  # a library says by its names what it took
        ("gemm_fusion_dot_1", DOUBLE, (9, 0), False),
        ("loop_add_fusion", HloOp("fusion", precision_bits=16), (9, 0), False),  # no product
        ("gemm_fusion_dot_1", NO_OP, (9, 0), False),
    ],
)
def test_what_a_program_says_of_tensor_cores(kernel: str, op: HloOp, capability: tuple[int, int], used: bool) -> None:
    assert program_uses_tensor_cores(kernel, op, capability) is used


@pytest.mark.parametrize(
    "kernel",
    [
        "volta_sgemm_128x64_nn",
        "ampere_sgemm_32x32_sliced1x4_nn",
        "void Eigen::internal::EigenMetaKernel<Eigen::half>(Eigen::GpuDevice)",
        "void cask_plugin_cudnn::sm90_elementwise",
        "cutlass_80_simt_sgemm_128x128_8x4_nn_align1",
        "loop_add_fusion_2",
        "",
    ],
)
def test_kernels_without(kernel: str) -> None:
    assert not uses_tensor_cores(kernel)


@pytest.mark.parametrize(
    ("op", "equation", "eligible"),
    [
        ("model/dense/MatMul", "", True),
        ("MatMul", "", False),  # as in the reference, which wants a scope
        ("a/SparseMatMul", "", False),
        ("a/FusedMatMul", "", True),
        ("gradients/a_grad/Conv2DBackpropFilter", "", True),
        ("a/DepthwiseConv2dNative", "", True),
        ("attention/BatchMatMulV2_1", "", True),
        ("rnn/CudnnRNNV3", "", True),
        ("jit(f)/dot_general", "", True),
        ("a/Relu", "", False),
        ("a/einsum", "abc,cd->abd", True),
        ("a/einsum", "abc->cab", False),
        ("a/einsum", "ab,bc,cd->ad", False),
        ("a/einsum", "ab,bc", False),
        ("", "", False),
    ],
)
def test_eligible_ops(op: str, equation: str, eligible: bool) -> None:
    assert can_use_tensor_cores(op, equation) is eligible


@pytest.mark.parametrize(
    ("annotation", "equation"),
    [
        ("a/einsum:Einsum#equation=ab,bc->ac#", "ab,bc->ac"),
        ("a/einsum:Einsum#equation=ab,bc->ac,shape=(2,3)#", "ab,bc->ac"),
        ("a/einsum:Einsum#shape=(2,3);(3,4),equation=ab,bc->ac#", "ab,bc->ac"),
        ("a/einsum:Einsum", ""),
    ],
)
def test_equation_in_an_annotation(annotation: str, equation: str) -> None:
    assert parse_equation(annotation) == equation


@pytest.mark.parametrize(
    ("details", "capability", "expected"),
    [
        # Full: 2 blocks of 32 warps; 16 registers * 2,048 threads fit.
        (KernelDetails(16, 0, 0, 0, block=(1024, 1, 1)), (7, 0), 1.0),
        # 38 registers are given as 40: 1,280 per warp, 51 warps, in fours 48: one block of 32.
        (KernelDetails(38, 0, 0, 0, block=(1024, 1, 1)), (7, 0), 0.5),
        # 48 KiB per block: two blocks in 96 KiB, 8 warps each, of 64.
        (KernelDetails(32, 0, 49152, 49152, block=(256, 1, 1)), (7, 0), 0.25),
        # Ampere keeps 1 KiB of each block: 163 KiB asked are 164 KiB, which is all.
        (KernelDetails(32, 0, 163 * 1024, 163 * 1024, block=(256, 1, 1)), (8, 0), 0.125),
        # Blocks bind: 32 of one warp each, of 64 (Volta); 16 of 48 (8.6).
        (KernelDetails(16, 0, 0, 0, block=(32, 1, 1)), (7, 0), 0.5),
        (KernelDetails(16, 0, 0, 0, block=(32, 1, 1)), (8, 6), 16 / 48),
        # A part of a warp takes a whole one: 33 threads are 2 warps.
        (KernelDetails(16, 0, 0, 0, block=(33, 1, 1)), (7, 0), 1.0),
        # 255 registers: 8,192 per warp, 8 warps; two blocks of 4.
        (KernelDetails(255, 0, 0, 0, block=(128, 1, 1)), (9, 0), 8 / 64),
        (KernelDetails(None, None, None, 0, block=(128, 1, 1)), (9, 0), None),
        (KernelDetails(32, 0, 0, 0, block=(128, 1, 1)), (0, 0), None),
        (KernelDetails(32, 0, 0, 0, block=(2048, 1, 1)), (9, 0), None),
        (KernelDetails(255, 0, 0, 0, block=(1024, 1, 1)), (9, 0), None),  # could not have run
    ],
)
def test_occupancy(details: KernelDetails, capability: tuple[int, int], expected: float | None) -> None:
    assert occupancy(details, capability) == expected


def test_function_names() -> None:
    eigen = "void Eigen::internal::EigenMetaKernel<Eigen::half, 1>(Eigen::GpuDevice, long)"
    assert kernel_function_name(eigen) == "EigenMetaKernel"
    assert kernel_function_name("void (anonymous namespace)::softmax_kernel<float>(int)") == "softmax_kernel"
    assert kernel_function_name("loop_fusion.kd") == "loop_fusion.kd"
    assert kernel_function_name("<unknown>") == "<unknown>"
    assert len(short_kernel_name("Cijk_" * 20)) == 48


def test_distinct_texts_decodes_a_text_once(tmp_path) -> None:  # type: ignore[no-untyped-def]
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("a")
    written = ["one", "two", "one", "two", "three"]
    for at, text in enumerate(written):
        line.event("e", at * 10, 5, ref=text, inline=Inline(text), number=at % 2)
    trace = open_trace(space.write(tmp_path))
    for name in ("ref", "inline"):
        codes, texts = trace.stat(name).encode_texts(np.arange(5))
        assert [texts[c] for c in codes] == written
        assert sorted(texts) == ["one", "three", "two"]
    codes, texts = trace.stat("number").encode_texts(np.array([4, 1]))
    assert [texts[c] for c in codes] == ["0", "1"]
    assert trace.stat("absent").encode_texts(np.zeros(0, np.int64))[1] == []
