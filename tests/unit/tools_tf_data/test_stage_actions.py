"""Actions on stages of input pipelines: each needs all of its preconditions."""

from __future__ import annotations

import pytest

from outpace.metrics.actions.table import Action, choose_action
from outpace.tools.tf_data.stage_actions import STAGE_ACTIONS, Precondition, StageKind, Subject

StageAction = Action[StageKind, Precondition, [Subject]]


def kind_of(row: StageAction) -> StageKind:
    """A kind of stage that a row is for."""
    return min(row.kinds, key=lambda kind: kind.value) if row.kinds else StageKind.OTHER


@pytest.mark.parametrize("row", STAGE_ACTIONS, ids=lambda row: row.name)
def test_an_action_needs_each_of_its_preconditions(row: StageAction) -> None:
    assert choose_action(STAGE_ACTIONS, kind_of(row), row.preconditions) is row
    for need in row.preconditions:
        assert choose_action(STAGE_ACTIONS, kind_of(row), row.preconditions - {need}) is not row, need


def test_each_precondition_is_of_use_and_each_kind_of_stage_has_an_action() -> None:
    assert frozenset().union(*(row.preconditions for row in STAGE_ACTIONS)) == frozenset(Precondition)
    assert {choose_action(STAGE_ACTIONS, kind, frozenset()).name for kind in StageKind} == {
        *("write_records", "use_ops", "slice_whole_tensors", "test_in_map", "run_in_parallel", "do_less", "move_work")
    }
