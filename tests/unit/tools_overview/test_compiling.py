"""Captures that mostly compile say so, and what a step takes that does not."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.model import Category
from outpace.testing import training_run
from outpace.timeline import Run
from outpace.tools.overview.compiling_steps import find_compiling_steps
from outpace.trace import read_trace
from tests.advice_cases.build import MS, STEP, breakdown
from tests.support import opened


def steps(compiled: int, others: int) -> Any:
    """Steps of 10 ms, some of which compile for 90 ms more."""
    return breakdown({}, [STEP + 90 * MS] * compiled + [STEP] * others, extra=Category.COMPILATION)


def run_of(**record: Any) -> Run:
    return Run.from_traces([read_trace(training_run().to_bytes(), "vm")], records={"vm": record})


@pytest.mark.parametrize(
    ("compiled", "others", "record", "told"),
    [
        (8, 0, {"script": "a b.py", "mode": "seconds"}, "all of them compile: no steady state yet, unless it goes on; capture later: "
         "outpace profile --seconds 10 --delay 60 'a b.py'"),
        (8, 20, {"script": "a.py", "mode": "custom loop"}, "8 of 28 steps compile: no steady state yet, unless it goes on; capture "
         "later: outpace profile --warmup 100 a.py"),
        (12, 60, {}, "12 of 72 steps compile (10.0 ms without): no steady state yet, unless it goes on; capture later: "
         "outpace profile --warmup 100 SCRIPT"),
    ],
)  # fmt: skip
def test_what_compiles_is_told(compiled: int, others: int, record: dict[str, Any], told: str) -> None:
    found = find_compiling_steps(steps(compiled, others))
    assert found is not None and found.render_caveat(run_of(**record)) == told


@pytest.mark.parametrize(("compiled", "others"), [(0, 10), (1, 100)])
def test_steps_that_mostly_run_are_a_steady_state(compiled: int, others: int) -> None:
    assert find_compiling_steps(steps(compiled, others)) is None


def test_the_step_time_is_called_what_it_is() -> None:
    page = opened("retracing").overview()
    assert page.key_figures[0].label == "Step time while compiling"
    assert any(line.startswith("all of them compile") for line in page.evidence)
    assert opened("custom_loop").overview().key_figures[0].label == "Steady step time"
