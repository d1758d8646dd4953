"""The kernel table against XProf's `kernel_stats`, which merges the devices of all hosts and stops
at 1,000 rows.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from outpace.model import Table
from tests.support import opened, reference

# The reference cuts every time to whole ns and prints µs with three digits; per kernel that is
# below 1 ns, and 1 ns for printing.
TOLERANCE_PS = 1_000
LAUNCH = ("kernel_name", "registers_per_thread", "shmem_bytes", "block_dim", "grid_dim")
TENSOR_CORES = ("is_op_tensor_core_eligible", "is_kernel_using_tensor_core")
ROCM = ("jax_rocm_gemm", "jax_rocm_conv_8gpu")
H200 = ("jax_h200_input_bound", "jax_h200_table", "jax_h200_transformer")


def kernels(profile: str) -> Table:
    return opened(profile).page("kernel_stats").table("kernels")


def theirs(profile: str) -> list[dict[str, Any]]:
    answer = reference(profile, "kernel_stats.xprof")
    table = answer[0] if isinstance(answer, list) else answer
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def ours(profile: str) -> list[dict[str, Any]]:
    """Our rows with the reference's names."""
    return [
        {
            "kernel_name": row["kernel"],
            "registers_per_thread": row["registers"] or 0,
            "shmem_bytes": row["shared_bytes"],
            "block_dim": row["block"],
            "grid_dim": row["grid"],
            "occupancy_pct": (row["occupancy"] or 0) * 100,
            "is_op_tensor_core_eligible": row["eligible"],
            "is_kernel_using_tensor_core": row["tensor_cores"],
            "op_name": row["op"],
            "occurrences": row["occurrences"],
            "total": row["total_ps"],
            "min": row["min_ps"],
            "max": row["max_ps"],
        }
        for row in kernels(profile).records()
    ]


def pooled(rows: list[dict[str, Any]], key: tuple[str, ...]) -> dict[tuple[Any, ...], list[Any]]:
    """(count, total, shortest, longest) by `key`, ps."""
    sums: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0, 0, float("inf"), 0])
    for row in rows:
        times = [row["total"], row["min"], row["max"]] if "total" in row else in_ps(row)
        known = sums[tuple(row[k] for k in key)]
        known[:] = [known[0] + row["occurrences"], known[1] + times[0], min(known[2], times[1]), max(known[3], times[2])]
    return sums


def in_ps(row: dict[str, Any]) -> list[float]:
    return [row[f"{name}_duration_us"] * 1e6 for name in ("total", "min", "max")]


def assert_equal(mine: dict[tuple[Any, ...], list[Any]], other: dict[tuple[Any, ...], list[Any]]) -> None:
    for key, (count, total, low, high) in other.items():
        assert key in mine
        assert mine[key][0] == count, key
        assert mine[key][1] == pytest.approx(total, abs=TOLERANCE_PS * (count + 1)), key
        assert mine[key][2:] == pytest.approx([low, high], abs=2 * TOLERANCE_PS), key


def test_old_dialect_has_the_references_times() -> None:
    """By kernel and launch: the reference does not read this dialect's op names and shared memory,
    so its rows are fewer.
    """
    key = ("kernel_name", "registers_per_thread", "block_dim", "grid_dim")
    mine, other = pooled(ours("tf_gpu_v100_bert"), key), pooled(theirs("tf_gpu_v100_bert"), key)
    assert len(other) == 15
    assert set(mine) == set(other)
    assert_equal(mine, other)


def test_old_dialect_says_what_the_reference_leaves_empty() -> None:
    table = kernels("tf_gpu_v100_bert")
    assert {row["op_name"] for row in theirs("tf_gpu_v100_bert")} == {""}
    assert all(table["op"]), "every kernel of this profile is annotated"
    assert {op.rsplit("/", 1)[-1] for op in table["op"]} >= {"RandomUniform", "Cast", "GreaterEqual"}
    assert (table["shared_bytes"] == 0).all(), "the profile says shm:0 of each; missing would be NaN"
    assert set(table["occupancy_source"]) == {"computed"}


def test_todays_dialect_has_the_references_rows() -> None:
    """All columns of all rows that it gives. What it cuts off is not longer than its last row."""
    profile = "derived_v100_bert"
    key = (*LAUNCH, *TENSOR_CORES, "op_name", "occupancy_pct")
    other, mine = pooled(theirs(profile), key), pooled(ours(profile), key)
    assert len(other) == 1000
    assert_equal(mine, other)
    shortest = min(total for _, total, _, _ in other.values())
    left_out = [total for k, (_, total, _, _) in mine.items() if k not in other]
    assert len(left_out) == 330
    assert max(left_out) <= shortest + TOLERANCE_PS
    for row in theirs(profile):
        assert row["avg_duration_us"] == pytest.approx(row["total_duration_us"] / row["occurrences"], abs=2e-3)


def test_rank_is_by_time() -> None:
    table = kernels("derived_v100_bert")
    assert table["rank"].tolist() == list(range(1, len(table) + 1))
    assert (table["total_ps"][:-1] >= table["total_ps"][1:]).all()
    assert table["kernel_fraction"].sum() == pytest.approx(1)


