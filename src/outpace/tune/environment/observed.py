"""What is known before a setting is tried: the machine, the user's environment, and the script's process as it is."""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.notes import granted_cpus, usable_cpus
from outpace.tune.knobs.knob import NotHere

_ALLOCATORS = ("tcmalloc_minimal", "tcmalloc", "jemalloc")


@dataclass(frozen=True)
class Observed:
    """What a process told of itself after its warm-up.

    variables: the environment's variables of TensorFlow, XLA, OpenMP and the loader, as the script left them. pool_threads: threads that
    TensorFlow started with its first use, those of the intra-op and inter-op pools (and of GPU pools); None where that was not seen.
    configured: thread counts that the script set itself, by pool, 0 for none. onednn: whether its kernels are on. gpus: in use. xla: whether
    something was compiled by XLA. allocators: file names of loaded memory allocators. xla_options: those that differ from XLA's defaults,
    only where the process was asked for them.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    pool_threads: int | None = None
    configured: Mapping[str, int] = field(default_factory=dict)
    onednn: bool | None = None
    gpus: int = 0
    xla: bool = False
    allocators: tuple[str, ...] = ()
    xla_options: tuple[str, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Observed:
        """From what a process sent."""
        lists = ("allocators", "xla_options")
        values: dict[str, Any] = {name: tuple(value) if name in lists else value for name, value in told.items()}
        return cls(**values)


@dataclass(frozen=True)
class Host:
    """The machine and the script as it is.

    cores: that this process may use at once; visible: that TensorFlow counts, which does not know of a container's quota. environment: the
    user's. observed: the script's process as it is. allocators: libraries that could be preloaded. wide_vectors: whether the processor has
    AVX-512.
    """

    cores: int
    visible: int
    environment: Mapping[str, str]
    observed: Observed
    allocators: tuple[str, ...] = ()
    wide_vectors: bool = False

    @classmethod
    def here(cls, observed: Observed) -> Host:
        """This machine, with what the script's process told."""
        visible = usable_cpus()
        libraries = (ctypes.util.find_library(name) for name in _ALLOCATORS)
        found = tuple(dict.fromkeys(library for library in libraries if library))
        return cls(
            granted_cpus(),
            visible,
            dict(os.environ),
            observed,
            found,
            " avx512f" in _read("/proc/cpuinfo"),
        )

    def taken(self, *names: str) -> NotHere | None:
        """The reason not to touch variables that the user's environment or the script sets; None where all are free."""
        for name in names:
            if name in self.environment:
                return NotHere(f"the environment sets {name}={self.environment[name]}, which is left as it is")
            if name in self.observed.variables:
                return NotHere(f"the script sets {name}={self.observed.variables[name]} itself, which is left as it is")
        return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
