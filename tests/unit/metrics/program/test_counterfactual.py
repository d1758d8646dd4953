"""What a step would lose at most, on numbers whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.machine import cpu_saturation
from outpace.metrics.model.model_ops import model_ops
from outpace.metrics.program.budget import budgets
from outpace.metrics.program.counterfactual import awaited, called_once, moved, overlapped, uncomputed
from outpace.model import Category
from tests.advice_cases.build import HOST, budget, computes, run, table


@pytest.mark.parametrize(("wait", "rest", "share"), [(14.0, 3.7, 3.7 / 17.7), (3.7, 14.0, 3.7 / 17.7), (0.0, 5.0, 0.0)])
def test_what_overlaps_hides_the_shorter_of_the_two(wait: float, rest: float, share: float) -> None:
    """A pipeline of 17.7 ms behind a model of 3.7 ms can give 3.7 ms."""
    waits = np.full(4, wait)
    assert overlapped(waits, waits + rest) == pytest.approx(share)


def test_each_step_hides_its_own() -> None:
    """One step that waits ten times as long hides no more than it computes."""
    waits, steps = np.array([1.0, 1.0, 10.0]), np.array([2.0, 2.0, 11.0])
    assert overlapped(waits, steps) == pytest.approx(3 / 15)


@pytest.mark.parametrize(
    ("share", "works", "left"),
    [(0.3, 0.9, 0.3), (0.3, 0.15, 0.3), (0.3, 0.1, 0.1), (0.3, 0.06, 0.0), (0.06, 0.04, 0.0), (0.9, 0.02, 0.02)],
)
def test_a_pipeline_that_is_ready_long_before_is_not_waited_for(share: float, works: float, left: float) -> None:
    assert awaited(share, works) == left


@pytest.mark.parametrize(
    ("gone", "work", "others", "busy", "cores", "share"),
    [
        (0.7, 0.7, 0.0, 0.5, 4, 0.5),  # as much as cores are idle
        (0.7, 0.7, 0.0, 0.97, 4, 0.03),  # busy cores take no work
        (0.3, 0.9, 0.0, 0.1, 4, 0.3),  # no more than the step spends on it
        (0.9, 3.2, 0.0, 0.5, 4, 0.2),  # what takes all cores 80% of a step
        (0.9, 0.9, 0.6, 0.1, 4, 0.4),  # the next slowest stage
    ],
)
def test_moved_work_finds_only_idle_cores(
    gone: float, work: float, others: float, busy: float, cores: int, share: float
) -> None:
    rows = table("saturation", cpu_saturation.FIELDS, {"saturation": busy})
    of = run({cpu_saturation.cpu_saturation: rows}, {"cpu_count": cores})
    assert moved(of, HOST, gone, work, others) == pytest.approx(share)


def test_what_nobody_measured_limits_nothing() -> None:
    assert moved(run(), HOST, 0.7, 0.7) == 0.7


@pytest.mark.parametrize(("ops", "waits", "builds", "left"), [(0.2, 0.1, 0.0, 0.7), (0.5, 0.3, 0.1, 0.1), (0.9, 0.2, 0.0, 0.0)])
def test_calls_cost_what_is_no_op(ops: float, waits: float, builds: float, left: float) -> None:
    of = run({model_ops: computes(ops), budgets: budget({Category.INPUT: waits, Category.COMPILATION: builds})})
    assert uncomputed(of, HOST) == pytest.approx(left)


@pytest.mark.parametrize(("usual", "left"), [(0.0, 91.0), (2.0, 89.0), (100.0, 0.0)])
def test_a_new_graph_costs_its_building_and_its_first_run(usual: float, left: float) -> None:
    assert called_once(91.0, usual, 1) == left
