"""Machines for the doctor's tests: recorded texts of real systems behind the same door as the real
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outpace.doctor.facts import DoctorFacts, Driver, FrameworkFacts, TrialCapture
from outpace.doctor.system import CommandResult, System

# /proc/driver/nvidia/params as drivers since 418.43 print it (shortened),
# https://developer.nvidia.com/ERR_NVGPUCTRPERM
PARAMS = """ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
RmProfilingAdminOnly: {restricted}
PreserveVideoMemoryAllocations: 0
"""
STATUS_USER = "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"
STATUS_ROOT = "Name:\tpython\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"
STATUS_DOCKER = "Name:\tpython\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n"  # root with Docker's default capabilities
INFORMATION = """Model: \t\t Tesla V100-SXM2-16GB
IRQ:   \t\t 112
GPU UUID: \t GPU-00000000-0000-0000-0000-000000000000
Bus Type: \t PCIe
"""
CACHE = """1184 libs found in cache `/etc/ld.so.cache'
\tlibcurl.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcurl.so.4
\tlibcupti.so.12 (libc6,x86-64) => /usr/local/cuda-12.5/targets/x86_64-linux/lib/libcupti.so.12
\tlibcupti.so (libc6,x86-64) => /usr/local/cuda-12.5/targets/x86_64-linux/lib/libcupti.so
"""
CUDA_BUILD = {"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9", "cuda_compute_capabilities": "sm_60"}
CPU_BUILD = {"is_cuda_build": False, "is_rocm_build": False}


@dataclass
class Recorded(System):
    """A machine made of texts: files by path, commands by their first words, libraries that do not
    load, folders that cannot be written.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, CommandResult] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    user: int = 1000
    broken: Mapping[str, str] = field(default_factory=dict)
    unwritable: Mapping[str, int] = field(default_factory=dict)
    free: int = 50 * 10**9
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, str]:
        return self.variables

    @property
    def uid(self) -> int:
        return self.user

    def run(self, command: Sequence[str], timeout: float = 30.0, variables: Mapping[str, str] | None = None) -> CommandResult:
        line = " ".join(command)
        return next(
            (done for start, done in self.commands.items() if start in line), CommandResult(127, "", f"{command[0]}: not found")
        )

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def list_folder(self, folder: str) -> tuple[str, ...]:
        inside = (path[len(folder) + 1 :] for path in self.files if path.startswith(f"{folder}/"))
        return tuple(sorted({path.split("/")[0] for path in inside}))

    def real_path(self, path: str) -> str:
        return self.links.get(path, path)

    def load_error(self, library: str) -> str | None:
        return self.broken.get(library)

    def write_error(self, folder: str) -> int | None:
        return self.unwritable.get(folder)

    def free_bytes(self, folder: str) -> int | None:
        return self.free


def gpu_facts(*, trial: TrialCapture | None = None, **changes: object) -> DoctorFacts:
    """A machine with one V100 that TensorFlow with CUDA sees."""
    values: dict[str, object] = {
        "python": "/venv/bin/python",
        "python_version": "3.11.7",
        "packages": {"tensorflow": "2.18.0", "keras": "3.8.0", "numpy": "2.0.2", "outpace": "0.1"},
        "outpace": "/venv/lib/python3.11/site-packages/outpace/__init__.py",
        "site": ("/venv/lib/python3.11/site-packages",),
        "frameworks": (tensorflow("/physical_device:GPU:0"),),
        "driver": Driver(("Tesla V100-SXM2-16GB",), "550.54.15"),
        "logdir": "/logs",
        "trials": None if trial is None else (trial,),
        "requirements": (),
    }
    return DoctorFacts(**{**values, **changes})  # type: ignore[arg-type]


def cpu_facts(**changes: object) -> DoctorFacts:
    """A machine without a GPU, with a TensorFlow for the CPU."""
    framework = FrameworkFacts(
        "tensorflow", {"version": "2.18.0", "build": CPU_BUILD, "gpus": [], "tpus": [], "keras": "3.8.0"}
    )
    return gpu_facts(**{"driver": Driver(), "frameworks": (framework,), **changes})  # type: ignore[arg-type]


def tensorflow(
    *gpus: str, said: str = "", build: Mapping[str, object] | None = None, version: str = "2.18.0"
) -> FrameworkFacts:
    """A TensorFlow that sees these GPUs."""
    answer = {
        "version": version,
        "build": CUDA_BUILD if build is None else build,
        "gpus": list(gpus),
        "tpus": [],
        "keras": "3.8.0",
    }
    return FrameworkFacts("tensorflow", answer, "", said, 4.2)
