"""The op table of all CPU profiles, pooled, against XProf's `framework_op_stats`."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

import pytest

from outpace.metrics.facts.op_metrics import op_metrics
from outpace.timeline import parse_op
from tests.support import PROFILES, opened, reference, reference_table

# The reference counts in µs with nine digits; 2 ns are its rounding.
TOLERANCE_US = 2e-3
Key = tuple[str, str, str]


def cpu_profiles() -> list[str]:
    return [n for n in PROFILES if reference(n, "framework_op_stats.xprof") and not opened(n).run.has_device]


@lru_cache(maxsize=1)
def pooled() -> list[tuple[Key, list[Any], tuple[int, int, int]]]:
    """(profile, type, name), the reference's row, and our (count, total, self)."""
    rows = []
    for profile in cpu_profiles():
        ours: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in op_metrics(opened(profile).run).records():
            for i, column in enumerate(("count", "total_ps", "self_ps")):
                ours[row["type"], row["name"]][i] += row[column]
        for cells in reference(profile, "framework_op_stats.xprof")[0]["rows"]:
            values = [c["v"] for c in cells["c"]]
            count, total, own = ours[values[2], values[3]]
            rows.append(((profile, values[2], values[3]), values, (count, total, own)))
    return rows


def allocations(profile: str) -> Counter[str]:
    """How many memory events name each op, over all hosts."""
    named: Counter[str] = Counter()
    for timeline in opened(profile).run.hosts:
        named.update(parse_op(text).name for text in timeline.trace.stat("tf_op").texts())
    return named


def test_times_are_equal() -> None:
    equal = [
        abs(total / 1e6 - theirs[5]) <= TOLERANCE_US and abs(own / 1e6 - theirs[7]) <= TOLERANCE_US
        for _, theirs, (_, total, own) in pooled()
    ]
    assert len(equal) > 2000
    assert sum(equal) / len(equal) >= 0.97


def test_rows_that_differ_come_from_allocations() -> None:
    """Rows without a type are allocations that name an op which never ran as one; IDLE differs
    where only they stand on a thread.
    """
    for (profile, op_type, name), theirs, (_, total, own) in pooled():
        if abs(total / 1e6 - theirs[5]) > TOLERANCE_US or abs(own / 1e6 - theirs[7]) > TOLERANCE_US:
            assert op_type in ("", "IDLE"), (profile, op_type, name)


def test_counts_differ_only_by_allocations() -> None:
    """One class, one cause: the reference counts a memory allocation that names its op as an
    execution of no duration.

    Measured over these profiles: 81 of 2,507 rows (mostly `_Mkl*`, Tile, BroadcastTo), times equal
    in all; their share of the self time is 5.5% with IDLE counted and 23.9% of the ops' alone.
    """
    by_profile = {p: allocations(p) for p in cpu_profiles()}
    for (profile, op_type, name), theirs, (count, _, _) in pooled():
        if op_type != "IDLE" and theirs[4] != count:
            assert theirs[4] - count == by_profile[profile][name], (profile, op_type, name, theirs[4], count)


@pytest.mark.parametrize("profile", ["tf_gpu_v100_bert", "derived_v100_bert"])
def test_old_gpu_profiles_have_op_names(profile: str) -> None:
    """The reference loses them: it reads no `annotation` stat."""
    device = [r for r in op_metrics(opened(profile).run).records() if r["side"] == "Device" and not r["idle"]]
    kernels = [r for r in device if not r["type"].startswith("Memcpy")]
    assert kernels
    named = sum(r["self_ps"] for r in kernels if "/" in r["name"] and "<" not in r["name"])
    assert named / sum(r["self_ps"] for r in kernels) > 0.95
    assert {"RandomUniform", "Cast"} & {r["type"] for r in kernels}


def test_eager_ops_are_told_from_functions() -> None:
    """TensorFlow 2.21 writes no op event for an op that runs by itself: its dispatch is what can be
    seen.
    """
    finding = {f.id: f for f in opened("eager_loop").op_stats().findings}["eager_ops"]
    assert finding.evidence[0].value > 0.5
    assert "eager_ops" not in {f.id for f in opened("tfrecord_pipeline").op_stats().findings}
    assert {"Conv2D", "MatMul"} <= set(opened("eager_loop").op_stats().table("eager_ops")["op"])


@pytest.mark.parametrize("profile", ["jax_h200_input_bound", "jax_h200_table", "jax_h200_transformer"])
def test_ops_of_command_buffers_are_ops(profile: str) -> None:
    """The reference has the ops of kernels outside of command buffers. An op may run in both."""
    device = {r["name"]: r for r in op_metrics(opened(profile).run).records() if r["side"] == "Device" and not r["idle"]}
    listed = [r for r in reference_table(profile, "framework_op_stats.xprof") if r["host_or_device"] == "Device"]
    outside = {r["operation"]: r["total_self_time"] for r in listed if r["operation"].startswith("jit(")}
    for name, total_us in outside.items():
        assert device[name]["self_ps"] / 1e6 >= total_us - TOLERANCE_US
    theirs, mine = sum(outside.values()), sum(r["self_ps"] for r in device.values() if r["name"].startswith("jit(")) / 1e6
    convolved = [n for n in outside if n.endswith("conv_general_dilated")]
    for name in convolved:
        assert device[name]["self_ps"] / 1e6 == pytest.approx(outside[name], abs=TOLERANCE_US)
    assert len(convolved) == (4 if profile == "jax_h200_input_bound" else 0)
    assert theirs < 0.7 * mine
    assert "XlaModule" not in device


@pytest.mark.parametrize("profile", ["jax_rocm_gemm", "jax_rocm_conv_8gpu"])
def test_kernels_of_compiled_programs_have_the_frameworks_op(profile: str) -> None:
    """Their `tf_op` is only the program; the op stands in the annotation's `name`. (We count
    kernels, the reference executions of the op.)
    """
    device = {r["name"]: r for r in op_metrics(opened(profile).run).records() if r["side"] == "Device" and not r["idle"]}
    for cells in reference(profile, "framework_op_stats.xprof")[0]["rows"]:
        side, name, total_us = (cells["c"][i]["v"] for i in (1, 3, 5))
        if side == "Device" and name.startswith("jit("):
            assert device[name]["total_ps"] / 1e6 == pytest.approx(total_us, abs=TOLERANCE_US)


@pytest.mark.parametrize("profile", ["tf_gpu_v100_bert", "derived_v100_bert"])
def test_a_copy_is_the_ops_own_work(profile: str) -> None:
    """`MemcpyH2D` inside `_Send` is no op: the reference leaves it in `_Send`'s self time. Every
    host row but IDLE is equal.
    """
    host = {(r["type"], r["name"]): r for r in op_metrics(opened(profile).run).records() if r["side"] == "Host"}
    rows = [
        r for r in reference_table(profile, "framework_op_stats.xprof") if r["host_or_device"] == "Host" and r["type"] != "IDLE"
    ]
    assert len(rows) > 400
    for row in rows:
        mine = host[row["type"], row["operation"]]
        assert mine["self_ps"] / 1e6 == pytest.approx(row["total_self_time"], abs=TOLERANCE_US)
    assert any(row["type"] == "_Send" for row in rows)
