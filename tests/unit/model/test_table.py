"""Columns by name, and rows in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from outpace.model import Field, Table, TableType, TableView, Unit, parse_schema


def table(values: Any, unit: Unit = Unit.COUNT) -> Table:
    fields = (Field("value", unit, "sorted by"), Field("at", Unit.COUNT, "place before"))
    return Table.build("some", "Some", fields, {"value": values, "at": list(range(len(values)))})


def test_an_unknown_column_is_a_key_error_that_names_the_table() -> None:
    for ask in (table([1]).field, table([1]).__getitem__):
        with pytest.raises(KeyError, match="table some has no column 'other'"):
            ask("other")


@pytest.mark.parametrize(
    ("values", "unit", "descending", "ascending"),
    [
        (np.array([0, 2**63, 5, 5, 2**64 - 1], np.uint64), Unit.COUNT, [4, 1, 2, 3, 0], [0, 2, 3, 1, 4]),
        (np.array([0, -(2**63), 7], np.int64), Unit.PS, [2, 0, 1], [1, 0, 2]),
        ([True, False, True], Unit.BOOL, [0, 2, 1], [1, 0, 2]),
        (["b", "a", None, "b", "c"], Unit.TEXT, [4, 0, 3, 1, 2], [1, 0, 3, 4, 2]),
        ([1.0, float("nan"), 3.0, 1.0], Unit.RATIO, [2, 0, 3, 1], [0, 3, 2, 1]),
        ([], Unit.COUNT, [], []),
    ],
)
def test_any_column_sorts_ties_keep_their_order_and_missing_ones_stand_last(
    values: Any, unit: Unit, descending: list[int], ascending: list[int]
) -> None:
    assert table(values, unit).sort_by("value")["at"].tolist() == descending
    assert table(values, unit).sort_by("value", descending=False)["at"].tolist() == ascending


@pytest.mark.parametrize(
    ("name", "label"),
    [("cpu_cores", "CPU cores"), ("xla", "XLA"), ("program_id", "Program ID"), ("self_ps", "Self"), ("long_name", "Long name")],
)
def test_a_heading_is_the_name_in_sentence_case_with_its_abbreviations(name: str, label: str) -> None:
    assert Field(name, Unit.TEXT, "some column").label == label


def test_rows_of_some_values_stand_in_their_order() -> None:
    rows = table(["b", "a", "b", "c"], Unit.TEXT)
    assert rows.filter_by("value", "b")["at"].tolist() == [0, 2]
    assert rows.filter_by("value", "c", "b")["at"].tolist() == [0, 2, 3]
    assert len(rows.filter_by("value", "d")) == 0
    assert rows.filter_by("value", "b").filter_by("at", 2)["at"].tolist() == [2]


def test_a_schema_is_read_from_a_table_of_text() -> None:
    host = Field("host", Unit.TEXT, "host of the steps")
    fields = parse_schema(
        """
        time_ps | ps    | time per step, \
                          waits left out | Time
        host
        calls   | ratio | calls per step
        """,
        host,
    )
    assert fields == (
        Field("time_ps", Unit.PS, "time per step, waits left out", "Time"),
        host,
        Field("calls", Unit.RATIO, "calls per step"),
    )


def test_marks_of_a_schema_say_key_and_additive() -> None:
    host = Field("host", Unit.TEXT, "host of the steps")
    fields = parse_schema("* host\n* step | count | number\n+ time_ps | ps | how long\n  mean_ps | ps | on average", host)
    assert [(f.name, f.key, f.additive) for f in fields] == [
        ("host", True, False),
        ("step", True, False),
        ("time_ps", False, True),
        ("mean_ps", False, False),
    ]
    assert not host.key, "another table may share the column, and have another key"
    assert Table.from_rows("steps", "Steps", fields, []).key == ("host", "step")


def test_rows_are_summed_up_by_what_is_additive() -> None:
    fields = parse_schema(
        "* op | text | name\n  type | text | type\n+ count | count | runs\n+ self_ps | ps | time\n  mean_ps | ps | mean"
    )
    table = Table.from_rows("ops", "Ops", fields, [])
    assert TableView(table).sums == ()
    assert TableView(table, by=("type",)).sums == ("count", "self_ps")
    assert TableView(table, ("op", "self_ps"), by=("type",)).sums == ("self_ps", "count"), "what is shown first comes first"
    assert TableView(table, by=("type",), sums=("self_ps",)).sums == ("self_ps", "count"), "what the page names comes first"


def test_a_schema_takes_no_unit_and_no_shared_field_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="parsecs"):
        parse_schema("way | parsecs | how far")
    with pytest.raises(KeyError, match="host"):
        parse_schema("host")


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("column", ["name", "self_ps", "share"])
def test_rows_that_a_column_sets_apart_stand_last_in_every_order(column: str, descending: bool) -> None:
    fields = parse_schema("""
        * name    | text  | name
        + self_ps | ps    | time
          share   | ratio | share
        - idle    | bool  | whether it is no op
    """)
    rows = [("IDLE", 90, 0.9, True), ("a", 5, 0.05, False), ("z", 2, np.nan, False), ("AAA", 0, 0.0, True)]
    found = Table.from_rows("ops", "Ops", fields, rows).sort_by(column, descending=descending)
    assert found["idle"].tolist() == [False, False, True, True]


OPS = TableType("ops", "Ops", shared=(Field("host", Unit.TEXT, "its host"),)).columns("""
    * host
    * op      | text  | its name
    + count   | count | executions
""")


@dataclass
class Op:
    op: str
    count: int


def test_a_row_has_the_values_of_a_record_where_none_is_named() -> None:
    rows = [OPS.row(Op("add", 2), host="a"), OPS.row({"host": "b", "op": "mul", "count": 1, "more": 3}, count=5)]
    assert [tuple(row.values()) for row in OPS.build(rows).records()] == [("a", "add", 2), ("b", "mul", 5)]
    assert (OPS.build(rows).name, OPS.build(rows).title, OPS.build([]).key) == ("ops", "Ops", ("host", "op"))


@pytest.mark.parametrize("row", [{"host": "a", "op": "add"}, {"host": "a", "op": "add", "count": 1, "time": 2}])
def test_a_missing_or_strange_name_is_an_error(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"table ops: the columns \['(count|time)'\] do not match"):
        OPS.build([row])
    with pytest.raises(AttributeError, match="host"):
        OPS.row(Op("add", 2))


def test_rows_of_one_key_add_up() -> None:
    rows = [{"host": "a", "op": op, "count": count} for op, count in (("add", 1), ("mul", 2), ("add", 3))]
    assert [(row["op"], row["count"]) for row in OPS.sum_rows(rows)] == [("add", 4), ("mul", 2)]


def test_columns_of_several_parts_are_joined() -> None:
    part = {"host": np.array(["a"], object), "op": np.array(["add"], object), "count": np.array([1])}
    assert OPS.from_columns(part, part)["count"].tolist() == [1, 1]
    assert len(OPS.from_columns()) == 0


def test_three_dots_stand_for_all_shared_fields() -> None:
    shared = (Field("a", Unit.PS, "one"), Field("b", Unit.PS, "other", additive=True))
    found = parse_schema("* host | text | its host\n+ ...", *shared)
    assert [(f.name, f.key, f.additive) for f in found] == [("host", True, False), ("a", False, True), ("b", False, True)]
