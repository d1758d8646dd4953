"""What copies of undonated arguments stand for: the part, the kind of op and the model that they
are most of, and no other.
"""

from __future__ import annotations

import pytest

from outpace.metrics.facts import hlo_instructions
from outpace.metrics.views import host_time
from outpace.model import Finding
from outpace.timeline.hlo.ops import HloOp
from outpace.tools.model_time import findings as rules
from outpace.trace import Trace
from tests.advice_cases.build import HOST, STEP, STEPS, budget, device_trace, run, table
from tests.advice_cases.case import JAX, Find
from tests.advice_cases.model_time import undonated


def explained(find: Find) -> tuple[set[str], set[str]]:
    """(rules that the copies explain, rules that spoke)."""
    found: dict[str, Finding] = {finding.id: finding for finding in find()}
    return set(found["undonated"].explains), set(found)


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        (undonated(0.6, line=0.65), {"slow_part", "slow_kind", "model_bound"}),
        (undonated(0.3, line=0.4), {"slow_part"}),
        (undonated(0.15, line=0.4), set()),
        (undonated(0.3, moved=0.4), {"slow_kind"}),
        (undonated(0.15, moved=0.4), set()),
        (undonated(0.3, largest=0.4), set()),
    ],
    ids=["most of the step", "most of its line", "a part of its line", "most copies", "some copies", "beside products"],
)
def test_copies_stand_for_what_they_are_most_of(find: Find, expected: set[str]) -> None:
    explains, spoke = explained(find)
    assert explains == expected
    assert spoke & {"slow_part", "slow_kind"}, "what might be explained was found"


@pytest.mark.parametrize("traces, saved", [((), 0.2 + 0.3 + 0.1), ((device_trace(),), 0.2)], ids=["on a CPU", "on a device"])
def test_on_a_cpu_the_memory_of_the_copy_goes_with_it(traces: tuple[Trace, ...], saved: float) -> None:
    """New pages for 51 MB took three quarters of a step, between its ops, that took a quarter; with
    donating 35.9 ms were 0.05.
    """
    times = {host_time.EXECUTOR: 0.3, host_time.WAITING: 0.1, host_time.DISPATCH: 0.05}
    rows = [{"part": part, "share": share} for part, share in times.items()]
    side = "device" if traces else "CPU"
    copy = hlo_instructions.InstructionStats(side, HloOp("copy", undonated_argument="table"), 0.2 * STEP, 0.2, STEPS, STEPS)
    given = {
        host_time.host_time: table("host_time", host_time.HOST_TIME, *rows),
        hlo_instructions.instruction_stats: {HOST: (copy,)},
    }
    (found,) = (f for f in rules.iter_findings(run(given, None, *traces), budget({}), JAX) if f.id == "undonated")
    assert found.saving is not None
    assert found.saving.high == pytest.approx(saved)
