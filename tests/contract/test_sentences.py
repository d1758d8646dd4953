"""No sentence of a first screen, and no headline of a view, denies the picture beside it: what they
say is held against figures.
"""

from __future__ import annotations

from functools import lru_cache

import pytest

from outpace.advice.headline import is_op_bound
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.facts.workload import find_workload
from outpace.model import Category, Figures, Page, Report, Severity
from outpace.report.chart_data import compute_parts as drawn
from outpace.report.first_screen import build_first_screen
from outpace.tools.model_time.parts import find_parts
from outpace.tools.model_time.work_summary import LARGE_SHARE
from outpace.tools.overview.bottleneck import HOST_NO_OP, HOST_OPS, HOST_TRANSFERS, StepBottleneck, find_bottleneck
from outpace.tools.overview.compute import compute_mean_step
from tests.support import PROFILES, opened

_SHOWN = 0.005  # of the step: what a percentage without digits says
STEPPED = [name for name in PROFILES if any(len(t.steps) for t in opened(name).run.hosts)]


@lru_cache(maxsize=64)
def report(name: str) -> Report:
    return opened(name).report()


@lru_cache(maxsize=64)
def said(name: str) -> StepBottleneck:
    run = opened(name).run
    return find_bottleneck(run, compute_mean_step(step_breakdown(run).select_hosts(*main_program_hosts(run))))


def page(name: str, tool: str) -> Page:
    return next(page for page in report(name).pages if page.id == tool)


def picture(name: str) -> dict[str, float]:
    """Shares of the step by the label of the part that is drawn."""
    glance = build_first_screen(report(name)).glance
    assert glance is not None
    return {part.name: part.share for part in drawn(glance) if part.value}


def figures(name: str, tool: str) -> dict[str, object]:
    """Figures of a page by their label; none of a page that is not there."""
    if tool not in {p.id for p in report(name).pages}:
        return {}
    return {f.label: f.value for s in page(name, tool).sections if isinstance(s, Figures) for f in s.items}


@pytest.mark.parametrize("name", STEPPED)
def test_the_headline_says_of_each_part_what_is_drawn(name: str) -> None:
    shown = picture(name)
    for label, share in said(name).shares.items():
        assert shown.get(label, 0.0) == pytest.approx(share, abs=_SHOWN), label
        assert share > -_SHOWN


@pytest.mark.parametrize("name", STEPPED)
def test_a_word_has_one_meaning_in_the_picture(name: str) -> None:
    """A category that is divided is not drawn beside its parts, but for what is left of
    the input.
    """
    shown = picture(name)
    assert not (Category.HOST_COMPUTE.label in shown and {HOST_OPS, HOST_NO_OP} & shown.keys())
    moved = step_breakdown(opened(name).run).select_hosts(*main_program_hosts(opened(name).run)).transfer_share
    assert shown.get(HOST_TRANSFERS, 0.0) == pytest.approx(moved, abs=_SHOWN)


@pytest.mark.parametrize("name", STEPPED)
def test_time_and_picture_of_a_step_have_one_name(name: str) -> None:
    screen = build_first_screen(report(name))
    assert screen.glance is not None
    time = screen.figures[0].label
    assert time.startswith((f"{screen.glance.title} time", "Steady call of"))
    evidence = " ".join(screen.evidence)
    assert not ("Steady" in time and "no steady" in evidence)


@pytest.mark.parametrize("name", STEPPED)
def test_of_no_whole_step_nothing_is_certain(name: str) -> None:
    if partial_step_reason(opened(name).run):
        assert "Step boundaries" not in figures(name, "overview")
        assert not {"Steps per second", "Steady step time"} & {f.label for f in build_first_screen(report(name)).figures}


@pytest.mark.parametrize("name", STEPPED)
def test_a_program_is_not_host_bound_where_ops_run_in_most_of_the_step(name: str) -> None:
    shown = picture(name)
    assert is_op_bound(opened(name).run) is (shown.get(HOST_OPS, 0.0) > 0.5)
    if is_op_bound(opened(name).run):
        assert report(name).headline.endswith(said(name).sentence) or said(name).shares.get(Category.INPUT.label, 0) >= 0.2


@pytest.mark.parametrize("name", STEPPED)
def test_a_headline_names_at_least_a_tenth(name: str) -> None:
    shares = said(name).shares
    first = next(iter(shares.values()))
    assert len(shares) == 1 or first >= 0.1 or Category.INPUT.label == next(iter(shares))
    run = opened(name).run
    largest = [part for t in run.hosts for part in find_parts(run, t.host, find_workload(run))[:1]]
    headline = page(name, "model_time").headline if any(p.id == "model_time" for p in report(name).pages) else ""
    if largest and headline:
        assert headline.startswith(f"{largest[0]} {largest[0].takes}") is (largest[0].share >= LARGE_SHARE)


@pytest.mark.parametrize("name", STEPPED)
def test_all_views_say_the_same_of_input(name: str) -> None:
    told = figures(name, "input_pipeline").get("Waiting for input")
    if told is not None and len(main_program_hosts(opened(name).run)) == sum(len(t.steps) > 0 for t in opened(name).run.hosts):
        assert float(str(told)) == pytest.approx(said(name).shares.get(Category.INPUT.label, told), abs=_SHOWN)


@pytest.mark.parametrize("name", STEPPED)
def test_a_cause_of_most_of_the_step_has_a_finding(name: str) -> None:
    """What a headline calls the bound, for more than half of the step, is what some finding speaks
    of.
    """
    if max(said(name).shares.values()) > 0.5 and not partial_step_reason(opened(name).run):
        assert report(name).findings


@pytest.mark.parametrize("name", STEPPED)
def test_what_is_said_fits_the_program(name: str) -> None:
    found = report(name).findings
    if find_workload(opened(name).run).is_inference:
        assert not [f.action for f in found if "changes the training" in f.action and f.severity is not Severity.INFO]
    tables = [table for p in report(name).pages if p.id == "op_stats" for table in p.tables() if table.name == "ops"]
    ops = {op for table in tables for op in table["type"]}
    if any(op.startswith("_Mkl") for op in ops):
        assert not [f.action for f in found if "which no op here does" in f.action]
