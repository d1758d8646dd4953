"""What the devices of a run can do: advice that is in force, or impossible there, is struck."""

from __future__ import annotations

import pytest

from outpace.metrics.facts.device_specs import DeviceSpecs, device_specs
from outpace.model.space_builder import StatValue
from outpace.testing import Dialect, GpuBuilder, SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import opened

US = 1_000_000


def facts(*devices: dict[str, StatValue], threads: tuple[str, ...] = ()) -> DeviceSpecs:
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    host = plane.line("python")
    host.event("train", 0, 100 * US, step_num=0, _r=1)
    for thread in threads:
        plane.line(thread).event("work", 0, US)
    for index, stats in enumerate(devices):
        GpuBuilder(space, host, index=index, dialect=Dialect.CUDA, **stats).kernel("gemm", 10 * US, 5 * US)
    return device_specs(Run.from_traces([read_trace(space.to_bytes(), "vm")]))


def cuda(major: int, minor: int = 0) -> dict[str, StatValue]:
    return {"compute_cap_major": major, "compute_cap_minor": minor, "device_vendor": "Nvidia"}


@pytest.mark.parametrize(
    ("stats", "tensor_cores", "bfloat16"),
    [
        (cuda(6, 1), False, False),
        (cuda(7, 0), True, False),
        (cuda(7, 5), True, False),
        (cuda(8), True, True),
        (cuda(9), True, True),
    ],
)
def test_sixteen_bits_by_compute_capability(stats: dict[str, StatValue], tensor_cores: bool, bfloat16: bool) -> None:
    found = facts(stats)
    assert (found.has_tensor_cores, found.has_bfloat16) == (tensor_cores, bfloat16)
    assert found.compute_capability == pytest.approx(stats["compute_cap_major"] + stats["compute_cap_minor"] / 10)  # type: ignore[operator]


def test_of_several_the_weakest_decides() -> None:
    assert facts(cuda(9), cuda(7, 5)).compute_capability == 7.5
    assert facts(cuda(9), cuda(7, 5)).names == ("/device:GPU:0", "/device:GPU:1")


@pytest.mark.parametrize("stats", [{}, {"compute_cap_major": 0}, {"compute_cap_major": 9, "device_vendor": "AMD"}])
def test_what_does_not_say_is_taken_for_todays(stats: dict[str, StatValue]) -> None:
    found = facts(stats)
    assert found.compute_capability is None
    assert found.has_tensor_cores and found.has_bfloat16


def test_the_thread_mode_shows_in_the_threads_names() -> None:
    assert facts(cuda(8), threads=("tf_gpu_private/0",)).has_private_threads
    assert not facts(cuda(8), threads=("tf_Compute/1",)).has_private_threads
    assert not facts(cuda(8), threads=("tf_gpu_shared/0",)).has_private_threads


def test_tensorflows_threads_beside_a_gpu() -> None:
    assert facts(cuda(8), threads=("tf_Compute/1",)).has_tensorflow_gpu
    assert not facts(cuda(8)).has_tensorflow_gpu, "JAX has no such threads"
    assert not facts(threads=("tf_Compute/1",)).has_tensorflow_gpu, "no GPU"


def test_real_devices() -> None:
    bert = device_specs(opened("tf_gpu_v100_bert").run)
    assert bert.has_private_threads and bert.has_tensorflow_gpu and bert.has_tensor_cores and not bert.has_bfloat16
    rocm = device_specs(opened("jax_rocm_gemm").run)
    assert rocm.compute_capability is None and rocm.has_tensor_cores and not rocm.has_tensorflow_gpu
    assert device_specs(Run.from_traces([read_trace(training_run().to_bytes())])).names == ()
