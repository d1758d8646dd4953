# SPDX-License-Identifier: Apache-2.0
"""Checks for other profilers, for settings that make a profile wrong, and for the tracer levels
that the framework honours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.capture.profilers import IGNORES_LEVELS
from outpace.doctor.facts import DoctorFacts, FrameworkFacts
from outpace.doctor.result import CheckResult, note, ok, problem
from outpace.doctor.system import System

_TRUE = ("1", "true", "True", "TRUE")
_TOOLS = {
    "nsys": "Nsight Systems",
    "nsys-launcher": "Nsight Systems",
    "nsys-agent": "Nsight Systems",
    "ncu": "Nsight Compute",
    "nv-nsight-cu-cli": "Nsight Compute",
    "nvprof": "nvprof",
    "nv-hostengine": "DCGM",
    "dcgm-exporter": "DCGM",
}
_PRELOADED = compile_lazily(
    r"nsys|nsight|libToolsInjection|cupti|ittnotify|vtune|tcmalloc_and_profiler|libprofiler|heaptrack|memray"
)


@dataclass(frozen=True)
class Setting:
    """An environment variable that changes what a capture records; `gpu_only` settings matter only
    where there is a GPU.
    """

    variable: str
    applies: Callable[[str], bool]
    text: str
    breaks: bool = False
    gpu_only: bool = False


SETTINGS = (
    Setting(
        # GetCuptiInterface in xla/backends/profiler/gpu/cupti_utils.cc
        "TF_GPU_PROFILER_DISABLE_CUPTI",
        lambda value: value in _TRUE,
        "switches CUPTI off, so GPU events are missing",
        breaks=True,
        gpu_only=True,
    ),
    Setting(
        # https://docs.nvidia.com/cupti/main/main.html (injection);
        # https://github.com/pytorch/pytorch/issues/117935
        "CUDA_INJECTION64_PATH",
        bool,
        "loads another profiler into every CUDA process, and CUPTI serves one at a time",
        breaks=True,
        gpu_only=True,
    ),
    Setting(
        "NSYS_PROFILING_SESSION_ID",
        bool,
        "says that Nsight Systems is profiling, and CUPTI serves one at a time",
        gpu_only=True,
    ),
    Setting("LD_PRELOAD", lambda value: bool(_PRELOADED.search(value)), "loads another profiler into every process"),
    Setting(
        # https://docs.jax.dev/en/latest/gpu_performance_tips.html (automatic profile-guided latency
        # estimation)
        "JAX_ENABLE_PGLE",
        lambda value: value in _TRUE,
        "lets JAX profile itself in the first runs of each function, and two profilers cannot run at once",
    ),
    Setting(
        "XLA_FLAGS",
        lambda value: bool(re.search(r"--xla_(dump_|hlo_profile)", value)),
        "makes XLA write dumps, which slows compilation in the capture",
    ),
    Setting(
        "TF_CPP_MAX_VLOG_LEVEL", lambda value: value not in ("", "0"), "logs every detail, which slows the steps in the capture"
    ),
    Setting("TF_CPP_VMODULE", bool, "logs details of some files, which can slow the steps in the capture"),
    Setting(
        "TF_CPP_MIN_LOG_LEVEL",
        lambda value: value.isdigit() and int(value) >= 3,
        "hides the framework's errors, those of CUPTI too",
    ),
)


def check(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Check the environment, other profilers and tracer levels."""
    results = [*_environment(system, facts), *_other_profilers(system, facts)]
    if not results:
        results = [ok("profiler", "No other profiler is at work, and no environment variable disturbs a capture.")]
    return results + [_levels(framework) for framework in facts.frameworks if not framework.failure]


def _environment(system: System, facts: DoctorFacts) -> Iterator[CheckResult]:
    for setting in SETTINGS:
        value = system.environment.get(setting.variable)
        if value is None or not setting.applies(value) or (setting.gpu_only and not facts.has_gpu):
            continue
        make = problem if setting.breaks and not facts.has_gpu_events else note
        text = f"{setting.variable} {setting.text}."
        yield make("environment", text, f"{setting.variable}={value}", command=f"unset {setting.variable}")


def _other_profilers(system: System, facts: DoctorFacts) -> Iterator[CheckResult]:
    """Yield a note for each profiler among the running processes; they matter where CUPTI is
    needed.
    """
    if not facts.has_gpu or facts.has_gpu_events:
        return
    running: dict[str, list[str]] = {}
    for pid in system.list_folder("/proc"):
        name = (system.read(f"/proc/{pid}/comm") or "").strip() if pid.isdigit() else ""
        if name in _TOOLS:
            running.setdefault(_TOOLS[name], []).append(f"{name} (process {pid})")
    for tool, processes in running.items():
        command = "sudo dcgmi profile --pause" if tool == "DCGM" else "nsys sessions list"
        text = f"{tool} is running; where it profiles this GPU, CUPTI serves no one else."
        yield note("profiler", text, *processes, command=command)


def _levels(framework: FrameworkFacts) -> CheckResult:
    name = f"{framework.name}-levels"
    if framework.name == "tensorflow":
        if framework.version.startswith(IGNORES_LEVELS):
            text = (
                f"TensorFlow {framework.version} refuses tracer levels and captures with its defaults: host 2, Python 0, device 1; "
                "--host-level, --python-level and --device-level do nothing."
            )
            return note(name, text, command="pip install 'tensorflow<2.21'")
        return ok(name, f"TensorFlow {framework.version} honours the host, Python and device tracer levels.")
    if framework.answer.get("levels"):
        return ok(name, f"JAX {framework.version} honours the host and Python tracer levels.")
    return note(name, f"JAX {framework.version} takes no tracer levels (since 0.6 it does).", command="pip install -U jax")
