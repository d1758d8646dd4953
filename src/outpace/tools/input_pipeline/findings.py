# SPDX-License-Identifier: Apache-2.0
"""Findings about input: whether the program is input-bound, and whether input and model compete for
cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from outpace.metrics.facts import cpu_saturation
from outpace.metrics.facts.host_offload import HostOffload
from outpace.metrics.facts.step_breakdown import TRANSFERS_COLUMN, StepBreakdown
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.bounds import input_wait_bound, overlap_bound
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.source_line import shorten_source_path
from outpace.model import (
    Category,
    Certainty,
    Evidence,
    Finding,
    Saving,
    Severity,
    Table,
    Threshold,
    Unit,
    bootstrap_saving,
    humanize,
)
from outpace.model.text import is_majority

_XPROF = "XProf's input pipeline page"
HIGHLY_BOUND = Threshold("highly input-bound", 0.20, Unit.FRACTION, _XPROF)
MODERATELY_BOUND = Threshold("moderately input-bound", 0.05, Unit.FRACTION, _XPROF)
POTENTIALLY_BOUND = Threshold("potentially input-bound", 0.03, Unit.FRACTION, f"{_XPROF}: share of 'All others'")
_VISIBLE = 0.0005  # share of the step below which a wait is printed as 0.0%
_COMPETES = Threshold("input's share of busy time", 0.20, Unit.FRACTION, "less cannot slow the model noticeably")


def judge_input_wait(breakdown: StepBreakdown) -> tuple[Severity, str, float]:
    """Return (severity, sentence, share of the step time that waits for input)."""
    whole = breakdown.steady_steps
    total = float(whole["duration_ps"].sum())
    share = float(breakdown.category_ps(Category.INPUT, whole).sum()) / total
    untraced = float(breakdown.category_ps(Category.ALL_OTHERS, whole).sum()) / total
    if share >= MODERATELY_BOUND.value:
        return *_judge_share(share), share
    if untraced >= POTENTIALLY_BOUND.value:
        text = f"The program may be input-bound: {share:.1%} of the step time waits for input, and {untraced:.1%} is untraced."
        if share < _VISIBLE:
            text = f"No wait for input was recorded; {untraced:.1%} of the step time is untraced, where input that Python prepares would be."
        return Severity.POTENTIAL, text, share
    return Severity.INFO, f"The program is not input-bound: {share:.1%} of the step time waits for input.", share


def render_headline(breakdown: StepBreakdown) -> str:
    """Return the sentence at the top of the page: the input verdict, or, where transfers make up
    most of the input time, the shares of transfers and of waiting.
    """
    _, sentence, share = judge_input_wait(breakdown)
    moved = breakdown.transfer_share
    if moved < MODERATELY_BOUND.value or not is_majority(moved, share):
        return sentence
    return f"{moved:.1%} of the step time goes to transfers from the host; {max(0.0, share - moved):.1%} waits for input."


def _judge_share(share: float) -> tuple[Severity, str]:
    """Return (severity, sentence) for a share of the step time that waits for input."""
    severity, much = (Severity.HIGH, "highly") if share >= HIGHLY_BOUND.value else (Severity.MODERATE, "moderately")
    return severity, f"The program is {much} input-bound: {share:.1%} of the step time waits for input."


def iter_findings(
    breakdown: StepBreakdown,
    saturation: Table | None,
    core_savings: Mapping[str, tuple[float, float]],
    program: Workload,
    producer_share: float | None,
    offloads: Iterable[HostOffload] = (),
) -> Iterator[Finding]:
    """Yield all findings of the page.

    saturation: table of CPU saturation; None on hosts with an accelerator
    core_savings: by host, (maximum share of its own time that a step saves if no input thread used
        a core, slowdown of a step by the profiler in ps)
    producer_share: time per step of the slowest segment of the pipelines that prepare batches while
        the model trains, as a share of the step; None where no pipeline does
    offloads: arrays that programs keep in the host's memory
    """
    _, _, share = judge_input_wait(breakdown)
    for offload in offloads:
        yield from _offloading(offload, breakdown)
    moved = breakdown.transfer_share
    if moved >= MODERATELY_BOUND.value:
        yield _transfers(moved, breakdown, program)
        share -= moved
    if share >= MODERATELY_BOUND.value:
        severity, sentence = _judge_share(share)
        whole = breakdown.steady_steps
        waits, steps = (
            breakdown.category_ps(Category.INPUT, whole) - whole[TRANSFERS_COLUMN],
            whole["duration_ps"].astype(np.float64),
        )
        faster, assumes = (
            share if producer_share is None else input_wait_bound(share, producer_share),
            "if no step waited for input",
        )
        if not faster:
            severity = Severity.INFO
            sentence = f"{sentence} The pipeline keeps up: its threads work for {producer_share:.0%} of the step."
        if producer_share is None:
            faster, assumes = overlap_bound(waits, steps), "if input and the rest of the step ran at the same time"
        yield Finding(
            id="input_bound",
            severity=severity,
            sentence=sentence,
            action=_overlap_advice(program) if producer_share is None else _speed_advice(program),
            evidence=(
                Evidence("share of the step time that waits for input", share, Unit.FRACTION, "step_statistics"),
                Evidence("share in the step that waited most", _worst(breakdown), Unit.FRACTION, "steps"),
            ),
            threshold=HIGHLY_BOUND if severity is Severity.HIGH else MODERATELY_BOUND,
            counter_evidence=_busy_cores_note(saturation),
            saving=build_saving(faster, Category.INPUT, assumes=assumes),
        )
    if saturation is not None:
        yield from _contention(breakdown, saturation, core_savings, program)


def _overlap_advice(program: Workload) -> str:
    """Return advice that makes input and model overlap."""
    return program.select_text(
        keras="Prepare batches while the model trains: a tf.data pipeline that ends in .prefetch(tf.data.AUTOTUNE), or a PyDataset "
        "with workers.",
        tensorflow="Prepare batches while the model trains: end the pipeline with .prefetch(tf.data.AUTOTUNE).",
        jax="Prepare the next batch ahead, in another thread while the step runs, and move it with jax.device_put.",
    )


def _speed_advice(program: Workload) -> str:
    """Return advice for a pipeline that runs in parallel with the model already, but is too
    slow.
    """
    return program.select_text(
        tensorflow="Make the input pipeline faster: num_parallel_calls=tf.data.AUTOTUNE in its maps, and .cache() behind what does not "
        "change.",
        jax="Make the threads that prepare batches faster: several of them, or less work for each batch.",
    )


def _offloading(offload: HostOffload, breakdown: StepBreakdown) -> Iterator[Finding]:
    """Yield a finding about a program that keeps arrays in the host's memory."""
    share = offload.fetch_share + offload.write_share
    if share < MODERATELY_BOUND.value:
        return
    whole = (
        breakdown.select_hosts(offload.host).steady_steps
        if offload.host in breakdown.steps_per_execution
        else breakdown.steady_steps
    )
    hidden = overlap_bound(whole[TRANSFERS_COLUMN].astype(np.float64), whole["duration_ps"].astype(np.float64))
    yield Finding(
        id="offloaded",
        severity=Severity.HIGH if share >= HIGHLY_BOUND.value else Severity.MODERATE,
        sentence=f"The program keeps arrays in the host's memory: each step fetches {humanize(offload.fetched_bytes, Unit.BYTES)} "
        f"({offload.fetched_arrays:.0f} arrays, {offload.fetch_share:.0%} of the step) and writes "
        f"{humanize(offload.written_bytes, Unit.BYTES)} back ({offload.write_share:.0%}).",
        action="Keep the arrays in the device's memory, where they fit, or make them smaller (16 bits). Fetching one while another is computed "
        f"with, and writing back, hides {hidden:.0%} of the step at most.",
        evidence=(
            Evidence(
                "share of the step in which the device awaits arrays of the host", offload.fetch_share, Unit.FRACTION, "steps"
            ),
            Evidence("share in which it awaits that they are written back", offload.write_share, Unit.FRACTION, "steps"),
        ),
        threshold=HIGHLY_BOUND if share >= HIGHLY_BOUND.value else MODERATELY_BOUND,
        saving=build_saving(share, Category.INPUT, Category.OUTPUT, assumes="if no array was kept in the host's memory"),
        location=shorten_source_path(offload.source),
        host=offload.host,
        certainty=Certainty.CERTAIN,
        explains=("transfer_bound", "high_output"),
    )


