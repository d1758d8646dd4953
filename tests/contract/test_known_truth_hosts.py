"""Built trainings on hosts whose bottleneck is known: what a report says first, and that no promise
exceeds the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outpace import api
from outpace.model import Report
from outpace.testing import SpaceBuilder, StatValue, training_run

MS = 1_000_000_000
US = 1_000_000
Spans = tuple[tuple[str, float, float], ...]
CONVOLVES = ("net/conv/Conv2D:_MklNativeConv2D", "net/dense/MatMul:_MklMatMul")


@dataclass(frozen=True)
class Loop:
    """A loop of steps of `length` ms (`lengths`: of each; what is longer than `length` is one event
    more). In each, on the training thread, the events of `spans` (name, from, until, ms); `gap`: ms
    between the steps; `every`: (steps, event, ms) that come round.
    """

    length: float
    spans: Spans
    steps: int = 12
    gap: float = 0.0
    lengths: tuple[float, ...] = ()
    stats: dict[str, dict[str, StatValue]] = field(default_factory=dict)
    longer: str = "Cast:Cast"

    def built(self, host: str, half: bool = False) -> SpaceBuilder:
        """Its profile; `half`: and the first half of a step that is not marked, since it does not
        end.
        """
        space = SpaceBuilder(host)
        line = space.plane("/host:CPU").line("python")
        at = 0
        for number in range(self.steps):
            length = self.lengths[number % len(self.lengths)] if self.lengths else self.length
            line.event("train", at, round(length * MS), step_num=number, _r=1)
            for name, begin, end in self.spans:
                line.event(
                    name, at + round(begin * MS), round((end - begin) * MS), num_occurrences=None, **self.stats.get(name, {})
                )
            if length > self.length and self.longer:
                line.event(self.longer, at + round(self.length * MS), round((length - self.length) * MS))
            at += round((length + self.gap) * MS)
        for name, begin, end in self.spans if half else ():
            line.event(name, at + round(begin * MS), round((end - begin) / 2 * MS))
        return space


def report(folder: Path, *loops: Loop) -> Report:
    """The report of a loop on one host, or of one on each of several."""
    for number, loop in enumerate(loops):
        loop.built(f"worker{number}" if len(loops) > 1 else "vm").write(folder)
    return api.open(folder).report()


def ops(begin: float, end: float) -> Spans:
    """Ops of a model, from here to there, the convolution three times as long as the product."""
    part = begin + 0.75 * (end - begin)
    return ((CONVOLVES[0], begin, part), (CONVOLVES[1], part, end))


def eager(at: float) -> Spans:
    """An op that Python runs by itself: its call takes 90 µs, and the op in it 10."""
    return ("EagerExecute", at, at + 0.09), ("MatMul:MatMul", at + 0.05, at + 0.06)


ONE: dict[str, dict[str, StatValue]] = {"EagerExecute": {"eager_op": "MatMul", "is_func": 0}}
COLLECTIVE = "CollectiveReduceV2:CollectiveReduceV2"
REBUILT: dict[str, dict[str, StatValue]] = {"step": {"tf_function_call": "traced-nonXla", "tracing_count": 2}}
UNEVEN = (10, 10.9, 9.2, 10.4, 9.6)
FIRST: dict[str, tuple[tuple[Loop, ...], str, float]] = {
    "a sleep in the loop": ((Loop(10, (*ops(0, 4), ("convert_to_tensor", 9.9, 10))),), "even_stops", 0.59),
    "Python that differs from step to step": ((Loop(10, ops(0, 7), lengths=UNEVEN, longer=""),), "python_overhead", 0.3),
    "small steps": ((Loop(1, (("TFE_Py_Execute", 0, 0.98), *ops(0.5, 0.8))),), "per_call_cost", 0.7),
    "calls in a long step": ((Loop(10, (("TFE_Py_Execute", 0, 4), *ops(4, 10))),), "per_call_cost", 0.4),
    "random numbers in the model": (
        (Loop(10, (("net/RandomStandardNormal:RandomStandardNormal", 0, 4), *ops(4, 10))),),
        "odd_ops",
        0.4,
    ),
    "a callback to Python in the model": (
        (Loop(10, (("net/EagerPyFunc:EagerPyFunc", 0, 4), *ops(4, 10))),),
        "python_in_model",
        0.4,
    ),
    "a graph in every step": (
        (Loop(10, (("step", 0, 10), ("tf.function-graph_building", 0, 6), *ops(6, 10)), stats=REBUILT),),
        "expensive_tf_function",
        1.0,
    ),
    "ops one by one": ((Loop(1, tuple(span for at in range(10) for span in eager(at / 10)), stats=ONE),), "eager_ops", 0.9),
    "a checkpoint in every fourth step": (
        (Loop(10, ops(0, 10), steps=24, lengths=(10, 10, 10, 20), longer="Save:SaveV2"),),
        "periodic_cost",
        0.2,
    ),
    "time between the steps": ((Loop(10, ops(0, 10), gap=10.0),), "time_outside_steps", 0.5),
    "communication of two workers": ((Loop(10, (*ops(0, 6), (COLLECTIVE, 6, 10))),) * 2, "exchange_cost", 0.4),
    "a slow worker": (
        (Loop(10, (*ops(0, 5), (COLLECTIVE, 5, 9.9))), Loop(10, (*ops(0, 9.5), (COLLECTIVE, 9.5, 9.9)))),
        "straggler",
        0.45,
    ),
}
"""(loops, the rule that comes first, what there is to save of the step)."""


@pytest.mark.parametrize("name", FIRST)
def test_the_bottleneck_comes_first(name: str, tmp_path: Path) -> None:
    loops, rule, most = FIRST[name]
    found = report(tmp_path, *loops).findings
    assert found[0].id == rule, [f.id for f in found]
    assert found[0].saving is not None and most - 0.15 <= found[0].saving.high <= most + 0.02


def test_one_stall_is_told_and_is_in_no_mean(tmp_path: Path) -> None:
    found = report(tmp_path, Loop(10, ops(0, 10), steps=20, lengths=(*[10.0] * 11, 100.0, *[10.0] * 8)))
    assert "of the 10.0 ms step" in found.headline
    (told,) = (f.sentence for f in found.findings if f.id == "slow_steps")
    assert told.startswith(
        "Once in this capture: 1 of 20 steps holds 34% of the time: 100 ms instead of 10.0 ms, mostly in host compute"
    )


def test_a_short_stall_is_told_beside(tmp_path: Path) -> None:
    found = report(tmp_path, Loop(10, ops(0, 10), steps=20, lengths=(*[10.0] * 11, 25.0, *[10.0] * 8)))
    assert [f.sentence for f in found.findings if f.id == "set_aside"] == [
        "Step 11, 25.0 ms, left out (one-off): host compute. It took 2.5 times the steady step."
    ]


def test_a_step_that_the_capture_cuts_is_in_no_mean(tmp_path: Path) -> None:
    """Of the last step there are ops, but no mark, which is written when it ends."""
    space = Loop(10, ops(0, 10), steps=11).built("vm", half=True)
    space.write(tmp_path)
    found = api.open(tmp_path).report()
    assert "of the 10.0 ms step" in found.headline
    assert found.page("overview").evidence[0].startswith("11 steps")


def test_input_that_comes_late_is_the_pipelines(tmp_path: Path) -> None:
    """A map works for 6 ms of a step that computes for 4: with input for nothing, 4 are left."""
    work = {"ParallelMapV2": 5 * MS}
    training_run(
        steps=12, step_ps=10 * MS, input_ps=6 * MS, ops=(("net/dense/MatMul", "_MklMatMul", 4 * MS),), work_ps=work
    ).write(tmp_path)
    first = api.open(tmp_path).report().findings[0]
    assert first.id == "slow_stage" and first.saving is not None
    assert 0.4 <= first.saving.high <= 0.62


def test_input_on_the_training_thread_can_go_as_a_whole_and_once(tmp_path: Path) -> None:
    """A map works there for 6 of 10 ms: run in parallel it hides, which leaves nothing for a
    prefetch to save.
    """
    run = training_run(
        steps=12,
        step_ps=10 * MS,
        input_ps=6 * MS,
        ops=(("net/dense/MatMul", "_MklMatMul", 4 * MS),),
        pipeline=("Root", "Map", "TensorSlice"),
        work_ps={"Map": 6 * MS - 10_000},
    )
    run.write(tmp_path)
    found = api.open(tmp_path).report().findings
    assert found[0].id == "slow_stage" and found[0].saving is not None
    assert 0.5 <= found[0].saving.high <= 0.62
    assert [f.saving for f in found if f.id == "no_prefetch"] == [None]


def tpu(folder: Path, flops: float, moved: float) -> Report:
    """A TPU of 100 TFLOP/s and 1 TB/s: one op takes 8 of 10 ms, does `flops` and moves `moved`
    bytes.
    """
    space = SpaceBuilder("tpu")
    plane = space.plane("/device:TPU:0")
    plane.stat("peak_teraflops_per_second", 100.0).stat("peak_hbm_bw_gigabytes_per_second", 1000.0)
    plane.describe("%fusion.1 = f32[8]", "fusion.1", hlo_category="fusion", flops=int(flops), bytes_accessed=int(moved), program_id=1,
        tf_op="jit(f)/dot_general:", source="/home/me/train.py:7")  # fmt: skip
    modules, line = plane.line("XLA Modules"), plane.line("XLA Ops")
    for number in range(12):
        modules.event("jit_f(1)", number * 10 * MS, 10 * MS)
        line.event("%fusion.1 = f32[8]", number * 10 * MS, 8 * MS)
    space.write(folder)
    return api.open(folder).report()


@pytest.mark.parametrize(
    ("flops", "moved", "said"),
    [
        (8e9, 6.4e9, "80% of the memory's speed, which limits it"),
        (6.4e11, 8e8, "80% of the peak"),
        (8e10, 8e8, "7.20 ms per step more than the device needs"),
    ],
    ids=["memory-bound", "compute-bound", "bound by neither"],
)
def test_what_limits_a_line_is_told(flops: float, moved: float, said: str, tmp_path: Path) -> None:
    first = next(f for f in tpu(tmp_path, flops, moved).findings if f.id == "slow_part")
    assert said in first.sentence and ("limits it" in first.sentence) is ("memory" in said)
