"""Is the program input-bound, and do input and model fight over the cores?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from outpace.metrics.machine import cpu_saturation
from outpace.metrics.machine.offload import Offload
from outpace.metrics.program.budget import at_most
from outpace.metrics.program.counterfactual import awaited, overlapped
from outpace.metrics.program.program import Program
from outpace.metrics.program.step_breakdown import TRANSFERS, StepBreakdown
from outpace.metrics.python.source_line import short_place
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
from outpace.model.text import is_most

_XPROF = "XProf's input pipeline page"
HIGH = Threshold("highly input-bound", 0.20, Unit.FRACTION, _XPROF)
MODERATE = Threshold("moderately input-bound", 0.05, Unit.FRACTION, _XPROF)
POTENTIAL = Threshold("potentially input-bound", 0.03, Unit.FRACTION, f"{_XPROF}: share of 'All others'")
_SEEN = 0.0005  # of the step: less is written as 0.0%
_COMPETES = Threshold("input's share of busy time", 0.20, Unit.FRACTION, "less cannot slow the model noticeably")


def verdict(breakdown: StepBreakdown) -> tuple[Severity, str, float]:
    """(severity, sentence, share of the step time that waits for input)."""
    whole = breakdown.whole
    total = float(whole["duration_ps"].sum())
    share = float(breakdown.category(Category.INPUT, whole).sum()) / total
    others = float(breakdown.category(Category.ALL_OTHERS, whole).sum()) / total
    if share >= MODERATE.value:
        return *_rated(share), share
    if others >= POTENTIAL.value:
        text = f"The program may be input-bound: {share:.1%} of the step time waits for input, and {others:.1%} is untraced."
        if share < _SEEN:
            text = f"No wait for input was recorded; {others:.1%} of the step time is untraced, where input that Python prepares would be."
        return Severity.POTENTIAL, text, share
    return Severity.INFO, f"The program is not input-bound: {share:.1%} of the step time waits for input.", share


def headline(breakdown: StepBreakdown) -> str:
    """The verdict, where most of what counts as input is a wait for it, and no transfer."""
    _, said, share = verdict(breakdown)
    moved = breakdown.transfers
    if moved < MODERATE.value or not is_most(moved, share):
        return said
    return f"{moved:.1%} of the step time goes to transfers from the host; {max(0.0, share - moved):.1%} waits for input."


def _rated(share: float) -> tuple[Severity, str]:
    severity, much = (Severity.HIGH, "highly") if share >= HIGH.value else (Severity.MODERATE, "moderately")
    return severity, f"The program is {much} input-bound: {share:.1%} of the step time waits for input."


def find(
    breakdown: StepBreakdown,
    saturation: Table | None,
    back: Mapping[str, tuple[float, float]],
    program: Program,
    works: float | None,
    offloaded: Iterable[Offload] = (),
) -> Iterator[Finding]:
    """All findings. `saturation` is given on hosts without an accelerator; `back`, by host: the share of its own time that a step saves at most
    if no input thread used a core, and by how much it was slower while it was profiled, ps; `works`: where pipelines prepare batches while
    the model trains already, how long the slowest works per step, as a share of it."""
    _, _, share = verdict(breakdown)
    for each in offloaded:
        yield from _offloaded(each, breakdown)
    moved = breakdown.transfers
    if moved >= MODERATE.value:
        yield _transfers(moved, breakdown, program)
        share -= moved
    if share >= MODERATE.value:
        severity, sentence = _rated(share)
        whole = breakdown.whole
        waits, steps = breakdown.category(Category.INPUT, whole) - whole[TRANSFERS], whole["duration_ps"].astype(np.float64)
        faster, assumes = share if works is None else awaited(share, works), "if no step waited for input"
        if not faster:
            severity = Severity.INFO
            sentence = f"{sentence} The pipeline keeps up: its threads work for {works:.0%} of the step."
        if works is None:
            faster, assumes = overlapped(waits, steps), "if input and the rest of the step ran at the same time"
        yield Finding(
            id="input_bound",
            severity=severity,
            sentence=sentence,
            action=_ahead(program) if works is None else _faster(program),
            evidence=(
                Evidence("share of the step time that waits for input", share, Unit.FRACTION, "step_statistics"),
                Evidence("share in the step that waited most", _worst(breakdown), Unit.FRACTION, "steps"),
            ),
            threshold=HIGH if severity is Severity.HIGH else MODERATE,
            counter_evidence=_against(saturation),
            saving=at_most(faster, Category.INPUT, assumes=assumes),
        )
    if saturation is not None:
        yield from _contention(breakdown, saturation, back, program)


def _ahead(program: Program) -> str:
    """What overlaps input and model."""
    return program.say(
        keras="Prepare batches while the model trains: a tf.data pipeline that ends in .prefetch(tf.data.AUTOTUNE), or a PyDataset "
        "with workers.",
        tensorflow="Prepare batches while the model trains: end the pipeline with .prefetch(tf.data.AUTOTUNE).",
        jax="Prepare the next batch in another thread while the step runs, and move it with jax.device_put ahead of time.",
    )


def _faster(program: Program) -> str:
    """What helps a pipeline that runs beside the model already, and does not keep up."""
    return program.say(
        keras="Make the input pipeline faster: num_parallel_calls=tf.data.AUTOTUNE in its maps, and .cache() behind what does not change.",
        tensorflow="Make the input pipeline faster: num_parallel_calls=tf.data.AUTOTUNE in its maps, and .cache() behind what does not "
        "change.",
        jax="Make the threads that prepare batches faster: several of them, or less work for each batch.",
    )


def _offloaded(found: Offload, breakdown: StepBreakdown) -> Iterator[Finding]:
    share = found.fetching + found.writing
    if share < MODERATE.value:
        return
    whole = breakdown.of(found.host).whole if found.host in breakdown.per_row else breakdown.whole
    hidden = overlapped(whole[TRANSFERS].astype(np.float64), whole["duration_ps"].astype(np.float64))
    yield Finding(
        id="offloaded",
        severity=Severity.HIGH if share >= HIGH.value else Severity.MODERATE,
        sentence=f"The program keeps arrays in the host's memory: each step fetches {humanize(found.fetched, Unit.BYTES)} "
        f"({found.arrays:.0f} arrays, {found.fetching:.0%} of the step) and writes {humanize(found.written, Unit.BYTES)} back "
        f"({found.writing:.0%}).",
        action="Keep them in the device's memory, as far as they fit, or make them smaller (16 bits). Fetching one while another is computed "
        f"with, and writing back, hides {hidden:.0%} of the step at most.",
        evidence=(
            Evidence("share of the step in which the device awaits arrays of the host", found.fetching, Unit.FRACTION, "steps"),
            Evidence("share in which it awaits that they are written back", found.writing, Unit.FRACTION, "steps"),
        ),
        threshold=HIGH if share >= HIGH.value else MODERATE,
        saving=at_most(share, Category.INPUT, Category.OUTPUT, assumes="if no array was kept in the host's memory"),
        location=short_place(found.source),
        host=found.host,
        certainty=Certainty.CERTAIN,
        explains=("transfer_bound", "high_output"),
    )


def _transfers(share: float, breakdown: StepBreakdown, program: Program) -> Finding:
    whole = breakdown.whole
    hidden = overlapped(whole[TRANSFERS].astype(np.float64), whole["duration_ps"].astype(np.float64))
    most = f" That hides {hidden:.0%} of the step, as long as all else takes; fewer bytes save more"
    rest = most if hidden < share else " Or move less"
    return Finding(
        id="transfer_bound",
        severity=Severity.HIGH if share >= HIGH.value else Severity.MODERATE,
        sentence=f"{share:.0%} of the step time goes to host-to-device transfers while the device does nothing else.",
        action=program.say(
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
        threshold=HIGH if share >= HIGH.value else MODERATE,
        saving=at_most(hidden, Category.INPUT, assumes="if transfers and the rest of the step ran at the same time"),
        certainty=Certainty.CERTAIN,
    )


def _saving(breakdown: StepBreakdown, back: Mapping[str, tuple[float, float]], without: str) -> Saving | None:
    """A bound: without any input the wait goes, and the model gets back the cores that input threads used; of steps without the profiler, and
    the upper end of what they tell, as the bound of a single stage is: it is no more than that of all input."""
    whole = breakdown.whole
    waits, steps = breakdown.category(Category.INPUT, whole), whole["duration_ps"].astype(np.float64)
    most, slower = (np.array([back.get(host, (0.0, 0.0))[part] for host in whole["host"]]) for part in (0, 1))
    slower = np.minimum(slower, steps.min() / 2)
    saved = waits + most * np.maximum(steps - waits - slower, 0.0)
    share = bootstrap_saving(np.minimum(saved, steps - slower), steps - slower, "")[1].high
    assumes = without + (" and the model got back the cores that input uses" if most.any() else "")
    return at_most(share, Category.INPUT, Category.HOST_COMPUTE, assumes=assumes)


def _worst(breakdown: StepBreakdown) -> float:
    whole = breakdown.whole
    return float(np.max(breakdown.category(Category.INPUT, whole) / np.maximum(whole["duration_ps"], 1)))


def _against(saturation: Table | None) -> tuple[str, ...]:
    if saturation is None or not len(saturation):
        return ()
    busy = [row["saturation"] for row in saturation.records() if cpu_saturation.saturated(row)]
    if not busy:
        return ()
    return (f"The cores are {max(busy):.0%} busy: input and model compete, so parallel input alone saves less than the wait.",)


def _contention(
    breakdown: StepBreakdown, saturation: Table, back: Mapping[str, tuple[float, float]], program: Program
) -> Iterator[Finding]:
    for row in saturation.records():
        busy, input_share, host = row["saturation"], row["input_share"], row["host"]
        if not cpu_saturation.shares_cores(row) or input_share is None or input_share < _COMPETES.value:
            continue
        if back.get(host, (1.0, 0.0))[0] < MODERATE.value:  # ops are as fast as they ever were
            continue
        yield Finding(
            id="cpu_contention",
            severity=Severity.MODERATE,
            sentence=f"The cores of {host} are {min(busy, 1.0):.0%} busy, {input_share:.0%} of it with input: input threads slow the model "
            "down even when no step waits.",
            action="Cache what does not change between epochs, preprocess offline, or move input to other machines"
            + program.say(keras=" (tf.data service).", tensorflow=" (tf.data service).", jax="."),
            evidence=(
                Evidence("busy threads per core during steps", busy, Unit.FRACTION, "saturation"),
                Evidence("input's share of the busy time", input_share, Unit.FRACTION, "saturation"),
            ),
            threshold=cpu_saturation.SATURATED,
            saving=_saving(breakdown.of(host), back, "if input cost nothing"),
            host=host,
            certainty=Certainty.LIKELY if cpu_saturation.saturated(row) else Certainty.POSSIBLE,
        )
