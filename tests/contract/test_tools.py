"""What every tool promises, on every kind of input: a page that answers its question or says why
not, in every format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.model import Chart, Page, Report, TableView
from outpace.report import csv_, html, json_, terminal
from outpace.tools import discover_tools
from tests.contract.inputs import INPUTS, SHUFFLED, opened
from tests.support import FAST
from tests.support import opened as opened_profile

SOME_INPUTS = ("empty", "truncated", "several hosts", "keras", "jax", "rocm") if FAST else tuple(INPUTS)
TOOLS = {tool.id: tool for tool in discover_tools()}


@pytest.fixture(scope="module", params=SOME_INPUTS)
def profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.Profile]:
    yield opened(request.param, tmp_path_factory.mktemp("input"))


@pytest.fixture(scope="module")
def report(profile: api.Profile) -> Report:
    return profile.report()


@pytest.fixture(scope="module")
def pages(profile: api.Profile) -> tuple[Page, ...]:
    return tuple(profile.page(tool) for tool in TOOLS)


def strict(text: str) -> Any:
    """Parse JSON as RFC 8259 has it: no NaN, no repeated key."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), "a key is repeated"
        return dict(pairs)

    def never(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, object_pairs_hook=once, parse_constant=never)


def test_the_page_is_the_tools(pages: tuple[Page, ...]) -> None:
    for page, tool in zip(pages, TOOLS.values(), strict=True):
        assert (page.id, page.title, page.question) == (tool.id, tool.title, tool.question)
        if page.unavailable:
            assert page.unavailable.reason
            assert page.unavailable.remedy, "whoever cannot be helped by this profile must know how to get one that helps"
        else:
            assert page.headline
            assert page.sections


def test_tables_are_described(pages: tuple[Page, ...]) -> None:
    for table in (table for page in pages for table in page.tables()):
        names = [field.name for field in table.fields]
        assert len(set(names)) == len(names)
        assert table.title
        for field, column in zip(table.fields, table.columns, strict=True):
            assert len(field.meaning) > 3, f"{table.name}.{field.name} does not say what it means"
            assert column.ndim == 1


def test_sections_name_columns_that_exist(pages: tuple[Page, ...]) -> None:
    for section in (section for page in pages for section in page.sections):
        if isinstance(section, Chart):
            assert {section.x, *section.series} <= {f.name for f in section.table.fields}
        elif isinstance(section, TableView):
            assert set(section.columns) <= {f.name for f in section.table.fields}


def test_findings_prove_themselves(report: Report, pages: tuple[Page, ...]) -> None:
    tables = report.references()
    for page in pages:
        assert len({(f.id, f.host, f.location) for f in page.findings}) == len(page.findings), page.id
    for finding in (finding for page in pages for finding in page.findings):
        assert finding.sentence
        assert finding.action
        assert {e.table for e in finding.evidence} <= tables, f"{finding.id} cites a table that no page has"
        assert all(np.isfinite(e.value) for e in finding.evidence)
        assert finding.saving is None or (0 <= finding.saving.low <= finding.saving.high <= 1 and finding.saving.high > 0)
        assert finding.saving is None or (finding.saving.takes_from and finding.saving.assumes)
        assert not finding.struck or finding.struck == finding.struck.strip()


def test_json_is_strict(report: Report) -> None:
    document = strict(json_.render(report))
    assert document["schema"] == 2
    for page in report.pages:
        tables = document["tools"][page.id]["tables"]
        assert {name: len(table["rows"]) for name, table in tables.items()} == {t.name: len(t) for t in page.tables()}


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_keeps_its_width(report: Report, width: int) -> None:
    commands = tuple(command.line for command in report.next)  # which run over rather than be broken
    for text in (terminal.render(report, width=width, details=True), terminal.render(report, width=width, tools=tuple(TOOLS))):
        assert text.strip()
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if len(line) > width and not line.endswith(commands)]


def test_html_and_csv_are_written(report: Report, pages: tuple[Page, ...], tmp_path: Path) -> None:
    text = html.render(report)
    assert text.lower().startswith("<!doctype html>")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text), "the report must work offline"
    for page in pages:
        assert html.render_fragment(page).strip()
        alone = csv_.write(replace(report, pages=(page,)), tmp_path / page.id)
        assert len(alone) == len(list(page.tables()))
        assert len({path.name for path in alone}) == len(alone)


def test_the_same_run_gives_the_same_page(profile: api.Profile, pages: tuple[Page, ...]) -> None:
    again = tuple(tool.analyse(profile.run) for tool in TOOLS.values())
    assert json_.render(Report("", "", (), (), again)) == json_.render(Report("", "", (), (), pages))


def test_the_order_of_events_in_the_file_does_not_matter(tmp_path: Path) -> None:
    mixed, ordered = opened("shuffled", tmp_path), opened_profile(SHUFFLED[0])
    for tool in TOOLS:
        found = [json_.render(Report("", "", (), (), (profile.page(tool),))) for profile in (mixed, ordered)]
        assert found[0] == found[1], tool
