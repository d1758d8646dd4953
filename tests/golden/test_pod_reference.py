"""The pod viewer: rows equal the reference's, unrelated programs are not ranked, and hosts are
aligned honestly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.model import Category, Page, Paragraph
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.trace import read_trace
from tests.golden.test_step_breakdown_reference import ON_WORKERS, generic, reference_rows
from tests.support import MARKED, opened

MS = 1_000_000_000
CATEGORIES = [f"{c.value}_ps" for c in Category]


def single(page: Page) -> list[dict[str, Any]]:
    return [row for row in page.table("workers").records() if row["view"] != "average"]


@pytest.mark.parametrize("name", [name for name in MARKED if name not in ON_WORKERS])
def test_every_step_of_every_host_is_the_reference_row(name: str) -> None:
    """The reference names all hosts of a remote capture alike and numbers steps anew: rows are
    paired by duration, which is unique.
    """
    mine = single(opened(name).pod())
    theirs = reference_rows(name)
    assert theirs
    for row in theirs:
        duration = row["totalDurationUs"] * 1e6
        nearest = min(mine, key=lambda r: abs(r["duration_ps"] - duration))
        assert nearest["duration_ps"] == pytest.approx(duration, rel=1e-3)
        for key, categories in generic(name).items():
            ours = sum(nearest[f"{c.value}_ps"] for c in categories)
            reference = sum(row["stepBreakdownUs"].get(k, 0.0) for k in key.split("+")) * 1e6
            assert ours == pytest.approx(reference, abs=0.01 * duration), (name, nearest["step"], key)


@pytest.mark.parametrize("name", MARKED)
def test_categories_sum_to_the_step(name: str) -> None:
    for row in opened(name).pod().table("workers").records():
        assert sum(row[c] for c in CATEGORIES) == pytest.approx(row["duration_ps"], rel=1e-9)


def test_unrelated_programs_are_not_ranked() -> None:
    """7010 and 7012 are two runs of one script, 7011 runs another one (a generator and Python
    functions): no worker of three is slow.
    """
    page = opened("multi_host").pod()
    assert "2 unrelated programs were captured (localhost_7010, localhost_7012 | localhost_7011)" in page.headline
    assert "slow worker" not in page.headline
    assert page.findings == ()
    rows = {row["worker"]: row for row in page.table("summary").records()}
    assert rows["localhost_7011"]["excess_ps"] is None
    assert rows["localhost_7010"]["program"] == rows["localhost_7012"]["program"] != rows["localhost_7011"]["program"]
    assert abs(rows["localhost_7010"]["excess_fraction"]) < 0.02
    text = next(
        s.body for s in page.sections if isinstance(s, Paragraph) and s.title == "Do these workers run the same program?"
    )
    assert "EagerPyFunc" in text and "Generator" in text and "no collective" in text


def test_steps_that_hosts_do_not_share_are_said_to_be_so() -> None:
    page = opened("multi_host").pod()
    shared = {row["step"] for row in single(page) if row["shared"]}
    assert shared == {137}
    text = next(s.body for s in page.sections if isinstance(s, Paragraph) and s.title == "Steps of different hosts")
    assert "Step 137 is on all 3 hosts" in text
    assert "other steps are not on every host" in text
    assert "train independently" in text


def test_synchronous_workers_share_all_steps() -> None:
    page = opened("multi_worker_strategy").pod()
    assert all(row["shared"] for row in single(page))
    apart = page.table("clocks")["offset_ps"]
    assert np.abs(apart).max() < 1 * MS  # both on one machine
    waits = {r["worker"]: r["imbalance_ps"] for r in page.table("collectives").records()}
    assert min(waits.values()) == 0
    assert max(waits, key=lambda w: waits[w]) != page.findings[0].host  # the slow one waits least


def run_of(**hosts: Any) -> Run:
    """A run of several hosts; each value is the arguments of `training_run`."""
    return Run.from_traces([read_trace(training_run(hostname=host, **given).to_bytes(), host) for host, given in hosts.items()])


def test_a_slow_worker_is_found_exactly() -> None:
    page = api.Profile(run_of(a={}, b={"input_ps": 12 * MS}, c={})).pod()
    (finding,) = page.findings
    assert finding.host == "b"
    row = next(r for r in page.table("summary").records() if r["worker"] == "b")
    assert row["excess_ps"] == pytest.approx(10 * MS, rel=1e-3)
    assert row["cause"] == Category.INPUT.label


def test_equal_workers_have_no_straggler() -> None:
    page = api.Profile(run_of(a={}, b={})).pod()
    assert page.findings == ()
    assert "No worker" in page.headline


def test_one_worker_has_nothing_to_compare_but_keeps_its_rows() -> None:
    page = opened("custom_loop").pod()
    assert page.unavailable is not None
    assert len(single(page)) == 15


def test_idle_devices_are_said_to_be_idle() -> None:
    """GPU:4's part of the step lies before GPU:6's, by which the step is timed: it is no idle
    device, and GPU:1 is.
    """
    page = opened("tf_gpu_v100_bert").pod()
    assert "1 of 3 workers takes no part in the steps: gpu_worker GPU:1." in page.headline
    own = {row["worker"]: row["own_ps"] for row in page.table("summary").records()}
    assert own["gpu_worker GPU:4"] == pytest.approx(14.9e9, rel=0.01)
    assert own["gpu_worker GPU:6"] == pytest.approx(14.9e9, rel=0.01)


def test_chips_of_a_host_are_each_in_their_own_place_of_the_step() -> None:
    """Each chip of `tpu_v6e_inference` is busy for the whole of every step, 784 ms."""
    own = [row["own_ps"] for row in opened("tpu_v6e_inference").pod().table("summary").records()]
    assert own == pytest.approx([784.4e9] * 4, rel=0.001)


def test_hosts_that_share_nothing_are_shown_each_by_itself() -> None:
    apart = Run.from_traces(
        [
            read_trace(training_run(steps=4, hostname=h, timestamp_ns=2 * 10**18 + ns).to_bytes(), h)
            for h, ns in (("a", 0), ("b", 10**12))
        ]
    )
    for step, timeline in enumerate(apart.hosts):
        timeline.steps.number[:] += 100 * step
    text = next(
        s.body for s in api.Profile(apart).pod().sections if isinstance(s, Paragraph) and s.title == "Steps of different hosts"
    )
    assert text.startswith("The hosts share no step number, and none of their steps ran at the same time")


def test_noise_alone_is_no_straggler() -> None:
    waits = [1, 9, 2, 8, 1, 9, 3, 7]
    page = api.Profile(
        run_of(
            a={"steps": 8, "input_ps": [w * MS for w in waits]}, b={"steps": 8, "input_ps": [(w + 1) * MS for w in waits[::-1]]}
        )
    ).pod()
    assert page.findings == ()