def _transfers(share: float, breakdown: StepBreakdown, program: Workload) -> Finding:
    """Return the finding about transfers to the device; `share` is their share of the step time."""
    whole = breakdown.steady_steps
    hidden = overlap_bound(whole[TRANSFERS_COLUMN].astype(np.float64), whole["duration_ps"].astype(np.float64))
    most = f" That hides {hidden:.0%} of the step, as long as all else takes; fewer bytes save more"
    rest = most if hidden < share else " Or move less"
    return Finding(
        id="transfer_bound",
        severity=Severity.HIGH if share >= HIGHLY_BOUND.value else Severity.MODERATE,
        sentence=f"{share:.0%} of the step time goes to host-to-device transfers while the device does nothing else.",
        action=program.select_text(
            keras=f"Transfer the next batch while this one computes: .prefetch(tf.data.AUTOTUNE) at the pipeline's end.{rest}: smaller dtypes "
            "(uint8 images, cast on the device).",
            tensorflow="Transfer the next batch while this one computes: tf.data.experimental.prefetch_to_device at the pipeline's end."
            f"{rest}: smaller dtypes (uint8 images, cast on the device).",
            jax=f"Transfer the next batch while this step runs: jax.device_put in a thread.{rest}: keep on the device what each step "
            "needs, and transfer smaller dtypes.",
        ),
        evidence=(
            Evidence("share of the step time in transfers from the host", share, Unit.FRACTION, "steps"),
            Evidence("the shorter of transfers and all else, of the step", hidden, Unit.FRACTION, "steps"),
        ),
        threshold=HIGHLY_BOUND if share >= HIGHLY_BOUND.value else MODERATELY_BOUND,
        saving=build_saving(hidden, Category.INPUT, assumes="if transfers and the rest of the step ran at the same time"),
        certainty=Certainty.CERTAIN,
    )


