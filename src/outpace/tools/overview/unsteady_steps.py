# SPDX-License-Identifier: Apache-2.0
"""Steps outside the steady state: which were excluded and why, and what recurs every few steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.cpu_saturation import other_processes_cores
from outpace.metrics.facts.python_samples import find_slow_step_library, find_slow_step_lines
from outpace.metrics.facts.step_breakdown import CATEGORY_COLUMNS, StepBreakdown
from outpace.metrics.facts.step_function import function_call_rows
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.budget import build_saving, excess_share
from outpace.metrics.source_line import format_source_line
from outpace.model import (
    OUTSIDE_STEPS,
    Category,
    Certainty,
    Evidence,
    Finding,
    Severity,
    Table,
    Threshold,
    Unit,
    humanize,
    median,
)
from outpace.model.arrays import Indices, Values
from outpace.model.text import is_majority
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.steady_state import Exclusion, find_period
from outpace.trace.algorithms import distinct, isin

_PERIODIC = Threshold("periodic cost", 0.03, Unit.FRACTION, "our choice: a smaller saving could not be measured")
_MUCH = Threshold("high periodic cost", 0.15, Unit.FRACTION, "our choice: five times the smallest cost worth a look")
_OTHERS = Threshold(
    "cores that other programs use",
    0.25,
    Unit.FRACTION,
    "our choice: a quarter of the cores is what a second training takes of two",
)
_TWICE = 2  # occurrences in a capture up to which chance is possible
_MORE_CALLS = 1.5  # ratio of calls to the usual number from which an evaluation ran, rather than the same calls for longer
_PLAIN = 3.0  # minimum ratio to the usual step of a cost that occurs only twice in a capture; less may be chance
_STALLS = {
    Category.INPUT: "Find what stalls the input (a buffer that is filled, a slow file)",
    Category.COMPILATION: "Keep the step function's arguments alike (shapes, dtypes and Python values): these steps compile",
}
_KNOWN_CAUSES = (Category.INPUT, Category.COMPILATION)  # other rules name what waits for input, and what is compiled


@dataclass(frozen=True)
class ExcludedStep:
    """A step that was excluded from the steady state.

    host: host of the step.
    step: number of the step.
    reason: why it was excluded.
    duration: length of the step, ps.
    steady_duration: mean length of the host's steady step, ps.
    cause: category that makes at least half of the difference; None where no category does.
    """

    host: str
    step: int
    reason: str
    duration: float
    steady_duration: float
    cause: Category | None

    def __str__(self) -> str:
        why = self.cause.label.lower() if self.cause else "several causes"
        if self.cause is Category.ALL_OTHERS:
            why = "untraced time (Python, start-up)"
        if self.reason == Exclusion.BUFFERED.value:
            why = "its input was already buffered"
        if self.reason == Exclusion.FIRST_BUILD.value:
            return f"step {self.step}, {humanize(self.duration, Unit.PS)}, left out ({self.reason})"
        return f"step {self.step}, {humanize(self.duration, Unit.PS)}, left out ({self.reason}): {why}"


def iter_excluded_steps(breakdown: StepBreakdown) -> Iterator[ExcludedStep]:
    """Yield the excluded steps, in their order."""
    apart, whole = breakdown.steps.take(breakdown.steps["aside"] != ""), breakdown.steady_steps
    usual = {
        host: _means(steps) for host in dict.fromkeys(apart["host"].tolist()) if len(steps := whole.filter_by("host", host))
    }
    times = np.stack([apart[name] for name in ("duration_ps", *CATEGORY_COLUMNS)], axis=1).astype(np.float64)
    for host, step, why, durations in zip(
        *(apart[name].tolist() for name in ("host", "step", "aside")), times.tolist(), strict=True
    ):
        longer, *extra = (time - mean for time, mean in zip(durations, usual[host], strict=True))
        most = max(extra)
        cause = tuple(Category)[extra.index(most)] if most >= 0.5 * longer > 0 else None
        if why == Exclusion.FIRST_BUILD.value:
            cause = Category.COMPILATION
        yield ExcludedStep(host, step, why, durations[0], usual[host][0], cause)


def _means(steps: Table) -> list[float]:
    """Return the mean duration of steps, and of each category, ps."""
    return [float(steps[name].mean()) for name in ("duration_ps", *CATEGORY_COLUMNS)]


def iter_findings(run: Run, breakdown: StepBreakdown, program: Workload) -> Iterator[Finding]:
    """Yield the findings on unsteady steps of every host: one for each reason for which longer
    steps were excluded, and one each for slow steps, for periodic costs, and for steps that grow.
    """
    timelines = [timeline for timeline in run.hosts if timeline.host in breakdown.steps_per_execution]
    much = {t.host: list(_slow_steps(run, t, breakdown.select_hosts(t.host), Exclusion.ONE_OFF)) for t in timelines}
    for alike in _group_by_cause(iter_excluded_steps(breakdown)):
        reason, host = alike[0].reason, alike[0].host
        if reason not in (Exclusion.BUFFERED.value, Exclusion.SLOW.value) and not (
            reason == Exclusion.ONE_OFF.value and much[host]
        ):
            yield _excluded_finding(alike, program)
    for timeline in run.hosts:
        if timeline in timelines:
            yield from _slow_steps(run, timeline, breakdown.select_hosts(timeline.host), Exclusion.SLOW)
            yield from much[timeline.host]
        yield from _growing(timeline, breakdown.steps.filter_by("host", timeline.host), program)
    whole = breakdown.steady_steps
    for timeline in run.hosts:
        steps = whole.filter_by("host", timeline.host)
        if len(steps):
            yield from _periodic(run, timeline, steps, program)


def _group_by_cause(excluded: Iterable[ExcludedStep]) -> list[list[ExcludedStep]]:
    """Group the excluded steps of a host by reason and cause, wherever they are: a warm-up may be
    as long as the capture.
    """
    groups: dict[tuple[str, str, Category | None], list[ExcludedStep]] = {}
    for step in excluded:
        groups.setdefault((step.host, step.reason, step.cause), []).append(step)
    return list(groups.values())


def render_exclusions(breakdown: StepBreakdown) -> list[str]:
    """Return a sentence for each group of excluded steps: what was excluded, and why."""
    return [_sentence(alike) for alike in _group_by_cause(iter_excluded_steps(breakdown))]


def _sentence(alike: list[ExcludedStep]) -> str:
    if len(alike) == 1:
        return str(alike[0])
    longest = max(one.duration for one in alike)
    why = str(alike[0]).partition("left out")[2]
    first, last = alike[0].step, alike[-1].step
    which = f"steps {first} to {last}" if last - first < len(alike) else f"{len(alike):,} steps from {first} to {last}"
    return f"{which}, up to {humanize(longest, Unit.PS)}, left out{why}"


def _excluded_finding(alike: list[ExcludedStep], program: Workload) -> Finding:
    """Return the finding that informs about excluded steps with one reason and cause."""
    one = max(alike, key=lambda step: step.duration)
    sentence = _sentence(alike)
    action = "Nothing, if it happens once. Capture more steps to see whether it recurs."
    if one.cause is Category.COMPILATION:
        action = program.select_text(
            keras="Nothing: the first batch of each shape is traced and compiled. Capture after a warm-up to leave it out.",
            tensorflow="Nothing, if shapes and Python arguments stay the same: the first call is traced. Capture after a warm-up to "
            "leave it out.",
            jax="Nothing, if shapes stay the same: the first call is compiled. Capture after a warm-up, or keep programs in "
            "jax_compilation_cache_dir between runs.",
        )
    return Finding(
        id="set_aside",
        severity=Severity.INFO,
        sentence=f"{sentence[:1].upper()}{sentence[1:]}. {'It took' if len(alike) == 1 else 'They took up to'} "
        f"{one.duration / one.steady_duration:.1f} times the steady step.",
        action=action,
        evidence=(
            Evidence("duration of that step", one.duration, Unit.PS, "steps"),
            Evidence("steady step", one.steady_duration, Unit.PS, "steps"),
        ),
        location=f"step {one.step}" if one.host else "",
        host=one.host,
    )


def _slow_steps(run: Run, timeline: Timeline, breakdown: StepBreakdown, exclusion: Exclusion) -> Iterator[Finding]:
    """Yield the findings on steps that take much longer than the others now and then, grouped by
    cause: waiting for input, compiling, anything else.
    """
    slow = np.flatnonzero(breakdown.steps["aside"] == exclusion.value)
    if not len(slow):
        return
    usual = {c: breakdown.category_ps(c, breakdown.steady_steps).mean() for c in Category}
    extra = np.stack([breakdown.category_ps(c, breakdown.steps.take(slow)) - usual[c] for c in Category])
    rows_by_cause: dict[Category | None, list[int]] = {None: []}
    for row, most in zip(slow.tolist(), extra.argmax(axis=0).tolist(), strict=True):
        cause = tuple(Category)[most]
        rows_by_cause.setdefault(cause if cause in _KNOWN_CAUSES else None, []).append(row)
    for cause, rows in rows_by_cause.items():
        if rows:
            yield from _slow_steps_of_cause(run, timeline, breakdown, exclusion, np.array(rows), cause)


def _slow_steps_of_cause(
    run: Run, timeline: Timeline, breakdown: StepBreakdown, exclusion: Exclusion, slow: Indices, known_cause: Category | None
) -> Iterator[Finding]:
    """Yield the finding on slow steps with one cause.

    `slow` are rows of the steps; `known_cause` is the cause that other rules name, None for any
    other. A single step that takes much of the capture is reported only where it is known what it
    does: otherwise the machine may have stood still.
    """
    every = breakdown.steps.take(breakdown.steps["aside"] == exclusion.value)["duration_ps"].astype(np.float64)
    slow_steps, usual = breakdown.steps.take(slow), breakdown.steady_steps
    times, steady = slow_steps["duration_ps"].astype(np.float64), float(usual["duration_ps"].mean())
    share = float(times.sum()) / float(every.sum() + usual["duration_ps"].sum())
    if len(times) < len(every) and share < _PERIODIC.value:
        return
    part = float((times - steady).sum() / (every - steady).sum())
    extra = {c: float(breakdown.category_ps(c, slow_steps).mean() - breakdown.category_ps(c, usual).mean()) for c in Category}
    once = exclusion is Exclusion.ONE_OFF
    cause = known_cause or max((c for c in extra if c not in _KNOWN_CAUSES), key=lambda c: extra[c])
    chosen = slow, timeline.steps.steady_rows
    lines = find_slow_step_lines(run, timeline, *chosen)
    place = format_source_line(*lines[0][:2]) if lines else ""
    where = f" at {place} in {lines[0][2]}()" if lines else ""
    only = _find_own_event(timeline, *chosen)
    if once and (share < _MUCH.value or not (lines or only)):
        return
    sentence = (
        f"{'Once in this capture: ' if once else ''}{_format_slow_steps(times, len(usual) + len(every), share)} instead of "
        f"{humanize(steady, Unit.PS)}, {_format_cause(cause, extra)}"
    )
    if not only and known_cause is None and (held_up := _held_up(run, timeline, f"{sentence}{where}", place)) is not None:
        yield held_up
        return
    longer = not only and cause is Category.HOST_COMPUTE and _same_calls_longer(timeline, *chosen)
    inside, action = _describe_difference(only, longer, cause)
    yield Finding(
        id="input_stalls" if cause is Category.INPUT else ("compile_stalls" if cause is Category.COMPILATION else "slow_steps"),
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"{sentence}{where}{inside}.",
        action=f"{action}: 'outpace explain' compares a slow step with the others. Capture more steps to see whether it recurs.",
        evidence=(
            Evidence("their share of the time of all these steps", share, Unit.FRACTION, "steps"),
            Evidence("mean of the other steps", steady, Unit.PS, "steps"),
            Evidence(f"more {cause.label.lower()} in them", extra[cause], Unit.PS, "steps"),
        ),
        threshold=_MUCH,
        saving=build_saving(
            part * excess_share(timeline, exclusion),
            OUTSIDE_STEPS,
            assumes="if it comes as often as in this capture" if once else "if these steps took as long as the others",
        ),
        counter_evidence=(
            "It came once: nothing shows how often it does."
            if once
            else "They come at no period: something else on the machine may have held them up.",
        ),
        location=place,
        certainty=Certainty.LIKELY if (lines or only) and len(times) > _TWICE and not longer else Certainty.POSSIBLE,
        host=timeline.host,
    )


def _describe_difference(only: str, longer: bool, cause: Category) -> tuple[str, str]:
    """Return what slow steps do that others do not, for a sentence, and the action on it.

    only: event that runs in no other step; "" for none.
    longer: whether they make the same calls, and these take longer.
    """
    if only:
        return f", in {only}, which runs in no other step", f"Run {only} less often, or off the training thread"
    if longer:
        action = "Look at what else used the cores then, and at larger inputs: the same calls took longer"
        return ", in the calls that every step makes", action
    return "", _STALLS.get(cause, "Find what runs in these steps only")


def _held_up(run: Run, timeline: Timeline, slow_steps: str, place: str) -> Finding | None:
    """Return the finding that other programs may have held up slow steps, with the sentence on
    these; None where others used few cores, or that was not measured.
    """
    taken, cores = other_processes_cores(run, timeline), run.core_count(timeline) or 1
    if taken < _OTHERS.value * cores:
        return None
    return Finding(
        id="slow_steps",
        severity=Severity.INFO,
        sentence=f"{slow_steps}, while other programs used {taken:.1f} of {format_count(cores, 'core')}.",
        action="Let other programs end, and capture again: as far as this capture shows, they held these steps up.",
        evidence=(Evidence("cores that other programs used, of all", taken / cores, Unit.FRACTION, "saturation"),),
        threshold=_OTHERS,
        location=place,
        host=timeline.host,
    )


def _format_slow_steps(times: Values, steps: int, share: float) -> str:
    """Return how many of the steps take which share of the time, and the lengths of the longest
    two.
    """
    longest = " and ".join(humanize(time, Unit.PS) for time in sorted(times.tolist(), reverse=True)[:2])
    more = " and more" if len(times) > _TWICE else ""
    return f"{len(times)} of {format_count(steps, 'step')} {'holds' if len(times) == 1 else 'hold'} {share:.0%} of the time: {longest}{more}"


def _growing(timeline: Timeline, steps: Table, program: Workload) -> Iterator[Finding]:
    """Yield the finding on steps that take longer and longer: something grows, and each step goes
    through it again.
    """
    trend = timeline.steps.trend
    if trend is None:
        return
    complete, (first, last) = steps.take(steps["complete"].astype(bool)), trend
    share = 1 - first / last
    quarter = len(complete) // 4
    extra = {c: float(complete[c.column][-quarter:].mean() - complete[c.column][:quarter].mean()) for c in Category}
    yield Finding(
        id="growing_steps",
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"Steps take longer and longer: from {humanize(first, Unit.PS)} to {humanize(last, Unit.PS)} over "
        f"{format_count(len(complete), 'step')}, {_format_cause(max(extra, key=lambda c: extra[c]), extra)}.",
        action="Find what grows with the steps: a list of results that each step goes through, "
        + program.select_text(
            keras="metrics that are never reset, ops that are added to a graph, sequences of growing length.",
            tensorflow="ops that are added to a graph, a tape that is kept, sequences of growing length.",
            jax="arrays that are put together again, sequences of growing length.",
        ),
        evidence=(
            Evidence("median of the first quarter", first, Unit.PS, "steps"),
            Evidence("median of the last quarter", last, Unit.PS, "steps"),
        ),
        threshold=_MUCH,
        counter_evidence=("What a step of the profiler's own costs is not known beside it.",),
        certainty=Certainty.LIKELY,
        host=timeline.host,
    )


def _periodic(run: Run, timeline: Timeline, steps: Table, program: Workload) -> Iterator[Finding]:
    """Yield the finding on what some steps do beyond the others, again and again: a checkpoint, a
    summary, an evaluation.
    """
    times = steps["duration_ps"].astype(np.float64)
    slow, every = find_period(times, np.ones(len(times), bool))
    usual = np.delete(np.arange(len(times)), slow)
    if len(slow) < _TWICE or every is None or (len(slow) == _TWICE and times[slow].min() < _PLAIN * median(times[usual])):
        return
    extra = {c: _mean(steps, c, slow) - _mean(steps, c, usual) for c in Category}
    cause = max(extra, key=lambda c: extra[c])
    share = extra[cause] * len(slow) / float(times.sum())
    more = {c: time for c, time in extra.items() if time > 0 and c not in _KNOWN_CAUSES}
    if cause in _KNOWN_CAUSES or share < _PERIODIC.value:
        return
    chosen = timeline.steps.steady_rows[slow], timeline.steps.steady_rows[usual]
    if cause is Category.HOST_COMPUTE and _same_calls_longer(timeline, *chosen):
        # Other programs on the machine, or the data, made the step's own function slow: nothing
        # that could be done less often.
        return
    lines, library = find_slow_step_lines(run, timeline, *chosen), find_slow_step_library(run, timeline, *chosen)
    if cause is Category.HOST_COMPUTE and not lines and len(slow) == _TWICE:
        return  # it occurred only twice, and nothing shows what it is
    place = format_source_line(*lines[0][:2]) if lines else ""
    where = (f" at {place} in {lines[0][2]}()" if lines else "") + (f", in {library}()" if library else "")
    yield Finding(
        id="periodic_cost",
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"One step in {every:.0f} takes {humanize(float(times[slow].mean()), Unit.PS)} instead of "
        f"{humanize(float(times[usual].mean()), Unit.PS)}, {_format_cause(cause, extra)}{where}: {share:.0%} of the time of all steps.",
        action=program.select_text(
            keras="Do this periodic work less often, or off the training thread: a larger save_freq, validation_freq or update_freq, or "
            "asynchronous checkpoints (Orbax).",
            tensorflow="Do this periodic work less often, or in its own thread: checkpoints (tf.train.CheckpointOptions(enable_async=True)), "
            "evaluation, summaries.",
            jax="Do this periodic work less often, or in its own thread: asynchronous checkpoints (Orbax), evaluation on fewer batches.",
        ),
        evidence=(
            Evidence("mean of those steps", float(times[slow].mean()), Unit.PS, "steps"),
            Evidence("mean of the others", float(times[usual].mean()), Unit.PS, "steps"),
            Evidence(f"more {cause.label.lower()} in them", extra[cause], Unit.PS, "steps"),
        ),
        threshold=_MUCH if share >= _MUCH.value else _PERIODIC,
        saving=build_saving(
            sum(more.values()) * len(slow) / float(times.sum()), *more, assumes="if these steps took as long as the others"
        ),
        counter_evidence=(f"It occurred {len(slow)} times in {len(times)} steps.",),
        location=place,
        certainty=Certainty.CERTAIN if len(slow) > _TWICE or lines else Certainty.LIKELY,
        host=timeline.host,
        explains=("python_overhead", "small_steps", "compiling_in_steps", "late_launches", "waits_for_device"),
    )


def _same_calls_longer(timeline: Timeline, slow: Indices, usual: Indices) -> bool:
    """Whether slow steps make hardly more calls (less than `_MORE_CALLS` times as many) of the
    functions that run in usual steps, and most of their additional time is in these functions.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = function_call_rows(timeline)
    rows = rows[timeline.step_index[rows] >= 0]
    step = timeline.step_index[rows]
    is_usual = isin(trace.name[rows], trace.name[rows[isin(step, usual)]])
    rows, step = rows[is_usual], step[is_usual]
    if not len(rows):
        return False
    count = np.bincount(step, minlength=len(steps)).astype(np.float64)
    took = np.bincount(step, weights=trace.duration[rows].astype(np.float64), minlength=len(steps))
    longer = float(steps.duration[slow].mean() - steps.duration[usual].mean())
    return bool(count[slow].mean() < _MORE_CALLS * count[usual].mean() and took[slow].mean() - took[usual].mean() >= longer / 2)


