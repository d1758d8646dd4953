# SPDX-License-Identifier: Apache-2.0
"""Findings from the kernel tables: unused tensor cores, idle devices, tiny kernels, low occupancy,
and copies of pageable memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from outpace.metrics.facts.device_specs import DeviceSpecs
from outpace.metrics.facts.workload import Workload
from outpace.metrics.kernel_names import short_kernel_name
from outpace.metrics.savings.bounds import tensor_core_bound
from outpace.metrics.savings.budget import build_saving
from outpace.model import Category, Certainty, Evidence, Finding, Severity, Table, Threshold, Unit
from outpace.model.text import format_largest_part
from outpace.tools.kernel_stats.idle_gaps import NO_ACTIVITY

_OURS = "our choice"
_NO_TENSOR_CORES = Threshold("eligible without tensor cores", 0.10, Unit.FRACTION, _OURS)
_LATE_LAUNCHES = Threshold("device waits for launches", 0.20, Unit.FRACTION, _OURS)
_WAITING = Threshold("device waits for a host that waits for it", 0.10, Unit.FRACTION, _OURS)
_LAUNCHING = (Category.HOST_COMPUTE, Category.KERNEL_LAUNCH, Category.ALL_OTHERS)
_TINY = Threshold("tiny kernels", 10e6, Unit.PS, "our choice: two to three times what a launch costs")
_TF32 = "tf32"  # part of the names of kernels that compute in TF32
# Share of the time in which the host was late, from which one activity counts as its cause.
_MOST_OF_LATE = 0.5
_TINY_COUNT = 100  # minimum number of kernels of a device that is judged
_LOW_OCCUPANCY = Threshold("low occupancy", 0.25, Unit.FRACTION, _OURS)
_TOP_KERNEL = 0.05  # minimum share of all kernel time for a kernel to be judged
_PAGEABLE = Threshold("pageable copies", 0.05, Unit.FRACTION, _OURS)


def iter_findings(
    kernels: Table,
    devices: Table,
    copies: Table,
    program: Workload,
    device_facts: DeviceSpecs,
    precision_shares: tuple[float, float] = (0.0, 0.0),
    single_program: bool = False,
) -> Iterator[Finding]:
    """Yield all findings of the page; of a host's devices, each finding is about the worst one.

    device_facts: properties of the device, such as its support for bfloat16
    precision_shares: shares of the step in which devices compute in 32 bits and in 16 bits
    single_program: whether one JAX program does all of a step's work on the devices
    """
    yield from _tensor_cores(kernels, program, device_facts, precision_shares)
    for host in dict.fromkeys(devices["host"]):
        here = [r for r in devices.filter_by("host", host).records() if r["span_ps"]]
        yield from _waiting(here, program)
        yield from _late_launches(here)
        yield from _tiny(here, program, single_program)
        yield from _pageable(here, list(copies.filter_by("host", host).records()), program)
    yield from _occupancy(kernels, program)


def _worst(rows: list[dict[str, Any]], share: Callable[[dict[str, Any]], float]) -> tuple[dict[str, Any], str] | None:
    """Return (row with the largest share, its device as the start of a sentence); None where no
    share is above 0.
    """
    bad = [r for r in rows if share(r) > 0]
    if not bad:
        return None
    worst = max(bad, key=share)
    return worst, worst["device"] + (f" (worst of {len(rows)} devices)" if len(rows) > 1 else "")


def _share(device: dict[str, Any], column: str) -> float:
    """Return a column in ps as a share of the device's time in steady steps."""
    return float(device[column] / device["judged_ps"]) if device["judged_ps"] else 0.0


def _tensor_cores(kernels: Table, program: Workload, facts: DeviceSpecs, bits: tuple[float, float]) -> Iterator[Finding]:
    """Yield a finding about ops that could use tensor cores but do not.

    An op counts only if none of its kernels uses tensor cores: kernels that rearrange data for one
    that does are not at fault. Where tensor cores compute in 16 bits only, and no kernel uses them,
    the inference from kernel names is reliable, and the finding is likely instead of possible.

    bits: shares of the step in which devices compute in 32 bits and in 16 bits
    """
    rows = list(kernels.records())
    served = {r["op"] for r in rows if r["tensor_cores"]}
    left = [r for r in rows if r["eligible"] and r["op"] not in served]
    share = sum(r["kernel_fraction"] for r in left)
    if not left or share < _NO_TENSOR_CORES.value:
        return
    top, kind = left[0], "bfloat16" if facts.has_bfloat16 else "float16"
    tf32 = "" if any(_TF32 in r["kernel"] for r in rows) else ", or allow TF32 (jax.default_matmul_precision('tensorfloat32'))"
    yield Finding(
        id="tensor_cores_unused",
        severity=Severity.HIGH if share >= 3 * _NO_TENSOR_CORES.value else Severity.MODERATE,
        sentence=f"{share:.0%} of the kernel time is in ops that could use tensor cores but do not, "
        f"{format_largest_part(top['op'], top['kernel_fraction'], share)}.",
        action=program.select_text(
            keras=f"Train in 16 bits (keras.mixed_precision.set_global_policy('mixed_{kind}')). Make batch size and layer widths "
            "multiples of 8.",
            tensorflow=f"Compute in {kind} (tf.cast, with variables in float32). Make batch size and layer widths multiples of 8.",
            jax=f"Compute in jnp.{kind}, with parameters in float32{tf32}. Make batch size and layer widths multiples of 8.",
        ),
        evidence=(
            Evidence("share of kernel time in eligible ops without tensor cores", share, Unit.FRACTION, "kernels"),
            Evidence(
                f"time of the longest such kernel ({short_kernel_name(top['kernel'])})", top["total_ps"], Unit.PS, "kernels"
            ),
        ),
        threshold=_NO_TENSOR_CORES,
        saving=build_saving(
            tensor_core_bound(*bits, share),
            Category.DEVICE_COMPUTE_32,
            assumes="if these ops took no time on tensor cores, and all else in 32 bits half",
        ),
        counter_evidence=(
            "Use of tensor cores is inferred from kernel names; an unknown name counts as a kernel without them.",
        ),
        explains=("low_16_bit_share",),
        certainty=Certainty.POSSIBLE if facts.has_bfloat16 or served else Certainty.LIKELY,
        struck="" if facts.has_tensor_cores else "this GPU has no tensor cores",
    )


