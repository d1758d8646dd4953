# SPDX-License-Identifier: Apache-2.0
"""Facts that both sides of a comparison should share, and the consequence for the verdict where
they differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from outpace._version import __version__
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.batch_size import examples_per_step
from outpace.metrics.facts.capture_setup import device_names, format_lost_data, framework_versions, tracer_levels
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.facts.tf_functions import tf_functions
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.views.eager_ops import compute_eager_share, eager_ops
from outpace.metrics.views.small_ops import uses_xla
from outpace.timeline import Run, Timeline

VERSION_FACT = "Outpace"
"""Name of the fact with the Outpace version that identified the parts."""

EXAMPLES_FACT = "examples per step"
"""Name of the fact with the amount of work in a step."""

PROGRAMS_FACT = "what they run"
"""Name of the fact that differs between programs with few parts in common."""

# minimum share of the faster side's time in parts that both sides have; below it the programs are
# different ones
MIN_SHARED_TIME = 0.5

LOST_FACT = "lost"
"""Name of the fact with lost data, which the captures of one side may differ in."""

_WHOLE = "nothing"
_MOST = 0.5  # minimum share of the time of ops and of function calls for an execution mode to be that of the host
_UNKNOWN = "Not known of one of them, and compared all the same."
_BUILDS = "Another build: it may change whole classes of work, as another machine does."

BLOCKING_FACTS = {
    "hosts": "Not comparable: steps wait for other hosts.",
    "devices": "Not comparable: work is divided among others.",
    "device model": "Not comparable: another machine.",
    "cores": "Not comparable: another machine.",
    EXAMPLES_FACT: "Not comparable: a step is not the same work.",
    "tracer levels": "Not comparable: the profiler itself takes another share of a step.",
}
"""Facts that forbid a comparison of step times where they are known to differ, with the reason."""

FACT_MEANINGS = {
    **BLOCKING_FACTS,
    "script": "Another program, or one that moved: parts are matched by name.",
    "arguments": "What is compared, perhaps.",
    "program": "Other parts: few names are the same.",
    "execution": "Other parts: ops of a graph, single ops and what XLA fuses have no names in common.",
    "steps found by": "A step may begin and end elsewhere, so that what lies between two is in one of the runs alone.",
    "steps per call": "What happens once per call is spread over its steps.",
    LOST_FACT: "What is missing looks as if it took no time.",
    VERSION_FACT: "Parts may be told apart in another way.",
    **dict.fromkeys(("Python", "tensorflow", "keras", "tf_keras", "jax", "jaxlib", "cuda"), _BUILDS),
}
"""All facts, in display order, with the meaning of a difference."""


class FactDifference(NamedTuple):
    """A fact that differs between two sides: its values (empty where unknown), and whether the
    difference forbids a comparison of step times (`blocks`).
    """

    name: str
    before: str
    after: str
    meaning: str
    blocks: bool


def compute_facts(run: Run) -> dict[str, str]:
    """Return the facts of one capture."""
    hosts = main_program_hosts(run)
    record = run.record(hosts[0]) if hosts else {}
    first = run.by_host[hosts[0]] if hosts else run.hosts[0]
    versions = framework_versions(run, first)
    examples = examples_per_step(run).get(first.host)
    devices = [plane.name.rpartition("/")[2] for plane in first.device_planes]
    return {
        "hosts": str(len(hosts)),
        "devices": ", ".join(devices) or "none",
        "device model": device_names(first),
        # the sizes of thread pools may show fewer cores, so they are not used here
        "cores": str(record.get("cpu_count") or ""),
        EXAMPLES_FACT: "" if examples is None else str(examples),
        "tracer levels": tracer_levels(first),
        "script": str(record.get("script") or ""),
        "arguments": " ".join(record.get("argv") or ()),
        "program": find_workload(run).name,
        "execution": _execution(run, first),
        "steps found by": first.steps.source.value if len(first.steps) else "",
        "steps per call": str(step_breakdown(run).steps_per_execution.get(first.host, "")),
        LOST_FACT: format_lost_data(run) or _WHOLE,
        VERSION_FACT: __version__,
        "Python": str(record.get("python") or ""),
        **{name: versions[name] for name in FACT_MEANINGS if name in versions},
    }


def _execution(run: Run, timeline: Timeline) -> str:
    """Return how most of a host's ops are executed; empty where the capture has no call of a
    TensorFlow or XLA function and no single op.
    """
    if uses_xla(run, timeline):
        return "compiled by XLA"
    if compute_eager_share(eager_ops(run), run).op_share > _MOST:
        return "op by op"
    return "graphs" if timeline.host in tf_functions(run)["host"] else ""


def merge_facts(facts: list[Mapping[str, str]]) -> dict[str, str]:
    """Return the facts of one side from those of its captures: the first capture's, with the lost
    data of any of them.
    """
    losses = dict.fromkeys(
        capture_facts[LOST_FACT] for capture_facts in facts if capture_facts.get(LOST_FACT, _WHOLE) != _WHOLE
    )
    return {**facts[0], LOST_FACT: "; ".join(losses)} if losses else dict(facts[0])


def find_conflicts(one: Mapping[str, str], two: Mapping[str, str]) -> list[str]:
    """Return the names of the facts that forbid captures to belong to one side: known for both and
    different.
    """
    values = [(fact, one.get(fact, ""), two.get(fact, "")) for fact in (*BLOCKING_FACTS, VERSION_FACT)]
    return [fact for fact, first, second in values if first and second and first != second]


def find_differences(one: Mapping[str, str], two: Mapping[str, str]) -> tuple[FactDifference, ...]:
    """Return the facts that differ between two sides, in the order of `FACT_MEANINGS`; a fact that
    one side does not know forbids nothing.
    """
    differences = []
    for name in dict.fromkeys((*FACT_MEANINGS, *one, *two)):
        first, second = one.get(name, ""), two.get(name, "")
        blocks = name in BLOCKING_FACTS and bool(first and second)
        meaning = FACT_MEANINGS.get(name, "") if blocks or name not in BLOCKING_FACTS else _UNKNOWN
        if first != second:
            differences.append(FactDifference(name, first, second, meaning, blocks))
    return tuple(differences)


def find_program_difference(
    one: Mapping[str, str], two: Mapping[str, str], shared_fraction: float
) -> tuple[FactDifference, ...]:
    """Return the difference that forbids a comparison of programs with less than half of the faster
    one's time in common: different script names or, where one is unknown, different kinds of
    programs. A script that was changed in most of its work is still the same program.
    """
    if shared_fraction >= MIN_SHARED_TIME:
        return ()
    scripts = [os.path.basename(facts.get("script", "")) for facts in (one, two)]
    kinds = [facts.get("program", "") for facts in (one, two)]
    names = scripts if all(scripts) else kinds
    if names[0] == names[1] or not all(names):
        return ()
    meaning = f"Not comparable: they share {shared_fraction:.0%} of the faster one's time."
    return (FactDifference(PROGRAMS_FACT, names[0], names[1], meaning, True),)
