# SPDX-License-Identifier: Apache-2.0
"""Settings that must be there before TensorFlow starts: what is known of the machine and of the
script's process before one is tried, and each setting. They are tried in processes of their own.
"""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from outpace._dataclass import dataclass
from outpace.capture.record import affinity_cpus, available_cpus
from outpace.model.units import format_count
from outpace.tune.optimisations.optimisation import Answer, Applies, Explained, NotApplicable, Optimisation
from outpace.tune.risk import Risk

_L2_LIMIT, _L2_BYTES = 5, 128  # cudaLimitMaxL2FetchGranularity of the CUDA runtime
_ALLOCATORS = ("tcmalloc_minimal", "tcmalloc", "jemalloc")


@dataclass(frozen=True)
class Observed:
    """What a process told of itself after its warm-up.

    variables: the environment's variables of TensorFlow, XLA, OpenMP and the loader, as the script
    left them. pool_threads: threads that TensorFlow started with its first use, those of the
    intra-op and inter-op pools (and of GPU pools); None where that was not seen. configured: thread
    counts that the script set itself, by pool, 0 for none. onednn: whether its kernels are on.
    gpus: in use. xla: whether something was compiled by XLA. allocators: file names of loaded
    memory allocators. xla_options: those that differ from XLA's defaults, only where the process
    was asked for them.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    pool_threads: int | None = None
    configured: Mapping[str, int] = field(default_factory=dict)
    onednn: bool | None = None
    gpus: int = 0
    xla: bool = False
    allocators: tuple[str, ...] = ()
    xla_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Host:
    """The machine and the script as it is.

    cores: that this process may use at once; visible: that TensorFlow counts, which does not know
    of a container's quota. environment: the user's. observed: the script's process as it is.
    allocators: libraries that could be preloaded. wide_vectors: whether the processor has AVX-512.
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
        visible = affinity_cpus()
        libraries = (ctypes.util.find_library(name) for name in _ALLOCATORS)
        found = tuple(dict.fromkeys(library for library in libraries if library))
        return cls(
            available_cpus(),
            visible,
            dict(os.environ),
            observed,
            found,
            " avx512f" in _read("/proc/cpuinfo"),
        )

    def taken(self, *names: str) -> NotApplicable | None:
        """The reason not to touch variables that the user's environment or the script sets; None
        where all are free.
        """
        for name in names:
            if name in self.environment:
                return NotApplicable(f"the environment sets {name}={self.environment[name]}, which is left as it is")
            if name in self.observed.variables:
                return NotApplicable(f"the script sets {name}={self.observed.variables[name]} itself, which is left as it is")
        return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


@dataclass(frozen=True)
class Setting:
    """One value of a knob: the variables to set. `noting`: further ones for the trial's process
    alone, given an empty folder, that make the process note down evidence there.
    """

    title: str
    variables: Mapping[str, str]
    noting: Callable[[str], Mapping[str, str]] | None = None


class EnvironmentKnob(Optimisation[Host], Protocol):
    """One practice that must be set before TensorFlow starts. What the user or the script sets is
    never overridden.
    """

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """The values to try, where it applies; none of what is only explained."""
        return ()

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """Evidence, from what the setting's process told, that it took effect; None where there is
        none.
        """
        return None


def _more_threads(seen: Observed, host: Host) -> int | None:
    """Threads of pools that a process started, beside those of the script as it is; None where they
    were not seen.
    """
    now, before = seen.pool_threads, host.observed.pool_threads
    return now - before if now is not None and before is not None else None