def _waiting(devices: list[dict[str, Any]], program: Workload) -> Iterator[Finding]:
    """Yield a finding about a device that was idle because the host waited for its results."""
    worst = _worst(devices, lambda r: _share(r, "by_waiting_ps"))
    if worst is None or (share := _share(worst[0], "by_waiting_ps")) < _WAITING.value:
        return
    device, who = worst
    waited, after = _share(device, "waited_ps"), _share(device, "after_ps")
    at = f" at {device['wait_line']}," * bool(device["wait_line"])
    yield Finding(
        id="waits_for_device",
        severity=Severity.HIGH if share >= 3 * _WAITING.value else Severity.MODERATE,
        sentence=f"{who} was idle for {waited + after:.0%} of the steps because the host waited for completion, and only then launched "
        f"more work: it was{at} mostly in {device['waits'].rpartition(' ')[2][:100]}.",
        action=program.select_text(
            keras="Let the host run ahead: read logs and losses in callbacks only every few batches, or run several batches per call "
            "(compile(steps_per_execution=...)).",
            tensorflow="Let the host run ahead: read results (.numpy(), float(loss), print) only every few steps.",
            jax="Let the host run ahead: drop block_until_ready() and float(loss) from the loop, or fetch results only every few steps.",
        ),
        evidence=(
            Evidence("idle while the host waited for completion", device["waited_ps"], Unit.PS, "devices"),
            Evidence("idle after such a wait, until the host had launched", device["after_ps"], Unit.PS, "devices"),
        ),
        threshold=_WAITING,
        saving=build_saving(share, *_LAUNCHING, assumes="if the host never waited, and its work ran while the device is busy"),
        explains=("python_overhead", "high_kernel_launch"),
        location=device["wait_line"],
        host=device["host"],
    )


def _late_launches(devices: list[dict[str, Any]]) -> Iterator[Finding]:
    """Yield a finding about a device that was idle because the host launched too late."""
    worst = _worst(devices, lambda r: _share(r, "by_launching_ps"))
    if worst is None or (share := _share(worst[0], "by_launching_ps")) < _LATE_LAUNCHES.value:
        return
    device, who = worst
    did, part = device["late_in"][:100], device["late_in_ps"] / device["late_ps"] if device["late_ps"] else 0.0
    meanwhile = "in Python, or in untraced work" if did == NO_ACTIVITY else f"in {did}"
    at = f", mostly at {device['late_line']}" * bool(device["late_line"])
    why = f"the host launched work too late{at}" + f": it was {meanwhile} for {part:.0%} of that time" * (part >= _MOST_OF_LATE)
    what = (
        "Shorten the host work between launches, or move it off the launching thread (the table of idle gaps says when it ran)."
    )
    if part >= _MOST_OF_LATE and device["late_own"]:
        what = f"Do {did} ahead, for the next step, in another thread while the device works, or make it cheaper."
    yield Finding(
        id="late_launches",
        severity=Severity.HIGH if share >= 2 * _LATE_LAUNCHES.value else Severity.MODERATE,
        sentence=f"{who} was idle for {share:.0%} of the steps because {why}.",
        action=f"{what} For input waits see the input pipeline page; for many short launches use fewer and larger kernels.",
        evidence=(
            Evidence("idle before the next launch began", device["by_launching_ps"], Unit.PS, "devices"),
            Evidence("idle as a share of the device's time", device["idle_fraction"], Unit.FRACTION, "devices"),
            Evidence("of it, while the host was in that", device["late_in_ps"], Unit.PS, "devices"),
        ),
        threshold=_LATE_LAUNCHES,
        saving=build_saving(share, *_LAUNCHING, assumes="if the device never waited for a launch"),
        explains=("python_overhead", "high_kernel_launch"),
        location=device["late_line"],
        host=device["host"],
    )


