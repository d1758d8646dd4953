# SPDX-License-Identifier: Apache-2.0
"""Costs of a step outside the model's computation: per call, in a regular stop of its thread, in
collectives of workers, and in replicas of the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from outpace.metrics.cluster.collective_costs import collective_costs
from outpace.metrics.facts.idle_gaps import device_waits, find_idle_gap
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.op_locations import count_replicas
from outpace.metrics.facts.python_lines import find_framework_line, find_step_line, user_python_share
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.bounds import call_overhead_bound
from outpace.metrics.savings.budget import Budget, budgets, build_saving
from outpace.metrics.views.host_time import mean_host_time
from outpace.metrics.views.jit_calls import is_op_by_op
from outpace.model import Category, Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit, humanize
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline

_SOME = Threshold("calls, of the step", 0.20, Unit.FRACTION, "our choice: more than a well-fed step spends beside its ops")
_MUCH = Threshold("calls, much of the step", 0.50, Unit.FRACTION, "our choice: a call costs more than the work in it")
_TRANSFER = Threshold("collectives, of the step", 0.10, Unit.FRACTION, "our choice: less hides behind what steps differ by")
_MUCH_TRANSFER = Threshold("collectives, much of the step", 0.20, Unit.FRACTION, "our choice: as of collectives of devices")
_INPUT_PYTHON = Threshold(
    "Python of the input, of the step", 0.15, Unit.FRACTION, "our choice: less holds calls up for less than that"
)
_SHARED_LOCK = (
    "The input pipeline runs Python beside them, under the same interpreter lock (GIL): some of it is waiting for that."
)
_WAIT_RATIO = 0.1  # minimum time that others wait for the last worker, as a share of the transfer, for that worker to be named
# Length of a short step, ps: a call costs a millisecond or two, so that the untraced time of a
# shorter step most likely belongs to the call as well.
_SHORT = 3e9
_STOP = Threshold("a stop, of the step", 0.05, Unit.FRACTION, "our choice: a smaller saving could not be measured")
_MUCH_STOP = Threshold(
    "a stop, much of the step", 0.20, Unit.FRACTION, "our choice: four times the smallest share worth a look"
)


def iter_findings(run: Run, program: Workload) -> Iterator[Finding]:
    """Yield all findings, host by host."""
    for timeline in run.hosts:
        if timeline.host in budgets(run):
            yield from _per_call(run, timeline.host, program)
            yield from _stops(run, timeline.host, program)
            yield from _waits_in_calls(run, timeline.host, program)
            yield from _copies_of_the_model(run, timeline.host)
    yield from _collectives(run)


def _per_call(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on what each call costs, whatever the size of a batch: calls into the
    framework and the Python around them, and in short steps also the executor and untraced time.
    """
    timeline, budget = run.by_host[host], budgets(run)[host]
    per_row = timeline.steps.steps_per_execution
    short = budget.step_ps <= _SHORT * per_row
    time = mean_host_time(run, host)
    share = time.call_share - user_python_share(run, host)
    # An adapter works once per call, so that waiting for it is a cost per call, too.
    adapts = program.is_inference and program.is_keras
    if short:
        share = max(share, call_overhead_bound(run, host, include_input=adapts) - user_python_share(run, host))
    ahead = timeline.steps.async_dispatch  # with asynchronous dispatch, the work of the training thread delays no step
    if share < _SOME.value or not time.op_share or timeline.device_planes or ahead or is_op_by_op(run, host):
        return
    locked = _input_python(run, timeline) >= _INPUT_PYTHON.value
    what = "Calls, the Python around them and the executor" if short else "Calls and the Python around them"
    categories = (Category.HOST_COMPUTE, *(Category.ALL_OTHERS,) * short, *(Category.INPUT,) * (short and adapts))
    yield Finding(
        id="per_call_cost",
        severity=Severity.HIGH if share >= _MUCH.value else Severity.MODERATE,
        sentence=f"{what} take {humanize(share * budget.step_ps, Unit.PS)} per "
        f"{'prediction' if program.is_inference else 'step'} ({share:.0%}), in which no op runs, whatever the size of a batch.",
        action=_advise_fewer_calls(program, per_row),
        evidence=(Evidence("share of the step in them", share, Unit.FRACTION, "host_time"),),
        threshold=_MUCH if share >= _MUCH.value else _SOME,
        saving=build_saving(share, *categories, assumes="if a call cost nothing besides the ops in it"),
        counter_evidence=(_SHARED_LOCK,) * locked,
        location=find_framework_line(run, host),
        host=host,
        certainty=Certainty.POSSIBLE if locked else Certainty.LIKELY,
        effort=Effort.SMALL,
        explains=("python_overhead", "small_steps", *("input_bound", "slow_stage") * adapts) if short else (),
    )


