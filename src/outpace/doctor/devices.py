# SPDX-License-Identifier: Apache-2.0
"""Checks whether the framework sees the machine's GPUs, and finds the cause where it does not."""

from __future__ import annotations

import re

from outpace.doctor.facts import DoctorFacts, FrameworkFacts
from outpace.doctor.result import CheckResult, note, ok, problem
from outpace.doctor.system import System
from outpace.model.units import format_count

# What a framework writes to standard error when it leaves a GPU unused: pattern, sentence, command.
UNUSED_GPU_PATTERNS = (
    (
        # https://github.com/tensorflow/tensorflow/issues/66987
        r"Cannot dlopen some GPU libraries|Could not load dynamic library 'lib(cudart|cublas|cufft|cusolver|cusparse|cudnn)",
        "TensorFlow finds no CUDA libraries.",
        "pip install -U 'tensorflow[and-cuda]'",
    ),
    (
        # https://github.com/jax-ml/jax/issues/18027
        r"CUDA-enabled jaxlib is not installed|Unable to load CUDA|Unable to use CUDA",
        "JAX is installed without what it needs for CUDA, or with versions that do not fit.",
        "pip install -U 'jax[cuda12]'",
    ),
    (
        r"driver version is insufficient|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|kernel version [0-9.]+ does not match DSO version",
        "The NVIDIA driver is too old for this CUDA, or was updated without a restart.",
        "sudo apt-get install --only-upgrade 'nvidia-driver-*' && sudo reboot",
    ),
    (
        r"CUDA_ERROR_NO_DEVICE|no CUDA-capable device|Could not find cuda drivers",
        "The CUDA driver library shows no device to this process.",
        "ls -l /dev/nvidia*; docker run --gpus all IMAGE",
    ),
)


def check(system: System, facts: DoctorFacts) -> list[CheckResult]:
    """Compare the driver's GPUs with those that each framework sees."""
    driver = facts.driver
    if not facts.has_gpu:
        tpus = [framework for framework in facts.frameworks if framework.tpus]
        if tpus:
            return [ok("devices", f"{format_count(len(tpus[0].tpus), 'TPU core')} seen by {tpus[0].title}.", *tpus[0].tpus)]
        text = "This is a CPU-only machine: neither the NVIDIA driver nor a framework shows a GPU, so captures hold host activity only."
        return [note("devices", text)]
    results = []
    if driver.remark:
        text = "The driver lists a GPU, but nvidia-smi does not work: the driver was updated without a restart, or its tools are missing."
        results.append(note("driver", text, driver.remark, command="nvidia-smi"))
    if driver.gpus:
        version = f", driver {driver.version}" if driver.version else ""
        results.append(ok("devices", f"{format_count(len(driver.gpus), 'GPU')}{version}.", *driver.gpus))
    return results + [_framework_result(system, facts, framework) for framework in facts.frameworks if not framework.failure]


def _framework_result(system: System, facts: DoctorFacts, framework: FrameworkFacts) -> CheckResult:
    name = f"{framework.name}-gpu"
    gpu_count, seen_count = len(facts.driver.gpus), len(framework.gpus)
    hidden = system.environment.get("CUDA_VISIBLE_DEVICES")
    if seen_count and seen_count >= gpu_count:
        return ok(name, f"{framework.title} sees {format_count(seen_count, 'GPU')}.", *framework.gpus)
    if seen_count:
        reason = f": CUDA_VISIBLE_DEVICES is {hidden}" if hidden is not None else ""
        return note(name, f"{framework.title} sees {seen_count} of {format_count(gpu_count, 'GPU')}{reason}.", *framework.gpus)
    if hidden is not None and hidden.strip() in ("", "-1", "none", "NoDevFiles"):
        text = f"CUDA_VISIBLE_DEVICES is {hidden!r} and hides the GPU from {framework.title}: captures hold host activity only."
        return note(name, text, command="unset CUDA_VISIBLE_DEVICES")
    sentence, command, evidence = _cause(system, facts, framework)
    # JAX on the GPU beside a TensorFlow for the CPU, which only reads data, is a usual and sound
    # choice.
    make = note if facts.has_visible_gpu else problem
    return make(name, f"{framework.title} does not see the GPU, so captures miss it. {sentence}", *evidence, command=command)


def _cause(system: System, facts: DoctorFacts, framework: FrameworkFacts) -> tuple[str, str, tuple[str, ...]]:
    """Return (sentence, command, evidence) for a framework that sees no GPU although there
    is one.
    """
    built = framework.answer.get("build", {}).get("is_cuda_build")
    if framework.name == "tensorflow" and built is False:
        cpu = next((name for name in facts.packages if name.startswith(("tensorflow-cpu", "tf-nightly-cpu"))), "tensorflow")
        sentence = f"{cpu} {framework.version} is built without CUDA."
        command = f"pip uninstall -y {cpu} && pip install 'tensorflow[and-cuda]=={framework.version}'"
        return sentence, command, (str(framework.answer.get("file", "")),)
    for pattern, sentence, command in UNUSED_GPU_PATTERNS:
        lines = tuple(line.strip() for line in framework.stderr.splitlines() if re.search(pattern, line))
        if lines:
            return sentence, command, lines[:3]
    if framework.name == "jax" and not any(name.startswith("jax-cuda") for name in facts.packages):
        return "This JAX is installed without CUDA.", "pip install -U 'jax[cuda12]'", ()
    if not system.list_folder("/dev") or not any(name.startswith("nvidia") for name in system.list_folder("/dev")):
        return "/dev has no nvidia devices: this container was started without GPUs.", "docker run --gpus all IMAGE", ()
    extra = "tensorflow[and-cuda]" if framework.name == "tensorflow" else "jax[cuda12]"
    return "It does not say why.", f"pip install -U '{extra}'", ()
