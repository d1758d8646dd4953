"""One side of a comparison: some captures of one program, its parts by step, and the facts that two sides must share to be compared."""

from __future__ import annotations

import re

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import once
from outpace.metrics.input.examples import examples_per_step
from outpace.metrics.input.iterators import is_async
from outpace.metrics.machine.core_use import DIVIDED
from outpace.metrics.model.op_metrics import DEVICE, HOST
from outpace.metrics.model.op_steps import op_steps
from outpace.metrics.program.program import program
from outpace.metrics.program.same_program import main_program
from outpace.metrics.program.step_breakdown import step_breakdown
from outpace.model import Category
from outpace.model.arrays import Values
from outpace.timeline import Run

PYTHON, DENSE, ELEMENTWISE = "Python and gaps", "dense ops", "other ops"
INPUT, COPIES, ON_DEVICE = "input", "copies", "device"
"""Classes of work: what a busy or another machine changes by one factor."""

_COPIES = re.compile(r"Memcpy|copy|_Send|_Recv|HostRecv|HostSend", re.IGNORECASE)
_BESIDE = (Category.ALL_OTHERS, Category.COMPILATION)  # what no op stands for
BESIDE = "Step"

Part = tuple[str, str, str]  # side (Host, Device or Step), type, name


@dataclass(frozen=True, eq=False)
class Capture:
    """parts: times of every part in every steady training step, ps; steps: of the steps themselves; categories: likewise."""

    parts: dict[Part, Values]
    steps: Values
    categories: dict[Category, Values]


@dataclass(frozen=True, eq=False)
class Side:
    """name: what people call it. runs: its captures."""

    name: str
    runs: tuple[Run, ...]

    @once
    def captures(self) -> tuple[Capture, ...]:
        """Of each run what is compared; runs without a step have none."""
        return tuple(found for found in map(_capture, self.runs) if len(found.steps))

    @once
    def parts(self) -> tuple[Part, ...]:
        """All parts of all captures, in the order in which they were met."""
        return tuple(dict.fromkeys(part for capture in self.captures for part in capture.parts))

    def times(self, part: Part) -> list[Values]:
        """A part's times by capture; zeros where a capture has none of it."""
        return [capture.parts.get(part, np.zeros(len(capture.steps))) for capture in self.captures]

    @property
    def on_device(self) -> bool:
        """Whether devices work in its steps."""
        return any(part[0] == DEVICE for part in self.parts)

    @once
    def facts(self) -> dict[str, str]:
        """What the sides should share, in words; the first capture's, since those of one side belong together."""
        return _facts(self.runs[0])


def class_of(part: Part) -> str:
    """The class of work that a part belongs to."""
    side, kind, name = part
    if side == BESIDE:
        return PYTHON
    if _COPIES.search(kind):
        return COPIES
    if side == DEVICE:
        return ON_DEVICE
    if kind == "Dataset" or name.startswith("Iterator::"):
        return INPUT
    return DENSE if DIVIDED.match(kind) else ELEMENTWISE


def _capture(run: Run) -> Capture:
    found, breakdown = op_steps(run), step_breakdown(run).of(*main_program(run))
    per_row = np.array([breakdown.per_row[host] for host in breakdown.whole["host"].tolist()], np.float64)
    categories = {each: breakdown.category(each) / per_row for each in Category}
    parts = {op: found.self_ps[row] for row, op in enumerate(found.ops) if not (op[0] == HOST and _waits(op))}
    parts |= {(BESIDE, each.label, each.label): times for each in _BESIDE if (times := categories[each]).any()}
    return Capture(parts, found.step_ps, categories)


def _waits(part: Part) -> bool:
    """Whether it is a stage of an input pipeline that waits for what other threads make, where it is called."""
    stage = part[2].rpartition("::")[2]
    return part[1] == "Dataset" and (stage == "Root" or is_async(stage))


def _facts(run: Run) -> dict[str, str]:
    hosts = main_program(run)
    record = run.record(hosts[0]) if hosts else {}
    versions = dict(record.get("versions") or {})
    first = run.by_host[hosts[0]] if hosts else run.hosts[0]
    examples = examples_per_step(run).get(first.host)
    breakdown = step_breakdown(run)
    devices = [plane.name.rpartition("/")[2] for plane in first.device_planes]
    return {
        "script": str(record.get("script") or ""),
        "arguments": " ".join(record.get("argv") or ()),
        "program": str(program(run)),
        "steps found by": first.steps.source.value if len(first.steps) else "",
        "steps per call": str(breakdown.per_row.get(first.host, "")),
        "examples per step": "" if examples is None else str(examples),
        "hosts": str(len(hosts)),
        "devices": ", ".join(devices),
        "cores": str(run.core_count(first) or ""),
        "Python": str(record.get("python") or ""),
        **{name: str(versions[name]) for name in ("tensorflow", "keras", "jax", "jaxlib") if name in versions},
    }
