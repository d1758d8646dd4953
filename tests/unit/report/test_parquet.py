"""Tables of several runs in one Parquet file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outpace.model import Field, OutpaceError, OutputError, Table, Unit, parse_schema
from outpace.report import json_, parquet
from tests.unit.report.report_samples import hostile

KEYED = parse_schema(
    "* host | text | host of the op\n* op | text | name\n+ self_ps | ps | own time\n  mean | count | on average"
)
LOG = parse_schema("at_ps | ps | when\n event | text | what")


def ops(host: str, *rows: tuple[str, float, float]) -> Table:
    return Table.from_rows("ops", "Ops", KEYED, [(host, *row) for row in rows])


def log(*rows: tuple[int, str]) -> Table:
    return Table.from_rows("log", "Log", LOG, rows)


def test_run_and_host_come_first() -> None:
    made = parquet.add_run_columns(Table.from_rows("t", "T", (KEYED[1], KEYED[0]), [("mul", "b")]), "run", "a")
    assert [f.name for f in made.fields] == ["run", "host", "op"]
    assert list(made.rows()) == [("run", "b", "mul")], "the table knows the host better than the run"
    assert made.key == ("run", "host", "op")


def test_rows_that_nothing_names_have_their_place() -> None:
    made = parquet.add_run_columns(log((5, "a"), (5, "a")), "run", "host")
    assert list(made.rows()) == [("run", "host", 0, 5, "a"), ("run", "host", 1, 5, "a")]
    assert made.key == ("run", "row")


def test_the_rows_of_several_hosts_have_none() -> None:
    assert [row["host"] for row in parquet.add_run_columns(log((5, "a")), "run", None).records()] == [None]


def test_runs_stand_below_each_other_in_one_type(tmp_path: Path) -> None:
    first, second = ops("a", ("mul", 4.4, 1)), ops("b", ("mul", np.nan, 1.5))
    parts = [parquet.add_run_columns(table, run, None) for run, table in (("one", first), ("none", ops("c")), ("two", second))]
    assert parquet.write({("op_stats", "ops"): parts}, tmp_path / "new") == [tmp_path / "new" / "op_stats.ops.parquet"]
    assert os.listdir(tmp_path / "new") == ["op_stats.ops.parquet"]
    read = pq.read_table(tmp_path / "new" / "op_stats.ops.parquet")
    assert read.to_pylist() == [
        {"run": "one", "host": "a", "op": "mul", "self_ps": 4, "mean": 1.0},
        {"run": "two", "host": "b", "op": "mul", "self_ps": None, "mean": 1.5},
    ]
    assert read.schema.types == [pa.string(), pa.string(), pa.string(), pa.int64(), pa.float64()]
    assert read.schema.field("self_ps").metadata[b"additive"] == b"true"


def test_a_file_says_what_its_columns_mean_also_without_arrow(tmp_path: Path) -> None:
    part = parquet.add_run_columns(ops("a", ("mul", 4, 1)), "one", None)
    (path,) = parquet.write({("op_stats", "ops"): [part]}, tmp_path)
    notes = json.loads(pq.read_metadata(path).metadata[b"outpace"])
    assert (notes["table"], notes["title"]) == ("op_stats.ops", "Ops")
    assert notes["columns"] == json_.encode_columns(part)
    assert [c["name"] for c in notes["columns"] if c["key"]] == ["run", "host", "op"]


def test_texts_are_dictionaries_in_the_file(tmp_path: Path) -> None:
    (path,) = parquet.write({("t", "log"): [parquet.add_run_columns(log(*[(1, "again")] * 1000), "one", "a")]}, tmp_path)
    group = pq.ParquetFile(path).metadata.row_group(0)
    texts = [group.column(i) for i in range(group.num_columns) if group.column(i).physical_type == "BYTE_ARRAY"]
    assert len(texts) == 3
    assert all(column.has_dictionary_page for column in texts)


def test_hostile_names_and_columns(tmp_path: Path) -> None:
    tables = {
        (page.id, t.name): [parquet.add_run_columns(t, "=run\ud800", "../host")]
        for page in hostile().pages
        for t in page.tables()
    }
    for path, (part,) in zip(parquet.write(tables, tmp_path), tables.values(), strict=True):
        assert path.parent == tmp_path
        assert pq.read_table(path).num_rows == len(part)


def test_columns_of_a_table_that_bear_our_names_stay(tmp_path: Path) -> None:
    table = Table.from_rows("t", "T", (Field("run", Unit.TEXT, "a run of the program"),), [("own",)])
    (path,) = parquet.write({("t", "t"): [parquet.add_run_columns(table, "ours", "a")]}, tmp_path)
    assert pq.read_table(path).to_pylist() == [{"run": "ours", "host": "a", "row": 0, "run_of_table": "own"}]


def test_it_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        parquet.write({("t", "log"): [log()]}, tmp_path / "file")


def test_it_says_how_to_get_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as Python has it of what cannot be imported
    with pytest.raises(OutpaceError, match=r"pip install pyarrow"):
        parquet.require_pyarrow()
