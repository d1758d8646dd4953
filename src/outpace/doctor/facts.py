# SPDX-License-Identifier: Apache-2.0
"""Gathers the facts that the doctor judges: the Python, its packages, its frameworks, the driver's
GPUs and the trial captures.

Everything slow happens here; the checks are functions of the facts and of what a `System` can read
at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from outpace._dataclass import dataclass
from outpace.doctor import probe
from outpace.doctor.result import CheckResult
from outpace.doctor.system import CommandResult, System
from outpace.model.errors import NotFoundError

PROBE_TIMEOUT_S = 120.0  # a first import over a network file system can take a minute
TITLES = {"tensorflow": "TensorFlow", "jax": "JAX"}
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")


@dataclass(frozen=True)
class FrameworkFacts:
    """A framework as described by a process that imported it.

    answer: what the process printed; empty where it failed.
    failure: how the process failed; "" where it did not.
    stderr: what the process wrote to standard error.
    seconds: duration of the process.
    """

    name: str
    answer: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    stderr: str = ""
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """The framework's name as its authors write it."""
        return TITLES[self.name]

    @property
    def version(self) -> str:
        """The framework's version; "" where its process failed."""
        return str(self.answer.get("version", ""))

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that the framework sees."""
        return tuple(self.answer.get("gpus", ()))

    @property
    def tpus(self) -> tuple[str, ...]:
        """The TPUs that the framework sees."""
        return tuple(self.answer.get("tpus", ()))


@dataclass(frozen=True)
class TrialCapture:
    """A trial capture and the contents of its profile; `failure` is the reason why there is none,
    `output` the end of the process's output.
    """

    framework: str
    failure: str = ""
    output: str = ""
    steps: int = 0
    source: str = ""
    events: int = 0
    ops: int = 0
    threads: int = 0
    devices: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class TimedTrialCapture:
    """A capture by time of a JAX program on a GPU; `failure` is how the program failed ("" where
    it did not), `output` the end of its output.
    """

    failure: str = ""
    output: str = ""


@dataclass(frozen=True)
class Driver:
    """The GPUs that the NVIDIA driver lists; `remark` is the message of `nvidia-smi` when it does
    not work.
    """

    gpus: tuple[str, ...] = ()
    version: str = ""
    remark: str = ""


@dataclass(frozen=True)
class DoctorFacts:
    """All facts about a Python and its machine; `outpace` is where that Python finds Outpace, None
    when it does not.
    """

    python: str
    python_version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    outpace: str | None = None
    site: tuple[str, ...] = ()
    frameworks: tuple[FrameworkFacts, ...] = ()
    driver: Driver = Driver()
    logdir: str = ""
    trials: tuple[TrialCapture, ...] | None = None
    timed_trial: TimedTrialCapture | None = None
    requirements: tuple[str, ...] | None = None

    @property
    def has_visible_gpu(self) -> bool:
        """Whether any framework sees a GPU."""
        return any(framework.gpus for framework in self.frameworks)

    @property
    def has_gpu(self) -> bool:
        """Whether the machine has a GPU, as far as the driver or a framework can tell."""
        return bool(self.driver.gpus) or self.has_visible_gpu

    @property
    def has_gpu_events(self) -> bool:
        """Whether a trial's profile has GPU events; this outweighs everything that files and
        variables suggest.
        """
        return any("GPU" in device for trial in self.trials or () for device in trial.devices)


Check = Callable[[System, DoctorFacts], list[CheckResult]]


def query_python(system: System, python: str) -> Mapping[str, Any]:
    """Return the packages that a Python has. Raises NotFoundError when it cannot be run."""
    result = system.run([python, probe.__file__, "packages"], PROBE_TIMEOUT_S)
    answer = _answer(result)
    if answer is None:
        raise NotFoundError(f"{python} cannot be asked for its packages: {_last(result)}. Give another one with --python.")
    return answer


def query_framework(system: System, python: str, name: str) -> FrameworkFacts:
    """Return the facts of one framework, from a process of its own; a crash or a hang of that
    process is reported as a failure.
    """
    # JAX would otherwise take most of the GPU's memory; errors must be said even where the user
    # silenced them.
    more = {"TF_CPP_MIN_LOG_LEVEL": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    result = system.run([python, probe.__file__, name], PROBE_TIMEOUT_S, more)
    answer = _answer(result)
    if answer is not None:
        return FrameworkFacts(name, answer, "", result.err, result.seconds)
    if result.timed_out:
        failure = f"did not answer within {PROBE_TIMEOUT_S:.0f} s"
    elif result.code < 0:
        failure = f"crashed with signal {-result.code} when it was imported"
    else:
        failure = f"cannot be imported: {_last(result)}"
    return FrameworkFacts(name, {}, failure, result.err, result.seconds)


def query_driver(system: System) -> Driver:
    """Return the GPUs that `nvidia-smi` lists, or else those in the driver's own folder."""
    result = system.run(_QUERY, 30.0)
    rows = [line.rsplit(",", 1) for line in result.out.splitlines() if "," in line] if result.code == 0 else []
    if rows:
        return Driver(tuple(name.strip() for name, _ in rows), rows[0][1].strip())
    gpus = []
    for folder in system.list_folder("/proc/driver/nvidia/gpus"):
        text = system.read(f"/proc/driver/nvidia/gpus/{folder}/information") or ""
        gpus.append(next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("Model:")), folder))
    return Driver(tuple(gpus), "", (result.out + result.err).strip() if gpus else "")


def query_requirements(system: System, python: str) -> tuple[str, ...] | None:
    """Return the problems that `pip check` finds, one sentence each; None where this Python has no
    pip.
    """
    result = system.run([python, "-m", "pip", "check"], 60.0)
    if "No module named pip" in result.err or result.timed_out:
        return None
    return tuple(line for line in result.out.splitlines() if " requires " in line or " has requirement " in line)


def last_lines(text: str, count: int = 3) -> tuple[str, ...]:
    """Return the last lines that are not empty."""
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-count:]


def quote_path(path: str) -> str:
    """Return the path quoted for a shell command."""
    import shlex

    return shlex.quote(os.fspath(path))


def _answer(result: CommandResult) -> dict[str, Any] | None:
    for line in reversed(result.out.splitlines()):
        if line.startswith(probe.ANSWER_PREFIX):
            answer: dict[str, Any] = json.loads(line[len(probe.ANSWER_PREFIX) :])
            return answer
    return None


def _last(result: CommandResult) -> str:
    lines = last_lines(result.err, 1)
    return lines[0].rstrip(".") if lines else f"it ended with code {result.code}"
