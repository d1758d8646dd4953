"""Which hosts of a run execute one program."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.cluster.program_groups import comparable_groups, main_program_hosts, program_groups
from outpace.testing import SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.support import PROFILES, opened

MS = 1_000_000_000
OPS = (("dense/MatMul", "MatMul", 4 * MS), ("conv/Conv2D", "Conv2D", 2 * MS))
REDUCE = ("reduce", "CollectiveReduceV2", 1 * MS)
PYTHON = ("Root", "Prefetch", "Generator")
LATER = {"timestamp_ns": 60 * 10**9}


def run_of(**hosts: Any) -> Run:
    """A run of several hosts; each value is the arguments of `training_run`."""
    asked = {host: {"ops": OPS, **given} for host, given in hosts.items()}
    return Run.from_traces([read_trace(training_run(hostname=host, **given).to_bytes(), host) for host, given in asked.items()])


def test_equal_workers_are_one_program_and_train_together() -> None:
    found = program_groups(run_of(a={}, b={"input_ps": 3 * MS}, c={}))
    assert found.groups == (("a", "b", "c"),)
    assert found.reason.startswith("a, b and c execute the same program: all of each one's op time")


def test_runs_of_one_program_at_different_times_are_comparable_but_not_together() -> None:
    found = program_groups(run_of(a={}, b=LATER))
    assert (found.groups, found.trains_together) == ((("a", "b"),), (False,))
    assert "do not train together" in found.reason


def test_other_ops_are_another_program() -> None:
    found = program_groups(run_of(a={}, b={"ops": (("lstm/While", "While", 6 * MS), *OPS[1:])}, c={}))
    assert found.groups == (("a", "c"), ("b",))
    assert "b executes another program than a and c" in found.reason
    assert "(lstm/While)" in found.reason


def test_a_checkpoint_of_the_chief_is_no_other_program() -> None:
    assert len(program_groups(run_of(a={"ops": (*OPS, ("save/SaveV2", "SaveV2", 5 * MS))}, b={})).groups) == 1


@pytest.mark.parametrize(
    ("pipeline", "groups"),
    [
        (("Root", "Prefetch", "ParallelMapV2", "Shuffle", "TensorSlice"), 1),
        (("Root", "Map", "Shuffle", "TensorSlice"), 1),  # not parallel and without prefetch: slower, but the same work
        (PYTHON, 2),
    ],
)
def test_pipelines_are_compared_by_what_they_do(pipeline: tuple[str, ...], groups: int) -> None:
    found = program_groups(
        run_of(a={"pipeline": ("Root", "Prefetch", "ParallelMapV2", "Shuffle", "TensorSlice")}, b={"pipeline": pipeline})
    )
    assert len(found.groups) == groups
    assert ("input pipelines differ (Generator instead of" in found.reason) == (groups == 2)


def test_collectives_in_steps_that_coincide_make_one_program_of_different_pipelines() -> None:
    with_reduce = {"ops": (*OPS, REDUCE)}
    assert len(program_groups(run_of(a=with_reduce, b={**with_reduce, "pipeline": PYTHON})).groups) == 1
    assert len(program_groups(run_of(a=with_reduce, b={**with_reduce, "pipeline": PYTHON, **LATER})).groups) == 2


def test_hosts_that_recorded_nothing_are_in_no_group() -> None:
    idle = SpaceBuilder("c")
    idle.plane("/host:CPU")
    traces = [read_trace(training_run(hostname=h, ops=OPS).to_bytes(), h) for h in "ab"]
    assert program_groups(Run.from_traces([*traces, read_trace(idle.to_bytes(), "c")])).groups == (("a", "b"),)


@pytest.mark.parametrize("name", [n for n in PROFILES if n != "multi_host"])
def test_hosts_of_one_training_are_comparable(name: str) -> None:
    run = opened(name).run
    groups, reason = comparable_groups(run)
    assert groups == (tuple(t.host for t in run.hosts),)
    assert bool(reason) == (len(run.hosts) > 1)


def test_three_programs_that_were_captured_at_once_are_told_apart_by_what_they_execute() -> None:
    groups, reason = comparable_groups(opened("multi_host").run)
    assert groups == (("localhost_7010", "localhost_7012"), ("localhost_7011",))
    for evidence in ("EagerPyFunc", "Generator > FlatMap", "no collective", "different times"):
        assert evidence in reason


def test_calls_of_one_function_are_one_program_where_no_op_was_recorded() -> None:
    def calls(host: str) -> SpaceBuilder:
        space = SpaceBuilder(host)
        line = space.plane("/host:CPU").line("python")
        for at in range(10):
            line.event("PjitFunction(step)", at * 10 * MS, 4 * MS)
        return space

    run = Run.from_traces([read_trace(calls(host).to_bytes(), host) for host in ("a", "b", "c")])
    assert program_groups(run).groups == (("a", "b", "c"),)
    assert main_program_hosts(run) == ("a", "b", "c")
