"""Fills the capture record from what a window saw."""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from outpace._cores import granted_cpus, half_flags, usable_cpus
from outpace._dataclass import dataclass
from outpace._version import __version__
from outpace.capture.cells import cells
from outpace.capture.choose import allows_graphs
from outpace.capture.faults import counts
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

__all__ = ["Notes", "granted_cpus", "notes_of", "record_of", "usable_cpus", "write_notes"]


@dataclass(frozen=True)
class Notes:
    """What was seen of the steps: how they were recognised, the window, steps per call, single durations, and how fast the machine was."""

    mode: str
    window: Window
    steps_per_execution: int = 1
    overhead: Overhead = field(default_factory=Overhead)
    calibration: Mapping[str, int] = field(default_factory=dict)


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
        window.cycles or Overhead(tuple(step.recent if step else ()), tuple(window.during), tuple(window.after)),
        dict(window.calibration),
    )


def write_notes(saved: Saved, notes: Notes, script: str, argv: Sequence[str], **more: Any) -> None:
    """Write the record of one capture beside its profile, `more` as for `record_of`; raises OSError when that is impossible."""
    write_record(saved.run, saved.host, record_of(notes, script, argv, **more))


def record_of(
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
    secrets: bool = False,
) -> CaptureRecord:
    """The record of one capture. secrets: keep keys and passwords among the arguments, for which dots stand otherwise. A notebook has no
    script: what its process was started with is none of the user's."""
    typed = cells()
    notebook = bool(typed) and not getattr(sys.modules.get("__main__"), "__file__", None)
    return CaptureRecord(
        outpace=__version__,
        script="" if notebook else script,
        argv=() if notebook else tuple(argv),
        cells=typed,
        versions=framework_versions(),
        python=platform.python_version(),
        mode=notes.mode,
        window=notes.window,
        steps_per_execution=notes.steps_per_execution,
        overhead=notes.overhead,
        calibration=notes.calibration,
        faults=counts(),
        command_buffers=allows_graphs(),
        pipeline=tuple(stages),
        traces=tuple(traces),
        python_samples=samples,
        compilations=tuple(compilations),
        op_sources=sources[0] if sources else OpSources(),
        layers=sources[1] if sources else {},
        callbacks=callbacks or {},
        cpu_count=usable_cpus(),
        cpu_flags=half_flags(),
        exit=exit_code,
        stopped=stopped,
        secrets=secrets,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
