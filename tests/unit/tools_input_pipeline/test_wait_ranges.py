"""How far the hosts of a program wait differently for the input of one step."""

from __future__ import annotations

import pytest

from outpace.metrics.cluster.program_groups import hosts_that_train_together
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Category
from outpace.tools.input_pipeline.compute import compute_wait_ranges
from tests.support import opened


def test_the_range_is_that_of_the_hosts_of_the_step() -> None:
    run = opened("multi_worker_strategy").run
    breakdown, hosts = step_breakdown(run), hosts_that_train_together(run)
    ranges = compute_wait_ranges(breakdown, hosts)
    assert len(ranges) > 3
    steps = breakdown.steady_steps
    waits = breakdown.category_ps(Category.INPUT, steps)
    for row in ranges.records():
        one = {
            host: wait
            for step, host, wait in zip(steps["step"].tolist(), steps["host"].tolist(), waits.tolist(), strict=True)
            if step == row["step"] and host in hosts
        }
        assert row["hosts"] == len(one) == 2
        assert (row["min_ps"], row["max_ps"]) == (min(one.values()), max(one.values()))
        assert row["mean_ps"] == pytest.approx(sum(one.values()) / len(one))
        assert one[row["host"]] == row["max_ps"]


@pytest.mark.parametrize("name", ["keras_fit", "tpu_v6e_inference", "multi_host"])
def test_hosts_that_do_not_train_together_have_no_range(name: str) -> None:
    run = opened(name).run
    assert len(compute_wait_ranges(step_breakdown(run), hosts_that_train_together(run))) == 0
