"""What a step pays per call, whatever is in it, and where its thread stops for always the same time."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.metrics.model.jit_calls import runs_op_by_op
from outpace.metrics.program.budget import at_most, budgets
from outpace.metrics.program.counterfactual import uncomputed
from outpace.metrics.program.host_time import of_hosts
from outpace.metrics.program.program import Program
from outpace.metrics.program.stops import stop
from outpace.metrics.python.time import framework_line, own_share
from outpace.model import Category, Effort, Evidence, Finding, Severity, Threshold, Unit, humanize
from outpace.timeline import Run

_SOME = Threshold("calls, of the step", 0.20, Unit.FRACTION, "our choice: more than a well-fed step spends beside its ops")
_MUCH = Threshold("calls, much of the step", 0.50, Unit.FRACTION, "our choice: a call costs more than the work in it")
_SHORT = 3e9  # ps: a call costs a millisecond or two, so that what is untraced of a shorter step is most likely its as well
_STOP = Threshold("a stop, of the step", 0.05, Unit.FRACTION, "our choice: a smaller saving could not be measured")
_MUCH_STOP = Threshold(
    "a stop, much of the step", 0.20, Unit.FRACTION, "our choice: four times the smallest share worth a look"
)


def find(run: Run, program: Program) -> Iterator[Finding]:
    """All findings, host by host."""
    for timeline in run.hosts:
        if timeline.host in budgets(run):
            yield from _per_call(run, timeline.host, program)
            yield from _stops(run, timeline.host, program)


def _per_call(run: Run, host: str, program: Program) -> Iterator[Finding]:
    timeline, budget = run.by_host[host], budgets(run)[host]
    per_row = timeline.steps.per_row
    short = budget.step <= _SHORT * per_row
    share = of_hosts(run, host).calls
    adapts = program.predicts and program.is_keras  # what it waits for is an adapter's work, which is per call too
    if short:
        share = max(share, uncomputed(run, host, waits=adapts) - own_share(run, host))
    if share < _SOME.value or timeline.device_planes or runs_op_by_op(run, host):
        return
    taken = (Category.HOST_COMPUTE, *(Category.ALL_OTHERS,) * short, *(Category.INPUT,) * (short and adapts))
    yield Finding(
        id="per_call_cost",
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"Calls, the Python around them and the executor take {humanize(share * budget.step, Unit.PS)} per "
        f"{'prediction' if program.predicts else 'step'} ({share:.0%}), in which no op runs, whatever the size of a batch.",
        action=_fewer(program, per_row),
        evidence=(
            Evidence("share of the step in calls, Python around them and the executor", share, Unit.FRACTION, "host_time"),
        ),
        threshold=_MUCH if share >= _MUCH.value else _SOME,
        saving=at_most(share, *taken, assumes="if a call cost nothing besides the ops in it"),
        location=framework_line(run, host),
        host=host,
        effort=Effort.SMALL,
        explains=("python_overhead", "small_steps", *("input_bound", "slow_stage") * adapts) if short else (),
    )


def _fewer(program: Program, per_row: int) -> str:
    """How there are fewer calls for the same work."""
    batch = "Use a larger batch (it changes the training: compare the time per example)"
    if program.predicts:
        return "Predict more at once: " + program.say(
            keras="predict(..., batch_size=1024), or model(x) for what fits into memory.",
            tensorflow="larger batches, and no .numpy() between them.",
            jax="larger batches, and no fetch between them.",
        )
    if per_row > 1:
        return f"{batch}."
    return program.say(
        keras=f"Run several batches per call: compile(..., steps_per_execution=16). Or: {batch[:1].lower()}{batch[1:]}.",
        tensorflow="Run several steps inside one tf.function (for batch in dataset, or tf.while_loop), and read values (.numpy()) only behind "
        f"it. Or: {batch[:1].lower()}{batch[1:]}.",
        jax="Run several steps per call with jax.lax.scan, and fetch values only behind it. Pass fewer and flatter arguments. Or: "
        f"{batch[:1].lower()}{batch[1:]}.",
    )


def _stops(run: Run, host: str, program: Program) -> Iterator[Finding]:
    found = stop(run, host)
    share = (
        min(found.share, budgets(run)[host].shares[Category.ALL_OTHERS.value]) if found else 0.0
    )  # nothing else runs meanwhile
    if found is None or share < _STOP.value:
        return
    between = f" between {found.after} and {found.before or 'the end of the step'}" if found.after else ""
    much = share >= _MUCH_STOP.value
    yield Finding(
        id="even_stops",
        severity=Severity.HIGH if much else Severity.MODERATE,
        sentence=f"The training thread stops for {humanize(found.length, Unit.PS)}{between}, almost equally long in {found.count} of "
        f"{found.steps} steps: a sleep, a lock, or a wait for something outside.",
        action=program.say(
            keras="Look for sleep(), locks and network calls in callbacks and metrics that run after each batch. 'outpace profile' names the "
            "line.",
            tensorflow="Look for sleep(), locks and network calls in the loop. 'outpace profile' names the line.",
            jax="Look for sleep(), locks and network calls in the loop. 'outpace profile' names the line.",
        ),
        evidence=(
            Evidence("its length at least", found.length, Unit.PS, "average_step"),
            Evidence("share of the step", share, Unit.FRACTION, "average_step"),
        ),
        threshold=_MUCH_STOP if much else _STOP,
        saving=at_most(share, Category.ALL_OTHERS, assumes="if the thread went on at once"),
        counter_evidence=("Python that always computes the same looks like that, too.",),
        host=host,
        effort=Effort.SMALL,
        explains=("python_overhead", "late_launches"),
    )
