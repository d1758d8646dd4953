# SPDX-License-Identifier: Apache-2.0
"""What the accelerators of a run can do, as far as the profile shows it: advice that is already
followed, or impossible on them, is dropped.
"""

from __future__ import annotations

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.timeline import Run
from outpace.trace import Plane, dialect

_TENSOR_CORES = 7.0  # NVIDIA's first compute capability with tensor cores for float16 (Volta)
_BFLOAT16 = 8.0  # NVIDIA's first compute capability with tensor cores for bfloat16 (Ampere)
_PRIVATE_THREAD = "tf_gpu_private"  # prefix of thread names under TF_GPU_THREAD_MODE=gpu_private


@dataclass(frozen=True)
class DeviceSpecs:
    """Properties of the devices of all hosts.

    names: names of the devices' planes
    compute_capability: lowest compute capability of an NVIDIA GPU; None without one, or if unknown
    has_private_threads: whether TF_GPU_THREAD_MODE is gpu_private
    has_tensorflow_gpu: whether TensorFlow runs on a GPU
    """

    names: tuple[str, ...]
    compute_capability: float | None
    has_private_threads: bool
    has_tensorflow_gpu: bool

    @property
    def has_tensor_cores(self) -> bool:
        """Whether 16 bits can be faster; devices of unknown capability are assumed to be current
        ones.
        """
        return self.compute_capability is None or self.compute_capability >= _TENSOR_CORES

    @property
    def has_bfloat16(self) -> bool:
        """Whether bfloat16 can be faster; devices of unknown capability are assumed to be current
        ones.
        """
        return self.compute_capability is None or self.compute_capability >= _BFLOAT16


@memoize
def device_specs(run: Run) -> DeviceSpecs:
    """Return the properties of the devices of all hosts together."""
    planes = [plane for timeline in run.hosts for plane in timeline.device_planes]
    capabilities = [capability for plane in planes if (capability := compute_capability(plane)) is not None]
    threads = [name for timeline in run.hosts for name in timeline.trace.lines.names]
    gpu = any(p.name.startswith(dialect.GPU_PREFIX) for p in planes)
    tensorflow = any(name.startswith(("tf_gpu", "tf_Compute", "tf_inter_op")) for name in threads)
    return DeviceSpecs(
        tuple(plane.name for plane in planes),
        min(capabilities, default=None),
        any(name.startswith(_PRIVATE_THREAD) for name in threads),
        gpu and tensorflow,
    )


def compute_capability(plane: Plane) -> float | None:
    """Return the compute capability of an NVIDIA GPU (7.5 for a T4); None where the plane has
    none.
    """
    major, minor = plane.stats.get(dialect.COMPUTE_CAP_MAJOR), plane.stats.get(dialect.COMPUTE_CAP_MINOR)
    if not isinstance(major, (int, float)) or not major or plane.stats.get(dialect.DEVICE_VENDOR) == "AMD":
        return None
    return float(major) + (float(minor) / 10 if isinstance(minor, (int, float)) else 0.0)
