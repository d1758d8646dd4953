# SPDX-License-Identifier: Apache-2.0
"""Why a profile shows no step, and what to do about it, for every tool that needs steps."""

from __future__ import annotations

import shlex

from outpace.metrics.facts.workload import Workload, find_workload
from outpace.model import Unavailable
from outpace.timeline import Run

CAPTURE_ADVICE = (
    "Capture while the program trains: 'outpace profile SCRIPT' waits for steps by itself. With a profiler server, capture for longer than "
    "one step takes."
)
_LATER_OPTIONS = {"seconds": "--seconds 10 --delay 60", "": "--warmup 100"}
REPAIR_ADVICE = "Copy the file again, in full. If it was cut while it was being written, capture again."


def explain_missing_steps(run: Run) -> Unavailable:
    """Return the reason why a run has no step, and what to do about it."""
    if run.events == 0:
        return Unavailable("nothing was recorded: the profile holds no event", CAPTURE_ADVICE)
    if lost := format_missing_bytes(run):
        return Unavailable(f"no step was found in what is left of the profile: {lost}", REPAIR_ADVICE)
    return Unavailable(f"no step was found: {run.hosts[0].steps.explanation}", recapture_advice(run, find_workload(run)))


def recapture_advice(run: Run, workload: Workload) -> str:
    """Return how to capture a program again in which no step was found.

    If Outpace already captured it, the advice is to capture later or for longer.
    """
    if not any(record.get("script") for record in run.records.values()):
        return marking_advice(workload)
    return f"Capture later, or for longer: '{later_capture_command(run)}'. {_mark_advice(workload)}"


def later_capture_command(run: Run) -> str:
    """Return the command that captures later: after a time where the capture itself found no step,
    else after a number of steps.
    """
    record = next((record for record in run.records.values() if record.get("script")), {})
    script = shlex.quote(str(record.get("script") or "SCRIPT"))
    return f"outpace profile {_LATER_OPTIONS['seconds' if record.get('mode') == 'seconds' else '']} {script}"


def format_missing_bytes(run: Run) -> str:
    """Return a clause on how much of the profile is missing; "" where nothing is."""
    lost = [loss for timeline in run.hosts for loss in timeline.trace.damages if loss.offset is not None]
    if not lost:
        return ""
    size = sum(loss.size or 0 for loss in lost)
    return f"{size:,} bytes are missing" if size else "a part is missing"


def marking_advice(workload: Workload) -> str:
    """Return how to capture a program's steps, or mark them."""
    return workload.select_text(
        keras="Capture at least ten batches: with 'outpace profile SCRIPT' or callbacks=[outpace.ProfilerCallback(...)].",
        tensorflow="Capture ten steps with 'outpace profile SCRIPT', or mark them with "
        "tf.profiler.experimental.Trace('train', step_num=n, _r=1).",
        jax="Capture ten steps with 'outpace profile SCRIPT', or mark them with jax.profiler.StepTraceAnnotation('train', step_num=n).",
    )


def _mark_advice(kind: Workload) -> str:
    """Return how to mark steps that a capture did not find."""
    return kind.select_text(
        keras="A callback marks them: callbacks=[outpace.ProfilerCallback(...)].",
        tensorflow="Steps that it does not find can be marked with tf.profiler.experimental.Trace('train', step_num=n, _r=1).",
        jax="Steps that it does not find can be marked with jax.profiler.StepTraceAnnotation('train', step_num=n).",
    )
