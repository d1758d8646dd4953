# SPDX-License-Identifier: Apache-2.0
"""Advice on other Python threads that take cores, or the interpreter lock, from the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.bounds import call_overhead_bound
from outpace.metrics.savings.budget import Budget, build_saving
from outpace.metrics.views.thread_lines import ThreadWork, thread_work
from outpace.model import Category, Certainty, Evidence, Finding, Severity, Table, Threshold, Unit
from outpace.timeline import Run

_TAKES = Threshold("cores of one background function", 0.20, Unit.CORES, "our choice: less cannot slow the model noticeably")
_MUCH = 0.25  # share of all cores from which the severity is high
_HOLDS = Threshold(
    "time in which other threads run Python", 0.5, Unit.CORES, "our choice: the lock is then taken as often as free"
)
_IDLE = 0.3  # minimum share of the step in which no op runs and no input is waited for


def iter_findings(run: Run, budgets: Mapping[str, Budget], saturation: Table) -> Iterator[Finding]:
    """Yield a finding for each function in which the program's own threads compute while most cores
    are busy.
    """
    for row in saturation.records():
        cores = run.record(row["host"]).get("cpu_count")
        if run.has_device or not cores or not cpu_saturation.is_mostly_busy(row):
            continue
        for work in thread_work(run, row["host"]):
            if work.cores >= _TAKES.value:
                yield _taker(row, work, float(cores), budgets[row["host"]])


def _taker(row: dict[str, Any], work: ThreadWork, cores: float, budget: Budget) -> Finding:
    """Return the finding on one function of a background thread that takes cores from the model.
    `row` is the host's row of table `cpu_saturation`.
    """
    cores_used = work.cores
    share = min(1.0, cores_used / cores) * budget.category_shares[Category.HOST_COMPUTE.value]
    return Finding(
        id="background_threads",
        severity=Severity.HIGH if cores_used >= _MUCH * cores else Severity.MODERATE,
        sentence=f"{work.function}() at {work.source} runs in another thread and takes {cores_used:.1f} of {cores:.0f} cores, which are "
        f"{min(row['saturation'], 1.0):.0%} busy: the model's ops wait for cores.",
        action=f"Do less at {work.source} while the program trains, move it to another process or machine, or run it before or after.",
        evidence=(
            Evidence("processor time per second of that function", cores_used, Unit.CORES, "thread_lines"),
            Evidence("cores that the process may use", cores, Unit.CORES, "overview.hosts"),
        ),
        threshold=_TAKES,
        saving=build_saving(share, Category.HOST_COMPUTE, assumes="if the model's ops had these cores as well"),
        location=work.source,
        host=row["host"],
        certainty=Certainty.LIKELY,
    )


def iter_lock_findings(run: Run, program: Workload, budgets: Mapping[str, Budget]) -> Iterator[Finding]:
    """Yield a finding for each host on which other threads run Python for much of the time while
    the training thread makes little progress: each call into a framework ends with a wait for the
    lock.
    """
    for timeline in run.hosts:
        works = thread_work(run, timeline.host, native=None)
        cores = sum(work.cores for work in works)
        if cores < _HOLDS.value or timeline.host not in budgets:
            continue
        idle = call_overhead_bound(run, timeline.host)
        if idle >= _IDLE:
            yield _holder(timeline.host, works[0], cores, idle, program)


def _holder(host: str, work: ThreadWork, cores: float, idle: float, program: Workload) -> Finding:
    """Return the finding on Python threads that hold the interpreter lock. `cores` is the number of
    cores with which they compute; `idle` is the share of the step in which no op runs.
    """
    cheaper = f"Make {work.source} cheaper (the whole batch at once, or once and kept)"
    return Finding(
        id="interpreter_lock",
        severity=Severity.HIGH,
        sentence=f"Other threads compute in Python functions, with {cores:.1f} cores, first of all in {work.function}() at {work.source}; the "
        f"training thread needs the same interpreter lock for each call: no op runs in {idle:.0%} of the step.",
        action=program.select_text(
            keras=f"{cheaper}, or do it in other processes (PyDataset with use_multiprocessing=True), or once, into files.",
            tensorflow=f"{cheaper}, do it with TensorFlow's ops (tf.io, tf.strings), or in other processes.",
            jax=f"{cheaper}, or do it in other processes (a loader with worker processes).",
        ),
        evidence=(
            Evidence("processor time per second of other threads' Python", cores, Unit.CORES, "thread_lines"),
            Evidence("share of the step in which no op runs", idle, Unit.FRACTION, "overview.average_step"),
        ),
        threshold=_HOLDS,
        saving=build_saving(
            min(1.0, cores, idle), Category.HOST_COMPUTE, Category.ALL_OTHERS, assumes="if no other thread ran Python meanwhile"
        ),
        location=work.source,
        host=host,
        certainty=Certainty.LIKELY,  # the other threads may have released the lock while they computed
        explains=("per_call_cost", "small_steps", "python_overhead"),
    )