def _saving(breakdown: StepBreakdown, back: Mapping[str, tuple[float, float]], without: str) -> Saving | None:
    """Return the saving if there was no input at all; an upper bound.

    Without input no step waits, and the model gets back the cores that input threads used. The
    steps are taken without the profiler's slowdown, and the saving is the upper end of the
    estimate, so that it is no smaller than the bound of a single stage.

    back: `core_savings` of `iter_findings`
    without: the assumption, as text
    """
    whole = breakdown.steady_steps
    waits, steps = breakdown.category_ps(Category.INPUT, whole), whole["duration_ps"].astype(np.float64)
    most, slower = (np.array([back.get(host, (0.0, 0.0))[part] for host in whole["host"]]) for part in (0, 1))
    slower = np.minimum(slower, steps.min() / 2)
    saved = waits + most * np.maximum(steps - waits - slower, 0.0)
    share = bootstrap_saving(np.minimum(saved, steps - slower), steps - slower, "")[1].high
    assumes = without + (" and the model got back the cores that input uses" if most.any() else "")
    return build_saving(share, Category.INPUT, Category.HOST_COMPUTE, assumes=assumes)


def _worst(breakdown: StepBreakdown) -> float:
    """Return the largest share of a step that counts as input."""
    whole = breakdown.steady_steps
    return float(np.max(breakdown.category_ps(Category.INPUT, whole) / np.maximum(whole["duration_ps"], 1)))


def _busy_cores_note(saturation: Table | None) -> tuple[str, ...]:
    """Return a note, as counter-evidence, where the cores are busy while the program waits for
    input.
    """
    if saturation is None or not len(saturation):
        return ()
    busy = [row["saturation"] for row in saturation.records() if cpu_saturation.is_saturated(row)]
    if not busy:
        return ()
    return (f"The cores are {max(busy):.0%} busy: input and model compete, so parallel input alone saves less than the wait.",)


def _contention(
    breakdown: StepBreakdown, saturation: Table, back: Mapping[str, tuple[float, float]], program: Workload
) -> Iterator[Finding]:
    """Yield a finding for each host on which input threads slow down the model."""
    for row in saturation.records():
        busy, input_share, host = row["saturation"], row["input_share"], row["host"]
        if not cpu_saturation.has_core_contention(row) or input_share is None or input_share < _COMPETES.value:
            continue
        if back.get(host, (1.0, 0.0))[0] < MODERATELY_BOUND.value:  # without contention the ops are not slowed down
            continue
        yield Finding(
            id="cpu_contention",
            severity=Severity.MODERATE,
            sentence=f"The cores of {host} are {min(busy, 1.0):.0%} busy, {input_share:.0%} of it with input: input threads slow the model "
            "down even when no step waits.",
            action="Cache what does not change between epochs, preprocess offline, or move input to other machines"
            + program.select_text(keras=" (tf.data service).", tensorflow=" (tf.data service).", jax="."),
            evidence=(
                Evidence("busy threads per core during steps", busy, Unit.FRACTION, "saturation"),
                Evidence("input's share of the busy time", input_share, Unit.FRACTION, "saturation"),
            ),
            threshold=cpu_saturation.SATURATION_THRESHOLD,
            saving=_saving(breakdown.select_hosts(host), back, "if input cost nothing"),
            host=host,
            certainty=Certainty.LIKELY if cpu_saturation.is_saturated(row) else Certainty.POSSIBLE,
        )
