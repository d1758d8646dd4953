"""What is known of the profiles of JAX on an H100 from their programs and by hand, against what the
tables say of them.
"""

from __future__ import annotations

import pytest

from outpace.metrics.facts.device_peaks import peak_flops
from outpace.metrics.facts.hlo_instructions import hlo_source_lines, instruction_stats
from outpace.metrics.facts.op_metrics import DEVICE
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.views.flops_utilization import duty_cycle, flops_utilization
from outpace.metrics.views.jit_calls import jit_calls
from outpace.metrics.views.model_parts import model_parts
from outpace.metrics.views.model_work import model_work
from outpace.model import Category
from tests.support import opened

MS = 1e9  # ps


@pytest.mark.parametrize(("name", "takes", "backward"), [("dwconv1d", 9.78, 6.2), ("fft_odd", 17.7, 9.6)])
def test_parts_where_each_call_is_waited_for(name: str, takes: float, backward: float) -> None:
    """The device works behind the end of the call that launched it. Of the backward pass of fft_odd
    0.3 ms are copies within the GPU: lines hold them, parts do not.
    """
    run = opened(f"jax_h100_{name}").run
    rows = [row for row in model_parts(run).records() if row["side"] == DEVICE]
    assert sum(row["self_ps"] for row in rows) / MS == pytest.approx(takes, rel=0.01)
    assert sum(row["backward_ps"] for row in rows) / MS == pytest.approx(backward, rel=0.04)
    assert sum(row["backward_ps"] for row in hlo_source_lines(run).records()) / MS == pytest.approx(backward, rel=0.01)
    whole = step_breakdown(run)
    compute = sum(whole.category_ps(c).mean() for c in (Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32))
    assert compute / MS == pytest.approx(takes, rel=0.01)


def test_matrix_products_that_are_called_after_a_transpose() -> None:
    """15.6 of the 45.8 ms are called `.../transpose`: the form in which a product's
    gradient is handed on.
    """
    rows = model_work(opened("jax_h100_ok_vae").run).records()
    assert sum(row["self_ps"] for row in rows if row["work"] == "matrix products") / MS == pytest.approx(45.8, rel=0.01)


def test_tensor_cores_of_a_library_that_uses_none() -> None:
    """cuDNN convolves groups of 16-bit numbers on CUDA cores: those are 64 % of the
    kernels' time.
    """
    (kernels,) = (t for t in opened("jax_h100_dwconv1d").page("kernel_stats").tables() if t.name == "kernels")
    assert kernels["kernel_fraction"][kernels["tensor_cores"].astype(bool)].sum() == pytest.approx(0.218, abs=0.0005)
    plain = ["conv2d_grouped_direct_kernel" in kernel or "tensorTransformGeneric" in kernel for kernel in kernels["kernel"]]
    assert kernels["kernel_fraction"][plain].sum() == pytest.approx(0.640, abs=0.0005)


def test_calls_that_jax_records_twice() -> None:
    """A sampler calls a function 120 times in every 25th step; JAX writes two events for each."""
    profile = opened("jax_h100_sample_often")
    (found,) = (f for f in profile.report().findings if f.id == "evaluates_in_steps")
    assert found.sentence.startswith("Every 25th step also calls 'next_logits' 120 times, at sample_often.py:59")
    for name in ("columns", "dwconv1d", "fft_odd"):
        (row,) = jit_calls(opened(f"jax_h100_{name}").run).records()
        assert row["calls"] == 1


@pytest.mark.parametrize(
    ("name", "program", "runs"),
    [
        ("ok_vae", "jit_train_steps", 17),  # a scan of 16 steps: 264 runs of its body
        ("choice_batch", "jit_train_step", 57),
        ("columns", "jit_train_step", 18),
        ("dwconv1d", "jit_train_step", 51),
        ("fft_odd", "jit_train_step", 30),
        ("sample_often", "jit_train_step", 90),
        ("sample_often", "jit_next_logits", 360),
    ],
)
def test_runs_of_programs_are_calls(name: str, program: str, runs: int) -> None:
    """Whatever loops they hold. Programs that a loop calls beside it run as often."""
    (programs,) = (t for t in opened(f"jax_h100_{name}").page("hlo_stats").tables() if t.name == "programs")
    found = {row["program"]: row["runs"] for row in programs.records()}
    assert found[program] == runs
    if name in ("ok_vae", "choice_batch"):
        assert set(found.values()) == {runs}