class PoolThreads(EnvironmentKnob):
    """The size of one of TensorFlow's pools on the host. TensorFlow's default is the number of
    cores that it sees.
    """

    def __init__(self, pool: str, variable: str, title: str, practice: str, order: int) -> None:
        self.id = f"{pool}_op_threads"
        self.title, self.practice, self.order = title, practice, order
        self._pool, self._variable = pool, variable

    def sizes(self, host: Host) -> tuple[int, ...]:
        """Sizes to try, the smallest first."""
        return (1,) if host.visible > 1 else ()

    def applies(self, host: Host, /) -> Answer:
        """Where TensorFlow chose the size itself."""
        taken = host.taken(self._variable)
        if taken is not None:
            return taken
        own = host.observed.configured.get(self._pool, 0)
        if own:
            return NotApplicable(
                f"the script sets {own} {self._pool}-op threads itself (tf.config.threading), which is left as it is"
            )
        if host.observed.pool_threads is None:
            return NotApplicable("the script's process did not show TensorFlow starting its threads")
        if not self.sizes(host):
            return NotApplicable("there is one core")
        return Applies(self._why(host), Risk.REORDERED)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """One per size."""
        return tuple(Setting(f"{self.title}: {size}", {self._variable: str(size)}) for size in self.sizes(host))

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The threads that TensorFlow started, against those of the script as it is."""
        if _more_threads(seen, host) != int(setting.variables[self._variable]) - host.visible:
            return None
        return f"TensorFlow started {seen.pool_threads} threads for its pools instead of {host.observed.pool_threads}"

    def _why(self, host: Host) -> str:
        return f"TensorFlow uses as many {self._pool}-op threads as it sees cores, {host.visible}"


class IntraOpThreads(PoolThreads):
    """Fewer threads per operation: small operations lose more by sharing their work than they gain,
    and the input needs cores too.
    """

    def __init__(self) -> None:
        practice = "Set the number of intra-op threads: an operation that is split too finely waits for its own threads."
        super().__init__("intra", "TF_NUM_INTRAOP_THREADS", "Intra-op threads", practice, 10)

    def sizes(self, host: Host) -> tuple[int, ...]:
        """One, half of the cores, and all of them where a container's quota gives fewer than
        TensorFlow sees.
        """
        wanted = {1, host.cores // 2, host.cores} - {0, host.visible}
        return tuple(sorted(wanted))

    def _why(self, host: Host) -> str:
        if host.cores < host.visible:
            return f"TensorFlow uses {host.visible} threads per operation, but this container may use {host.cores} cores"
        return f"TensorFlow splits each operation over {host.visible} threads, of which small operations gain nothing"


_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"


class OneDnn(EnvironmentKnob):
    """TensorFlow's own kernels where it has chosen those of oneDNN."""

    id = "onednn"
    title = "oneDNN off"
    practice = (
        "Let TensorFlow use oneDNN on CPUs (the default on x86); try it off, for small operations may run faster without."
    )
    order = 30

    def applies(self, host: Host, /) -> Answer:
        """Where oneDNN is on and the operations run on the CPU."""
        taken = host.taken(_ONEDNN)
        if taken is not None:
            return taken
        if not host.observed.onednn:
            return NotApplicable(
                "TensorFlow runs without oneDNN"
                if host.observed.onednn is False
                else "TensorFlow does not say whether oneDNN is on"
            )
        if host.observed.gpus:
            return NotApplicable("its kernels are for the CPU, and this model trains on a GPU")
        return Applies("TensorFlow runs with oneDNN, which is not always faster", Risk.REORDERED)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """Off."""
        return (Setting(self.title, {_ONEDNN: "0"}),)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """What TensorFlow's core says."""
        return "TensorFlow's core says that oneDNN is off" if seen.onednn is False and host.observed.onednn else None


_MODE, _COUNT = "TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT"


class GpuThreads(EnvironmentKnob):
    """A private pool per GPU, so that launching does not wait for the threads of the input
    pipeline.
    """

    id = "gpu_threads"
    title = "Private GPU threads"
    practice = (
        "Give each GPU threads of its own (TF_GPU_THREAD_MODE=gpu_private), so that launches do not wait for the input's work."
    )
    order = 40

    def applies(self, host: Host, /) -> Answer:
        """Where there is a GPU."""
        if not host.observed.gpus:
            return NotApplicable("the script uses no GPU")
        return host.taken(_MODE, _COUNT) or Applies(
            "kernels are launched from threads that the input pipeline uses too", Risk.EXACT
        )

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """One and two threads per GPU."""
        return tuple(Setting(f"{self.title}: {count}", {_MODE: "gpu_private", _COUNT: str(count)}) for count in (1, 2))

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The threads that TensorFlow started besides those of the script as it is."""
        wanted = int(setting.variables[_COUNT]) * host.observed.gpus
        if _more_threads(seen, host) != wanted:
            return None
        return f"TensorFlow started {format_count(wanted, 'more thread')}, {seen.pool_threads} instead of {host.observed.pool_threads}"


_FLAGS = "XLA_FLAGS"
_WIDE = ("512-bit vectors in XLA", "xla_cpu_prefer_vector_width", "512")
_HIDING = ("XLA's latency-hiding scheduler", "xla_gpu_enable_latency_hiding_scheduler", "true")


class XlaFlags(EnvironmentKnob):
    """Few flags on purpose: most of XLA's are defaults already, for debugging, or change the
    mathematics.
    """

    id = "xla_flags"
    title = "XLA flags"
    practice = "Set XLA's flags for the hardware: wide vectors on processors with AVX-512, communication hidden behind computation on GPUs."
    order = 50

    def applies(self, host: Host, /) -> Answer:
        """Where XLA compiles the step, and the hardware has what a flag is for."""
        taken = host.taken(_FLAGS)
        if taken is not None:
            return taken
        if not host.observed.xla:
            return NotApplicable("the script's step is not compiled by XLA")
        if host.observed.gpus > 1:
            return Applies(f"the step runs on {host.observed.gpus} GPUs, which wait for each other's results", Risk.REORDERED)
        if host.observed.gpus:
            return NotApplicable("with one GPU, XLA's defaults are the best known choice")
        if host.wide_vectors:
            return Applies("XLA uses vectors of 256 bits by default, and this processor has vectors of 512", Risk.REORDERED)
        return NotApplicable("this processor has no vectors of 512 bits, and XLA's other defaults are kept")

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """The one flag for this hardware."""
        title, flag, value = _HIDING if host.observed.gpus > 1 else _WIDE
        text = f"--{flag}={value}"

        def noting(folder: str) -> Mapping[str, str]:
            return {_FLAGS: f"{text} --xla_dump_to={folder}"}

        return (Setting(title, {_FLAGS: text}, noting),)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The options that XLA noted down beside what it compiled."""
        flag, value = setting.variables[_FLAGS].removeprefix("--").split("=")
        found = f"{flag}: {value}"
        return f"XLA compiled with {found}" if found in seen.xla_options else None


