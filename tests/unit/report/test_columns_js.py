"""What is embedded of a column is what the page reads of it, and takes no more room
than it must.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outpace.report
from outpace.report.html_data import column_data

ASSETS = Path(outpace.report.__file__).parent / "assets"


def read(columns: list[Any]) -> Any:
    """Columns as the page's script reads them."""
    program = f"{(ASSETS / 'tables.js').read_text(encoding='utf-8')}\nconsole.log(JSON.stringify({json.dumps(columns)}.map(Tables.column)));"
    return json.loads(
        subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True, timeout=60).stdout
    )


LAYERS = [f"replica_{i % 2}/bert/transformer/layer_{i % 24}/self_attention/{name}" for i in range(60) for name in "qkv"]
COLUMNS: list[list[Any]] = [
    LAYERS,
    [f"kernel<{i % 3}>" * 40 for i in range(100)],
    ["", None, "a", "a", "a" * 60, "a" * 60] * 9,
    ["😀 model/a" * 5, "😀 model/b" * 5, "😁 model/b" * 5] * 9,
    [1.5, None, 0.12345678901234] * 30,
    list(range(100)),
    [True, False, None] * 20,
    [True, 1, 1.0, 0, False] * 20,
    [None] * 20,
    [],
]


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_the_page_reads_what_was_embedded() -> None:
    assert read([column_data(list(column)) for column in COLUMNS]) == COLUMNS


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@settings(max_examples=8, deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=9))), max_size=60))
def test_the_page_reads_any_texts(columns: list[list[str | None]]) -> None:
    assert read([column_data(column * 5) for column in columns]) == [column * 5 for column in columns]


@pytest.mark.parametrize(("column", "share"), [(COLUMNS[0], 0.2), (COLUMNS[1], 0.1), (COLUMNS[4], 0.6)])
def test_what_repeats_is_stored_once(column: list[Any], share: float) -> None:
    assert len(json.dumps(column_data(column))) < share * len(json.dumps(column))


@pytest.mark.parametrize("column", [COLUMNS[5], ["a", "b", "c"] * 3])
def test_what_would_not_get_smaller_stays_as_it_is(column: list[Any]) -> None:
    assert column_data(column) is column


def test_elements_are_made_in_one_place() -> None:
    assert [path.name for path in sorted(ASSETS.glob("*.js")) if "createElement" in path.read_text(encoding="utf-8")] == [
        "dom.js"
    ]
