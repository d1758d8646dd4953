"""Kernels, launches and copies of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outpace.metrics.facts.device_specs import DeviceSpecs
from outpace.metrics.facts.workload import Workload
from outpace.model import Severity
from outpace.tools.kernel_stats import findings as rules
from outpace.tools.kernel_stats.idle_gaps import NO_ACTIVITY
from outpace.tools.kernel_stats.schema import COPIES, DEVICES, KERNELS
from tests.advice_cases.build import MS, table
from tests.advice_cases.case import JAX, TENSORFLOW, Case, Find, about, fires, silent, worded

_GPU = "/device:GPU:0"
_US = 1_000_000
H100 = DeviceSpecs((_GPU,), 9.0, False, True)
V100 = DeviceSpecs((_GPU,), 7.0, False, True)
P100 = DeviceSpecs((_GPU,), 6.0, False, True)


def _find(
    kernel: Mapping[str, Any] | None = None,
    device: Mapping[str, Any] | None = None,
    copy: Mapping[str, Any] | None = None,
    program: Workload = TENSORFLOW,
    facts: DeviceSpecs = H100,
    jitted: bool = False,
) -> Find:
    """A GPU that is in order, but for what is said of it."""
    kernels = table(
        "kernels", KERNELS, *([{"kernel": "gemm", "op": "dense/MatMul", "device": _GPU, **kernel}] if kernel else [])
    )
    row = {
        "device": _GPU,
        "kernels": 1000,
        "mean_kernel_ps": 100 * _US,
        "span_ps": 100 * MS,
        "idle_ps": 60 * MS,
        "idle_fraction": 0.6,
        "judged_ps": 100 * MS,
        "waits": "$api.py:3154 block_until_ready",
    }
    devices = table("devices", DEVICES, {**row, **(device or {})})
    copies = table("copies", COPIES, *([{"device": _GPU, "kind": "HToD", **copy}] if copy else []))
    return lambda: rules.iter_findings(kernels, devices, copies, program, facts, (0.6, 0.2), jitted)


def _eligible(share: float, **more: Any) -> Find:
    return _find({"eligible": True, "kernel_fraction": share, "total_ps": MS, "occupancy": 0.9}, **more)


def _late(share: float, part: float = 0.6, did: str = "callback", own: bool = False, line: str = "") -> Find:
    """The host is late for a share of the steps, for `part` of it in what it did."""
    late = round(share * 100 * MS)
    times = {"by_launching_ps": late, "late_ps": late, "late_in_ps": round(part * late)}
    return _find(device={**times, "late_in": did, "late_own": own, "late_line": line})


def _waits(share: float, program: Workload = TENSORFLOW) -> Find:
    waited = round(share * 100 * MS)
    return _find(device={"by_waiting_ps": waited, "waited_ps": waited}, program=program)


def _small(mean: float, count: int, program: Workload = TENSORFLOW, jitted: bool = False) -> Find:
    return _find(device={"mean_kernel_ps": mean * _US, "kernels": count}, program=program, jitted=jitted)


def _resident(occupancy: float, share: float, program: Workload = TENSORFLOW, tensor: bool = False) -> Find:
    row = {"occupancy": occupancy, "kernel_fraction": share, "tensor_cores": tensor, "occupancy_source": "computed"}
    return _find(row, program=program)


def _copied(share: float, program: Workload = TENSORFLOW, source: str = "pageable") -> Find:
    copy = {"source": source, "destination": "device", "total_ps": round(share * 100 * MS), "bandwidth": 1e9}
    return _find(copy=copy, program=program)


_LAUNCH = ("host_compute", "kernel_launch", "all_others")
CASES: list[Case] = [
    *worded(
        "tensor_cores_unused",
        lambda program: _eligible(0.45, program=program)(),
        Severity.HIGH,
        keras="mixed_bfloat16",
        tensorflow="tf.cast",
        jax="jnp.bfloat16",
        saves=about(0.48),  # of 80% of the step that compute, 45% to nothing, what else of it is in 32 bits by half
        takes_from=("device_compute_32",),
    ),
    fires("tensor_cores_unused", "15% of the kernels", _eligible(0.15), Severity.MODERATE, saves=about(0.36), says=("15%",)),
    fires(
        "tensor_cores_unused",
        "on a V100",
        _eligible(0.2, facts=V100),
        Severity.MODERATE,
        saves=about(0.38),
        says=("float16",),
        never=("bfloat16",),
    ),
    fires("tensor_cores_unused", "there are none", _eligible(0.45, facts=P100), Severity.HIGH, saves=about(0.48), struck=True),
    silent("tensor_cores_unused", "7% of the kernels", _eligible(0.07)),
    fires(
        "late_launches",
        "30% of the time",
        _late(0.3),
        Severity.MODERATE,
        saves=about(0.3),
        takes_from=_LAUNCH,
        says=("callback",),
    ),
    fires(
        "late_launches",
        "a part of it in something",
        _late(0.3, 0.4, own=True),
        Severity.MODERATE,
        saves=about(0.3),
        takes_from=_LAUNCH,
        never=("callback",),
    ),
    fires(
        "late_launches",
        "in Python",
        _late(0.3, did=NO_ACTIVITY),
        Severity.MODERATE,
        saves=about(0.3),
        takes_from=_LAUNCH,
        says=("in Python", "60%"),
    ),
    fires(
        "late_launches",
        "in what the program names",
        _late(0.3, did="augment", own=True),
        Severity.MODERATE,
        saves=about(0.3),
        takes_from=_LAUNCH,
        says=("Do augment ahead, for the next step, in another thread",),
    ),
    fires(
        "late_launches",
        "at a line of the program",
        _late(0.3, line="train.py:12"),
        Severity.MODERATE,
        location="train.py:12",
        saves=about(0.3),
        takes_from=_LAUNCH,
        says=("late, mostly at train.py:12",),
    ),
    fires("late_launches", "half of the time", _late(0.5), Severity.HIGH, saves=about(0.5), takes_from=_LAUNCH),
    silent("late_launches", "15% of the time", _late(0.15)),
    silent("late_launches", "the host only waits", _waits(0.5)),
    silent("waits_for_device", "the host is only late", _late(0.5)),
    *worded(
        "waits_for_device",
        lambda program: _waits(0.5, program)(),
        Severity.HIGH,
        saves=about(0.5),
        takes_from=_LAUNCH,
        keras="steps_per_execution",
        tensorflow=".numpy()",
        jax="drop block_until_ready()",
        strange=False,
    ),
    fires(
        "waits_for_device",
        "15% of the time",
        _waits(0.15),
        Severity.MODERATE,
        saves=about(0.15),
        says=("in block_until_ready.",),
    ),
    fires("waits_for_device", "25% of the time", _waits(0.25), Severity.MODERATE, saves=about(0.25)),
    silent("waits_for_device", "7% of the time", _waits(0.07)),
    *worded(
        "tiny_kernels",
        lambda program: _small(7, 1000, program)(),
        Severity.POTENTIAL,
        keras="compile(jit_compile=True)",
        tensorflow="@tf.function(jit_compile=True)",
        jax="jax.jit",
    ),
    fires("tiny_kernels", "150 kernels", _small(3, 150), Severity.POTENTIAL),
    fires(
        "tiny_kernels",
        "of one program",
        _small(3, 150, JAX, True),
        Severity.POTENTIAL,
        says=("batch size",),
        never=("jax.jit",),
    ),
    silent("tiny_kernels", "of 15 us", _small(15, 1000)),
    silent("tiny_kernels", "70 kernels", _small(3, 70)),
    *worded(
        "pageable_copies",
        lambda program: _copied(0.08, program)(),
        Severity.MODERATE,
        keras="Feed the model through tf.data",
        tensorflow="Feed the step through tf.data",
        jax="jax.device_put",
    ),
    silent("pageable_copies", "3% of the time", _copied(0.03)),
    silent("pageable_copies", "from pinned memory", _copied(0.3, source="pinned")),
    *worded(
        "low_occupancy",
        lambda program: _resident(0.2, 0.3, program)(),
        Severity.POTENTIAL,
        keras="for the framework's, jit_compile=True",
        tensorflow="for the framework's, jit_compile=True",
        jax="for the framework's, a larger batch",
    ),
    fires(
        "low_occupancy",
        "a kernel of 8%",
        _resident(0.2, 0.08),
        Severity.POTENTIAL,
        says=("One of the longest kernels (8% of the kernel time) has low occupancy",),
    ),
    silent("low_occupancy", "40% resident", _resident(0.4, 0.3)),
    silent("low_occupancy", "a kernel of 3%", _resident(0.2, 0.03)),
    silent("low_occupancy", "on tensor cores", _resident(0.2, 0.3, tensor=True)),
]