def _tiny(devices: list[dict[str, Any]], program: Workload, jitted: bool) -> Iterator[Finding]:
    """Yield a finding about many kernels that are as short as a launch.

    jitted: whether one JAX program does all of a step's work on the devices
    """
    many = [r for r in devices if r["kernels"] >= _TINY_COUNT]
    worst = _worst(many, lambda r: 1 / r["mean_kernel_ps"])
    if worst is None or worst[0]["mean_kernel_ps"] >= _TINY.value:
        return
    device, who = worst
    mean = device["mean_kernel_ps"]
    yield Finding(
        id="tiny_kernels",
        severity=Severity.POTENTIAL,
        sentence=f"{who} ran {device['kernels']:,} kernels of {mean / 1e6:.1f} µs on average; launching one takes the host about as long.",
        action=program.select_text(
            keras="Let XLA fuse the small kernels (compile(jit_compile=True)), or raise the batch size.",
            tensorflow="Let XLA fuse the small kernels (@tf.function(jit_compile=True)), or raise the batch size.",
            jax="Raise the batch size, so that each kernel does more."
            if jitted
            else "Put the whole step under one jax.jit, so that kernels fuse, or raise the batch size.",
        ),
        evidence=(
            Evidence("mean time of a kernel", mean, Unit.PS, "devices"),
            Evidence("kernels", device["kernels"], Unit.COUNT, "devices"),
        ),
        threshold=_TINY,
        host=device["host"],
    )


def _pageable(devices: list[dict[str, Any]], copies: list[dict[str, Any]], program: Workload) -> Iterator[Finding]:
    """Yield a finding about copies from or to pageable host memory."""
    slow = [r for r in copies if "pageable" in (r["source"], r["destination"])]
    times = {d["device"]: sum(r["total_ps"] for r in slow if r["device"] == d["device"]) for d in devices}
    worst = _worst(devices, lambda d: times[d["device"]] / d["span_ps"])
    if worst is None:
        return
    device, who = worst
    share = times[device["device"]] / device["span_ps"]
    if share < _PAGEABLE.value:
        return
    top = next(r for r in slow if r["device"] == device["device"])
    rate = (
        [Evidence(f"bandwidth of those of kind {top['kind']}", top["bandwidth"], Unit.BYTES_PER_S, "copies")]
        if top["bandwidth"]
        else []
    )
    yield Finding(
        id="pageable_copies",
        severity=Severity.MODERATE,
        sentence=f"{who} spends {share:.0%} of its time on copies from or to pageable host memory, which the driver copies twice.",
        action=program.select_text(
            keras="Feed the model through tf.data, in a pipeline that ends in prefetch, not from NumPy arrays: batches then arrive from pinned "
            "memory. Read results back less often.",
            tensorflow="Feed the step through tf.data, in a pipeline that ends in prefetch, not from NumPy arrays: batches then arrive from "
            "pinned memory. Read results back less often.",
            jax="Move the next batch ahead of time (jax.device_put in a thread, or a prefetching iterator), and fetch results less often.",
        ),
        evidence=(Evidence("time of copies with pageable memory", times[device["device"]], Unit.PS, "copies"), *rate),
        threshold=_PAGEABLE,
        host=device["host"],
    )


def _occupancy(kernels: Table, program: Workload) -> Iterator[Finding]:
    """Yield a finding about long kernels of low occupancy."""
    low = [
        r
        for r in kernels.records()
        if r["occupancy"] is not None and r["occupancy"] <= _LOW_OCCUPANCY.value and r["kernel_fraction"] >= _TOP_KERNEL
    ]
    # Kernels on tensor cores use few warps and many registers on purpose.
    low = [r for r in low if not r["tensor_cores"]]
    if not low:
        return
    top, share = low[0], sum(r["kernel_fraction"] for r in low)
    yield Finding(
        id="low_occupancy",
        severity=Severity.POTENTIAL,
        sentence=f"{'One' if len(low) == 1 else len(low)} of the longest kernels ({share:.0%} of the kernel time) "
        f"{'has' if len(low) == 1 else 'have'} low occupancy: {short_kernel_name(top['kernel'])} {top['occupancy']:.0%}.",
        action="Raise the occupancy: for kernels of your own, fewer registers or less shared memory per block, or another block size; for "
        "the framework's, "
        + program.select_text(
            tensorflow="jit_compile=True, or a larger batch.",
            jax="a larger batch.",
        ),
        evidence=(
            Evidence(
                f"occupancy of {short_kernel_name(top['kernel'])} ({top['occupancy_source']})",
                top["occupancy"],
                Unit.FRACTION,
                "kernels",
            ),
            Evidence("share of kernel time in such kernels", share, Unit.FRACTION, "kernels"),
        ),
        threshold=_LOW_OCCUPANCY,
        counter_evidence=("Occupancy is how many warps could be resident; a kernel can be fast with few of them.",),
    )