def _input_python(run: Run, timeline: Timeline) -> float:
    """Return how long the input pipeline runs Python per step (generators, and Python functions of
    its stages), as a share of the step.
    """
    host_pipelines = (pipeline for pipeline in pipelines(run) if pipeline.host == timeline.host)
    return sum(
        stage.work_ps / max(pipeline.steps_ps, 1)
        for pipeline in host_pipelines
        for stage in pipeline.stages
        if stage.runs_python or stage.type == "Generator"
    )


def _collectives(run: Run) -> Iterator[Finding]:
    """Yield a finding for each program whose workers have no device and spend much of the step in
    collectives: waiting for each other, or the transfer itself.
    """
    for cost in collective_costs(run):
        if cost.share < _TRANSFER.value:
            continue
        alone = cost.wait_ps is None
        spends = (
            f"{humanize(cost.transfer_ps, Unit.PS)} per step ({cost.share:.0%}) in collectives "
            f"({cost.count:.0f} {cost.collective_type})"
        )
        sentence = f"{cost.last_worker} spends {spends}: waiting for other workers, or the transfer itself."
        if not alone:
            apart = (cost.wait_ps or 0.0) >= _WAIT_RATIO * cost.transfer_ps
            who = f"Even {cost.last_worker}, which the others wait for," if apart else "Every worker"
            more = f"; others wait {humanize(cost.wait_ps or 0.0, Unit.PS)} more" * apart
            sentence = f"{who} spends {spends}: that is the transfer itself, and no waiting{more}."
        reduce = "Transfer less, or less often: a larger batch per worker, fewer and larger collectives, gradients in 16 bits."
        yield Finding(
            id="exchange_cost",
            severity=Severity.HIGH if cost.share >= _MUCH_TRANSFER.value else Severity.MODERATE,
            sentence=sentence,
            action=f"Capture all workers at once: the pod page then tells the two apart. {reduce}" if alone else reduce,
            evidence=(
                Evidence(f"collectives of {cost.last_worker}, of its step", cost.share, Unit.FRACTION, "average_step"),
                Evidence("the most that another worker spends beyond that", cost.wait_ps or 0.0, Unit.PS, "pod.collectives"),
            ),
            threshold=_MUCH_TRANSFER if cost.share >= _MUCH_TRANSFER.value else _TRANSFER,
            saving=build_saving(cost.share, Category.HOST_COMPUTE, assumes="if collectives took no time"),
            certainty=Certainty.POSSIBLE if alone else Certainty.LIKELY,
            host=cost.last_worker if alone else "",
        )


def _copies_of_the_model(run: Run, host: str) -> Iterator[Finding]:
    """Yield the finding on several replicas of the model that share the cores of one host without
    an accelerator.
    """
    timeline = run.by_host[host]
    count = 1 if timeline.device_planes else count_replicas(op.name for op in timeline.ops)
    if count < 2:
        return
    yield Finding(
        id="replicas_share_cores",
        severity=Severity.HIGH,
        sentence=f"{count} replicas of the model run on one host without an accelerator: they share its cores, and what they exchange comes on "
        "top.",
        action=f"Use one replica, with a batch {count} times as large: a step has the same examples, and its ops have all cores.",
        evidence=(Evidence("replicas, by the scopes of their ops", float(count), Unit.COUNT, "op_stats.ops"),),
        certainty=Certainty.CERTAIN,
        effort=Effort.SMALL,
        host=host,
        explains=("exchange_cost",),
    )


def _advise_fewer_calls(program: Workload, per_row: int) -> str:
    """Return the action that gets the same work done with fewer calls."""
    batch = "Use a larger batch (it changes the training: compare the time per example)"
    if program.is_inference:
        return "Predict more at once: " + program.select_text(
            keras="predict(..., batch_size=1024), or model(x) for what fits into memory.",
            tensorflow="larger batches, and no .numpy() between them.",
            jax="larger batches, and no fetch between them.",
        )
    if per_row > 1:
        return f"{batch}."
    return program.select_text(
        keras=f"Run several batches per call: compile(..., steps_per_execution=16). Or: {batch[:1].lower()}{batch[1:]}.",
        tensorflow="Run several steps inside one tf.function (for batch in dataset, or tf.while_loop), and read values (.numpy()) only behind "
        f"it. Or: {batch[:1].lower()}{batch[1:]}.",
        jax="Run several steps per call with jax.lax.scan, and fetch values only behind it. Pass fewer and flatter arguments. Or: "
        f"{batch[:1].lower()}{batch[1:]}.",
    )


