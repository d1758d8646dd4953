"""Names of 0.2 that tools of other distributions and scripts import still mean what they meant."""

from __future__ import annotations

import pytest

from outpace import compare, model
from outpace.compare import Side


@pytest.mark.parametrize(
    ("package", "former", "today"),
    [
        (model, "CAPTURE", "CAPTURE_PREFIX"),
        (model, "Failure", "ToolFailure"),
        (model, "OUTSIDE", "OUTSIDE_STEPS"),
        (model, "Rows", "TableView"),
        (model, "Text", "Paragraph"),
        (model, "filled", "select_nonempty"),
        (model, "medians_without", "leave_one_out_medians"),
        (model, "schema", "parse_schema"),
        (compare, "Outcome", "GateOutcome"),
        (compare, "judged", "evaluate_gate"),
        (compare, "report_of", "build_report"),
    ],
)
def test_a_former_name_is_todays_object(package: object, former: str, today: str) -> None:
    assert getattr(package, former) is getattr(package, today)


@pytest.mark.parametrize(("former", "today"), [("of", "from_runs"), ("joined", "merge")])
def test_a_sides_former_constructors_are_todays(former: str, today: str) -> None:
    assert getattr(Side, former) == getattr(Side, today)


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'kept'"):
        _ = model.kept