def test_copies_that_many_threads_start() -> None:
    """5,383 calls of 32 threads, which wait for each other: 0.84 s of threads in a capture of 0.31
    s, and 46.7 ms in each step of 16.8.
    """
    profile = opened("jax_h100_columns")
    (timeline,) = profile.run.hosts
    for page, name, column in (("op_stats", "ops", "self_ps"), ("overview", "top_host_ops", "self_ps")):
        (table,) = (t for t in profile.page(page).tables() if t.name == name)
        (row,) = (r for r in table.records() if "MemcpyH2D" in r.values() and r.get("side", "Host") == "Host")
        assert row[column] < timeline.span_ps[1] - timeline.span_ps[0]
    (kinds,) = (t for t in profile.page("input_pipeline").tables() if t.name == "host_categories")
    step = float(timeline.steps.duration[timeline.steps.steady_rows].mean())
    assert 0 < max(row["per_step_ps"] for row in kinds.records()) < step


def test_latencies_are_no_longer_than_the_capture() -> None:
    """Their sum was 2,617 s in a capture of 1.3 s."""
    profile = opened("jax_h100_ok_vae")
    (launches,) = (t for t in profile.page("kernel_stats").tables() if t.name == "launches")
    (timeline,) = profile.run.hosts
    assert 0 < launches["mean_latency_ps"][0] < timeline.span_ps[1] - timeline.span_ps[0]
    assert "latency_ps" not in [field.name for field in launches.fields]


@pytest.mark.parametrize("name", ["choice_batch", "columns", "dwconv1d", "fft_odd", "ok_vae", "sample_often"])
def test_memory_says_what_is_known(name: str) -> None:
    """JAX's allocator tells sizes alone: neither ops nor types, nor what grows with the batch.
    Weights are no unused memory.
    """
    page = opened(f"jax_h100_{name}").page("memory_profile")
    tables = {table.name: table for table in page.tables()}
    told = ("op", "data_type", "shape", "region")
    words = {text for table in tables.values() for name in told if name in table for text in table[name].tolist()}
    assert words.isdisjoint({"INVALID", "unknown"}) and not any("unused" in text for text in words)
    for row in tables["headroom"].records():
        assert row["estimate"].startswith("not measurable: no region types")
        assert row["factor_low"] == pytest.approx(row["capacity_bytes"] / row["peak_bytes"])


@pytest.mark.parametrize(("name", "share"), [("ok_resnet", 0.99), ("sample_often", 0.015)])
def test_autotuning_is_no_training(name: str, share: float) -> None:
    """XLA's own timer, its checks of memory and of results, and what it times; of ok_resnet the
    capture ends in the middle of it.
    """
    profile = opened(f"jax_h100_{name}")
    tables = {table.name: table for table in profile.page("kernel_stats").tables()}
    own = ("DelayKernel", "RedzoneAllocatorKernelImpl", "xla_fp_comparison")
    assert not any(word in kernel for kernel in tables["kernels"]["kernel"] for word in own)
    assert all(any(word in kernel for kernel in tables["tuning"]["kernel"]) for word in own)
    (device,) = tables["devices"].records()
    assert device["tuning_ps"] / (device["kernel_ps"] + device["copy_ps"] + device["tuning_ps"]) == pytest.approx(
        share, abs=0.005
    )
    hlo = {table.name: table for table in profile.page("hlo_stats").tables()}
    assert all(program.startswith("jit_") for program in hlo["programs"]["program"])
    assert not any(program.startswith("jit_") for program in hlo["tuning"]["program"])
    (ops,) = (t for t in profile.page("op_stats").tables() if t.name == "ops")
    assert not any(word in op for op in ops["name"] for word in own)
    assert not [finding for finding in profile.report().findings if any(word in finding.sentence for word in own)]


def test_operations_over_the_wall() -> None:
    """By hand 32.5 TFLOP a call: 42.7 M weights, six operations for each of 8,192 examples in 16
    steps, less the gradient of the first layer's input.
    """
    run = opened("jax_h100_ok_vae").run
    (timeline,) = run.hosts
    ran = [r for r in instruction_stats(run)["vm"] if r.op.has_product]
    operations = sum(r.op.cost.flops * r.count for r in ran)
    steps = timeline.steps.steady_rows
    assert operations / len(steps) == pytest.approx(32.5e12, rel=0.005)
    rate = operations / float(timeline.steps.duration[steps].sum()) * 1e12
    assert rate == pytest.approx(486e12, rel=0.005)
    (plane,) = timeline.device_planes
    assert rate / peak_flops(plane) == pytest.approx(0.45, abs=0.005)


