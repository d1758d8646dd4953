"""L2 fetch granularity: explained, because no variable sets it."""

from __future__ import annotations

from outpace.tune.environment.advice import Explained
from outpace.tune.environment.observed import Host

_LIMIT = 5  # cudaLimitMaxL2FetchGranularity of the CUDA runtime
_BYTES = 128


def _why(host: Host) -> str:
    if not host.observed.gpus:
        return "the script uses no GPU"
    return (
        "no variable sets it, only a call in the program before its first step, which a trial of the environment cannot make: "
        f"ctypes.CDLL('libcudart.so').cudaDeviceSetLimit({_LIMIT}, {_BYTES}). Race the script with and without it (outpace race)"
    )


KNOB = Explained("l2_fetch", "L2 fetch granularity", f"Let a GPU's second-level cache fetch {_BYTES} bytes at once.", 80, _why)
