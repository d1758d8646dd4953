# SPDX-License-Identifier: Apache-2.0
"""Checks CUPTI, NVIDIA's library that delivers GPU events to a profile: whether it is found,
whether its version fits, and whether this process may use it.

The search follows TensorFlow's guide (https://www.tensorflow.org/guide/profiler, "Install the
Profiler and GPU prerequisites") and the dynamic linker: LD_LIBRARY_PATH, the folders of pip's
packages, the linker's cache.
"""

from __future__ import annotations

import os
import re

from outpace._dataclass import dataclass
from outpace.doctor.facts import DoctorFacts
from outpace.doctor.result import CheckResult, note, ok, problem, unchecked
from outpace.doctor.system import System

_PIP_FOLDERS = ("nvidia/cuda_cupti/lib", "nvidia/cu13/lib", "nvidia/cu12/lib")
_TOOLKITS = "/usr/local"
_EXTRAS = "extras/CUPTI/lib64"
_SYS_ADMIN = 21  # CAP_SYS_ADMIN in linux/capability.h
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_LIFT = (
    "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf "
    "&& sudo update-initramfs -u && sudo reboot"
)
_IN_CONTAINER = "docker run --gpus all --cap-add=SYS_ADMIN IMAGE   # or --privileged=true"


@dataclass(frozen=True)
class CuptiLibrary:
    """A libcupti: its path, the CUDA version in its name ("12", "11.8" or ""), and whether the
    dynamic linker finds it without further settings.
    """

    path: str
    version: str
    is_linkable: bool


# What a capture says when CUPTI fails it: pattern, id, sentence, command ("" where it depends on
# the machine). The texts are those of xla/backends/profiler/gpu/cupti_tracer.cc and
# cupti_error_manager.cc, and of TensorFlow's before 2.6.
FAULT_PATTERNS = (
    (
        r"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES|Insufficient privilege to run libcupti|cupti\w+: error 35\b",
        "cupti-privileges",
        "The driver lets only administrators profile the GPU (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES), so GPU events are missing.",
        "",
    ),
    (
        r"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED|CUPTI_ERROR_MAX_LIMIT_REACHED|cupti\w+: error 39\b",
        "cupti-subscribers",
        "Another tool holds CUPTI in this process (Nsight Systems, Nsight Compute, DCGM), which allows one at a time.",
        "nsys sessions list; sudo dcgmi profile --pause   # end the other profiler, or pause DCGM's",
    ),
    (
        r"(Could not load dynamic library|cannot open shared object file|could not be loaded).*libcupti"
        r"|libcupti\S*: cannot open shared object file|CUPTI could not be loaded",
        "cupti-library",
        "The framework could not load libcupti, so GPU events are missing.",
        "export LD_LIBRARY_PATH=/usr/local/cuda/extras/CUPTI/lib64:$LD_LIBRARY_PATH",
    ),
    (
        r"CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED",
        "cupti-virtual",
        "This virtual GPU does not allow profiling; its host must turn it on.",
        "nvidia-smi vgpu -q   # then ask for a vGPU with profiling enabled (enable_profiling=1)",
    ),
    (
        r"CUPTI_ERROR_NOT_INITIALIZED",
        "cupti-initialisation",
        "CUPTI could not be initialised: it does not fit the driver, or an error before this one stopped it.",
        "nvidia-smi   # its CUDA version must not be below the framework's",
    ),
    (
        r"CUPTI_ERROR_[A-Z_]+|cupti\w+: ignored due to a previous error",
        "cupti-error",
        "CUPTI reported an error, so GPU events may be missing.",
        "TF_CPP_MAX_VLOG_LEVEL=1 outpace doctor",
    ),
)


def find_fault(system: System, text: str) -> CheckResult | None:
    """Return the first known CUPTI fault in a capture's output or its profile's messages; None
    when there is none.
    """
    for pattern, name, sentence, command in FAULT_PATTERNS:
        lines = [line.strip() for line in text.splitlines() if re.search(pattern, line)]
        if lines:
            return problem(name, sentence, *lines[:3], command=command or _permit(system))
    return None


