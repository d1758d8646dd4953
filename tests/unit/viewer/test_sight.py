"""What is in sight of a timeline when it opens."""

from __future__ import annotations

import pytest

from outpace.metrics.program.same_program import main_program
from outpace.model import UsageError
from outpace.timeline.clock import shifts_ns
from outpace.viewer.sight import sight
from tests.support import PROFILES, opened


@pytest.mark.parametrize("name", PROFILES)
def test_the_first_steady_step_is_in_sight_and_no_more(name: str) -> None:
    run = opened(name).run
    seen, hosts = sight(run), main_program(run)
    if not hosts:
        assert seen.step is None
        return
    steps = run.by_host[hosts[0]].steps
    row = int(steps.whole[0])
    begin, length = int(steps.start[row]) // 1000 + shifts_ns(run)[hosts[0]], int(steps.duration[row]) / 1000
    assert seen.step == steps.number[row]
    assert seen.begin <= begin and seen.end >= begin + length - 1
    assert seen.end - seen.begin <= 1.05 * length + 1


def test_a_host_without_steps_does_not_stand_for_the_others() -> None:
    run = opened("multi_host").run
    other = run.hosts[-1].host
    assert sight(run, host=other).title.endswith(other)
    assert sight(run, host="nobody").title == sight(run).title
    with pytest.raises(UsageError, match="has no step -5"):
        sight(run, -5)
