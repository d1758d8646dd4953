"""Facts that both sides of a comparison should share, and what it means for the verdict where they do not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from outpace._version import __version__
from outpace.metrics.input.examples import examples_per_step
from outpace.metrics.machine.captured_with import device_names, lost, tracer_levels, versions
from outpace.metrics.model.small_ops import compiled
from outpace.metrics.model.tf_functions import tf_functions
from outpace.metrics.program.program import program
from outpace.metrics.program.same_program import main_program
from outpace.metrics.program.step_breakdown import step_breakdown
from outpace.metrics.python.eager_ops import eager_ops, eager_share
from outpace.timeline import Run, Timeline

OUTPACE = "Outpace"
"""The fact that names the version which told the parts apart."""

EXAMPLES = "examples per step"
"""The one that tells how much work a step is."""

PROGRAMS = "what they run"
"""That of programs which have little in common."""

SHARED = 0.5  # of the faster side's time, that parts must hold which both sides have; else these are other programs

LOST = "lost"
"""The one that a side's captures need not share."""

_WHOLE = "nothing"
_MOST = 0.5  # of the time of ops and calls of functions
_UNKNOWN = "Not known of one of them, and compared all the same."
_BUILDS = "Another build: it may change whole classes of work, as another machine does."

FORBIDS = {
    "hosts": "Not comparable: steps wait for other hosts.",
    "devices": "Not comparable: work is divided among others.",
    "device model": "Not comparable: another machine.",
    "cores": "Not comparable: another machine.",
    EXAMPLES: "Not comparable: a step is not the same work.",
    "tracer levels": "Not comparable: the profiler itself takes another share of a step.",
}
"""Facts that forbid to compare step times where they are known to differ, with why."""

MEANS = {
    **FORBIDS,
    "script": "Another program, or one that moved: parts are matched by name.",
    "arguments": "What is compared, perhaps.",
    "program": "Other parts: few names are the same.",
    "execution": "Other parts: ops of a graph, single ops and what XLA fuses have no names in common.",
    "steps found by": "A step may begin and end elsewhere, so that what lies between two is in one of the runs alone.",
    "steps per call": "What happens once per call is spread over its steps.",
    LOST: "What is missing looks as if it took no time.",
    OUTPACE: "Parts may be told apart in another way.",
    **dict.fromkeys(("Python", "tensorflow", "keras", "tf_keras", "jax", "jaxlib", "cuda"), _BUILDS),
}
"""All facts, in the order in which they are shown, with what a difference means."""


class Difference(NamedTuple):
    """A fact that two sides do not share, empty where it is not known; `forbids`: whether step times can then not be compared."""

    name: str
    before: str
    after: str
    means: str
    forbids: bool


def facts_of(run: Run) -> dict[str, str]:
    """The facts of one capture."""
    hosts = main_program(run)
    record = run.record(hosts[0]) if hosts else {}
    first = run.by_host[hosts[0]] if hosts else run.hosts[0]
    known = versions(run, first)
    examples = examples_per_step(run).get(first.host)
    devices = [plane.name.rpartition("/")[2] for plane in first.device_planes]
    return {
        "hosts": str(len(hosts)),
        "devices": ", ".join(devices) or "none",
        "device model": device_names(first),
        "cores": str(record.get("cpu_count") or ""),  # what was seen of pools may be fewer, and forbids nothing
        EXAMPLES: "" if examples is None else str(examples),
        "tracer levels": tracer_levels(first),
        "script": str(record.get("script") or ""),
        "arguments": " ".join(record.get("argv") or ()),
        "program": program(run).name,
        "execution": _execution(run, first),
        "steps found by": first.steps.source.value if len(first.steps) else "",
        "steps per call": str(step_breakdown(run).per_row.get(first.host, "")),
        LOST: lost(run) or _WHOLE,
        OUTPACE: __version__,
        "Python": str(record.get("python") or ""),
        **{name: known[name] for name in MEANS if name in known},
    }


def _execution(run: Run, timeline: Timeline) -> str:
    """How most of a host's ops are run; empty where no function of TensorFlow or XLA is called, nor an op by itself."""
    if compiled(run, timeline):
        return "compiled by XLA"
    if eager_share(eager_ops(run), run).of_ops > _MOST:
        return "op by op"
    return "graphs" if timeline.host in tf_functions(run)["host"] else ""


def joined(facts: list[Mapping[str, str]]) -> dict[str, str]:
    """The facts of one side, of those of its captures: the first one's, but for what any of them has lost."""
    losses = dict.fromkeys(each[LOST] for each in facts if each.get(LOST, _WHOLE) != _WHOLE)
    return {**facts[0], LOST: "; ".join(losses)} if losses else dict(facts[0])


def apart(one: Mapping[str, str], two: Mapping[str, str]) -> list[str]:
    """What forbids that captures are of one side: facts that are known of both, and differ."""
    known = [(fact, one.get(fact, ""), two.get(fact, "")) for fact in (*FORBIDS, OUTPACE)]
    return [fact for fact, here, there in known if here and there and here != there]


def differences(one: Mapping[str, str], two: Mapping[str, str]) -> tuple[Difference, ...]:
    """Facts that two sides do not share, in the order of `MEANS`; what one of them does not know forbids nothing."""
    told = [(name, one.get(name, ""), two.get(name, "")) for name in dict.fromkeys((*MEANS, *one, *two))]
    return tuple(_difference(name, here, there) for name, here, there in told if here != there)


def other_programs(one: Mapping[str, str], two: Mapping[str, str], shared: float) -> tuple[Difference, ...]:
    """What forbids to compare programs that share less than half of the faster one's time: scripts of other names or, where one is not known,
    other kinds of programs. A script that was changed in most of what it does is the same program still."""
    if shared >= SHARED:
        return ()
    scripts = [os.path.basename(each.get("script", "")) for each in (one, two)]
    kinds = [each.get("program", "") for each in (one, two)]
    names = scripts if all(scripts) else kinds
    if names[0] == names[1] or not all(names):
        return ()
    return (
        Difference(PROGRAMS, names[0], names[1], f"Not comparable: they share {shared:.0%} of the faster one's time.", True),
    )


def _difference(name: str, here: str, there: str) -> Difference:
    forbids = name in FORBIDS and bool(here and there)
    return Difference(name, here, there, MEANS.get(name, "") if forbids or name not in FORBIDS else _UNKNOWN, forbids)
