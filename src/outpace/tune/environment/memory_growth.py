"""Memory growth: explained, because it is about sharing a GPU."""

from __future__ import annotations

from outpace.tune.environment.advice import Explained
from outpace.tune.environment.observed import Host


def _why(host: Host) -> str:
    if not host.observed.gpus:
        return "the script uses no GPU"
    return (
        "it lets a program take the GPU's memory bit by bit, so that several programs can share it; it makes none faster. "
        "Set TF_FORCE_GPU_ALLOW_GROWTH=true where others use the GPU too"
    )


KNOB = Explained(
    "memory_growth", "Memory growth", "Let the GPU's memory grow with need where several programs share it.", 70, _why
)