@pytest.mark.parametrize(
    ("name", "neither", "compute", "memory"),
    [
        ("dwconv1d", 0.698, 0.161, 0.137),
        ("fft_odd", 0.755, 0.015, 0.228),
        ("choice_batch", 0.535, 0.041, 0.406),
        ("ok_vae", 0.008, 0.641, 0.343),
    ],
)
def test_what_bounds_the_time_of_compiled_ops(name: str, neither: float, compute: float, memory: float) -> None:
    """A depthwise convolution, an FFT of a prime length and a sort run far below both roofs; a
    healthy model does not. The arithmetic of nearly all calls is known.
    """
    (ops,) = (t for t in opened(f"jax_h100_{name}").page("hlo_stats").tables() if t.name == "hlo_ops")
    whole, by_bound = float(ops["self_ps"].sum()), dict[str, float]()
    for row in ops.records():
        by_bound[row["bound"]] = by_bound.get(row["bound"], 0.0) + row["self_ps"] / whole
    assert by_bound["neither"] == pytest.approx(neither, abs=0.005)
    assert by_bound["compute"] == pytest.approx(compute, abs=0.005)
    assert by_bound["memory"] + by_bound.get("cache", 0.0) == pytest.approx(memory, abs=0.005)
    assert by_bound.get("unknown", 0.0) < 0.03
    assert all(0 <= row["above_ps"] <= row["self_ps"] for row in ops.records())


@pytest.mark.parametrize(
    ("name", "line", "words", "above"),
    [
        ("dwconv1d", "dwconv1d.py:27", ("depthwise convolution", "1,024 groups", "shifted multiply-adds"), 6.58),
        ("fft_odd", "fft_odd.py:16", ("FFT of 8,191", "prime", "Pad the FFT to 8,192"), 12.8),
        ("choice_batch", "choice_batch.py:38", ("random order of 16,000,000", "4,096 are used", "jax.random.randint"), 1.61),
    ],
)
def test_the_first_finding_is_the_op_far_above_its_roof(name: str, line: str, words: tuple[str, ...], above: float) -> None:
    """It saves at most its time above the roof, ms."""
    profile = opened(f"jax_h100_{name}")
    first = profile.report().findings[0]
    assert first.location == line and all(word in f"{first.sentence} {first.action}" for word in words)
    assert first.saving is not None
    assert f"{above:.3g} ms per step more than the device needs" in first.sentence


def test_a_healthy_model_is_promised_nothing() -> None:
    findings = opened("jax_h100_ok_vae").report().findings
    assert not [f for f in findings if f.saving is not None and f.saving.high > 0.05]


@pytest.mark.parametrize(
    ("name", "tera", "share"),
    [("ok_vae", 486.5, 0.453), ("dwconv1d", 100.6, 0.094), ("choice_batch", 75.0, 0.070), ("fft_odd", 21.3, 0.020)],
)
def test_model_flops_utilization(name: str, tera: float, share: float) -> None:
    """Of fft_odd by hand 432.7 GFLOP a step: three layers of products of 32,768 examples, 512 to
    1,024 and 512 to 512, forward and two backward, less the first layer's input gradient, and a
    head of 32.
    """
    use = flops_utilization(opened(f"jax_h100_{name}").run)
    assert use is not None and not use.is_lower_limit and use.hfu == use.mfu
    assert use.flops_per_s / 1e12 == pytest.approx(tera, rel=0.012)
    assert use.clock_mfu == pytest.approx(share, abs=0.002)
    assert use.mfu == pytest.approx(use.clock_mfu * 1070.5 / 989.4, rel=0.001)


@pytest.mark.parametrize(("name", "busy"), [("ok_vae", 0.990), ("dwconv1d", 0.829), ("columns", 0.05)])
def test_duty_cycle(name: str, busy: float) -> None:
    """As the gaps between kernels have it, within the steps' share of the capture."""
    assert duty_cycle(opened(f"jax_h100_{name}").run) == pytest.approx(busy, abs=0.01)


