"""What the accelerators of a run can do, as far as the profile says: advice that is in force, or
impossible there, is struck.
"""

from __future__ import annotations

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.timeline import Run
from outpace.trace import Plane, dialect

_TENSOR_CORES = 7.0  # NVIDIA's compute capability from which tensor cores compute in float16 (Volta)
_BFLOAT16 = 8.0  # ... and in bfloat16 (Ampere)
_OF_AN_SM = {  # by compute capability: dense 16-bit operations of a multiprocessor per clock (NVIDIA's white papers of each architecture)
    **dict.fromkeys((7.0, 7.5, 8.6, 8.9), 1024),
    8.0: 2048,
    9.0: 4096,
    10.0: 8192,
}
_PRIVATE = "tf_gpu_private"  # threads of TF_GPU_THREAD_MODE=gpu_private


@dataclass(frozen=True)
class DeviceSpecs:
    """`names`: the devices' planes; `compute_capability`: the lowest compute capability of an
    NVIDIA GPU (None: none, or not said).
    """

    names: tuple[str, ...]
    compute_capability: float | None
    has_private_threads: bool
    has_tensorflow_gpu: bool

    @property
    def has_tensor_cores(self) -> bool:
        """Whether 16 bits can be faster; devices that do not say are taken for today's."""
        return self.compute_capability is None or self.compute_capability >= _TENSOR_CORES

    @property
    def has_bfloat16(self) -> bool:
        """Whether bfloat16 can be faster; devices that do not say are taken for today's."""
        return self.compute_capability is None or self.compute_capability >= _BFLOAT16


@memoize
def device_specs(run: Run) -> DeviceSpecs:
    """The facts of all hosts together."""
    planes = [plane for timeline in run.hosts for plane in timeline.device_planes]
    known = [c for plane in planes if (c := compute_capability(plane)) is not None]
    threads = [name for timeline in run.hosts for name in timeline.trace.lines.names]
    gpu = any(p.name.startswith(dialect.GPU_PREFIX) for p in planes)
    tensorflow = any(name.startswith(("tf_gpu", "tf_Compute", "tf_inter_op")) for name in threads)
    return DeviceSpecs(
        tuple(plane.name for plane in planes),
        min(known, default=None),
        any(name.startswith(_PRIVATE) for name in threads),
        gpu and tensorflow,
    )


def compute_capability(plane: Plane) -> float | None:
    """Compute capability of an NVIDIA GPU (7.5 for a T4); None where the plane does not say."""
    major, minor = plane.stats.get(dialect.COMPUTE_CAP_MAJOR), plane.stats.get(dialect.COMPUTE_CAP_MINOR)
    if not isinstance(major, (int, float)) or not major or plane.stats.get(dialect.DEVICE_VENDOR) == "AMD":
        return None
    return float(major) + (float(minor) / 10 if isinstance(minor, (int, float)) else 0.0)


def memory_bandwidth(plane: Plane) -> float:
    """Bytes per second that a device's memory can move; 0 where its plane does not say."""
    return _number(plane, dialect.MEMORY_BANDWIDTH) or 1e9 * _number(plane, dialect.PEAK_MEMORY)


def peak_flops(plane: Plane) -> float:
    """Floating-point operations per second that a device can do in 16 bits; 0 where its plane does
    not say. Of an NVIDIA GPU those of its tensor cores at the highest clock.
    """
    known = 1e12 * _number(plane, dialect.PEAK_TERAFLOPS)
    of_sm = _OF_AN_SM.get(compute_capability(plane) or 0.0, 0)
    return known or of_sm * _number(plane, dialect.CORE_COUNT) * 1e3 * _number(plane, dialect.CLOCK_RATE)


def _number(plane: Plane, stat: str) -> float:
    value = plane.stats.get(stat)
    return float(value) if isinstance(value, (int, float)) else 0.0
