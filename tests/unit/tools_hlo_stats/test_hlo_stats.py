"""HLO ops of CPU, GPU and TPU programs, with what they were compiled from."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.timeline.hlo import HloOp, programs
from outpace.timeline.hlo import _ops as ops_of
from tests.support import PROFILES, opened


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


DOT = text(1, "dot.1") + text(2, "dot") + text(7, text(2, "jit(f)/dot_general") + text(3, "train.py") + number(4, 12))
FUSION = text(1, "fusion.7") + text(2, "fusion") + text(38, varint(300))
INNER = text(1, "inner") + text(2, "add") + text(7, text(2, "jit(f)/add"))
MODULE = (
    text(1, "jit_f")
    + text(3, text(2, DOT) + text(2, FUSION) + number(5, 1))
    + text(3, text(2, INNER) + number(5, 300))
)  # fmt: skip
PROTO = text(1, MODULE)
EXPECTED = {
    "dot.1": HloOp("dot", "jit(f)/dot_general", "train.py:12"),
    "fusion.7": HloOp("fusion", "jit(f)/add", ""),
    "inner": HloOp("add", "jit(f)/add", ""),
}


def test_ops_of_a_program() -> None:
    assert dict(ops_of(PROTO)) == EXPECTED


def test_a_damaged_program_never_fails() -> None:
    for cut in range(len(PROTO)):
        assert set(dict(ops_of(PROTO[:cut]))) <= {*EXPECTED, ""}
        dict(ops_of(PROTO[:cut] + b"\xff" * 12))


def test_a_jax_step_is_traced_back_to_its_operations() -> None:
    trace = opened("jax_loop").run.hosts[0].trace
    assert programs(trace)[8]["dot.1"].opcode == "dot"
    rows = {row["op"]: row for row in opened("jax_loop").hlo_stats().table("hlo_ops").records()}
    assert rows["dot.1"]["program"] == "jit_step"
    assert rows["dot.1"]["framework_op"].startswith("jit(step)/")
    assert rows["dot.1"]["occurrences"] == int((np.array(trace.stat("hlo_op").texts()) == "dot.1").sum())


def test_gpu_ops_name_the_line_and_count_every_kernel_once() -> None:
    run = opened("jax_rocm_gemm").run
    rows = list(opened("jax_rocm_gemm").hlo_stats().table("hlo_ops").records())
    trace = run.hosts[0].trace
    events = trace.stat("hlo_op").row
    assert sum(row["occurrences"] for row in rows) == len(events)
    assert sum(row["total_ps"] for row in rows) == trace.duration[events].sum()
    assert {row["source"].rpartition(":")[2] for row in rows if row["framework_op"] == "jit(dot)/dot_general"} == {"37"}


def test_tpu_ops_have_rates() -> None:
    page = opened("tpu_v6e_inference").hlo_stats()
    row = next(r for r in page.table("hlo_ops").records() if r["category"] == "loop fusion")
    seconds = row["self_ps"] / 1e12
    assert row["flops_per_s"] == pytest.approx(1342177280 * row["occurrences"] / seconds)
    assert row["bytes_per_s"] == pytest.approx(10737418240 * row["occurrences"] / seconds)
    assert row["intensity"] == pytest.approx(0.125)
    assert row["source"].endswith(":29")
    assert next(page.table("programs").records())["program"] == "jit_f"


@pytest.mark.parametrize("name", [n for n in PROFILES if n not in ("idle_empty",)])
def test_shares_add_up(name: str) -> None:
    page = opened(name).hlo_stats()
    if page.unavailable is None:
        assert sum(row["fraction"] for row in page.table("hlo_ops").records()) == pytest.approx(1)
        assert sum(row["fraction"] for row in page.table("programs").records()) == pytest.approx(1)
