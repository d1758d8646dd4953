"""Times of a model's parts, cores in use, input work inside the model: on profiles whose every time
is known.
"""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.facts.workload import Framework, Workload
from outpace.metrics.views.core_use import MULTI_THREADED, SINGLE_THREADED, core_use, lone_ops
from outpace.metrics.views.misplaced_ops import AUGMENTATION, PYTHON, RANDOM, misplaced_ops
from outpace.metrics.views.model_parts import model_parts
from outpace.metrics.views.model_work import model_work
from outpace.metrics.views.small_ops import small_ops
from outpace.testing import LineBuilder, SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.tools.model_time.parts import find_parts as tool_parts
from outpace.trace import read_trace

MS = 1_000_000_000
STEPS = 4
STEP = 10 * MS


def layer(name: str, of: str) -> dict[str, Any]:
    facts = {"name": name, "kind": "layer", "type": of, "file": "/w/train.py", "line": 3, "text": name}
    return {**facts, "inner": False, "call_file": "", "call_line": 0}


def run_of(space: SpaceBuilder, record: dict[str, Any] | None = None) -> Run:
    return Run.from_traces([read_trace(space.to_bytes(), "vm")], records={"vm": record or {}})


def ran(*ops: tuple[str, str, int], **options: Any) -> Run:
    return run_of(training_run(steps=STEPS, ops=ops, input_ps=1 * MS, **options))


Events = list[tuple[str, int, int]]  # name, start and length within the step, ps


def threads(*lines: Events, iter_num: int = 0, record: dict[str, Any] | None = None) -> Run:
    """Steps of 10 ms whose ops run on several executor threads; each line's events are nested in
    the order given.
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main = plane.line("python")
    for number in range(STEPS):
        main.event("train", number * STEP, STEP, step_num=number, _r=1)
        main.event("FunctionRun", number * STEP, STEP, _pt=2, _p=number + 1, id=number)
    for at, events in enumerate(lines):
        executor(plane.line(f"tf_Compute/{at}"), events, iter_num)
    return run_of(space, record)


def executor(line: LineBuilder, events: Events, iter_num: int) -> None:
    for number in range(STEPS):
        for name, start, length in events:
            if name == "run":
                stats = {"id": number, "iter_num": iter_num, "_ct": 2, "_c": number + 1}
                line.event("ExecutorState::Process", number * STEP + start, length, **stats)
            else:
                line.event(name, number * STEP + start, length)


def parts(run: Run) -> dict[str, dict[str, Any]]:
    return {row["part"]: row for row in model_parts(run).records()}


def test_forward_and_backward_of_a_layer_are_one_part() -> None:
    found = parts(
        ran(
            ("functional_1/conv_1/convolution", "Conv2D", 2 * MS),
            ("gradient_tape/functional_1/conv_1/convolution/Conv2DBackpropFilter", "Conv2DBackpropFilter", 5 * MS),
            ("adam/Mul", "Mul", 1 * MS),
            step_ps=STEP,
        )
    )
    conv = found["conv_1"]
    assert (conv["forward_ps"], conv["backward_ps"], conv["self_ps"]) == (2 * MS, 5 * MS, 7 * MS)
    assert conv["share"] == pytest.approx(0.7, abs=0.01)
    assert (conv["top_op"], conv["top_op_ps"], conv["count"]) == ("Conv2DBackpropFilter", 5 * MS, 2)
    assert found["optimizer"]["self_ps"] == 1 * MS


def test_what_the_pipeline_runs_is_no_part() -> None:
    assert set(parts(ran(("dense/MatMul", "MatMul", 4 * MS), step_ps=STEP, work_ps={"ParallelMapV2": 3 * MS}))) == {"dense"}


def test_threads_that_work_at_once_share_the_moment() -> None:
    run = threads(
        [("run", 1 * MS, 8 * MS), ("a/x:MatMul", 1 * MS, 8 * MS)], [("run", 5 * MS, 4 * MS), ("b/x:MatMul", 5 * MS, 4 * MS)]
    )
    found = parts(run)
    assert found["a"]["self_ps"] == pytest.approx(6 * MS, abs=10)
    assert found["b"]["self_ps"] == pytest.approx(2 * MS, abs=10)
    (cores,) = core_use(run).records()
    assert cores["compute_ps"] == pytest.approx(8 * MS)
    assert cores["alone_ps"] == pytest.approx(4 * MS)
    assert cores["busy_threads"] == pytest.approx(1.5)
    (alone,) = lone_ops(run).records()
    assert (alone["part"], alone["threads"]) == ("a", MULTI_THREADED)
    assert alone["alone_ps"] == pytest.approx(4 * MS)


def test_the_op_that_runs_longest_is_named_whatever_runs_at_once_with_it() -> None:
    backward = "gradient_tape/dense"
    run = threads(
        [
            ("run", 0, 10 * MS),
            ("dense/x:FusedConv2D", 0, 4 * MS),
            (f"{backward}/filter:Conv2DBackpropFilter", 4 * MS, 5 * MS),
        ],
        [("run", 4 * MS, 3 * MS), (f"{backward}/bias:BiasAddGrad", 4 * MS, 3 * MS)],
    )
    dense = parts(run)["dense"]
    assert dense["top_op"] == "Conv2DBackpropFilter"
    assert dense["top_op_ps"] == pytest.approx(3.5 * MS, abs=10)
    assert dense["top_op_name"] == f"{backward}/filter"


def test_the_executors_own_time_goes_to_the_ops_that_it_ran_or_to_the_nearest() -> None:
    events = [
        ("run", 1 * MS, 3 * MS),
        ("a/x:Mul", 2 * MS, 1 * MS),
        ("run", 5 * MS, 1 * MS),
        ("run", 7 * MS, 2 * MS),
        ("b/x:Mul", 7 * MS, 1 * MS),
    ]
    found = parts(threads(events))
    assert found["a"]["overhead_ps"] == pytest.approx(2 * MS)
    assert found["b"]["overhead_ps"] == pytest.approx(2 * MS)  # 1 ms of its own run, 1 ms of the empty one 2 ms before
    assert found["b"]["share"] == pytest.approx(0.3)
    (small,) = small_ops(threads(events)).records()
    assert (small["ops"], small["dispatches"], small["overhead_share"]) == (2, 3, pytest.approx(0.4))
    assert small["elementwise_share"] == pytest.approx(0.2)


def test_waiting_for_another_thread_counts_only_where_nothing_computes() -> None:
    waits = [("run", 0, 8 * MS), ("call:StatefulPartitionedCall", 0, 8 * MS)]
    found = parts(threads(waits, [("run", 1 * MS, 5 * MS), ("a/x:MatMul", 1 * MS, 5 * MS)]))
    assert found["a"]["self_ps"] == pytest.approx(5 * MS)
    assert found["call"]["self_ps"] == pytest.approx(3 * MS)


def test_kinds_of_work_add_up_over_parts() -> None:
    events = [
        ("run", 0, 9 * MS),
        ("a/x:Cast", 0, 2 * MS),
        ("b/x:Cast", 2 * MS, 1 * MS),
        ("b/y:MatMul", 3 * MS, 2 * MS),
        ("adam/x:Mul", 5 * MS, 1 * MS),
        ("lstm_1/while/x:Mul", 6 * MS, 1 * MS),
        ("to/x:_Send", 7 * MS, 1 * MS),
        ("logs/x:FlushSummaryWriter", 8 * MS, 1 * MS),
    ]
    run = threads(events)
    found = {(row["work"], row["part"]): row["self_ps"] / MS for row in model_work(run).records()}
    assert found == {
        ("casts", "a"): 2,
        ("casts", "b"): 1,
        ("matrix products", "b"): 2,
        ("the optimizer", "optimizer"): 1,
        ("recurrent loops", "lstm_1/while"): 1,
        ("other ops", "transfers"): 1,
        ("other ops", "logs"): 1,
    }
    assert parts(run)["b"]["work"] == "matrix products"
    told = tool_parts(run, "vm", Workload(Framework.TENSORFLOW))
    assert {part.name for part in told} == {"a", "b", "optimizer", "while"}  # logs and transfers are none


def test_compiled_ops_that_no_link_reaches_belong_to_the_step_of_their_time() -> None:
    """XLA's thread pool runs them, while a thread of the executor waits."""
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main, pool = plane.line("python"), plane.line("tf_XLAEigen/1")
    for number in range(STEPS):
        main.event("train", number * STEP, STEP, step_num=number, _r=1)
        main.event("BlockUntilReady", number * STEP + 1 * MS, 8 * MS)
        pool.event("reduce-window.3", number * STEP + 2 * MS, 6 * MS, hlo_op="reduce-window.3", hlo_module="m")
    run = run_of(space)
    assert {p: row["self_ps"] / MS for p, row in parts(run).items()} == {"reduce-window.3": 6, "compiled program": 2}
    assert [(row["work"], row["top_op"]) for row in model_work(run).records()] == [("pooling", "reduce-window.3")]
    (told,) = tool_parts(run, "vm", Workload(Framework.TENSORFLOW))
    assert told.name == "reduce-window.3"