def test_arrays_that_are_copied_one_by_one() -> None:
    """301 arrays of 16 KiB a step; some copies begin before the first whole step."""
    first = opened("jax_h100_columns").report().findings[0]
    assert first.location == "columns.py:55"
    assert "arrays of 16.0 KiB, one by one" in first.sentence and first.action.startswith(
        "Pack arguments into one array per type"
    )


@pytest.mark.parametrize("name", ["dwconv1d", "fft_odd", "choice_batch", "ok_vae", "columns", "sample_often"])
def test_op_profiles_sum_up_to_the_ops(name: str) -> None:
    """Each node has the sums of those below it, and its top ones those of all ops."""
    tables = {table.name: table for table in opened(f"jax_h100_{name}").page("hlo_stats").tables()}
    ops = tables["hlo_ops"]
    for tree in (tables["op_profile"], tables["op_profile_lines"], tables.get("op_profile_scopes", tables["op_profile"])):
        below: dict[int, list[dict[str, float]]] = {}
        for row in tree.records():
            if not row["aside"]:
                below.setdefault(row["parent"], []).append(row)
        for column in ("self_ps", "above_ps", "occurrences"):
            assert sum(row[column] for row in below[0]) == pytest.approx(float(ops[column].sum()))
            for row in tree.records():
                inner = below.get(row["id"], [row])
                assert row["aside"] or sum(child[column] for child in inner) == pytest.approx(row[column])


@pytest.mark.parametrize("name", ["dwconv1d", "fft_odd", "choice_batch", "ok_vae", "columns", "sample_often"])
def test_no_op_lies_above_its_roof_but_from_a_cache(name: str) -> None:
    """The ridge of bfloat16 lies at 319 operations per byte."""
    tables = {table.name: table for table in opened(f"jax_h100_{name}").page("hlo_stats").tables()}
    roofs = {row["roof"]: row for row in tables["roofline"].records() if row["roof"]}
    assert any("16 bits: 1,071 TFLOP/s, ridge at 319 FLOP/byte" in roof for roof in roofs)
    peak = max(row["flops_per_s"] for row in roofs.values())
    bandwidth = min(
        row["flops_per_s"] / row["intensity"] for row in tables["roofline"].records() if row["roof"] and row["intensity"] < 1
    )
    for row in tables["roofline"].records():
        if not row["roof"] and row["bound"] != "cache":
            assert row["flops_per_s"] <= 1.05 * min(peak, row["intensity"] * bandwidth)


@pytest.mark.parametrize(
    ("name", "inside", "before", "tera"),
    [("dwconv1d", 0.160, 1.85, 99.7), ("ok_vae", 0.654, 0.003, 487.0), ("choice_batch", 0.079, 0.004, 77.8)],
)
def test_idle_time_around_a_program(name: str, inside: float, before: float, tera: float) -> None:
    """Equinox waits for each step of dwconv1d, so that the device is idle before the next one:
    17.1% of its time, by the gaps between its kernels.
    """
    page = opened(f"jax_h100_{name}").page("hlo_stats")
    program = next(next(table for table in page.tables() if table.name == "programs").records())
    assert program["inside_ps"] / 1e9 == pytest.approx(inside, rel=0.02)
    assert program["before_ps"] / 1e9 == pytest.approx(before, rel=0.2)
    assert program["wall_flops_per_s"] / 1e12 == pytest.approx(tera, rel=0.01)


@pytest.mark.parametrize(
    ("name", "graphs", "updated"), [("dwconv1d", 8, 1.0), ("ok_vae", 1, 0.01), ("choice_batch", 2, 0.85), ("fft_odd", 7, 0.57)]
)
def test_graphs_of_a_program(name: str, graphs: int, updated: float) -> None:
    """dwconv1d's twelve calls of cuDNN cut its program into eight; the arguments are not donated,
    so that each is patched in every step: 1.1 ms of the host's time.
    """
    tables = {table.name: table for table in opened(f"jax_h100_{name}").page("hlo_stats").tables()}
    rows = list(tables["graphs"].records())
    assert len(rows) == graphs
    assert sum(row["patched"] for row in rows) / graphs == pytest.approx(updated, abs=0.05)
    assert all(bool(row["reason"]) is (row["patched"] > 0) and row["update_ps"] <= row["host_ps"] for row in rows)
    if name == "dwconv1d":
        assert sum(row["update_ps"] for row in rows) / 1e9 == pytest.approx(1.12, rel=0.05)
        assert [row["kernels"] for row in rows] == pytest.approx([23, 24, 13, 13, 13, 7, 7, 7])
