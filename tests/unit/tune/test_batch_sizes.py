"""Which batch sizes are raced, and what the race per example says; on simulated clocks."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.model import Unit
from outpace.tune.batch import MOST_DOUBLINGS, BatchSizes, Reached, Size, TooLarge, advice, grow
from outpace.tune.pages.tuning import batch_remark, batch_table
from outpace.tune.trial import Arm, Decision, Experiment, Facts, Per, Protocol, run_experiment
from tests.unit.tune.simulated import STEP, Machine


def rates(*of: float, grown: int = 0) -> Any:
    """`measure` for sizes with these rates; what is larger does not fit."""

    def measure(factor: int) -> Size:
        at = factor.bit_length() - 1
        if at >= len(of):
            raise TooLarge(f"A batch of {8 * factor} does not fit into memory.")
        return Size(factor, 8 * factor, of[at], grown * factor)

    return measure


def batches(reached: Reached) -> list[int]:
    return [size.batch for size in reached.sizes]


def test_sizes_double_until_memory_ends() -> None:
    reached = grow(8, rates(1.0, 2.0, 4.0), None)
    assert batches(reached) == [8, 16, 32]
    assert reached.ended == "A batch of 64 does not fit into memory."


def test_sizes_double_until_two_doublings_gain_nothing() -> None:
    assert batches(grow(8, rates(1.0, 1.0, 2.0, 4.0, 4.01, 4.02, 9.0), None)) == [8, 16, 32, 64, 128, 256]
    assert batches(grow(8, rates(1.0, 0.9, 0.8, 9.0), None)) == [8, 16, 32]


def test_a_size_that_might_not_fit_is_not_started() -> None:
    assert batches(grow(8, rates(*range(1, 20), grown=100), 799)) == [8, 16, 32]  # 100 + 200 + 400, then 800 more
    assert "half of the free memory" in grow(8, rates(*range(1, 20), grown=100), 799).ended


def test_doubling_ends() -> None:
    assert len(grow(8, rates(*(2.0**at for at in range(30))), None).sizes) == MOST_DOUBLINGS + 1


class SGD:
    pass


class AdamW:
    pass


class Scaled:
    inner_optimizer = AdamW()


class Own:
    pass


def test_advice_depends_on_the_optimizer_and_asks_for_a_full_training() -> None:
    assert "k times as large, reached over some epochs of warm-up" in advice(SGD())
    assert "square root of k" in advice(AdamW()) and "AdamW" in advice(Scaled())
    assert "no common rule" in advice(Own())
    for optimizer in (SGD(), AdamW(), Own()):
        assert "Only a full training" in advice(optimizer)


def raced(per_call: float) -> Experiment:
    """A race of batches of 8, 16 and 32 on a machine where a call costs `per_call` examples' time beside its examples."""
    machine = Machine(3, noise=0.02, drift=0.05, bursts=False)

    def arm(batch: int) -> Arm:
        def run(steps: int) -> None:
            machine.work(steps * STEP * (per_call + batch))

        return Arm(f"batch {batch}", run, facts=lambda: Facts("step", float(batch)))

    return run_experiment([arm(b) for b in (8, 16, 32)], budget=60, protocol=Protocol(per=Per.EXAMPLE), clock=machine.clock)


def outcome(experiment: Experiment | None) -> BatchSizes:
    sizes = tuple(Size(factor, 8 * factor, 100.0, factor * 2**20) for factor in ((1, 2, 4) if experiment else (1,)))
    return BatchSizes(Reached(sizes, "It ended."), experiment, "Advice.", ())


def test_a_larger_batch_wins_where_calls_cost_and_not_elsewhere() -> None:
    wins, does_not = raced(per_call=8.0), raced(per_call=0.0)
    assert [v.decision for v in wins.verdicts] == [Decision.FASTER, Decision.FASTER]
    assert [v.decision for v in does_not.verdicts] == [Decision.SAME, Decision.SAME]
    table = batch_table(outcome(wins))
    assert table["batch"].tolist() == [8, 16, 32]
    assert table["ratio"].tolist() == pytest.approx([1.0, 16 / 12, 64 / 40], rel=0.05)
    assert table["verdict"].tolist() == ["the program's own", "faster", "faster"]
    assert table["rate"][0] == pytest.approx(8 / 16 / STEP, rel=0.1)
    assert table.field("memory").unit is Unit.BYTES


def test_one_size_alone_is_a_table_without_a_race() -> None:
    found = outcome(None)
    assert list(batch_table(found).rows()) == [(8, 100.0, 1.0, None, None, 2**20, "the program's own", "a first look, no race")]
    assert batch_remark(found) == "It ended. Advice. None of this is applied."