def check(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Check the library and the privileges. GPU events in the trial's profile prove both, whatever
    the files suggest.
    """
    if not facts.has_gpu:
        return [unchecked("cupti", "CUPTI is not needed here: there is no GPU.")]
    if not facts.driver.gpus:
        return [unchecked("cupti", "CUPTI is not needed here: the GPU is not NVIDIA's.")]
    results = [*check_library(system, facts), *check_privileges(system)]
    if not facts.has_gpu_events:
        return results
    return [
        note(item.id, f"{item.text} The trial capture recorded the GPU all the same.", *item.evidence)
        if item.outcome == "problem"
        else item
        for item in results
    ]


def check_library(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Whether a libcupti of the right CUDA version is where the framework looks for it,
    and loads.
    """
    versions = built_cuda_versions(facts)
    libraries = find_libraries(system, facts)
    built = " or ".join(versions) or "any"
    fitting = [item for item in libraries if _fits(item.version, versions)]
    reachable = [item for item in fitting if item.is_linkable]
    if reachable:
        error = system.load_error(reachable[0].path)
        if error is None:
            return [ok("cupti", f"{os.path.basename(reachable[0].path)} is found and loads.", reachable[0].path)]
        text = f"{os.path.basename(reachable[0].path)} is found but does not load."
        return [problem("cupti", text, error, command=_install(versions))]
    if fitting:
        folder = os.path.dirname(fitting[0].path)
        text = "libcupti is installed, but not where the dynamic linker looks, so GPU events will be missing."
        return [problem("cupti", text, fitting[0].path, command=f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH")]
    if libraries:
        text = f"The framework was built with CUDA {built} and cannot use the libcupti that is here."
        return [problem("cupti", text, *(item.path for item in libraries[:3]), command=_install(versions))]
    text = "libcupti is nowhere to be found, so GPU events will be missing."
    search_path = system.environment.get("LD_LIBRARY_PATH", "") or "LD_LIBRARY_PATH is not set"
    return [problem("cupti", text, search_path, command=_install(versions))]


def built_cuda_versions(facts: DoctorFacts) -> tuple[str, ...]:
    """Return the CUDA versions that the frameworks were built with ("12.5.1", "13"); empty when no
    framework reports one.
    """
    versions = []
    for framework in facts.frameworks:
        build = framework.answer.get("build", {})
        if build.get("is_cuda_build") and build.get("cuda_version"):
            versions.append(str(build["cuda_version"]))
        if framework.name == "jax":
            versions += [match[1] for name in facts.packages if (match := re.match(r"jax-cuda(\d+)-plugin", name))]
    return tuple(dict.fromkeys(versions))


def find_libraries(system: System, facts: DoctorFacts) -> list[CuptiLibrary]:
    """Return every libcupti in the search order of the dynamic linker; toolkits outside its search
    path come last.
    """
    path = [folder for folder in system.environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    packaged = [f"{site.rstrip('/')}/{folder}" for site in facts.site for folder in _PIP_FOLDERS]
    libraries = [item for folder in path + packaged for item in _folder_libraries(system, folder, True)]
    cache = system.run(["/sbin/ldconfig", "-p"], 10.0).out
    for line in cache.splitlines():
        match = re.match(r"\s*libcupti\.so\S*\s.*=>\s*(\S+)", line)
        if match:
            libraries.append(_library(system, match[1], True))
    toolkits = [name for name in system.list_folder(_TOOLKITS) if name.startswith("cuda")]
    libraries += [item for name in toolkits for item in _folder_libraries(system, f"{_TOOLKITS}/{name}/{_EXTRAS}", False)]
    return list({item.path: item for item in reversed(libraries)}.values())[::-1]


def check_privileges(system: System) -> list[CheckResult]:
    """Check whether this process may profile the GPU;
    https://developer.nvidia.com/ERR_NVGPUCTRPERM.
    """
    parameters = system.read("/proc/driver/nvidia/params")
    if parameters is None:
        return [unchecked("cupti-privileges", "The driver does not say who may profile (/proc/driver/nvidia/params).")]
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", parameters, re.MULTILINE)
    if restricted is None or restricted[1] == "0":
        return [ok("cupti-privileges", "The driver lets every user profile the GPU.", "/proc/driver/nvidia/params")]
    if is_administrator(system):
        return [ok("cupti-privileges", "The driver lets only administrators profile the GPU, and this process is one.")]
    text = "The driver lets only administrators profile the GPU, and this process is none: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES."
    return [problem("cupti-privileges", text, "RmProfilingAdminOnly: 1 in /proc/driver/nvidia/params", command=_permit(system))]


def is_administrator(system: System) -> bool:
    """Whether this process has CAP_SYS_ADMIN, which root in a container usually has not."""
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", system.read("/proc/self/status") or "", re.MULTILINE)
    return bool(int(match[1], 16) >> _SYS_ADMIN & 1) if match else system.uid == 0


def is_in_container(system: System) -> bool:
    """Whether this process runs in a container, as far as that can be detected."""
    if any(system.read(path) is not None for path in _CONTAINER_FILES) or "KUBERNETES_SERVICE_HOST" in system.environment:
        return True
    return bool(re.search(r"docker|kubepods|containerd|libpod", system.read("/proc/1/cgroup") or ""))


def _permit(system: System) -> str:
    return _IN_CONTAINER if is_in_container(system) else _LIFT


def _folder_libraries(system: System, folder: str, reachable: bool) -> list[CuptiLibrary]:
    names = [name for name in system.list_folder(folder) if re.match(r"libcupti\.so(\.[0-9.]+)?$", name)]
    return [_library(system, f"{folder}/{name}", reachable) for name in sorted(names, key=len)]


def _library(system: System, path: str, reachable: bool) -> CuptiLibrary:
    """Return the library at a path; its version is that in the file name, or in the link's target
    where the file name has none (libcupti.so).
    """
    for name in (path, system.real_path(path)):
        match = re.search(r"libcupti\.so\.([0-9.]+)$", name)
        if match:
            return CuptiLibrary(path, match[1], reachable)
    return CuptiLibrary(path, "", reachable)


def _fits(version: str, versions: tuple[str, ...]) -> bool:
    """Whether a library of this version fits; since CUDA 12 the major version has to agree.
    Versions that are years are CUPTI's own numbers.
    """
    if not versions or not version or version.startswith("20"):
        return True
    for built in versions:
        library_parts, built_parts = version.split("."), built.split(".")
        same = min(len(library_parts), len(built_parts)) if int(built_parts[0]) < 12 else 1
        if library_parts[:same] == built_parts[:same]:
            return True
    return False


def _install(versions: tuple[str, ...]) -> str:
    major = versions[0].split(".")[0] if versions else "12"
    return f"pip install nvidia-cuda-cupti-cu{major}" if int(major) < 13 else "pip install nvidia-cuda-cupti"
