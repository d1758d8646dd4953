"""No report promises more than the step would lose if one did what its action says: the bound is
computed anew, by another way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.facts.input_pipelines import slowest_segment_share
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.facts.tf_functions import tf_functions
from outpace.metrics.savings.budget import ALL_HOSTS, budgets
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.metrics.views.host_copies import host_copies
from outpace.model import Category, Finding
from outpace.timeline import Run
from tests.contract.test_known_truth_jax import KNOWN, built
from tests.support import PROFILES, opened

_ROUNDING = 1e-6


def _idle(run: Run, host: str) -> float:
    row = next(cpu_saturation(run).filter_by("host", host).records(), None)
    return 1.0 - (row["saturation"] or 0.0 if row else 0.0)


def _shorter(run: Run, host: str) -> float:
    """Of input and the rest of the step."""
    whole = step_breakdown(run).select_hosts(*([host] if host else [t.host for t in run.hosts if len(t.steps)])).steady_steps
    waits, steps = whole["input_ps"].astype(float), whole["duration_ps"].astype(float)
    return float(np.minimum(waits, steps - waits).sum() / steps.sum())


def _input(run: Run, host: str) -> float:
    return budgets(run)[host or ALL_HOSTS].category_shares[Category.INPUT.value]


def _without_ops(run: Run, host: str) -> float:
    return 1 - max(ops.busy_ps / ops.step_ps for ops in model_ops(run) if ops.host == host)


def _slow_stage(run: Run, finding: Finding) -> float:
    parallel = finding.action.startswith("Set num_parallel_calls")
    if parallel:
        return min(_input(run, finding.host), _idle(run, finding.host))
    step = budgets(run)[finding.host].step_ps
    works: float = sum(row["input_ps"] for row in cpu_saturation(run).filter_by("host", finding.host).records()) / step
    return _input(run, finding.host) + works  # a thread that is gone gives back no more than it worked


def _traced(run: Run, finding: Finding) -> float:
    rows = [row for row in tf_functions(run).records() if row["host"] == finding.host]
    return float(sum(row["traced_ps"] for row in rows) / run.by_host[finding.host].steps.duration.sum())


def _device(run: Run, finding: Finding) -> float:
    """What any device of the host runs beside copies between it and the host, of the steady steps,
    by the clock.
    """
    timeline = run.by_host[finding.host]
    trace, steps = timeline.trace, timeline.steps
    lines = [trace.lines.row_slice(i) for plane in timeline.device_planes for i in timeline.device_lines(plane)]
    rows = np.concatenate([np.arange(line.start, line.stop) for line in lines])
    rows = rows[[not trace.names[name].startswith(("MemcpyD2H", "MemcpyH2D")) for name in trace.name[rows].tolist()]]
    begin, end = merge_spans(trace.start[rows], trace.end[rows])
    whole = steps.steady_rows
    _, low, high = intersect_spans(steps.start[whole], steps.end[whole], (begin, end))
    return float((high - low).sum() / steps.duration[whole].sum())


def _without_device(run: Run, finding: Finding) -> float:
    return 1 - _device(run, finding)


BOUNDS: dict[str, Callable[[Run, Finding], float]] = {
    "slow_stage": _slow_stage,
    "input_bound": lambda run, f: _shorter(run, f.host) if slowest_segment_share(run) is None else _input(run, f.host),
    "frozen_layers": lambda run, f: 1 - _input(run, f.host),
    "new_iterators": lambda run, f: _input(run, f.host),
    "no_prefetch": lambda run, f: _shorter(run, f.host),
    "odd_ops": lambda run, f: _idle(run, f.host) if f.action.startswith("Move") else 1.0,
    "small_steps": lambda run, f: _without_ops(run, f.host),
    "eager_ops": lambda run, f: 1 - _input(run, f.host),
    "expensive_tf_function": _traced,
    "arguments_copied": lambda run, f: _without_device(run, f) if run.has_device else sum(host_copies(run)["share"]),
    "results_fetched": _without_device,
    "unfused_attention": _device,
    "one_hot_product": _device,
    "loop_repeats": _device,
    "unused_results": _device,
    "all_pairs": _device,
    "repeated_backward": _device,
    "idle_updates": _device,
    "undonated": _device,
    "recomputed": _device,
    "slow_kind": _device,
}


@pytest.mark.parametrize("name", PROFILES)
def test_no_promise_is_above_its_counterfactual(name: str) -> None:
    profile = opened(name)
    for finding in profile.report().findings:
        if finding.saving is not None and finding.id in BOUNDS and finding.saving.takes_from != ("outside",):
            bound = BOUNDS[finding.id](profile.run, finding)
            assert finding.saving.high <= bound + _ROUNDING, finding.sentence


@pytest.mark.parametrize("name", KNOWN)
def test_no_promise_of_a_built_gpu_is_above_its_counterfactual(name: str, tmp_path: Path) -> None:
    step, rule, *_ = KNOWN[name]
    profile = built(tmp_path, step)
    found = {f.id: f for f in profile.report().findings if f.saving is not None and f.id in BOUNDS}
    assert rule in {*found, "small_ops"}  # launching its kernels can take all of the step
    for finding in found.values():
        assert finding.saving is not None and finding.saving.high <= BOUNDS[finding.id](profile.run, finding) + _ROUNDING


def test_the_profiles_hold_promises_of_most_kinds() -> None:
    found = {f.id for name in PROFILES for f in opened(name).report().findings if f.saving is not None}
    assert len(found & set(BOUNDS)) >= 4
