"""The page about a log in which memory ran out: texts in the forms of XLA and TensorFlow, with
numbers of their own.
"""

from __future__ import annotations

from typing import Any

import pytest

from outpace.model import Page
from outpace.timeline.hlo.memory import BufferKind
from outpace.tools.program_memory.exhaustion import Exhaustion, read_exhaustion
from outpace.tools.program_memory.log_page import of_log
from tests.support import opened

GIB = 2**30
GPU = """\
W external/xla/xla/tsl/framework/bfc_allocator.cc:310] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.37GiB with \
freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be performance gains.
E0302 07:02:44.350251   27487 pjrt_stream_executor_client.cc:2826] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory \
while trying to allocate 29995136000 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    3.25GiB
              constant allocation:     1.2KiB
        maybe_live_out allocation:    3.25GiB
     preallocated temp allocation:   27.93GiB
  preallocated temp fragmentation:    2.00MiB (0.01%)
                 total allocation:   34.43GiB
              total fragmentation:    1.10GiB (3.19%)
Peak buffers:
\tBuffer 1:
\t\tSize: 6.00GiB
\t\tOperator: op_name="jit(step)/jit(main)/jvp(Decoder)/layer_7/bqhd,bkhd->bhqk/dot_general[a="b\\"c"]" \
source_file="/home/me/attention.py" source_line=88
\t\tXLA Label: custom-call
\t\tShape: bf16[64,16,1024,3072]
\t\t==========================

\tBuffer 2:
\t\tSize: 5.00GiB
\t\tOperator: op_name="jit(step)/jit(main)/jvp(Decoder)/layer_6/
    bqhd" source_file="/home/me/attention.py" source_line=88
\t\tXLA Label: fusion
\t\tShape: bf16[64,16,1024,2560]
\t\t==========================

\tBuffer 3:
\t\tSize: 1.00GiB
\t\tEntry Parameter Subshape: f32[262144,1024]
\t\t==========================
"""
TPU = """\
jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 41.74G of \
15.48G hbm. Exceeded hbm capacity by 26.26G.

Total hbm usage >= 42.25G:
    reserved        530.00M
    program          41.22G
    arguments       512.00M

Program hbm requirement 41.22G:
    global           29.82M
    HLO temp         41.19G (24.2% utilization: Unpadded (9.97G) Padded (41.00G), 0.7% fragmentation (293.84M))

  Largest program allocations in hbm:

  1. Size: 32.00G
     Operator: op_name="jit(paint)/jit(main)/cic_update/rem" source_file="/home/me/paint.py" source_line=31
     Shape: s32[8388608,8,4]{2,1,0:T(8,128)}
     Unpadded size: 1.00G
     Extra memory due to padding: 31.00G (32.0x expansion)
     XLA label: %copy.488 = s32[8388608,8,4]{2,1,0:T(8,128)} copy(s32[8388608,8,4]{0,2,1:T(4,128)} %get-tuple-element.329)
     Allocation type: HLO temp
     ==========================

  2. Size: 2.00G
     Operator: op_name="jit(paint)/jit(main)/mul" source_file="/home/me/paint.py" source_line=40
     Shape: f32[8388608,64]{0,1:T(8,128)}
     Unpadded size: 2.00G
     Allocation type: HLO temp
     ==========================
"""
ALLOCATOR = """\
W external/local_xla/xla/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.72GiB \
(rounded to 4000000000)requested by op Conv2D
I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1090]      Summary of in-use Chunks by size:
I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1093] 84 Chunks of size 512 totalling 42.0KiB
I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1093] 40 Chunks of size 246016000 totalling 9.16GiB
I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1103] Stats:
Limit:                 10925244416
InUse:                  {in_use}
MaxInUse:              10240683008
ResourceExhaustedError: OOM when allocating tensor with shape[1000,1000,250,4] and type float on /job:localhost/device:GPU:0 by \
allocator GPU_0_bfc [[node model/conv2d_3/Conv2D]]
"""


def read(text: str) -> Exhaustion:
    found = read_exhaustion(text)
    assert found is not None
    return found


def page(text: str, program: bytes = b"") -> Page:
    found = of_log(text, program)
    assert found is not None
    return found


def findings(text: str) -> list[str]:
    return [each.id for each in page(text).findings]


