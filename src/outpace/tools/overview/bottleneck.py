# SPDX-License-Identifier: Apache-2.0
"""What bounds the mean step: a sentence, and the shares of the step chart that it names. Both are
computed here, so that they agree.
"""

from __future__ import annotations

from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.views.host_copies import host_copies
from outpace.metrics.views.host_time import HostTime, mean_host_time
from outpace.model import Category, Chart, ChartKind, Unit, humanize
from outpace.timeline import Run
from outpace.tools.overview.compute import MeanStep
from outpace.tools.overview.schema import STEADY_STEP

HOST_OPS, HOST_NO_OP, HOST_TRANSFERS = "Ops on the host", "Between ops", "Transfers from the host"
"""Parts of categories in the step chart: two parts of computation on the host, and the part of the
input that is transferred to devices without anything waiting for it.
"""

_WORDS = {
    Category.COMPILATION: ("Compile-bound", "compiles"),
    Category.OUTPUT: ("Output-bound", "writes output"),
    Category.KERNEL_LAUNCH: ("Launch-bound", "launches kernels"),
    Category.DEVICE_TO_DEVICE: ("Copy-bound", "copies between devices"),
    Category.DEVICE_COLLECTIVES: ("Communication-bound", "waits for other devices"),
    Category.DEVICE_COMPUTE_32: ("Device-bound", "computes on the device"),
    Category.ALL_OTHERS: ("Host-bound", "is Python or untraced work"),
}
"""The word for each category that bounds steps in one way only, and what a step does in it."""

_COLORS = {c.label: c.value for c in Category}
_MOSTLY_OPS = 0.5  # minimum share of the computation on the host in which ops run, for ops to bound the step
_MOSTLY_COPIES = 0.5  # minimum share of the computation on the host in copies, for copies to bound the step
_INPUT_BOUND = 0.2  # share of the step in input from which XProf calls a program highly input-bound


@dataclass(frozen=True)
class StepBottleneck:
    """What bounds the step.

    word: the kind of bottleneck.
    share: the share of the step that it takes.
    sentence: the bottleneck in a sentence.
    shares: by label in the step chart, the share of the step that the sentence states.
    """

    word: str
    share: float
    sentence: str
    shares: dict[str, float]


def find_bottleneck(run: Run, mean_step: MeanStep) -> StepBottleneck:
    """Return what bounds the mean step."""
    shares = {c: mean_step.share(c) for c in Category}
    halves = (Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)
    shares[halves[1]] += shares.pop(halves[0])  # one sentence speaks of device compute as a whole
    top = max(shares, key=lambda c: shares[c])
    kind = "prediction" if find_workload(run).is_inference else "step"
    step = f"{humanize(mean_step.mean_ps, Unit.PS)} {'mean ' * mean_step.is_uneven}{kind}"
    moved = _transfer_share(run)
    whole = mean_step.share(Category.INPUT)
    waits = max(0.0, whole - moved)
    waiting = {Category.INPUT.label: waits}
    if moved >= whole / 2 and (top is Category.INPUT or whole >= _INPUT_BOUND):
        sentence = f"{moved:.0%} of the {step} transfers data from the host; {waits:.0%} waits for input data."
        return _bound("Transfer-bound", moved, sentence, {HOST_TRANSFERS: moved, **waiting})
    if top is Category.INPUT or whole >= _INPUT_BOUND:
        return _bound("Input-bound", waits, f"{waits:.0%} of the {step} waits for input data.", waiting)
    copied = [row["share"] for row in host_copies(run).records() if row["host"] in main_program_hosts(run)]
    if top is Category.HOST_COMPUTE and sum(copied) >= _MOSTLY_COPIES * shares[top] * len(copied) > 0:
        share = sum(copied) / len(copied)
        sentence = f"{share:.0%} of the {step} copies NumPy arrays to the device; {waits:.0%} waits for input."
        return _bound("Copy-bound", share, sentence, waiting)
    if top is Category.HOST_COMPUTE:
        time = mean_host_time(run, *main_program_hosts(run))
        return _host_bottleneck(time, step, waits, run.has_device)
    word, does = _WORDS[top]
    parts = {} if top in halves else {top.label: shares[top]}
    sentence = f"{shares[top]:.0%} of the {step} {does}; {waits:.0%} waits for input."
    return _bound(word, shares[top], sentence, {**parts, **waiting})


def _bound(word: str, share: float, sentence: str, shares: dict[str, float]) -> StepBottleneck:
    """Return a bottleneck, whose sentence begins with its word."""
    return StepBottleneck(word, share, f"{word}: {sentence}", shares)


def _transfer_share(run: Run) -> float:
    """Return the share of the step in transfers from the host, which are part of the input
    category.
    """
    return step_breakdown(run).select_hosts(*main_program_hosts(run)).transfer_share


def _host_bottleneck(time: HostTime, step: str, waits: float, has_device: bool) -> StepBottleneck:
    """Return what bounds a step in which the host works: ops, or the time between ops."""
    waiting, ending = {Category.INPUT.label: waits}, f"{waits:.0%} waits for input."
    if time.op_share >= _MOSTLY_OPS * time.compute_share:
        parts = {} if has_device else {HOST_OPS: time.op_share}
        return _bound(
            "CPU-bound", time.op_share, f"ops run in {time.op_share:.0%} of the {step}; {ending}", {**parts, **waiting}
        )
    idle, (what, share) = time.compute_share - time.op_share, time.largest_other_part
    parts = {} if has_device else {HOST_NO_OP: idle}
    sentence = f"no op runs in {idle:.0%} of the {step} ({what}: {share:.0%}); {ending}"
    return _bound("Host-bound", idle, sentence, {**parts, **waiting})


def build_step_chart(run: Run, mean_step: MeanStep, title: str) -> Chart:
    """Return the chart of the mean step. On a host without devices, computation is divided into ops
    and the time between ops; input is divided into waits and transfers.
    """
    time, moved = mean_host_time(run, *main_program_hosts(run)), _transfer_share(run)
    waits = mean_step.share(Category.INPUT)
    divided: dict[str, dict[str, float]] = {}
    if not run.has_device and time.compute_share:
        divided[Category.HOST_COMPUTE.value] = {
            HOST_OPS: time.op_share / time.compute_share,
            HOST_NO_OP: 1 - time.op_share / time.compute_share,
        }
    if moved and waits:
        divided[Category.INPUT.value] = {
            Category.INPUT.label: max(0.0, 1 - moved / waits),
            HOST_TRANSFERS: min(1.0, moved / waits),
        }
    if not divided:
        return Chart(title, ChartKind.STACK_TOTAL, mean_step.table, "category", ("mean_ps",), _COLORS)
    rows = []
    for row in mean_step.table.records():
        for name, part in divided.get(row["key"], {row["category"]: 1.0}).items():
            rows.append({"category": name, "mean_ps": row["mean_ps"] * part})
    rows.sort(key=lambda row: row["category"] in (HOST_NO_OP, HOST_TRANSFERS))  # keeps the glyph of each category
    table = replace(STEADY_STEP, title=title).build(rows)
    return Chart(
        title, ChartKind.STACK_TOTAL, table, "category", ("mean_ps",), {**_COLORS, HOST_OPS: Category.HOST_COMPUTE.value}
    )


def format_step_name(run: Run, mean_step: MeanStep, *, is_compiling: bool) -> str:
    """Return the name of the step that is shown, used for both its time and its chart."""
    if partial_step_reason(run):
        return "Captured step"
    if is_compiling:
        return "Step"
    return "Mean step" if mean_step.is_uneven else "Steady step" if mean_step.step_count > 1 else "Step"
