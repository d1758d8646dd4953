"""What is in sight of a timeline when it opens."""

from __future__ import annotations

import pytest

from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.model import UsageError
from outpace.timeline.clock_origin import compute_shifts_ns
from outpace.viewer.view_range import find_step_view
from tests.support import PROFILES, opened


@pytest.mark.parametrize("name", PROFILES)
def test_the_first_steady_step_is_in_sight_and_no_more(name: str) -> None:
    run = opened(name).run
    seen, hosts = find_step_view(run), main_program_hosts(run)
    if not hosts:
        assert seen.step is None
        return
    steps = run.by_host[hosts[0]].steps
    row = int(steps.steady_rows[0])
    begin, length = int(steps.start[row]) // 1000 + compute_shifts_ns(run)[hosts[0]], int(steps.duration[row]) / 1000
    assert seen.step == steps.number[row]
    assert seen.begin_ns <= begin and seen.end_ns >= begin + length - 1
    assert seen.end_ns - seen.begin_ns <= 1.05 * length + 1


def test_a_host_without_steps_does_not_stand_for_the_others() -> None:
    run = opened("multi_host").run
    other = run.hosts[-1].host
    assert find_step_view(run, host=other).title.endswith(other)
    assert find_step_view(run, host="nobody").title == find_step_view(run).title
    with pytest.raises(UsageError, match="has no step -5"):
        find_step_view(run, -5)
