"""Profiles that cannot carry a conclusion: the first thing to change is the capture."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.metrics.program import Program
from outpace.model import Certainty, Effort, Evidence, Finding, Severity, Unit
from outpace.timeline import Run

_START = (
    "Capture while the program trains: 'outpace profile train.py' waits for steps by itself. With a profiler server, capture for longer than "
    "one step takes."
)


def find(run: Run, program: Program) -> Iterator[Finding]:
    """At most one finding: nothing recorded, bytes lost, or no step."""
    if run.events == 0:
        yield _again("empty", "Nothing was recorded: the profile holds no event.", _START, run)
        return
    lost = [loss for timeline in run.hosts for loss in timeline.trace.losses]
    steps = sum(len(t.steps) for t in run.hosts)
    if lost:
        missing = sum(loss.size or 0 for loss in lost)
        what = f"{missing:,} bytes are missing" if missing else "a part is missing"
        yield _again(
            "damaged",
            f"The profile is damaged: {what}; what it still shows may be incomplete.",
            "Copy the file again, in full. If it was cut while it was being written, capture again.",
            run,
        )
    elif steps == 0:
        yield _again("no_steps", f"No step was found: {run.hosts[0].steps.how}.", _mark(program), run)


def _mark(program: Program) -> str:
    return program.say(
        keras="Capture at least ten batches with 'outpace profile train.py' or callbacks=[outpace.ProfilerCallback(...)].",
        tensorflow="Capture ten steps with 'outpace profile train.py', or mark them with "
        "tf.profiler.experimental.Trace('train', step_num=n, _r=1).",
        jax="Capture ten steps with 'outpace profile train.py', or mark them with jax.profiler.StepTraceAnnotation('train', step_num=n).",
    )


def _again(kind: str, sentence: str, action: str, run: Run) -> Finding:
    return Finding(
        id=f"capture.{kind}",
        severity=Severity.HIGH,
        sentence=sentence,
        action=action,
        evidence=(Evidence("events in the profile", float(run.events), Unit.COUNT, "hosts"),),
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
    )
