"""What programs cost: operations and bytes that are worked out by hand, trips of loops, and what
is told of slow instructions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from outpace.model.protobuf_wire import encode_bytes, encode_integer
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.hlo.reader import read_module
from outpace.timeline.hlo.slow_cases import is_prime, largest_factor
from tests.hlo_proto import BF16, F32, S32, TUPLE, instruction, module, numbers, shape
from tests.support import opened

U32, C64 = 8, 15
Dimensions = tuple[int, ...]


def program(*computations: Sequence[bytes], entry: int = 1) -> HloModule:
    """A program whose computation number `entry` is the one that a run executes."""
    return HloModule(encode_bytes(1, read_module(module(*computations)) + encode_integer(6, entry)))


def parameter(identity: int, *dimensions: int, kind: int = F32, number: int = 0) -> bytes:
    return instruction(f"p{identity}", "parameter", identity, shape(kind, *dimensions), more=encode_integer(9, number))


def scalar(identity: int, value: int) -> bytes:
    """A constant of 32 bits."""
    literal = encode_bytes(8, numbers(4, [value % 2**64]))
    return instruction(f"c{identity}", "constant", identity, shape(S32), more=literal)


def one(opcode: str, takes: Sequence[Dimensions], gives: Dimensions, more: bytes = b"", kind: int = F32) -> HloModule:
    """A program of one instruction, called `it`."""
    given = [parameter(number, *dimensions, kind=kind) for number, dimensions in enumerate(takes, 1)]
    return program([*given, instruction("it", opcode, 99, shape(kind, *gives), range(1, len(takes) + 1), more=more)])


def call(
    target: str, takes: Sequence[Dimensions], gives: Dimensions, config: str = "", more: bytes = b"", kind: int = F32
) -> HloModule:
    """A program of one call of a library."""
    return one("custom-call", takes, gives, encode_bytes(28, target) + encode_bytes(43, config) + more, kind)


def windows(*each: tuple[int, int, int, int, int, int]) -> bytes:
    """Windows of (size, stride, low, high, dilation, base dilation)."""
    fields = (
        b"".join(encode_integer(n, value % 2**64) for n, value in enumerate(one_of, 1) if value or n == 1) for one_of in each
    )
    return encode_bytes(15, b"".join(encode_bytes(1, part) for part in fields))


ALONG_ROWS = encode_bytes(
    16,
    b"".join(encode_integer(field, value) for field, value in {3: 1, 4: 2, 7: 0, 8: 2, 9: 0, 10: 2}.items())
    + numbers(6, [0])
    + numbers(11, [1])
    + numbers(12, [1]),
)
"""A convolution of [batch, length, channels] with a kernel of [length, in, out]."""


def gemm(*contracted: int) -> str:
    """A product's configuration."""
    along = ",".join(f'"{dimension}"' for dimension in contracted)
    return f'{{"gemm_backend_config":{{"dot_dimension_numbers":{{"lhs_contracting_dimensions":[{along}]}},"beta":0}}}}'


def fused(mask: str, *scores: int) -> str:
    """An attention's configuration as cuDNN has it."""
    sizes = ",".join(f'"{size}"' for size in scores)
    return f'{{"cudnn_fmha_backend_config":{{"mask_type":"{mask}","intermediate_tensor_shape":{{"dimensions":[{sizes}]}}}}}}'


def heads(mask: int, keys: int = 128, values: int = 128) -> str:
    """An attention's configuration as TransformerEngine has it: 2 examples, 16 heads, 512 queries
    and 2,048 keys.
    """
    return (
        "{attn_heads = 16 : i64, input_batch = 2 : i64, kv_max_seqlen = 2048 : i64, "
        f"mask_type = {mask} : i64, q_max_seqlen = 512 : i64, qk_head_dim = {keys} : i64, v_head_dim = {values} : i64}}"
    )


Q, PAIRS = (2, 512, 16, 128), 2 * 16 * 512 * 2048  # queries, and pairs of a query and a key


