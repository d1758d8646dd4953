"""A step explained: counted times add up to the breakdown's categories exactly, event by event."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from outpace import api
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.step_breakdown import category_times, step_breakdown
from outpace.model import Category, Figure, Figures, Page, UsageError
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.tools.explain.compute import TargetStep, compute_events
from outpace.trace import read_trace
from tests.support import PROFILES, opened, profile_path

MS = 1_000_000_000


@pytest.mark.parametrize("name", PROFILES)
def test_counted_times_are_the_categories(name: str) -> None:
    """First, middle and last step of every host; of several devices, those of the one that is
    explained.
    """
    run = opened(name).run
    rows = list(step_breakdown(run).steps.records())
    for timeline in run.hosts:
        mine = [row for row in rows if row["host"] == timeline.host]
        for index in sorted({0, len(mine) // 2, len(mine) - 1} if mine else ()):
            chosen = TargetStep(timeline, index)
            table = compute_events(chosen, None)
            times = category_times(timeline, chosen.planes)
            for category in Category:
                counted = int(table["counted_ps"][table["category"] == category.label].sum())
                key = f"{category.value}_ps"
                assert counted == (times[key][index] if chosen.planes else mine[index][key]), (name, index, category)


def test_known_events_count_for_what_they_are() -> None:
    run = Run.from_traces([read_trace(training_run(steps=4, input_ps=3 * MS, python_ps=2 * MS).to_bytes())])
    page = api.Profile(run).explain(step=2)
    rows = {(row["category"], row["event"]): row for row in page.table("step_events").records()}
    assert rows["Input", "IteratorGetNextOp::DoCompute"]["counted_ps"] == pytest.approx(3 * MS, rel=0.01)
    assert rows["Host compute", "model/dense/MatMul:MatMul"]["counted_ps"] == 4 * MS


def test_kernels_are_named_by_their_ops() -> None:
    """The op comes first, then the kernel's own function; threads of pools are counted instead of
    named by an address.
    """
    page = opened("tf_gpu_v100_bert").explain()
    rows = [row for row in page.table("step_events").records() if row["kernel"]]
    assert (rows[0]["op"], rows[0]["kernel"], rows[0]["count"]) == ("RandomUniform", "FillPhiloxRandomKernelLaunch", 97)
    assert {row["op"].rpartition("/")[2] for row in page.table("events").records() if row["kernel"]} == {r["op"] for r in rows}
    assert not [row["thread"] for row in page.table("events").records() if "/-" in row["thread"]]


def test_of_several_programs_the_one_that_the_report_is_about() -> None:
    profile = opened("multi_host")
    hosts = main_program_hosts(profile.run)
    assert 0 < len(hosts) < len(profile.run.hosts)
    assert any(f"of {host}," in item.remark for host in hosts for item in figures(profile.explain(), "The step"))


def figures(page: Page, title: str) -> tuple[Figure, ...]:
    return next(section.items for section in page.sections if isinstance(section, Figures) and section.title == title)


def test_the_slowest_step_is_chosen_by_itself() -> None:
    run = Run.from_traces([read_trace(training_run(steps=5, input_ps=[MS, MS, 9 * MS, MS, MS]).to_bytes())])
    page = api.Profile(run).explain()
    assert "Step 2 took" in page.headline
    assert "input" in page.headline


def test_one_category_of_one_step() -> None:
    page = opened("custom_loop").explain(step=7, category="Host compute")
    assert {row["category"] for row in page.table("events").records()} == {"Host compute"}
    assert page.headline.endswith("of step 7 are host compute.")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"step": 999}, "no step 999"), ({"category": "lunch"}, "kernel_launch"), ({"host": "mars"}, "No host 'mars'")],
)
def test_what_is_not_there_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        opened("custom_loop").explain(**options)


@pytest.mark.parametrize("words", [["step", "7", "host_compute"], ["7", "host", "compute"], ["step", "7", "Host compute"]])
def test_the_command_line_takes_words_as_people_say_them(words: list[str]) -> None:
    command = [sys.executable, "-m", "outpace", "explain", str(profile_path("custom_loop")), *words, "--width", "80"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "of step 7 are host compute." in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
