"""Steps are calls of a function that trains, however often another one is called."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.timeline.loops import MS, Loop

BACKWARD = b"jit(update)/transpose(jvp(layer))/dot_general"


def programs(loop: Loop, **ops: bytes) -> None:
    """The compiled programs of functions; what stands of them are the names of their ops."""
    plane = loop.space.plane("/host:metadata")
    for number, (function, op) in enumerate(ops.items()):
        stats: dict[str, Any] = {"Hlo Proto": op}
        plane.describe(f"jit_{function}({number})", **stats)


def evaluated_often(loop: Loop) -> Loop:
    for _ in range(4):
        for _ in range(5):
            loop.jit("update", 2)
        for _ in range(8):
            loop.jit("loss", 4)
    return loop


def test_the_function_with_the_gradients_is_the_step_though_an_evaluation_runs_more_often() -> None:
    loop = Loop()
    programs(loop, update=BACKWARD, loss=b"jit(loss)/dot_general")
    steps = evaluated_often(loop).steps()
    assert len(steps) == 20
    assert "PjitFunction(update)" in steps.explanation


def test_a_lambda_trains_under_the_name_that_its_program_has() -> None:
    """XLA calls the program of `<lambda>` `jit__lambda`."""
    loop = Loop()
    programs(loop, _lambda=BACKWARD, loss=b"jit(loss)/dot_general")
    for _ in range(12):
        loop.jit("<lambda>", 2).jit("loss", 0.1)
    loop.wait(1000).event("after", 1)  # a capture of which the steps fill little
    assert "PjitFunction(<lambda>)" in loop.steps().explanation and len(loop.steps()) == 12


def test_without_programs_the_longest_function_is_the_step() -> None:
    assert "PjitFunction(loss)" in evaluated_often(Loop()).steps().explanation


def test_a_function_that_trained_once_is_no_loop() -> None:
    """`fit` holds gradients and runs a single time: what repeats is the other one."""
    loop = Loop()
    programs(loop, fit=BACKWARD)
    loop.jit("fit", 3)
    for _ in range(5):
        loop.jit("loss", 4)
    assert "5 calls of PjitFunction(loss)" in loop.steps().explanation


@pytest.mark.parametrize(
    "op, function",
    [
        ("gradient_tape/dense/MatMul:MatMul", "update"),
        ("StatefulPartitionedCall/gradient_tape/dense/MatMul:MatMul", "update"),
        ("dense/MatMul:MatMul", "score"),
    ],
)
def test_ops_of_a_tape_on_another_thread_tell_which_function_trains(op: str, function: str) -> None:
    loop = Loop()
    worker = loop.space.plane("/host:CPU").line("tf_Compute")
    for number in range(20):
        worker.event(op, loop.at + MS // 2, MS)
        loop.call("update", 2)
        if number % 5 == 4:
            for _ in range(8):
                loop.call("score", 4)
    assert f"calls of {function}" in loop.steps().explanation


def test_functions_that_trained_once_each_are_no_loop() -> None:
    loop = Loop()
    programs(loop, first=BACKWARD, second=BACKWARD)
    loop.jit("first", 3).jit("second", 3)
    for _ in range(5):
        loop.jit("loss", 4)
    assert "5 calls of PjitFunction(loss)" in loop.steps().explanation