def _find_own_event(timeline: Timeline, slow: Indices, usual: Indices) -> str:
    """Return the name of the event of the training thread that runs in each of the slow steps and
    in no usual one, and takes at least half of the slow steps' additional time. Of several it is
    the longest, of equally long ones the innermost. "" where there is none.
    """
    trace, steps = timeline.trace, timeline.steps
    if int(steps.line[slow[0]]) < 0:
        return ""
    rows = trace.lines.row_numbers(int(steps.line[slow[0]]))
    step = np.searchsorted(steps.start, trace.start[rows], side="right") - 1
    rows, step = rows[step >= 0], step[step >= 0]
    code = trace.name[rows]
    elsewhere = np.zeros(len(trace.names), bool)
    elsewhere[code[isin(step, usual)]] = True
    mask = isin(step, slow) & ~elsewhere[code] & ~timeline.event_names.mask(EventFlag.PYTHON_FRAME)[code]
    if not mask.any():
        return ""
    took = np.bincount(code[mask], weights=trace.duration[rows[mask]].astype(np.float64))
    beyond = float(steps.duration[slow].sum()) - len(slow) * float(steps.duration[usual].mean())
    name = int(np.flatnonzero(took >= took.max())[-1])
    everywhere = len(distinct(step[mask & (code == name)])) == len(slow)
    return trace.names[name] if everywhere and took[name] >= beyond / 2 else ""


def _mean(table: Table, category: Category, rows: Indices) -> float:
    return float(table[category.column][rows].mean()) if len(rows) else 0.0


def _format_cause(cause: Category, extra: Mapping[Category, float]) -> str:
    """Return which category takes the largest part of the additional time, in words. `extra` is the
    additional time of each category, ps.
    """
    name = "Python or untraced work" if cause is Category.ALL_OTHERS else cause.label.lower()
    return f"{'mostly' if is_majority(extra[cause], sum(max(0.0, time) for time in extra.values())) else 'more than elsewhere'} in {name}"