def test_a_program_of_a_gpu() -> None:
    found = read(GPU)
    assert (found.asked, found.limit, found.used) == (29_995_136_000, 0, int(34.43 * GIB))
    assert found.parts == {
        BufferKind.ARGUMENT: int(3.25 * GIB),
        BufferKind.CONSTANT: int(1.2 * 1024),
        BufferKind.RESULT: int(3.25 * GIB),
        BufferKind.TEMPORARY: int(27.93 * GIB),
    }
    assert found.fragments == int(1.10 * GIB)
    assert [(each.size // GIB, each.shape, each.source, each.kind) for each in found.arrays] == [
        (6, "bf16[64,16,1024,3072]", "/home/me/attention.py:88", None),
        (5, "bf16[64,16,1024,2560]", "/home/me/attention.py:88", None),
        (1, "f32[262144,1024]", "", BufferKind.ARGUMENT),
    ]
    assert found.arrays[1].op == "jit(step)/jit(main)/jvp(Decoder)/layer_6/ bqhd"
    shown = page(GPU)
    assert shown.headline == (
        "Memory ran out: a program needs 34.4 GiB; 27.9 GiB are temporaries; the largest array is bf16[64,16,1024,3072] (6.00 GiB) of "
        "attention.py:88."
    )
    assert [(row["source"], row["arrays"]) for row in shown.table("lines").records()] == [("/home/me/attention.py:88", 2)]
    assert findings(GPU) == ["activations_fill_memory"]
    assert shown.findings[0].location == "/home/me/attention.py:88"


def test_of_several_attempts_the_last_one_counts() -> None:
    later = GPU.replace("6.00GiB", "7.00GiB").replace("29995136000", "31000000000")
    found = read(GPU + later)
    assert found.asked == 31_000_000_000 and [each.size // GIB for each in found.arrays] == [7, 5, 1]


def test_a_program_that_does_not_fit_on_a_tpu() -> None:
    found = read(TPU)
    assert (found.used, found.limit) == (int(41.74 * GIB), int(15.48 * GIB))
    assert found.arrays[0].size == 32 * GIB and found.arrays[0].unpadded == GIB
    assert findings(TPU) == ["padded_arrays"]  # without padding it fits
    assert "31.0 GiB of the 34.0 GiB" in page(TPU).findings[0].sentence


def test_the_batch_that_fits_is_told_where_the_first_dimension_is_common() -> None:
    one = "\n  1. Size: 2.00G\n     Shape: f32[64,4096,2048]{2,1,0}\n     Allocation type: HLO temp\n     =========="
    text = (
        "Ran out of memory in memory space hbm. Used 21.00G of 16.00G hbm.\n    HLO temp  20.00G\n    arguments  1.00G\n"
        + one * 10
    )
    (finding,) = page(text).findings
    assert finding.id == "activations_fill_memory" and "About 45 of 64 fit" in finding.action
    assert "fit, where" not in page(text.replace("[64,", "[65,", 5)).findings[0].action


@pytest.mark.parametrize(
    ("in_use", "rule"), [(9_840_683_008, "allocation_too_large"), (6_000_000_000, "free_memory_in_pieces")]
)
def test_an_allocator(in_use: int, rule: str) -> None:
    text = ALLOCATOR.replace("{in_use}", str(in_use))
    found = read(text)
    assert (found.asked, found.limit, found.used) == (4_000_000_000, 10_925_244_416, in_use)
    assert [(each.count, each.size) for each in found.arrays] == [(40, 40 * 246_016_000), (84, 84 * 512)]
    assert findings(text) == [rule]
    assert "(float[1000,1000,250,4])" in page(text).headline and "40 chunks of 235 MiB" in page(text).headline


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory allocating 16000000000000 bytes.", 16 * 10**12),
        ("Resource exhausted: Out of memory while trying to allocate 5520758552 bytes.", 5_520_758_552),
        ("RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0", 3_206_250_496),
        ("E rocm_driver.cc:1268] failed to allocate 154.06GiB (165425291480 bytes) from device: HIP_ERROR", 165_425_291_480),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.50GiB.", GIB * 3 // 2),
        ("OOM when allocating tensor with shape[200,300] and type double on /device:CPU:0 by allocator cpu", 480_000),
    ],
)
def test_what_was_asked_for_in_all_forms(text: str, asked: int) -> None:
    assert read(text).asked == asked
    assert findings(text) == ["allocation_too_large"]


@pytest.mark.parametrize(
    "text", ["", "loss 0.5\nepoch 3\n", "W a.cc:310] ran out of memory trying to allocate 1GiB; not a failure"]
)
def test_a_log_without_such_a_message_has_no_page(text: str) -> None:
    assert of_log(text) is None


def test_a_program_that_needs_little_was_kept_from_it_by_others() -> None:
    small = GPU.replace("34.43GiB", "12.00MiB").replace("27.93GiB", "     0B")
    assert findings(small)[0] == "memory_taken_by_others"


def test_results_beside_their_arguments_are_told() -> None:
    text = GPU.replace("3.25GiB", "13.0GiB").replace("27.93GiB", "8.00GiB")
    (finding,) = page(text).findings
    assert finding.id == "results_beside_arguments" and "at most 13.0 GiB" in finding.action


def test_one_array_that_is_most_of_it() -> None:
    text = GPU.replace("6.00GiB", "24.0GiB")
    assert findings(text) == ["one_large_array"]


def failing(name: str) -> tuple[Any, bytes]:
    """The largest program of a profile."""
    run = opened(name).run
    module = max(run.hosts[0].hlo_modules, key=lambda each: each.memory_plan.total_bytes if each.memory_plan else 0)
    return module, bytes(module._proto)


def test_the_program_that_ran_is_known_as_a_whole() -> None:
    module, proto = failing("jax_h100_sample_often")
    plan = module.memory_plan
    text = f"RESOURCE_EXHAUSTED: Out of memory allocating {plan.total_bytes // 2} bytes."
    shown = page(text, proto)
    assert len(shown.table("curve")) and sum(shown.table("live")["size_bytes"]) == plan.peak_bytes
    assert "a program needs" in shown.headline
    other = f"RESOURCE_EXHAUSTED: Out of memory allocating {2 * plan.total_bytes} bytes."  # which another program asked for
    assert page(other, proto).headline == "Memory ran out: 5.91 GiB were asked for."