@pytest.mark.parametrize(
    "target, takes, gives, config, flops",
    [
        ("__cublas$gemm", [(64, 128), (128, 32)], (64, 32), gemm(1), 2 * 64 * 128 * 32),
        ("__cublas$gemm", [(128, 64), (128, 32)], (64, 32), gemm(0), 2 * 64 * 128 * 32),
        ("__cublas$lt$matmul", [(4, 64, 128), (4, 128, 32)], (4, 64, 32), gemm(2), 4 * 2 * 64 * 128 * 32),
        ("__cublas$lt$matmul$f8", [(64, 8, 16), (8, 16, 32)], (64, 32), gemm(1, 2), 2 * 64 * 128 * 32),
        ("__onednn$matmul", [(64, 128), (128, 32)], (64, 32), "", 2 * 64 * 128 * 32),
        ("__cudnn$fmhaSoftmax", [Q, Q, Q], Q, fused("NO_MASK", 2, 16, 512, 2048), 2 * 2 * PAIRS * 128),
        ("__cudnn$fmhaSoftmax", [Q, Q, Q], Q, fused("CAUSAL", 2, 16, 512, 2048), 2 * PAIRS * 128),
        ("__cudnn$fmhaSoftmaxBackward", [Q, Q, Q], Q, fused("NO_MASK", 2, 16, 512, 2048), 5 * 2 * PAIRS * 128),
        ("te_fused_attn_forward_ffi", [Q], Q, heads(0), 2 * 2 * PAIRS * 128),
        ("te_fused_attn_forward_ffi", [Q], Q, heads(2), 2 * PAIRS * 128),
        ("te_fused_attn_forward_ffi", [Q], Q, heads(0, 192, 128), 2 * PAIRS * (192 + 128)),
        ("te_fused_attn_backward_ffi", [Q], Q, heads(0), 5 * 2 * PAIRS * 128),
        ("te_fused_attn_backward_ffi", [Q], Q, heads(0, 192, 128), 2 * PAIRS * (3 * 192 + 2 * 128)),
        ("lapack_spotrf_ffi", [(90, 90)], (90, 90), "", 90**3 / 3),
        ("cusolver_potrf_ffi", [(8, 90, 90)], (8, 90, 90), "", 8 * 90**3 / 3),
        ("lapack_dgetrf_ffi", [(90, 90)], (90, 90), "", 90**3 * 2 / 3),
        ("cusolver_geqrf_ffi", [(200, 90)], (200, 90), "", 2 * 90**2 * (200 - 30)),
        ("lapack_zgeqrf_ffi", [(90, 200)], (90, 200), "", 2 * 90**2 * (200 - 30)),
        ("lapack_sorgqr_ffi", [(4, 200, 90), (4, 90)], (4, 200, 90), "", 4 * 2 * 90**2 * (200 - 30)),
        ("cusolver_syevd_ffi", [(90, 90)], (90, 90), "", 9 * 90**3),
        ("lapack_cheevd_ffi", [(90, 90)], (90, 90), "", 9 * 90**3),
        ("lapack_sgeev_ffi", [(90, 90)], (90, 90), "", 25 * 90**3),
        ("lapack_sgesdd_ffi", [(200, 90)], (200, 90), "", 4 * 200**2 * 90 + 8 * 200 * 90**2 + 9 * 90**3),
        ("blas_strsm", [(90, 90), (90, 7)], (90, 7), "", 90**2 * 7),
        ("xla.gpu.ext.cub_sort_keys", [(2**20,)], (2**20,), "", 20 * 2**20),
        ("xla.gpu.ext.cub_sort_pairs", [(2**20,), (2**20,)], (2**20,), "", 20 * 2**20),
        ("TopK", [(8, 500)], (8, 10), "", 8 * 500),
        ("__cudnn$norm", [(8, 500), (500,)], (8, 500), "", 8 * 500),
        ("cu_threefry2x32_ffi", [(9,), (9,)], (9,), "", 0),
        ("Sharding", [(9, 9)], (9, 9), "", 0),
    ],
)
def test_operations_of_a_librarys_call(
    target: str, takes: Sequence[Dimensions], gives: Dimensions, config: str, flops: float
) -> None:
    cost = call(target, takes, gives, config).cost
    assert cost.is_complete and cost.flops == pytest.approx(flops, rel=1e-9)


@pytest.mark.parametrize(
    "target", ["my_kernel", "__triton$gemm_fusion", "xla_ffi_python_gpu_callback", "cusolver_csrlsvqr_ffi", "flash_attn_fwd"]
)
def test_a_call_whose_arithmetic_is_not_known_counts_its_bytes_alone(target: str) -> None:
    """Its program's count is not complete."""
    cost = call(target, [(8, 50), (50, 9)], (8, 9)).cost
    assert (cost.flops, cost.is_complete) == (0, False)
    assert cost.bytes == 4 * (8 * 50 + 50 * 9 + 8 * 9)


def test_a_librarys_working_memory_is_no_result() -> None:
    results = encode_integer(2, TUPLE) + encode_bytes(4, shape(F32, 64, 32)) + encode_bytes(4, shape(3, 2**25))
    more = encode_bytes(28, "__cublas$lt$matmul") + encode_bytes(43, gemm(1))
    it = instruction("it", "custom-call", 3, results, [1, 2], more=more)
    assert program([parameter(1, 64, 128), parameter(2, 128, 32), it]).cost.bytes == 4 * (64 * 128 + 128 * 32 + 64 * 32)


@pytest.mark.parametrize("arrays", [1, 2])
def test_a_sort_reads_and_writes_everything_once(arrays: int) -> None:
    """The values beside the keys, too; its working memory does not count."""
    results = encode_bytes(4, shape(U32, 1000)) * arrays + encode_bytes(4, shape(3, 9999))
    given = [parameter(number, 1000, kind=U32) for number in range(1, arrays + 1)]
    more = encode_bytes(28, f"xla.gpu.ext.cub_sort_{'pairs' if arrays == 2 else 'keys'}")
    it = instruction("it", "custom-call", 3, encode_integer(2, TUPLE) + results, range(1, arrays + 1), more=more)
    assert program([*given, it]).cost.bytes == 2 * arrays * 4000