def _stops(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on a stop of the training thread that is about equally long in most
    steps.
    """
    gap = find_idle_gap(run, host)
    # Limited to untraced time, since nothing else runs during a stop.
    share = min(gap.share, budgets(run)[host].category_shares[Category.ALL_OTHERS.value]) if gap else 0.0
    if gap is None or share < _STOP.value:
        return
    launching = (Category.HOST_COMPUTE, Category.KERNEL_LAUNCH) if run.has_device else ()
    # A host that no longer stops runs ahead of its device, which saves this time as well.
    launch_share = _share_of(budgets(run)[host], *launching)
    between = f" between {gap.previous_event} and {gap.next_event or 'the end of the step'}" if gap.previous_event else ""
    much = share >= _MUCH_STOP.value
    yield Finding(
        id="even_stops",
        severity=Severity.HIGH if much else Severity.MODERATE,
        sentence=f"The training thread stops for {humanize(gap.length_ps, Unit.PS)}{between}, almost equally long in {gap.gap_steps} of "
        f"{gap.steps} steps: a sleep, a lock, a wait for something outside, or Python that does the same each time.",
        action=program.select_text(
            keras="Find the wait: sleep(), locks, network calls and long Python in callbacks and metrics that run after each "
            "batch; 'outpace profile' names the line.",
            tensorflow="Find the wait: sleep(), locks, network calls and long Python in the loop; 'outpace profile' names the line.",
            jax="Find the wait: sleep(), locks, network calls and long Python in the loop; 'outpace profile' names the line.",
        ),
        evidence=(
            Evidence("its length at least", gap.length_ps, Unit.PS, "average_step"),
            Evidence("share of the step", share, Unit.FRACTION, "average_step"),
        ),
        threshold=_MUCH_STOP if much else _STOP,
        saving=build_saving(share + launch_share, Category.ALL_OTHERS, *launching, assumes="if the thread went on at once"),
        host=host,
        effort=Effort.SMALL,
        explains=("python_overhead", "late_launches"),
    )


def _share_of(budget: Budget, *categories: Category) -> float:
    """Return the share of the step that the categories take together."""
    return sum(budget.category_shares[category.value] for category in categories)


def _waits_in_calls(run: Run, host: str, program: Workload) -> Iterator[Finding]:
    """Yield the finding on calls that return only when the device is done: what the host does from
    then to the next launch leaves the device idle.
    """
    timeline, budget = run.by_host[host], budgets(run)[host]
    waits = device_waits(timeline)
    if not len(waits.device_idle_ps):
        return
    time, steps = float(waits.device_idle_ps.mean()), format_count(len(timeline.steps.steady_rows), "step")
    categories = (Category.ALL_OTHERS, Category.HOST_COMPUTE, Category.KERNEL_LAUNCH)
    share = min(
        float(waits.device_idle_ps.sum()) / float(timeline.steps.duration[timeline.steps.steady_rows].sum()),
        _share_of(budget, *categories),
    )
    if share < _STOP.value:
        return
    much = share >= _MUCH_STOP.value
    length, line = float((waits.end - waits.start).mean()), find_step_line(run, host)
    yield Finding(
        id="waits_in_calls",
        severity=Severity.HIGH if much else Severity.MODERATE,
        sentence=f"In {len(waits.device_idle_ps)} of {steps} the training thread waits for the device "
        f"({humanize(length, Unit.PS)}, without an event), "
        f"and only then prepares the next call: the device is idle for {humanize(time, Unit.PS)} before that.",
        action=program.select_text(
            keras="Let the host run ahead: read logs and losses in callbacks only every few batches, or run several batches per call "
            "(compile(steps_per_execution=...)).",
            tensorflow="Let the host run ahead: read results (.numpy(), float(loss), print) only every few steps.",
            jax="Run several steps per call with jax.lax.scan, or let the host run ahead: no block_until_ready() or float(loss) in the loop, "
            "and jax.jit instead of a wrapper that waits by itself (equinox.filter_jit).",
        ),
        evidence=(
            Evidence("idle from the end of its work to the next launch's", time, Unit.PS, "average_step"),
            Evidence("share of the step", share, Unit.FRACTION, "average_step"),
        ),
        threshold=_MUCH_STOP if much else _STOP,
        saving=build_saving(share, *categories, assumes="if the host never waited, and its work ran while the device is busy"),
        location=line,
        host=host,
        effort=Effort.MEDIUM,
        explains=("python_overhead", "late_launches", "even_stops"),
    )
