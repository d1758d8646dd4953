"""A screen has one step: its time, picture, headline and steps per second are of the same program
and the same steps.
"""

from __future__ import annotations

import pytest

from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model import Unit, humanize
from outpace.report.chart_data import compute_parts
from tests.support import PROFILES, opened

_SHOWN = 0.01  # of the step: what lies between steps for less is no figure, and three digits tell no more


@pytest.mark.parametrize("name", [name for name in PROFILES if any(len(t.steps) for t in opened(name).run.hosts)])
def test_the_figures_agree(name: str) -> None:
    page = opened(name).overview()
    figures = {figure.label: figure.value for figure in page.key_figures}
    step = float(str(page.key_figures[0].value))
    if partial_step_reason(opened(name).run):
        assert "Steps per second" not in figures
        return
    cycle = step + float(str(figures.get("Between steps", 0.0)))
    calls = max(step_breakdown(opened(name).run).steps_per_execution[host] for host in main_program_hosts(opened(name).run))
    rate = float(str(figures["Steps per second"]).replace(",", ""))
    assert rate == pytest.approx(calls * 1e12 / cycle, rel=_SHOWN + 0.005)
    assert humanize(step, Unit.PS) in page.headline
    assert page.glance is not None and sum(part.value for part in compute_parts(page.glance)) == pytest.approx(step, rel=1e-6)
