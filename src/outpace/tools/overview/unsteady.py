"""Steps that are no steady state: which were set aside and why, and what comes round every few steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.budget import at_most
from outpace.metrics.program import Program
from outpace.metrics.step_breakdown import StepBreakdown
from outpace.model import Category, Evidence, Finding, Severity, Table, Threshold, Unit, humanize
from outpace.timeline.steady import Aside, period

_PERIODIC = Threshold(
    "cost that comes round", 0.03, Unit.FRACTION, "our choice: what a change of it can save at least to be measured"
)
_MUCH = Threshold("much cost that comes round", 0.15, Unit.FRACTION, "our choice: five times what is worth a look")
_OTHERWISE_KNOWN = (Category.INPUT, Category.COMPILATION)  # rules of their own name what waits, and what is compiled


@dataclass(frozen=True)
class Unusual:
    """A step that was set aside: its number, why, how long it took and what its host's steady step takes (ps), and which category made most of
    the difference (None: less than half of it by any)."""

    host: str
    step: int
    aside: str
    duration: float
    steady: float
    cause: Category | None

    def __str__(self) -> str:
        why = (
            {
                Category.ALL_OTHERS: "no recognised event: Python, start-up",
            }.get(self.cause, self.cause.label.lower())
            if self.cause
            else "several causes"
        )
        if self.aside == Aside.BUFFERED.value:
            why = "its input was in buffers that had filled before"
        return f"step {self.step}, {humanize(self.duration, Unit.PS)}, set aside ({self.aside}): {why}"


def unusual(breakdown: StepBreakdown) -> list[Unusual]:
    """The steps that were set aside, in their order."""
    steps, whole = breakdown.steps, breakdown.whole
    found = []
    for at in np.flatnonzero(steps["aside"] != "").tolist():
        host = steps["host"][at]
        others = whole.take(whole["host"] == host)
        usual = float(others["duration_ps"].mean())
        longer = float(steps["duration_ps"][at]) - usual
        extra = {c: float(steps[f"{c.value}_ps"][at]) - float(others[f"{c.value}_ps"].mean()) for c in Category}
        cause = max(extra, key=lambda c: extra[c])
        named = cause if extra[cause] >= 0.5 * longer > 0 else None
        found.append(Unusual(host, int(steps["step"][at]), steps["aside"][at], float(steps["duration_ps"][at]), usual, named))
    return found


def find(breakdown: StepBreakdown, program: Program) -> Iterator[Finding]:
    """One finding per step that was set aside because it took longer, and one per host for what comes round."""
    for one in unusual(breakdown):
        if one.aside != Aside.BUFFERED.value:
            yield _aside(one, program)
    whole = breakdown.whole
    for host in dict.fromkeys(whole["host"].tolist()):
        yield from _periodic(host, whole.take(whole["host"] == host), program)


def _aside(one: Unusual, program: Program) -> Finding:
    action = "Nothing, if it happens once; capture more steps to see whether it comes again."
    if one.cause is Category.COMPILATION:
        action = program.say(
            keras="Nothing: the first batch of each shape is traced and compiled. Capture after a warm-up to leave it out.",
            tensorflow="Nothing, if shapes and Python arguments stay: the first call is traced. Capture after a warm-up to leave it out.",
            jax="Nothing, if shapes stay: the first call is compiled. Capture after a warm-up, or keep programs in "
            "jax_compilation_cache_dir between runs.",
        )
    return Finding(
        id="set_aside",
        severity=Severity.INFO,
        sentence=f"{str(one)[:1].upper()}{str(one)[1:]}. It took {one.duration / one.steady:.0f} times the steady step.",
        action=action,
        evidence=(
            Evidence("duration of that step", one.duration, Unit.PS, "steps"),
            Evidence("steady step", one.steady, Unit.PS, "steps"),
        ),
        location=f"step {one.step}" if one.host else "",
        host=one.host,
    )


def _periodic(host: str, mine: Table, program: Program) -> Iterator[Finding]:
    """What some steps do beyond the others, again and again: a checkpoint, a summary, an evaluation."""
    times = mine["duration_ps"].astype(np.float64)
    slow, every = period(times, np.ones(len(times), bool))
    if len(slow) < 2:
        return
    usual = np.setdiff1d(np.arange(len(times)), slow)
    extra = {c: _mean(mine, c, slow) - _mean(mine, c, usual) for c in Category}
    cause = max(extra, key=lambda c: extra[c])
    share = extra[cause] * len(slow) / float(times.sum())
    if cause in _OTHERWISE_KNOWN or share < _PERIODIC.value:
        return
    rhythm = f"Every {every:.0f}th step" if every else f"{len(slow)} of {len(times)} steps, at no regular distance,"
    verb = "takes" if every else "take"
    yield Finding(
        id="periodic_cost",
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"{rhythm} {verb} {humanize(float(times[slow].mean()), Unit.PS)} instead of "
        f"{humanize(float(times[usual].mean()), Unit.PS)}, most of it {_spent(cause)}: spread over all steps, {share:.0%} of the step time.",
        action=program.say(
            keras="Do it less often, or not on the training thread: a larger save_freq, validation_freq or update_freq, or asynchronous "
            "checkpoints (Orbax).",
            tensorflow="Do it less often, or in a thread of its own: checkpoints (tf.train.CheckpointOptions(enable_async=True)), evaluation, "
            "summaries.",
            jax="Do it less often, or in a thread of its own: asynchronous checkpoints (Orbax), evaluation on fewer batches.",
        ),
        evidence=(
            Evidence("mean of those steps", float(times[slow].mean()), Unit.PS, "steps"),
            Evidence("mean of the others", float(times[usual].mean()), Unit.PS, "steps"),
            Evidence(f"more {cause.label.lower()} in them", extra[cause], Unit.PS, "steps"),
        ),
        threshold=_MUCH if share >= _MUCH.value else _PERIODIC,
        saving=at_most(share, cause, assumes="if these steps took as long as the others"),
        counter_evidence=() if every else ("Chance, or other programs on the machine, can make single steps slow as well.",),
        host=host,
        explains=("python_overhead",) if cause is Category.ALL_OTHERS else (),
    )


def _mean(table: Table, category: Category, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    return float(table[f"{category.value}_ps"][rows].mean()) if len(rows) else 0.0


def _spent(cause: Category) -> str:
    return "in Python or untraced work" if cause is Category.ALL_OTHERS else f"in {cause.label.lower()}"
