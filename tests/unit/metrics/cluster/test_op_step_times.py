"""Ops by step: on real profiles they are those of the model, and no more than the steps hold."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.metrics.cluster.op_step_times import INPUT_SIDE, op_step_times
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.facts.step_breakdown import step_breakdown
from tests.support import opened

PROFILES = ["keras_fit", "custom_loop", "jax_loop", "input_bound_generator", "multi_host", "jax_h200_transformer"]


@pytest.mark.parametrize("name", PROFILES)
def test_ops_of_the_model_are_no_more_than_their_steps(name: str) -> None:
    run = opened(name).run
    found = op_step_times(run)
    hosts = [op[0] == "Host" for op in found.ops]
    assert len(found.step_ps) and (found.time_ps[hosts].sum(axis=0) <= found.step_ps * (1 + 1e-6)).all()


@pytest.mark.parametrize("name", PROFILES)
def test_their_sum_is_that_of_all_steps(name: str) -> None:
    run = opened(name).run
    found, host = op_step_times(run), main_program_hosts(run)[0]
    per_row = step_breakdown(run).steps_per_execution[host]
    for ops in model_ops(run):
        if ops.host == host and len(main_program_hosts(run)) == 1:
            mine = found.time_ps[[op[0] == ops.side for op in found.ops]]
            whole = float((ops.attributed_ps + ops.executor_ps).sum()) / ops.step_count
            assert mine.sum() / len(found.step_ps) == pytest.approx(whole, rel=1e-6) and per_row >= 1


def test_programs_of_jax_on_a_host_have_ops() -> None:
    assert any(op[0] == "Host" for op in op_step_times(opened("jax_loop").run).ops)


def test_what_the_input_pipeline_runs_is_told_apart() -> None:
    found = op_step_times(opened("input_bound_generator").run)
    times = dict(zip(found.ops, found.time_ps.mean(axis=1).tolist(), strict=True))
    stages = {op: time for op, time in times.items() if op[0] == INPUT_SIDE}
    assert stages and max(stages.values()) > 0.1 * float(np.mean(found.step_ps))
    assert not any(op[1] == "Dataset" for op in times if op[0] != INPUT_SIDE)
