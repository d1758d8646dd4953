"""Fills the capture record from what a window saw."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import field

from outpace._dataclass import dataclass
from outpace._version import __version__
from outpace.capture.profilers import framework_versions
from outpace.capture.recording import Saved
from outpace.capture.window import StepWindow
from outpace.store.record import (
    CaptureRecord,
    Compilation,
    FunctionTrace,
    LayerSource,
    OpSources,
    Overhead,
    PipelineStage,
    PythonSamples,
    Window,
    write_record,
)


@dataclass(frozen=True)
class Notes:
    """What was seen of the steps: how they were recognised, the window, steps per call, and single durations."""

    mode: str
    window: Window
    steps_per_execution: int = 1
    overhead: Overhead = field(default_factory=Overhead)


def notes_of(window: StepWindow) -> Notes:
    """What a step window has seen until now."""
    step = window.chosen
    return Notes(
        step.mode if step else "seconds",
        Window(
            window.first_step,
            len(window.during),
            window.options.warmup,
            window.seconds,
            tuple(window.interrupted),
            window.cpu_seconds,
            window.machine_busy,
        ),
        step.steps_per_execution if step else 1,
        Overhead(tuple(step.recent if step else ()), tuple(window.during), tuple(window.after)),
    )


def write_notes(
    saved: Saved,
    notes: Notes,
    script: str,
    argv: Sequence[str],
    *,
    stages: Sequence[PipelineStage] = (),
    traces: Sequence[FunctionTrace] = (),
    samples: PythonSamples | None = None,
    compilations: Sequence[Compilation] = (),
    sources: tuple[OpSources, Mapping[str, LayerSource]] | None = None,
    callbacks: Mapping[str, tuple[str, int, str]] | None = None,
    exit_code: int | None = None,
    stopped: bool = False,
) -> None:
    """Write the record of one capture beside its profile; raises OSError when that is impossible."""
    record = CaptureRecord(
        outpace=__version__,
        script=script,
        argv=tuple(argv),
        versions=framework_versions(),
        python=platform.python_version(),
        mode=notes.mode,
        window=notes.window,
        steps_per_execution=notes.steps_per_execution,
        overhead=notes.overhead,
        pipeline=tuple(stages),
        traces=tuple(traces),
        python_samples=samples,
        compilations=tuple(compilations),
        op_sources=sources[0] if sources else OpSources(),
        layers=sources[1] if sources else {},
        callbacks=callbacks or {},
        cpu_count=usable_cpus(),
        exit=exit_code,
        stopped=stopped,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
    write_record(saved.run, saved.host, record)


def usable_cpus() -> int:
    """Cores that this process may run on, which a container or `taskset` can make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def granted_cpus(quota: str | None = None) -> int:
    """Cores whose time this process may use: those that it may run on, at most what a container's quota gives. `quota` is the text of
    `cpu.max`: microseconds of processor time per so many microseconds."""
    if quota is None:
        try:
            with open("/sys/fs/cgroup/cpu.max", encoding="utf-8") as file:
                quota = file.read()
        except OSError:
            quota = ""
    parts, cores = quota.split(), usable_cpus()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) == 0:
        return cores
    return max(1, min(cores, round(int(parts[0]) / int(parts[1]))))
