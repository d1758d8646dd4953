"""What bounds the mean step, in a sentence and as figures of the picture beside it: both are made here, so that neither denies the other."""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.metrics.machine.host_copies import host_copies
from outpace.metrics.program.host_time import HostTime, of_hosts
from outpace.metrics.program.program import program
from outpace.metrics.program.same_program import main_program
from outpace.metrics.program.step_breakdown import step_breakdown
from outpace.metrics.program.whole_step import no_whole_step
from outpace.model import Category, Chart, ChartKind, Table, Unit, humanize
from outpace.timeline import Run
from outpace.tools.overview.compute import Average
from outpace.tools.overview.schema import STEADY

RUNS, BETWEEN, TRANSFERS = "Ops on the host", "Host, no op runs", "Transfers from the host"
"""Parts of categories in the picture: of computation on the host, and what of the input moves to devices, which nothing waits for."""

_UNSEEN = "Host-bound (Python or untraced work)"
_COLORS = {c.label: c.value for c in Category}
_MOSTLY_OPS = 0.5  # of what counts as computation on the host
_MOSTLY_COPIES = 0.5  # of what counts as computation on the host
_INPUT_BOUND = 0.2  # of the step, from where XProf calls a program highly input-bound


@dataclass(frozen=True)
class Bound:
    """The sentence, and what it says of parts of the picture: their labels, and the share of the step that it gives them."""

    sentence: str
    shares: dict[str, float]


def bound(run: Run, mean: Average) -> Bound:
    """What bounds the mean step."""
    shares = {c: mean.share(c) for c in Category}
    halves = (Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)
    shares[halves[1]] += shares.pop(halves[0])  # one sentence speaks of device compute as a whole
    top = max(shares, key=lambda c: shares[c])
    kind = "prediction" if program(run).predicts else "step"
    step = f"{humanize(mean.mean, Unit.PS)} {'mean ' * mean.uneven}{kind}"
    moved = _moved(run)
    whole = mean.share(Category.INPUT)
    waits = max(0.0, whole - moved)
    waiting = {Category.INPUT.label: waits}
    if moved >= whole / 2 and (top is Category.INPUT or whole >= _INPUT_BOUND):
        said = f"Bound by transfers from the host: {moved:.0%} of the {step}; {waits:.0%} waits for input data."
        return Bound(said, {TRANSFERS: moved, **waiting})
    if top is Category.INPUT or whole >= _INPUT_BOUND:
        return Bound(f"Input-bound: {waits:.0%} of the {step} waits for input data.", waiting)
    copied = [row["share"] for row in host_copies(run).records() if row["host"] in main_program(run)]
    if top is Category.HOST_COMPUTE and sum(copied) >= _MOSTLY_COPIES * shares[top] * len(copied) > 0:
        share = sum(copied) / len(copied)
        said = f"Bound by copies of NumPy arrays to the device: {share:.0%} of the {step}; {waits:.0%} waits for input."
        return Bound(said, waiting)
    if top is Category.HOST_COMPUTE:
        time = of_hosts(run, *main_program(run))
        said, parts = _on_host(time, step, run.has_device)
        return Bound(f"{said}; {waits:.0%} waits for input.", {**parts, **waiting})
    named = {
        Category.DEVICE_COMPUTE_32: "Bound by computation on the device",
        Category.ALL_OTHERS: _UNSEEN,
    }.get(top, f"Bound by {top.label.lower()}")
    parts = {} if top in halves else {top.label: shares[top]}
    return Bound(f"{named}: {shares[top]:.0%} of the {step}; {waits:.0%} waits for input.", {**parts, **waiting})


def _moved(run: Run) -> float:
    """Share of the step that goes to transfers from the host, which counts as input."""
    return step_breakdown(run).of(*main_program(run)).transfers


def _on_host(time: HostTime, step: str, has_device: bool) -> tuple[str, dict[str, float]]:
    """What bounds a step in which the host works: ops, or what stands between them; and the parts of the picture that say so."""
    idle = time.computation - time.running
    if time.running >= _MOSTLY_OPS * time.computation:
        parts = {} if has_device else {RUNS: time.running}
        return f"Bound by computation on the host: ops run in {time.running:.0%} of the {step}", parts
    what, share = time.rest
    parts = {} if has_device else {BETWEEN: idle}
    return f"Host-bound: no op runs in {idle:.0%} of the {step} ({what}: {share:.0%})", parts


def picture(run: Run, mean: Average, title: str) -> Chart:
    """The mean step; computation on a host without devices is divided into ops and what stands between them, input into waits and transfers."""
    time, moved = of_hosts(run, *main_program(run)), _moved(run)
    waits = mean.share(Category.INPUT)
    divided: dict[str, dict[str, float]] = {}
    if not run.has_device and time.computation:
        divided[Category.HOST_COMPUTE.value] = {
            RUNS: time.running / time.computation,
            BETWEEN: 1 - time.running / time.computation,
        }
    if moved and waits:
        divided[Category.INPUT.value] = {Category.INPUT.label: max(0.0, 1 - moved / waits), TRANSFERS: min(1.0, moved / waits)}
    if not divided:
        return Chart(title, ChartKind.STACK_TOTAL, mean.table, "category", ("mean_ps",), _COLORS)
    rows = []
    for row in mean.table.records():
        for name, part in divided.get(row["key"], {row["category"]: 1.0}).items():
            rows.append({**row, "category": name, "mean_ps": row["mean_ps"] * part})
    rows.sort(key=lambda row: row["category"] in (BETWEEN, TRANSFERS))  # a category keeps its glyph
    table = Table.from_rows("steady_step", title, STEADY, [tuple(row[f.name] for f in STEADY) for row in rows])
    return Chart(title, ChartKind.STACK_TOTAL, table, "category", ("mean_ps",), {**_COLORS, RUNS: Category.HOST_COMPUTE.value})


def name_of(run: Run, mean: Average, *, builds: bool) -> str:
    """What the step is that is shown: one name for its time and its picture."""
    if no_whole_step(run):
        return "Captured step"
    if builds:
        return "Step"
    return "Mean step" if mean.uneven else "Steady step" if mean.rows > 1 else "Step"
