import csv
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import IO, NoReturn

import pytest

from outpace.model import Field, OutputError, Page, Report, Table, Unit
from outpace.model.text import repair_unicode
from outpace.report import csv_
from outpace.report.file_stems import file_stems
from tests.unit.report.report_samples import HOSTILE_NAMES, hostile, realistic


def read(path: Path) -> list[list[str]]:
    before = csv.field_size_limit(10_000_000)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return list(csv.reader(file, strict=True))
    finally:
        csv.field_size_limit(before)


def test_one_file_per_table_of_every_page(tmp_path: Path) -> None:
    paths = csv_.write(realistic(), tmp_path / "made" / "here")
    assert [p.name for p in paths] == [
        "overview.average_step.csv", "overview.steps.csv", "ops.by_pie.csv", "ops.by_bars.csv", "ops.ops.csv",
        "tf_data.pipeline.csv", "tf_data.nothing.csv", "tf_data.ops.csv", "tf_data.more_ops.csv",
    ]  # fmt: skip
    assert sorted(os.listdir(tmp_path / "made" / "here")) == sorted(p.name for p in paths)


def test_values_are_exact_and_missing_ones_empty(tmp_path: Path) -> None:
    csv_.write(realistic(), tmp_path)
    header, *rows = read(tmp_path / "ops.ops.csv")
    assert header[:5] == ["name", "type", "occurrences", "total_ps", "self_ps"]
    assert rows[0][header.index("node_id")] == str(2**64 - 1)
    assert rows[0][header.index("eager")] == "true"
    assert rows[3][header.index("intensity")] == ""
    assert rows[4][header.index("intensity")] == ""
    assert read(tmp_path / "tf_data.nothing.csv") == [["name", "n"]]


def test_lines_end_as_rfc_4180_says(tmp_path: Path) -> None:
    csv_.write(realistic(), tmp_path)
    data = (tmp_path / "overview.average_step.csv").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") == 11


def test_names_survive_but_cannot_be_formulas(tmp_path: Path) -> None:
    csv_.write(hostile(), tmp_path)
    _, *rows = read(tmp_path / "hostile.rows.csv")
    for row, name in zip(rows, HOSTILE_NAMES, strict=True):
        assert row[0].removeprefix("'") == repair_unicode(name).removeprefix("'")
        assert not row[0].lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r"))
    assert rows[0][3] == "-4"  # a number is no formula


@pytest.mark.parametrize(
    ("name", "unit", "heading"),
    [
        ("total_ps", Unit.PS, "total_ps"),
        ("total", Unit.PS, "total_ps"),
        ("bytes", Unit.BYTES, "bytes"),
        ("share", Unit.FRACTION, "share"),
    ],
)
def test_headings_say_the_unit(name: str, unit: Unit, heading: str) -> None:
    assert csv_.format_header(Field(name, unit, "")) == heading


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    csv_.write(realistic(ops=34), tmp_path)
    csv_.write(realistic(ops=2), tmp_path)
    assert len(read(tmp_path / "ops.ops.csv")) == 3


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv_.write(realistic(), tmp_path)
    before = (tmp_path / "overview.average_step.csv").read_bytes()
    names = sorted(os.listdir(tmp_path))

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match="No space left on device"):
        csv_.write(realistic(), tmp_path)
    assert sorted(os.listdir(tmp_path)) == names
    assert (tmp_path / "overview.average_step.csv").read_bytes() == before


def test_an_impossible_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"tables cannot be written to .*file.*Choose another place"):
        csv_.write(realistic(), tmp_path / "file")


def test_files_have_ordinary_permissions(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        path = csv_.write(realistic(), tmp_path)[0]
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_was_there_stays_until_all_tables_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is told to end in the middle."""
    csv_.write(realistic(), tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    known: list[Table] = []
    write_table = csv_._write_table

    def interrupted(table: Table, file: IO[bytes]) -> None:
        known.append(table)
        if len(known) == 3:
            raise KeyboardInterrupt
        write_table(table, file)

    monkeypatch.setattr(csv_, "_write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        csv_.write(realistic(), tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_hostile_tool_id_cannot_leave_the_folder() -> None:
    assert file_stems([("../../etc/passwd", ".."), ("..", "t")]) == ["_.._etc_passwd._", "_.t"]


def test_names_that_begin_alike_or_differ_in_odd_characters_are_files_of_their_own(tmp_path: Path) -> None:
    host = "worker-0." + "very-long-name." * 6 + "example.com"
    names = [f"stages {host} Host:0", f"stages {host} Host:1", "a b", "a_b", "A b"]
    fields = (Field("name", Unit.TEXT, "the table's own"),)
    tables = tuple(Table.from_rows(name, name, fields, [(name,)]) for name in names)
    paths = csv_.write(Report("", "", (), (), (Page("tool", "Tool", "", hidden_tables=tables),)), tmp_path)
    assert len({p.name.lower() for p in paths}) == len(names)
    assert max(len(p.name) for p in paths) < 100
    assert [read(p)[1] for p in paths] == [[name] for name in names]
    assert [p.name for p in paths[2:]] == ["tool.a_b.csv", "tool.a_b-2.csv", "tool.A_b-3.csv"]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe63"])
@pytest.mark.parametrize(
    "unseen", ["", " ", "\ufeff", "\u200b", "\u2060", "\xad", "\u202e", "\xa0\u3000", "\x01", " \ufeff \u200b"]
)
def test_signs_behind_what_is_not_seen_are_no_formulas_either(unseen: str, sign: str) -> None:
    text = f"{unseen}{sign}cmd|' /C calc'!A0"
    assert csv_.format_cell(text) == "'" + text
    assert csv_.format_cell(f"{unseen}a{text}") == f"{unseen}a{text}"


def test_scripts_and_files_call_the_same_a_formula(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    names = [*HOSTILE_NAMES, "\ufeff=1", "\u200b+1", "\uff1d1", " -1", "\t1", "\r1", "a=1", "", " ", "\xad\ufe631"]
    names = [repair_unicode(name).replace("\0", "\ufffd") for name in names]
    script = (
        (Path(csv_.__file__).parent / "assets" / "tables.js")
        .read_text(encoding="utf-8")
        .replace("return { load", "return { csvCell, load")
    )
    ask = f"console.log(JSON.stringify({json.dumps(names)}.map((name) => Tables.csvCell(name, 'text'))))"
    out = subprocess.run([node, "-"], input=script + ask, capture_output=True, text=True, check=True).stdout
    assert [cell.strip('"')[:1] == "'" and name[:1] != "'" for cell, name in zip(json.loads(out), names, strict=True)] == [
        csv_.format_cell(name) != name for name in names
    ]