def along_rows(target: str, groups: int, window: tuple[int, int, int, int, int, int], channels: int, out: int) -> HloModule:
    """A convolution of 2 x 100 positions along rows, or a gradient of it."""
    size, stride, low, high, dilation, base = window
    length = ((99 * base + 1) + low + high - ((size - 1) * dilation + 1)) // stride + 1
    images, kernel, output = (2, 100, channels), (size, channels // groups, out), (2, length, out)
    takes, gives = {"BackwardInput": ((output, kernel), images), "BackwardFilter": ((images, output), kernel)}.get(
        target.rpartition("conv")[2], ((images, kernel), output)
    )
    more = windows(window) + ALONG_ROWS + encode_integer(50, groups)
    return call(target, takes, gives, more=more) if target else one("convolution", takes, gives, more)


CUDNN = ("", "__cudnn$convForward", "__cudnn$convBackwardInput", "__cudnn$convBackwardFilter")


@pytest.mark.parametrize("target", CUDNN)
@pytest.mark.parametrize(
    "groups, window, channels, out, flops",
    [
        (1, (4, 1, 0, 0, 1, 1), 8, 16, 2 * 2 * 97 * 4 * 8 * 16),
        (8, (4, 1, 0, 0, 1, 1), 8, 8, 2 * 2 * 97 * 4 * 8),
        (8, (4, 1, 3, 0, 1, 1), 8, 8, 2 * 2 * (100 * 4 - 3 - 2 - 1) * 8),
        (4, (3, 1, 1, 1, 1, 1), 8, 16, 2 * 2 * (100 * 3 - 2) * 2 * 16),
        (1, (3, 2, 0, 0, 1, 1), 8, 16, 2 * 2 * 49 * 3 * 8 * 16),
        (1, (3, 1, 0, 0, 5, 1), 8, 16, 2 * 2 * 90 * 3 * 8 * 16),
        (1, (3, 1, 0, 0, 1, 2), 8, 16, 2 * 2 * (99 + 98 + 99) * 8 * 16),
        (1, (3, 2, 0, 0, 1, 2), 8, 16, 2 * 2 * (99 + 0 + 99) * 8 * 16),
        (1, (3, 3, 0, 0, 1, 2), 8, 16, 2 * 2 * (33 + 33 + 33) * 8 * 16),
    ],
    ids=[
        *("plain", "depthwise", "causal depthwise", "groups", "stride", "dilated", "between elements"),
        *("stride 2 between elements", "stride 3 between elements"),
    ],
)
def test_operations_of_convolutions_and_their_gradients(
    target: str, groups: int, window: tuple[int, int, int, int, int, int], channels: int, out: int, flops: int
) -> None:
    """A multiply-add is two; positions on padding and between elements are none. Both gradients
    have as many as the convolution.
    """
    cost = along_rows(target, groups, window, channels, out).cost
    assert (cost.flops, cost.product_flops) == (flops, flops)


def transformed(kind: int, lengths: Sequence[int], takes: Dimensions, gives: Dimensions) -> HloModule:
    """An FFT: 0 of complex numbers, 2 from real ones, 3 to real ones."""
    return one("fft", [takes], gives, encode_integer(31, kind) + numbers(32, lengths), C64)


@pytest.mark.parametrize(
    "kind, lengths, takes, gives, flops",
    [
        (0, [1024], (3, 1024), (3, 1024), 3 * 5 * 1024 * 10),
        (0, [8191], (8191,), (8191,), 5 * 8191 * math.log2(8191)),
        (2, [8191], (4, 8191), (4, 4096), 4 * 2.5 * 8191 * math.log2(8191)),
        (3, [8191], (4, 4096), (4, 8191), 4 * 2.5 * 8191 * math.log2(8191)),
        (0, [64, 32], (7, 64, 32), (7, 64, 32), 7 * 5 * 64 * 32 * 11),
        (0, [1], (5, 1), (5, 1), 0),
    ],
)
def test_operations_of_an_fft(kind: int, lengths: Sequence[int], takes: Dimensions, gives: Dimensions, flops: float) -> None:
    """5 n log2 n, and half of it for real numbers."""
    assert transformed(kind, lengths, takes, gives).cost.flops == pytest.approx(flops, rel=1e-9)


PROFILED = {
    ("jax_h100_dwconv1d", "__cublas$lt$matmul", "bf16[16384,1024] bf16[1024,2048]"): 2 * 16384 * 1024 * 2048,
    ("jax_h100_dwconv1d", "__cudnn$convForward", "bf16[8,2051,1024] bf16[1024,4,1]"): 2 * 8 * 2048 * 1024 * 4,
    ("jax_h100_dwconv1d", "__cudnn$convBackwardFilter", "bf16[8,2051,1024] bf16[8,2048,1024]"): 2 * 8 * 2048 * 1024 * 4,
    ("jax_h100_choice_batch", "xla.gpu.ext.cub_sort_pairs", "u32[16000000] s32[16000000]"): 16e6 * math.log2(16e6),
    ("jax_h100_fft_odd", "", "f32[8,512,8191]"): 8 * 512 * 2.5 * 8191 * math.log2(8191),
    ("jax_h100_fft_odd", "", "c64[8,512,4096]"): 8 * 512 * 2.5 * 8191 * math.log2(8191),
    ("jax_rocm_te_attention", "te_fused_attn_forward_ffi", "bf16[2,2048,3,16,128]"): 2 * 2 * 16 * 2048**2 * 128,
    ("jax_rocm_te_attention", "te_fused_attn_backward_ffi", "bf16[2,2048,3,16,128]"): 5 * 2 * 16 * 2048**2 * 128,
}
"""Operations by profile, target and what the call takes first; a mask leaves half of attentions."""


@pytest.mark.parametrize("profile, target, takes", PROFILED)
def test_operations_of_calls_in_profiles(profile: str, target: str, takes: str) -> None:
    found = [
        program[name].cost
        for program in opened(profile).run.hosts[0].hlo_modules
        for name, i in program.graph.by_name.items()
        if i.custom_call_target == target and " ".join(map(str, i.operand_shapes)).startswith(takes)
        if target or i.opcode == "fft"
    ]
    assert found and all(cost.is_complete for cost in found)
    assert [cost.flops for cost in found] == pytest.approx([PROFILED[profile, target, takes]] * len(found), rel=1e-9)


def test_a_profiles_loop_counts_as_often_as_it_runs() -> None:
    """`jax_h100_ok_vae` sums gradients over 16 parts of a batch: all products are in there."""
    (largest,) = [p for p in opened("jax_h100_ok_vae").run.hosts[0].hlo_modules if p.cost.product_flops > 1e12]
    (loop,) = [i for i in largest.graph.instructions if i.opcode == "while" and '"n":"16"' in i.backend_config]
    once = sum(largest[i.name].cost.product_flops for i in loop.callees)
    assert largest.cost.product_flops == pytest.approx(16 * once, rel=0.01)


INDEX = instruction("i", "get-tuple-element", 21, shape(S32), [20])
PRODUCT = 2 * 8 * 8 * 8


def compared(direction: str, limit: int, *, is_turned: bool = False) -> list[bytes]:
    """The condition that a counter is below (...) a limit."""
    state, index = instruction("s", "parameter", 30, shape(TUPLE)), instruction("j", "get-tuple-element", 31, shape(S32), [30])
    sides = [32, 31] if is_turned else [31, 32]
    return [
        state,
        index,
        scalar(32, limit),
        instruction("on", "compare", 33, shape(1), sides, more=encode_bytes(63, direction)),
    ]


def in_fusion(direction: str, limit: int) -> tuple[list[bytes], list[bytes]]:
    """(The same condition inside of a fusion, the fusion's contents)."""
    state, index = instruction("s", "parameter", 30, shape(TUPLE)), instruction("j", "get-tuple-element", 31, shape(S32), [30])
    fusion = instruction("on", "fusion", 33, shape(1), [31, 32], [4])
    a, b = (instruction(f"f{n}", "parameter", 40 + n, shape(S32), more=encode_integer(9, n)) for n in range(2))
    inside = [a, b, instruction("is", "compare", 43, shape(1), [40, 41], more=encode_bytes(63, direction))]
    return [state, index, scalar(32, limit), fusion], inside


def looped(
    condition: Sequence[bytes], *more: Sequence[bytes], start: int = 0, step: int = 1, config: str = "", minus: bool = False
) -> HloModule:
    """A loop that multiplies matrices of 8 x 8 in each trip, and counts."""
    state = encode_integer(2, TUPLE) + encode_bytes(4, shape(S32)) + encode_bytes(4, shape(F32, 8, 8))
    how = encode_bytes(30, numbers(1, [1]) + numbers(2, [0]))
    body = [
        instruction("state", "parameter", 20, state),
        INDEX,
        instruction("x", "get-tuple-element", 22, shape(F32, 8, 8), [20], more=encode_integer(13, 1)),
        instruction("dot", "dot", 23, shape(F32, 8, 8), [22, 22], more=how),
        scalar(24, step),
        instruction("next", "subtract" if minus else "add", 25, shape(S32), [21, 24]),
        instruction("out", "tuple", 26, state, [25, 23]),
    ]
    before = [
        scalar(1, start),
        instruction("copy", "copy", 2, shape(S32), [1]),
        parameter(3, 8, 8),
        instruction("in", "tuple", 4, state, [2, 3]),
        instruction("loop", "while", 5, state, [4], [2, 3], more=encode_bytes(43, config)),
    ]
    return program(before, body, condition, *more)


@pytest.mark.parametrize(
    "loop, trips",
    [
        (looped(compared("EQ", 0), config='{"known_trip_count":{"n":"7"}}'), 7),
        (looped(compared("LT", 10), config='{"known_trip_count": {"n": 7}}'), 7),
        (looped(compared("LT", 10)), 10),
        (looped(compared("LT", 10), start=3), 7),
        (looped(compared("LT", 10), start=-5), 15),
        (looped(compared("LE", 10)), 11),
        (looped(compared("LT", 10), step=3), 4),
        (looped(compared("LE", 9), step=3), 4),
        (looped(compared("GT", 0), start=10, step=-1), 10),
        (looped(compared("GE", 0), start=10, step=2, minus=True), 6),
        (looped(compared("GT", 10, is_turned=True)), 10),
        (looped(compared("GE", 10, is_turned=True)), 11),
        (looped(compared("NE", 12), step=3), 4),
        (looped(*in_fusion("LT", 10)), 10),
        (looped(compared("LT", 10), start=10), 0),
        (looped(compared("LT", 10), step=0), 1),
        (looped(compared("LT", 10), step=-1), 1),
        (looped(compared("NE", 10), step=3), 1),
        (looped(compared("EQ", 10)), 1),
        (looped([parameter(30, 1, kind=1)]), 1),
        (looped(compared("LT", 10), config='{"known_trip_count":{"n":"99999999999999999999"}}'), 1),
        (looped(compared("LT", 2**40)), 1),
    ],
    ids=[
        *("as the compiler says", "as the compiler says, not the counter", "by counter", "from 3", "from -5", "to the limit"),
        *("in steps of 3", "in steps of 3 to the limit", "down", "down in steps of 2 to the limit", "limit first"),
        *("limit first, to it", "until equal", "in a fusion", "never", "a counter that stays", "a counter that flees"),
        *("one that is never equal", "while equal", "no counter", "more trips than can be", "a limit that cannot be"),
    ],
)
def test_a_loop_counts_as_often_as_its_counter_says(loop: HloModule, trips: int) -> None:
    """Once where the trips are not known."""
    assert loop.cost.product_flops == trips * PRODUCT


def test_a_loop_that_also_ends_by_something_unknown_counts_once() -> None:
    """`i < 1000 and error > tolerance`: the counter says what the most is."""
    condition = [
        *compared("LT", 1000),
        instruction("error", "get-tuple-element", 34, shape(F32), [30], more=encode_integer(13, 1)),
        instruction("large", "compare", 35, shape(1), [34, 34], more=encode_bytes(63, "GT")),
        instruction("both", "and", 36, shape(1), [33, 35]),
    ]
    assert looped(condition).cost.product_flops == PRODUCT


@pytest.mark.parametrize("last, trips", [(compared("LT", 1000)[3], 10), (b"", 10)])
def test_a_loop_with_two_limits_ends_at_the_first(last: bytes, trips: int) -> None:
    """TensorFlow's loops test their counter against the limit and against a maximum; XLA leaves one
    test twice.
    """
    again = (
        [scalar(34, 1000), instruction("less", "compare", 35, shape(1), [31, 34], more=encode_bytes(63, "LT"))] if last else []
    )
    both = instruction("both", "and", 36, shape(1), [33, 35 if last else 33])
    assert looped([*compared("LT", 10), *again, both]).cost.product_flops == trips * PRODUCT


@pytest.mark.parametrize("limit, trips", [(20, 6), (14, 4), (2, 0), (10**6, 9)])
def test_a_loop_whose_limit_is_for_a_multiple_of_its_counter(limit: int, trips: int) -> None:
    """`for _ in tf.range(2, limit, 3)` is `i < 9 and 3 * i + 2 < limit`."""
    condition = [
        *compared("LT", 9),
        scalar(34, 3),
        instruction("times", "multiply", 35, shape(S32), [31, 34]),
        scalar(36, 2),
        instruction("number", "add", 37, shape(S32), [36, 35]),
        scalar(38, limit),
        instruction("less", "compare", 39, shape(1), [37, 38], more=encode_bytes(63, "LT")),
        instruction("both", "and", 40, shape(1), [33, 39]),
    ]
    assert looped(condition).cost.product_flops == trips * PRODUCT


def test_a_loop_to_the_end_of_another_counts_as_often() -> None:
    """The gradient of TensorFlow's loop runs to the counter that the loop ended with."""
    state = encode_integer(2, TUPLE) + encode_bytes(4, shape(S32)) + encode_bytes(4, shape(S32))
    first_body = [
        instruction("s1", "parameter", 20, state),
        instruction("i1", "get-tuple-element", 21, shape(S32), [20]),
        scalar(22, 2),
        instruction("n1", "add", 23, shape(S32), [21, 22]),
        instruction("o1", "tuple", 24, state, [23]),
    ]
    second_body = [
        instruction("s2", "parameter", 40, state),
        instruction("i2", "get-tuple-element", 41, shape(S32), [40]),
        instruction("limit", "get-tuple-element", 42, shape(S32), [40], more=encode_integer(13, 1)),
        scalar(43, 1),
        instruction("n2", "add", 44, shape(S32), [41, 43]),
        instruction("work", "add", 45, shape(F32, 1000), [44, 44]),
        instruction("o2", "tuple", 46, state, [44, 42]),
    ]
    second_condition = [
        instruction("s3", "parameter", 50, state),
        instruction("i3", "get-tuple-element", 51, shape(S32), [50]),
        instruction("l3", "get-tuple-element", 52, shape(S32), [50], more=encode_integer(13, 1)),
        instruction("on3", "compare", 53, shape(1), [51, 52], more=encode_bytes(63, "LT")),
    ]
    entry = [
        scalar(1, 0),
        instruction("in1", "tuple", 2, state, [1]),
        instruction("w1", "while", 3, state, [2], [2, 3]),
        instruction("end", "get-tuple-element", 4, shape(S32), [3]),
        instruction("in2", "tuple", 5, state, [1, 4]),
        instruction("w2", "while", 6, state, [5], [4, 5]),
    ]
    flops = program(entry, first_body, compared("LT", 11), second_body, second_condition).cost.flops
    assert flops == 6 * (1 + 1) + 12 * (1 + 1000 + 1)


def test_a_loop_itself_costs_nothing_beside_its_body() -> None:
    """Its instructions have rows of their own."""
    loop = looped(compared("LT", 10))
    assert loop["loop"].cost.flops == 0 and loop["dot"].cost.flops == PRODUCT


def test_of_branches_the_dearer_one_counts() -> None:
    def branch(number: int, size: int) -> list[bytes]:
        how = encode_bytes(30, numbers(1, [1]) + numbers(2, [0]))
        product = instruction(f"dot{number}", "dot", number + 1, shape(F32, size, size), [number, number], more=how)
        return [parameter(number, size, size), product]

    choice = instruction("choice", "conditional", 2, shape(F32, 8, 8), [1], [2, 3, 4])
    costs = program([parameter(1, kind=S32), choice], branch(10, 8), branch(20, 64), branch(30, 16))
    assert costs.cost.flops == 2 * 64**3
    assert costs["choice"].cost.flops == 0


def test_a_fusion_costs_what_it_contains_and_a_call_nothing_itself() -> None:
    """What a call runs has events of its own."""
    inside = [parameter(10, 8, 8), instruction("sum", "add", 11, shape(F32, 8, 8), [10, 10])]
    fusion = instruction("fusion", "fusion", 2, shape(F32, 8, 8), [1], [2])
    called = instruction("call", "call", 3, shape(F32, 8, 8), [2], [2])
    costs = program([parameter(1, 8, 8), fusion, called], inside)
    assert costs["fusion"].cost.flops == 64 and costs["call"].cost.flops == 0
    assert costs.cost.flops == 2 * 64
    assert costs["fusion"].cost.bytes == 4 * (64 + 64)


def test_a_fusion_that_takes_a_slice_reads_the_slice() -> None:
    part = [parameter(10, 1000, 64), instruction("part", "slice", 11, shape(F32, 10, 64), [10])]
    fusion = instruction("fusion", "fusion", 2, shape(F32, 10, 64), [1], [2])
    assert program([parameter(1, 1000, 64), fusion], part)["fusion"].cost.bytes == 2 * 10 * 64 * 4


HUGE = (2**40, 2**40)
FIELDS = (
    encode_bytes(30, numbers(1, [1]) + numbers(2, [0]))
    + ALONG_ROWS
    + windows((2**40, 1, 0, 0, 1, 1), (2**40, 1, 0, 0, 1, 1))
    + numbers(32, [2**40, 2**40 + 1])
)
OPCODES = (
    *("add", "all-reduce", "call", "cholesky", "conditional", "convolution", "copy", "custom-call", "dot", "dynamic-slice"),
    *("dynamic-update-slice", "fft", "fusion", "gather", "get-tuple-element", "map", "reduce", "reduce-window", "scatter"),
    *("select-and-scatter", "slice", "sort", "triangular-solve", "tuple", "while"),
)
LIBRARIES = (
    *("", "Sharding", "TopK", "__cublas$gemm", "__cudnn$convBackwardInput", "__cudnn$convForward", "__cudnn$fmhaSoftmax"),
    *("cusolver_geqrf_ffi", "lapack_sgesdd_ffi", "lapack_spotrf_ffi", "blas_strsm", "te_fused_attn_forward_ffi"),
    *("xla.gpu.ext.cub_sort_pairs",),
)


def told(costs: HloModule) -> float:
    """The most that a program says of itself and of its ops, all of which it describes."""
    ops = [costs[name] for name in costs]
    assert all(isinstance(op.description, str) and (op.slow_case is None or op.slow_case.reason) for op in ops)
    every = [costs.cost, *(op.cost for op in ops)]
    assert all(math.isfinite(cost.flops + cost.bytes) for cost in every)
    return max(max(cost.flops, cost.product_flops, cost.bytes) for cost in every)


@pytest.mark.parametrize("sizes", [HUGE, (2**62,) * 30, (), (3,)], ids=["2^80", "2^1860", "a number", "a row"])
@pytest.mark.parametrize("opcode", OPCODES)
def test_absurd_sizes_are_no_cost(opcode: str, sizes: Dimensions) -> None:
    given = [parameter(number, *sizes) for number in (1, 2, 3)]
    it = instruction("it", opcode, 9, shape(F32, *sizes), [1, 2, 3], [2, 2], more=FIELDS)
    inside = [parameter(11, *sizes), parameter(12, *sizes, number=1), instruction("sum", "add", 13, shape(F32), [11, 12])]
    assert told(program([*given, it], inside)) < 1e20


@pytest.mark.parametrize("sizes", [HUGE, (2**62,) * 30, (), (3,)], ids=["2^80", "2^1860", "a number", "a row"])
@pytest.mark.parametrize("target", LIBRARIES)
def test_absurd_sizes_of_a_librarys_call_are_no_cost(target: str, sizes: Dimensions) -> None:
    config = gemm(0, 1, 2**40) + fused("CAUSAL", *HUGE, 9, 9) + heads(9**40)
    assert told(call(target, [sizes, sizes, sizes], sizes, config, FIELDS)) < 1e20


@pytest.mark.parametrize("opcode", OPCODES)
def test_missing_operands_are_no_cost(opcode: str) -> None:
    """None at all, one, and one of a number that no instruction has."""
    for operands in ([], [1], [7]):
        for calls in ([], [2], [8]):
            it = instruction("it", opcode, 9, shape(F32, 8, 8), operands, calls, more=FIELDS)
            assert told(program([parameter(1, 8, 8), it], [parameter(11, 8, 8)])) < 1e20


@pytest.mark.parametrize("target", LIBRARIES)
def test_missing_operands_of_a_librarys_call_are_no_cost(target: str) -> None:
    assert told(call(target, [], (8, 8))) < 1e20 and told(call(target, [(8, 8)], ())) < 1e20


@pytest.mark.parametrize("opcode", ["fusion", "call", "while", "conditional", "reduce", "map", "sort", "async-start"])
def test_a_computation_that_calls_itself_costs_something_finite(opcode: str) -> None:
    """Directly, and by another."""
    add = instruction("sum", "add", 5, shape(F32, 8), [1, 1])
    for path in ([1], [2]):
        it = instruction("it", opcode, 6, shape(F32, 8), [5, 1], path, more=encode_bytes(43, '{"known_trip_count":{"n":"9"}}'))
        back = instruction("back", opcode, 12, shape(F32, 8), [11], [1])
        assert told(program([parameter(1, 8), add, it], [parameter(11, 8), back])) < 1e20


def test_elements_of_tuples_in_a_circle() -> None:
    inside = [
        parameter(11, 8),
        instruction("a", "get-tuple-element", 12, shape(F32, 8), [11, 13]),
        instruction("b", "get-tuple-element", 13, shape(F32, 8), [12]),
    ]
    assert told(program([parameter(1, 8), instruction("it", "fusion", 2, shape(F32, 8), [1], [2])], inside)) < 1e20


def test_a_program_of_nothing_costs_nothing() -> None:
    for empty in (HloModule(b""), HloModule(b"\xff\xff"), program(), program([]), program([parameter(1, 8)], entry=5)):
        assert (empty.cost.flops, empty.cost.bytes, list(empty.graph.entry)) == (0, 0, list(empty.graph.entry))


def test_loops_in_loops_without_end_are_no_cost() -> None:
    """40 of them, of a billion trips each, in one that never runs."""
    trips = [0, *[10**9] * 39]
    nested = [
        [
            parameter(100 * n, 8),
            instruction(
                f"w{n}", "while", 100 * n + 1, shape(F32, 8), [100 * n], [n + 1],
                more=encode_bytes(43, f'{{"known_trip_count":{{"n":"{count}"}}}}'),
            ),
        ]
        for n, count in enumerate(trips, 1)
    ]  # fmt: skip
    last = [parameter(9000, 2**20), instruction("sum", "add", 9001, shape(F32, 2**20), [9000, 9000])]
    assert told(program(*nested, last)) < 1e20


@pytest.mark.parametrize("opcode", ["call", "fusion", "while", "conditional"])
def test_calls_of_calls_without_end_are_no_cost(opcode: str) -> None:
    """3,000 deep: more than Python can follow."""
    chain = [[instruction(f"it{n}", opcode, n, shape(F32, 8), (), [n + 1])] for n in range(1, 3000)]
    assert told(program(*chain, [parameter(9000, 8)])) < 1e20


def slow(program: HloModule, name: str = "it") -> tuple[str, str]:
    """(Kind of slow case, what to do)."""
    case = program[name].slow_case
    return (case.name, case.action) if case else ("", "")


@pytest.mark.parametrize("target", CUDNN)
@pytest.mark.parametrize(
    "groups, channels, out, words, case",
    [
        (1024, 1024, 1024, "depthwise, 1,024 groups, kernel 4", "depthwise"),
        (1024, 1024, 2048, "depthwise, 1,024 groups, kernel 4", "depthwise"),
        (4, 64, 128, "4 groups, kernel 4", "groups"),
        (1, 64, 128, "kernel 4", ""),
    ],
)
def test_convolutions_in_groups_are_slow(target: str, groups: int, channels: int, out: int, words: str, case: str) -> None:
    """Also where a library computes their gradients."""
    program = along_rows(target, groups, (4, 1, 3, 0, 1, 1), channels, out)
    assert (program["it"].description, slow(program)[0]) == (words, case)


@pytest.mark.parametrize("target", ["", "__cudnn$convForward", "__cudnn$convBackwardInput", "__cudnn$convBackwardFilter"])
@pytest.mark.parametrize("channels, case", [(64, "groups"), (8, "depthwise")])
def test_groups_of_several_channels_are_not_depthwise(channels: int, case: str, target: str) -> None:
    """8 groups of 8 channels; the kernel is [out, length, in], as cuDNN has it."""
    places = {3: 2, 4: 0, 7: 0, 8: 2, 9: 0, 10: 2}.items()
    along = encode_bytes(
        16, b"".join(encode_integer(*each) for each in places) + numbers(6, [1]) + numbers(11, [1]) + numbers(12, [1])
    )
    images, kernel, output = (2, 100, channels), (64, 4, channels // 8), (2, 97, 64)
    takes, gives = {"BackwardInput": ((output, kernel), images), "BackwardFilter": ((images, output), kernel)}.get(
        target.rpartition("conv")[2], ((images, kernel), output)
    )
    more = windows((4, 1, 0, 0, 1, 1)) + along + encode_integer(50, 8)
    costs = call(target, takes, gives, more=more) if target else one("convolution", takes, gives, more)
    assert costs.cost.flops == 2 * 2 * 97 * 4 * (channels // 8) * 64
    assert slow(costs)[0] == case


def test_a_kernel_of_absurd_size_is_counted_at_once() -> None:
    size = 10**6
    along = encode_bytes(16, encode_integer(8, 3) + numbers(6, [0, 1]) + numbers(11, [1, 2]) + numbers(12, [1, 2]))
    more = windows(*[(size, 1, 0, 0, 1, 1)] * 2) + along
    assert told(one("convolution", [(8, size, size, 8), (size, size, 8, 8)], (8, size, size, 8), more)) < 1e20


@pytest.mark.parametrize(
    "length, words, case, better",
    [
        (8191, "FFT of 8,191 (prime), 3 times", "fft_length", "pad the FFT to 8,192"),
        (1022, "FFT of 1,022, 3 times", "fft_length", "pad the FFT to 1,024"),
        (950, "FFT of 950, 3 times", "fft_length", "pad the FFT to 1,024"),
        (1024, "FFT of 1,024, 3 times", "", ""),
        (1050, "FFT of 1,050, 3 times", "", ""),
        (1331, "FFT of 1,331, 3 times", "fft_length", "pad the FFT to 1,344"),
    ],
)
def test_lengths_that_ffts_are_slow_at(length: int, words: str, case: str, better: str) -> None:
    """Those with factors above 7; the next length without is another's power of two where that is
    near.
    """
    program = transformed(0, [length], (3, length), (3, length))
    assert program["it"].description == words
    assert slow(program)[0] == case and slow(program)[1].startswith(better)


def test_an_ffts_length_that_cannot_be_is_told_at_once() -> None:
    assert told(transformed(0, [3 * 2**59 + 1], (3, 8), (3, 8))) < 1e20


def test_the_kind_of_an_fft_is_told() -> None:
    assert transformed(2, [8191], (4, 8191), (4, 4096))["it"].description == "RFFT of 8,191 (prime), 4 times"
    assert transformed(3, [8191], (4, 4096), (4, 8191))["it"].description == "IRFFT of 8,191 (prime), 4 times"
    assert transformed(1, [64, 32], (7, 64, 32), (7, 64, 32))["it"].description == "IFFT of 64 x 32, 7 times"


def sorted_and_used(used: int, *, origin: str = "jit(f)/sort", target: str = "", twice: bool = False) -> HloModule:
    """A sort of 100,000 numbers with their places, of which the first are used."""
    opcode, count = ("custom-call" if target else "sort"), 100_000
    both = encode_integer(2, TUPLE) + encode_bytes(4, shape(U32, count)) + encode_bytes(4, shape(S32, count))
    more = encode_bytes(28, target) + encode_bytes(7, encode_bytes(2, origin))
    given = [parameter(1, count, kind=U32), parameter(2, count, kind=S32)]
    places = instruction("places", "get-tuple-element", 4, shape(S32, count), [3], more=encode_integer(13, 1))
    again = [places, instruction("again", opcode, 5, both, [1, 4], more=more)] if twice else []
    return program(
        [
            *given,
            instruction("it", opcode, 3, both, [1, 2], more=more),
            *again,
            instruction("last", "get-tuple-element", 6, shape(S32, count), [5 if twice else 3], more=encode_integer(13, 1)),
            instruction("part", "slice", 7, shape(S32, used), [6]),
        ]
    )


@pytest.mark.parametrize("target", ["", "xla.gpu.ext.cub_sort_pairs"])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(
    "used, origin, case",
    [
        (100, "jit(f)/sort", "partial_sort"),
        (10_000, "jit(f)/sort", "partial_sort"),
        (10_001, "jit(f)/sort", ""),
        (100_000, "jit(f)/sort", ""),
        (100, "jit(f)/jit(_shuffle)/sort", "permutation"),
        (100_000, "jit(f)/jit(_shuffle)/sort", ""),
    ],
)
def test_a_sort_of_which_little_is_used_is_slow(used: int, origin: str, case: str, twice: bool, target: str) -> None:
    """Up to a tenth, and through further sorts; a permutation sorts random numbers."""
    costs = sorted_and_used(used, origin=origin, target=target, twice=twice)
    assert slow(costs)[0] == case
    assert costs["it"].description == "sorts 100,000 u32 with s32"
    if case:
        assert (reason := costs["it"].slow_case) is not None and f"{used:,} are used" in reason.reason


def test_a_sort_whose_result_goes_elsewhere_is_no_slow_case() -> None:
    """Nor one whose result nothing takes: the program returns it."""
    given, it = parameter(1, 1000), instruction("it", "sort", 2, shape(F32, 1000), [1])
    assert slow(program([given, it])) == ("", "")
    assert slow(program([given, it, instruction("all", "add", 3, shape(F32, 1000), [2, 2])])) == ("", "")


RESULTS = encode_integer(2, TUPLE) + encode_bytes(4, shape(S32)) + encode_bytes(4, shape(F32, 1000))
SORT = (parameter(1, 1000), instruction("it", "sort", 2, shape(F32, 1000), [1]))
FIRST = instruction("first", "slice", 3, shape(F32, 10), [2])


def test_a_sort_that_is_returned_is_used() -> None:
    """`return s, s[:10]`."""
    assert slow(program([*SORT, FIRST, instruction("root", "tuple", 4, RESULTS, [3, 2])])) == ("", "")


@pytest.mark.parametrize("opcode", ["while", "call", "conditional"])
def test_a_sort_that_a_loop_takes_is_used(opcode: str) -> None:
    """The first of a loop's variables is a number."""
    state = instruction("state", "tuple", 6, RESULTS, [5, 2])
    assert slow(program([*SORT, scalar(5, 0), state, instruction("next", opcode, 7, RESULTS, [6])])) == ("", "")


def test_parts_of_a_sort_add_up() -> None:
    parts = [instruction(f"part{n}", "slice", 10 + n, shape(F32, 100), [2]) for n in range(10)]
    results = instruction("root", "tuple", 30, RESULTS, range(10, 20))
    assert slow(program([*SORT, *parts, results])) == ("", "")
    assert slow(program([*SORT, parts[0], instruction("root", "tuple", 30, RESULTS, [10])]))[0] == "partial_sort"


def test_rows_that_a_fusion_gathers_are_what_is_used_of_a_sort() -> None:
    inside = [
        parameter(11, 1000),
        parameter(12, 5, kind=S32, number=1),
        instruction("rows", "gather", 13, shape(F32, 5), [11, 12]),
    ]
    taken = instruction("taken", "fusion", 4, shape(F32, 5), [2, 3], [2])
    given = [parameter(1, 1000), parameter(3, 5, kind=S32)]
    assert slow(program([*given, instruction("it", "sort", 2, shape(F32, 1000), [1]), taken], inside))[0] == "partial_sort"


def test_a_table_is_read_once_however_often_a_fusion_takes_its_rows() -> None:
    """1,000 rows of a table of four, and the whole of it beside them; of few rows, these alone."""

    def moved(rows: int, *more: bytes) -> float:
        inside = [
            parameter(11, 4, 64),
            parameter(12, rows, kind=S32, number=1),
            instruction("rows", "gather", 13, shape(F32, rows, 64), [11, 12]),
            *more,
            instruction("done", "exponential", 19, shape(F32, rows, 64), [13]),
        ]
        given = [parameter(1, 4, 64), parameter(2, rows, kind=S32)]
        return program([*given, instruction("taken", "fusion", 3, shape(F32, rows, 64), [1, 2], [2])], inside)[
            "taken"
        ].cost.bytes

    table, row = 4 * 64 * 4, 64 * 4
    assert moved(1000) == table + 1000 * 4 + 1000 * row
    assert moved(2) == 2 * row + 2 * 4 + 2 * row
    assert moved(2, instruction("all", "negate", 14, shape(F32, 4, 64), [11])) == table + 2 * 4 + 2 * row


@pytest.mark.parametrize(("packed", "size"), [(0, 800), (4, 400), (2, 200)])
def test_small_numbers_take_a_byte_unless_the_layout_packs_them(packed: int, size: int) -> None:
    """int4 of 20 x 40, whose result has four bytes each."""
    int4 = encode_integer(2, 21) + numbers(3, [20, 40]) + encode_bytes(5, encode_integer(7, packed) if packed else b"")
    given = instruction("p", "parameter", 1, int4)
    assert program([given, instruction("wide", "convert", 2, shape(F32, 20, 40), [1])])["wide"].cost.bytes == size + 3200


def test_a_product_of_two_large_primes_is_no_prime() -> None:
    assert largest_factor(10_007 * 10_009) == 10_009 and not is_prime(10_007 * 10_009)
    assert is_prime(10_007) and is_prime(1_000_003)


def test_slow_cases_of_profiles() -> None:
    """One of each kind where the profile was made for it; none in one that was not."""
    found = {
        name: {
            case.name
            for program in opened(name).run.hosts[0].hlo_modules
            for op in program
            if (case := program[op].slow_case) is not None
        }
        for name in (
            "jax_h100_dwconv1d",
            "jax_h100_choice_batch",
            "jax_h100_fft_odd",
            "jax_h100_ok_vae",
            "jax_h200_transformer",
        )
    }
    assert found == {
        "jax_h100_dwconv1d": {"depthwise"},
        "jax_h100_choice_batch": {"permutation"},
        "jax_h100_fft_odd": {"fft_length"},
        "jax_h100_ok_vae": set(),
        "jax_h200_transformer": set(),
    }


@pytest.mark.parametrize(
    "costs, words",
    [
        (call("__cublas$gemm", [(64, 128), (128, 32)], (64, 32), gemm(1), kind=BF16), "bf16 64 x 32, sums over 128"),
        (call("__cudnn$fmhaSoftmax", [Q], Q, fused("CAUSAL", 2, 16, 512, 2048), kind=BF16), "attention of bf16 2 x 512 x 16 x 128"),
        (call("lapack_spotrf_ffi", [(9, 9)], (9, 9)), "Cholesky decomposition"),
        (call("my_kernel", [(9, 9)], (9, 9)), "my_kernel"),
        (one("sort", [(4, 9)], (4, 9)), "sorts 36 f32"),
        (one("add", [(9,), (9,)], (9,)), ""),
    ],
)  # fmt: skip
def test_what_an_instruction_computes_is_told(costs: HloModule, words: str) -> None:
    assert costs["it"].description == words