@pytest.mark.parametrize("profile", ROCM)
def test_rocm_kernel_op_pairs(profile: str) -> None:
    """An instruction that comes from no op of the framework (`copy.1`) has its own name here, and
    none in the reference.
    """
    key = ("kernel_name", "block_dim", "grid_dim", "op_name", *TENSOR_CORES)
    mine, other = (
        pooled([row | {"op_name": row["op_name"].replace("copy.1", "")} for row in ours(profile)], key),
        pooled(theirs(profile), key),
    )
    assert set(mine) == set(other)
    assert_equal(mine, other)


@pytest.mark.parametrize("profile", H200)
def test_kernels_of_command_buffers_have_the_references_times(profile: str) -> None:
    """By kernel and launch, with all columns that the profile holds: the reference has no op for
    kernels of command buffers (`XlaModule`).
    """
    key = (*LAUNCH, "occupancy_pct")
    mine, other = pooled(ours(profile), key), pooled(theirs(profile), key)
    assert set(mine) == set(other)
    assert_equal(mine, other)
    assert "XlaModule" not in kernels(profile)["op"].tolist()
    named = {row["op_name"] for row in theirs(profile)}
    assert "XlaModule" in named
    assert {op for op in named if op.startswith("jit(")} <= set(kernels(profile)["op"].tolist())


@pytest.mark.parametrize(
    ("profile", "share"), [("jax_h200_input_bound", 0.404), ("jax_h200_table", 0.0255), ("jax_h200_transformer", 0.442)]
)
def test_tensor_cores_by_the_program(profile: str, share: float) -> None:
    """Time of kernels on tensor cores: none in the reference, which knows the names of Volta to
    Ampere, and no op of a command buffer. Here XLA's products of 16-bit numbers count by the
    program, and cuDNN's by their names: any `xmma` but for `ffma`, one of which says `tensor16x8x8`
    itself.
    """
    assert not any(row["is_kernel_using_tensor_core"] for row in theirs(profile))
    table = kernels(profile)
    used = table["tensor_cores"]
    assert table["total_ps"][used].sum() / table["total_ps"].sum() == pytest.approx(share, abs=0.001)
    assert table["eligible"][used].all()


@pytest.mark.parametrize("profile", ROCM)
def test_rocm_columns_that_the_reference_lacks(profile: str) -> None:
    """It shows no shared memory (its parser does not know `group_mem`), and zeros where nothing was
    recorded.
    """
    table = kernels(profile)
    assert {row["shmem_bytes"] for row in theirs(profile)} == {0}
    assert max(table["shared_bytes"]) > 8192
    assert all(value != value for value in table["registers"]), "not recorded is missing, not 0"
    assert set(table["occupancy_source"]) == {"unknown"}


def test_computed_occupancy_against_the_recorded_one() -> None:
    """`derived_v100_bert` carries estimates that leave registers out; they bind in one launch of
    eleven.

    38 registers are handed out as 40: 1,024 threads take 40,960 of a multiprocessor's 65,536, so
    that one block of 32 warps fits into 64.
    """
    computed = {(r["kernel"], r["block"], r["registers"]): r["occupancy"] for r in kernels("tf_gpu_v100_bert").records()}
    recorded = {(r["kernel"], r["block"], r["registers"]): r["occupancy"] for r in kernels("derived_v100_bert").records()}
    assert set(computed) == set(recorded)
    differ = {key: (computed[key], recorded[key]) for key in computed if computed[key] != recorded[key]}
    assert {(block, registers) for _, block, registers in differ} == {("1024,1,1", 38)}
    assert set(differ.values()) == {(0.5, 1.0)}


@pytest.mark.parametrize("profile", ["tf_gpu_v100_bert", "derived_v100_bert", *ROCM, *H200])
def test_every_kernel_finds_its_launch(profile: str) -> None:
    page = opened(profile).page("kernel_stats")
    launches = page.table("launches")
    assert (launches["unmatched"] == 0).all()
    assert (launches["mean_queued_ps"] <= launches["mean_latency_ps"]).all()
    assert (launches["median_latency_ps"] > 0).all()


@pytest.mark.parametrize("profile", ["tf_gpu_v100_bert", "derived_v100_bert", *ROCM, *H200])
def test_idle_time_is_the_sum_of_its_causes(profile: str) -> None:
    page = opened(profile).page("kernel_stats")
    devices, causes = page.table("devices"), page.table("idle_causes")
    for row in devices.records():
        mine = (causes["device"] == row["device"]) & (causes["host"] == row["host"])
        assert causes["idle_ps"][mine].sum() == row["idle_ps"] == row["span_ps"] - row["busy_ps"]


def test_a_profile_without_gpu_says_how_to_get_one() -> None:
    page = opened("custom_loop").page("kernel_stats")
    assert page.unavailable is not None
    assert "GPU" in page.unavailable.reason
    assert "CUPTI" in page.unavailable.remedy