_PRELOAD = "LD_PRELOAD"


class Allocator(EnvironmentKnob):
    """tcmalloc or jemalloc in place of the C library's, where one is installed."""

    id = "allocator"
    title = "Memory allocator"
    practice = "Preload tcmalloc or jemalloc, which programs with many threads and short-lived buffers may run faster with."
    order = 60

    def applies(self, host: Host, /) -> Answer:
        """Where a library is found, and none is loaded."""
        if host.observed.allocators:
            return NotApplicable(f"the script's process runs with {', '.join(host.observed.allocators)} already")
        if not host.allocators:
            return NotApplicable("neither tcmalloc nor jemalloc is installed here (Debian: libtcmalloc-minimal4, libjemalloc2)")
        return host.taken(_PRELOAD) or Applies("TensorFlow on the host allocates with the C library's malloc", Risk.EXACT)

    def settings(self, host: Host) -> tuple[Setting, ...]:
        """One per library."""
        return tuple(Setting(f"{self.title}: {_stem(library)}", {_PRELOAD: library}) for library in host.allocators)

    def proof(self, setting: Setting, seen: Observed, host: Host) -> str | None:
        """The libraries that the process has loaded."""
        wanted = _stem(setting.variables[_PRELOAD])
        loaded = next((name for name in seen.allocators if _stem(name) == wanted), None)
        return f"{loaded} is loaded" if loaded else None


def _stem(library: str) -> str:
    """A library's name without folder and version: what is loaded carries a longer version than
    what was asked for.
    """
    return os.path.basename(library).split(".so")[0]


class ExplainedSetting(EnvironmentKnob):
    """A practice for GPUs that no variable can make, or that is not about speed: it is
    explained.
    """

    def __init__(self, name: str, title: str, practice: str, order: int, why: str) -> None:
        self.id, self.title, self.practice, self.order = name, title, practice, order
        self._why = why

    def applies(self, host: Host, /) -> Answer:
        """Never more than an explanation."""
        return Explained(self._why) if host.observed.gpus else NotApplicable("the script uses no GPU")


OPTIMISATIONS = (
    IntraOpThreads(),
    PoolThreads(
        "inter",
        "TF_NUM_INTEROP_THREADS",
        "Inter-op threads",
        "Set the number of inter-op threads: operations that depend on each other gain nothing from running side by side.",
        20,
    ),
    OneDnn(),
    GpuThreads(),
    XlaFlags(),
    Allocator(),
    ExplainedSetting(
        "memory_growth",
        "Memory growth",
        "Let the GPU's memory grow with need where several programs share it.",
        70,
        "it lets a program take the GPU's memory bit by bit, so that several programs can share it; it makes none faster. "
        "Set TF_FORCE_GPU_ALLOW_GROWTH=true where others use the GPU too",
    ),
    ExplainedSetting(
        "l2_fetch",
        "L2 fetch granularity",
        f"Let a GPU's second-level cache fetch {_L2_BYTES} bytes at once.",
        80,
        "no variable sets it, only a call in the program before its first step, which a trial of the environment cannot make: "
        f"ctypes.CDLL('libcudart.so').cudaDeviceSetLimit({_L2_LIMIT}, {_L2_BYTES}). Race the script with and without it (outpace race)",
    ),
)
