# SPDX-License-Identifier: Apache-2.0
"""Builds the record of a capture from what its window measured."""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from outpace._cpus import affinity_cpus, available_cpus, half_precision_flags
from outpace._dataclass import dataclass
from outpace._version import __version__
from outpace.capture.cells import find_cells
from outpace.capture.faults import fault_counts
from outpace.capture.frameworks import allows_cuda_graphs
from outpace.capture.profilers import framework_versions
from outpace.capture.recording import SavedProfile
from outpace.capture.window import StepWindow
from outpace.store.cpu_peaks import read_cpu_peaks
from outpace.store.record import (
    CapturedSteps,
    CaptureRecord,
    Compilation,
    FunctionTrace,
    GraphShapes,
    OpSources,
    PipelineStage,
    PythonSamples,
    StepDurations,
    write_record,
)
from outpace.store.startup import Startup

if TYPE_CHECKING:
    from outpace.capture.sources import Sources

__all__ = ["WindowSummary", "affinity_cpus", "available_cpus", "build_record", "build_window_summary", "write_capture_record"]


@dataclass(frozen=True)
class WindowSummary:
    """Measurements of one window.

    mode: how steps were recognised (`keras fit`, `custom loop`), or `seconds` for a window by time.
    window: captured steps, duration and load of the window.
    steps_per_execution: training steps per counted call.
    overhead: durations of single steps before, in and after the window.
    calibration: speed of the machine, ns by loop (see `calibrate`).
    """

    mode: str
    window: CapturedSteps
    steps_per_execution: int = 1
    overhead: StepDurations = field(default_factory=StepDurations)
    calibration: Mapping[str, int] = field(default_factory=dict)


def build_window_summary(window: StepWindow) -> WindowSummary:
    """Return what a step window has measured so far."""
    step = window.chosen_candidate
    return WindowSummary(
        step.mode if step else "seconds",
        CapturedSteps(
            window.first_step,
            len(window.during_ns),
            window.options.warmup,
            window.seconds,
            tuple(window.interrupted),
            window.cpu_seconds,
            window.machine_busy,
        ),
        step.steps_per_execution if step else 1,
        window.cycle_overhead
        or StepDurations(tuple(step.recent_ns if step else ()), tuple(window.during_ns), tuple(window.after_ns)),
        dict(window.calibration),
    )


def write_capture_record(saved: SavedProfile, notes: WindowSummary, script: str, argv: Sequence[str], **more: Any) -> None:
    """Write the record of a capture next to its profile; `more` are the keyword arguments of
    `build_record`.

    Raises OSError when the record cannot be written.
    """
    write_record(saved.run, saved.host, build_record(notes, script, argv, **more))


def build_record(
    notes: WindowSummary,
    script: str,
    argv: Sequence[str],
    *,
    stages: Sequence[PipelineStage] = (),
    traces: Sequence[FunctionTrace] = (),
    samples: PythonSamples | None = None,
    compilations: Sequence[Compilation] = (),
    startup: Startup | None = None,
    sources: Sources | None = None,
    callbacks: Mapping[str, tuple[str, int, str]] | None = None,
    exit_code: int | None = None,
    stopped: bool = False,
    secrets: bool = False,
) -> CaptureRecord:
    """Return the record of one capture.

    secrets: store keys and passwords of the script's arguments; without it they are masked with
        dots.

    A notebook has no script: the command line of its process is not the user's, and is left out.
    """
    typed = find_cells()
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
        faults=fault_counts(),
        command_buffers=allows_cuda_graphs(),
        pipeline=tuple(stages),
        traces=tuple(traces),
        python_samples=samples,
        compilations=tuple(compilations),
        startup=startup,
        op_sources=sources.ops if sources else OpSources(),
        graph_shapes=sources.shapes if sources else GraphShapes(),
        layers=dict(sources.layers) if sources else {},
        callbacks=callbacks or {},
        cpu_count=affinity_cpus(),
        cpu_flags=half_precision_flags(),
        cpu_peaks=_cpu_peaks(),
        exit=exit_code,
        stopped=stopped,
        secrets=secrets,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def _cpu_peaks() -> Mapping[str, float]:
    """Return what was measured of this machine; empty without a measurement."""
    peaks = read_cpu_peaks()
    return peaks.highest if peaks is not None else {}