def test_input_work_inside_the_model() -> None:
    record = {
        "layers": {
            "net_1": {**layer("net", "Functional"), "kind": "model"},
            "net_1/flip_1": layer("flip", "RandomFlip"),
            "net_1/dropout_1": layer("dropout", "Dropout"),
        }
    }
    events = [
        ("run", 0, 9 * MS),
        ("net_1/flip_1/Reverse:ReverseV2", 0, 3 * MS),
        ("net_1/flip_1/u:StatelessRandomUniformV2", 3 * MS, 1 * MS),
        ("net_1/dropout_1/u:StatelessRandomUniformV2", 4 * MS, 1 * MS),
        ("py:EagerPyFunc", 5 * MS, 2 * MS),
        ("dense/MatMul:MatMul", 7 * MS, 2 * MS),
    ]
    run = threads(events, record=record)
    found = {(row["kind"], row["type"]): row for row in misplaced_ops(run).records()}
    assert set(found) == {(AUGMENTATION, "RandomFlip"), (RANDOM, "StatelessRandomUniformV2"), (PYTHON, "EagerPyFunc")}
    assert found[AUGMENTATION, "RandomFlip"]["self_ps"] == pytest.approx(4 * MS)
    assert found[RANDOM, "StatelessRandomUniformV2"]["dropout"]
    assert found[PYTHON, "EagerPyFunc"]["share"] == pytest.approx(0.2)
    assert {row["type"]: row["threads"] for row in lone_ops(run).records()}["EagerPyFunc"] == SINGLE_THREADED


def test_a_run_without_steps_has_empty_tables() -> None:
    run = ran(("a/x", "MatMul", MS))
    idle = SpaceBuilder()
    idle.plane("/host:CPU").line("python").event("nothing", 0, MS)
    for table in (model_parts, core_use, lone_ops, misplaced_ops, small_ops):
        assert len(table(run_of(idle))) == 0
        assert len(table(run)) == (0 if table is misplaced_ops else 1)
