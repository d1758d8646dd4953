"""Device ops count executions, not kernels."""

from __future__ import annotations

from typing import Any

import pytest

from outpace.metrics.facts.op_metrics import op_metrics
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

US = 1_000_000


def counted(*kernels: tuple[str, str], launched: bool = False, **stats: Any) -> dict[str, int]:
    """Count of every op; `kernels` are (kernel, op) in order. `launched`: each was launched inside
    a host event of its op.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host)
    for i, (kernel, op) in enumerate(kernels):
        at = i * 10 * US
        if launched:
            host.event(op, at, 5 * US)
        gpu.kernel(kernel, at + 100 * US, 3 * US, op=op, called=at + US if launched else None, **stats)
    table = op_metrics(Run.from_traces([read_trace(space.to_bytes())]))
    return {r["name"]: r["count"] for r in table.records() if r["side"] == "Device" and not r["idle"]}


CONV, ADD = "conv/Conv2D:Conv2D", "add/AddV2:AddV2"


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ("ABC", 1),  # one op of three kernels
        ("AAA", 3),  # one kernel, three times
        ("ABAB", 2),
        ("ABBABB", 2),  # one kernel is launched twice
        ("A+A", 2),  # another op stands between
        ("AB+AB", 2),
    ],
)
def test_runs_of_kernels(kernels: str, expected: int) -> None:
    """The rarest kernel of a run says how often its op ran."""
    found = counted(*(("add_kernel", ADD) if k == "+" else (f"kernel_{k}", CONV) for k in kernels))
    assert found["conv/Conv2D"] == expected


def test_launches_tell_what_kernels_cannot() -> None:
    """Three equal kernels are three executions when three host ops launched them."""
    assert counted(("a", CONV), ("a", CONV), ("b", CONV), launched=True) == {"conv/Conv2D": 3}


def test_equal_kernels_of_one_host_op_are_one_execution() -> None:
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    host.event(CONV, 0, 50 * US)
    gpu = GpuBuilder(space, host)
    for i in range(4):
        gpu.kernel("pass", (100 + 10 * i) * US, 3 * US, op=CONV, called=(1 + 5 * i) * US)
    table = op_metrics(Run.from_traces([read_trace(space.to_bytes())]))
    assert [r["count"] for r in table.records() if r["side"] == "Device" and not r["idle"]] == [1]
