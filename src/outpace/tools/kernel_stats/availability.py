# SPDX-License-Identifier: Apache-2.0
"""What a profile needs for the page about GPU kernels."""

from __future__ import annotations

from outpace.model import Unavailable
from outpace.timeline import Run
from outpace.tools.kernel_stats.device import find_devices

_NO_DEVICE = Unavailable(
    "the profile holds no events of a GPU",
    "Train on a GPU that TensorFlow lists (tf.config.list_physical_devices('GPU')) or JAX (jax.devices()), and capture again. If it was "
    "there, the profiler could not reach CUPTI: put libcupti on the library path, or allow it (NVreg_RestrictProfilingToAdminUsers=0).",
)
_NO_KERNEL = Unavailable(
    "the profile has device events, but none of them is a GPU kernel",
    "For a TPU the op statistics say where its time goes. On a GPU, capture while training runs, with device tracing on "
    "(device_tracer_level=1, the default).",
)


def find_obstacle(run: Run) -> Unavailable | None:
    """Return why there is no page about a run; None where there is one."""
    if any(len(device.kernel_rows) for timeline in run.hosts for device in find_devices(timeline)):
        return None
    return _NO_KERNEL if run.has_device else _NO_DEVICE
