# SPDX-License-Identifier: Apache-2.0
"""`outpace doctor`: checks whether a capture works on this machine, and names the command that
repairs what is wrong.

First all facts are gathered (`facts`; each framework in a process of its own, then the trial
captures). Then one function per subject judges them; a result of the trial captures outweighs what
files and variables suggest.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from outpace.capture.options import DEFAULT_LOGDIR
from outpace.doctor import cupti, devices, profiler, storage, trial, versions
from outpace.doctor.facts import Check, DoctorFacts, query_driver, query_framework, query_python, query_requirements
from outpace.doctor.result import CheckResult, CheckStatus, Diagnosis
from outpace.doctor.system import System
from outpace.doctor.trial import run_timed_trial
from outpace.model.units import format_count

__all__ = ["CHECKS", "CheckResult", "CheckStatus", "Diagnosis", "DoctorFacts", "System", "diagnose", "examine", "gather_facts"]

CHECKS: tuple[Check, ...] = (versions.check, devices.check, cupti.check, storage.check, profiler.check, trial.check)
Progress = Callable[[str], None]


def diagnose(
    logdir: str = DEFAULT_LOGDIR,
    *,
    trial: bool = True,
    python: str | None = None,
    system: System | None = None,
    progress: Progress = lambda text: None,
) -> Diagnosis:
    """Examine the machine and this Python, or the one at path `python`; `progress` is called with
    the name of each stage.

    Raises NotFoundError when that Python cannot be run.
    """
    system = system or System()
    return examine(system, gather_facts(system, logdir, trial=trial, python=python or sys.executable, progress=progress))


def gather_facts(system: System, logdir: str, *, trial: bool, python: str, progress: Progress) -> DoctorFacts:
    """Gather the facts that take time; 5 to 15 s, most of it for the frameworks and the trial
    captures.
    """
    progress("asking Python")
    answer: Any = query_python(system, python)
    driver, requirements = query_driver(system), query_requirements(system, python)
    frameworks = []
    for name in answer["modules"]:
        progress(f"asking {'TensorFlow' if name == 'tensorflow' else 'JAX'}")
        frameworks.append(query_framework(system, python, name))
    trials, timed_trial = None, None
    if trial:
        trials = []
        for framework in frameworks if answer["outpace"] else ():
            if not framework.failure:
                progress(f"making a trial capture with {framework.title}")
                trials.append(_run_trial(system, python, framework.name))
                if framework.name == "jax" and framework.gpus and not trials[-1].failure:
                    progress("making a trial capture by time with JAX")
                    timed_trial = run_timed_trial(system, python)
    return DoctorFacts(
        python=answer["executable"],
        python_version=answer["python"],
        packages=answer["packages"],
        outpace=answer["outpace"],
        site=tuple(answer["site"]),
        frameworks=tuple(frameworks),
        driver=driver,
        logdir=logdir,
        trials=None if trials is None else tuple(trials),
        timed_trial=timed_trial,
        requirements=requirements,
    )


def examine(system: System, facts: DoctorFacts) -> Diagnosis:
    """Judge the facts and return the diagnosis; takes little time."""
    results: list[CheckResult] = []
    for check in CHECKS:
        results = _merge(results, [_exact(result, facts.python) for result in check(system, facts)])
    problems = [result for result in results if result.outcome is CheckStatus.PROBLEM]
    return Diagnosis(_verdict(facts, len(problems)), not problems, facts.python, tuple(results))


_run_trial = trial.run_trial  # alias, because an argument of `gather_facts` hides the module `trial`


def _exact(result: CheckResult, python: str) -> CheckResult:
    """Return the result with the examined Python's pip in its command, because `pip` alone may
    belong to another environment.
    """
    if result.command is None:
        return result
    pip = f"{shlex.quote(python)} -m pip"
    return replace(result, command=re.sub(r"(?<!-m )\bpip (?=install|uninstall|check)", lambda _: f"{pip} ", result.command))


def _merge(before: list[CheckResult], later: list[CheckResult]) -> list[CheckResult]:
    """Return the results of both lists, without earlier results whose id is that of a later
    problem: a trial capture may prove what a check suspected.
    """
    certain = {result.id for result in later if result.outcome is CheckStatus.PROBLEM}
    return [result for result in before if result.id not in certain] + later


def _verdict(facts: DoctorFacts, problems: int) -> str:
    if not facts.frameworks:
        return "Captures do not work with this Python: it has neither TensorFlow nor JAX. Reports work."
    if problems:
        return f"Captures do not work here as they should: {format_count(problems, 'problem')} to fix."
    if facts.trials is None:
        return "Nothing was found that stops a capture; without a trial capture that is no proof."
    if facts.has_gpu_events:
        return "Captures work here; they hold host and GPU activity."
    if facts.has_gpu:
        return "Captures work here; they hold host activity only, the GPU is not used."
    return "Captures work here; they hold host activity only, as there is no GPU."
