import base64
import dataclasses
import errno
import hashlib
import json
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NoReturn

import pytest

from outpace.model import (
    Chart,
    ChartKind,
    Field,
    Figure,
    Link,
    Links,
    OutputError,
    Page,
    Paragraph,
    Report,
    Table,
    TableView,
    Unavailable,
    Unit,
)
from outpace.model.text import elide
from outpace.report import html, html_data, terminal
from outpace.report.html_anchors import Anchors
from tests.support import opened
from tests.unit.report.report_samples import average_step, finding_input, finding_struck, hostile, op_table, realistic
from tests.unit.report.test_chart_data import told

VOID = {"meta", "br", "input", "link", "img", "hr"}
FETCHING = {"src", "href", "srcset", "action", "data", "poster", "background", "ping", "manifest", "formaction"}


class Document(HTMLParser):
    """Tags, attributes and the raw text of scripts and styles, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif inside == "style":
            self.styles.append(data)
        else:
            self.text += data

    def code(self) -> list[str]:
        return [text for attrs, text in self.scripts if attrs.get("type") != "application/json"]

    def data(self) -> dict[str | None, Any]:
        """What is embedded, its tables with all their values."""
        found = {attrs["id"]: json.loads(text) for attrs, text in self.scripts if attrs.get("type") == "application/json"}
        for table in found.values():
            if "data" in table:
                table["data"] = [whole(column) for column in table["data"]]
        return found

    def policy(self) -> str:
        return next(v for tag, k, v in self.attributes if tag == "meta" and k == "content" and v.startswith("default-src"))


def whole(column: list[Any] | dict[str, list[Any]]) -> list[Any]:
    """The values of an embedded column, as `Tables.column` of the page reads them, for texts
    without characters beyond U+FFFF.
    """
    if isinstance(column, list):
        return column
    of, text = column.get("of", []), ""
    for same, rest in zip(column.get("texts", [])[::2], column.get("texts", [])[1::2], strict=True):
        text = text[:same] + rest
        of.append(text)
    return [of[number] if number >= 0 else None for number in column["at"]]


def source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module", params=[realistic, hostile, lambda: realistic(0, 0)], ids=["realistic", "hostile", "empty"])
def document(request: pytest.FixtureRequest) -> Document:
    return Document(html.render(request.param()))


def test_tags_are_balanced(document: Document) -> None:
    assert document.unbalanced == []
    assert document.open == []


def test_the_policy_allows_exactly_the_code_of_this_file(document: Document) -> None:
    directives = dict(d.strip().split(" ", 1) for d in document.policy().split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].split() == [source_hash(s) for s in document.code()]
    assert directives["style-src"].split() == [source_hash(s) for s in document.styles]
    assert "unsafe" not in document.policy()
    assert directives["img-src"] == "data:"


def test_the_file_asks_for_nothing(document: Document) -> None:
    for tag, key, value in document.attributes:
        if key in FETCHING:
            assert value.startswith("#"), (tag, key, value)
    assert not any(tag in ("img", "link", "iframe", "object", "embed", "base", "form") for tag, _, _ in document.attributes)
    assert not re.search(r"url\(|@import", "".join(document.styles))
    assert "sourceMappingURL" not in "".join(document.code())


def test_no_name_becomes_code(document: Document) -> None:
    assert not any(key.startswith("on") or key == "style" for _, key, _ in document.attributes)
    assert len(document.code()) <= 3


def test_hostile_names_are_shown_as_text() -> None:
    document = Document(html.render(hostile()))
    assert "<script>alert(1)</script>" in document.text
    assert "\\x1b[31mred" in document.text
    assert "{{ 7 * 7 }}" in document.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028\ud800-\udfff]", document.text)


def test_a_megabyte_of_one_name_does_not_make_a_megabyte_of_page() -> None:
    small = len(html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(TableView(op_table(3)),)),))))
    assert len(html.render(hostile())) - small < 300_000


def test_embedded_tables_hold_every_row_and_exact_ids() -> None:
    data = Document(html.render(realistic())).data()
    table = next(t for t in data.values() if t.get("name") == "ops")
    names = [c["name"] for c in table["columns"]]
    ids = table["data"][names.index("node_id")]
    assert ids[0] == str(2**64 - 1)  # a JavaScript number could not hold it
    assert len(ids) == 34
    assert table["data"][names.index("intensity")][3] is None
    assert table["data"][names.index("total_ps")][0] == int(op_table()["total_ps"][0])


def test_charts_refer_to_embedded_tables() -> None:
    data = Document(html.render(realistic())).data()
    chart = next(d for d in data.values() if "series" in d)
    columns = [c["name"] for c in data["data:" + chart["table"]]["columns"]]
    assert set(chart["series"]) <= set(columns)
    assert chart["keys"][1] == "input"


def test_a_table_is_embedded_once_however_often_it_is_shown() -> None:
    page = Page("p", "P", "Q", sections=(average_step(), TableView(average_step().table)))
    ids = [attrs["id"] for attrs, _ in Document(html.render(Report("s", "h", (), (), (page,)))).scripts if "id" in attrs]
    assert ids == ["data:p/average_step"]


def test_a_table_that_stands_on_the_page_is_not_also_behind_the_chart() -> None:
    alone = Page("p", "P", "Q", sections=(average_step(),))
    both = Page("p", "P", "Q", sections=(average_step(), TableView(average_step().table)))
    for render in (html.render_fragment, lambda page: html.render(Report("s", "h", (), (), (page,)))):
        assert render(alone).count("Table behind this chart") == 1
        assert render(both).count("Table behind this chart") == 0
        assert render(both).count('<table class="rows">') == 1


def test_without_scripts_every_choice_of_parts_is_seen() -> None:
    fields = (
        Field("side", Unit.TEXT, "s"),
        Field("by", Unit.TEXT, "b"),
        Field("op", Unit.TEXT, "o"),
        Field("n", Unit.COUNT, "n"),
    )
    rows = [
        ("Host", "type", "Cast", 3),
        ("Host", "type", "all others", 97),
        ("Device", "type", "MatMul", 5),
        ("Device", "layer", "a/*", 5),
    ]
    table = Table.from_rows("parts", "Parts", fields, rows)
    chart = Chart("Parts", ChartKind.PIE, table, "op", ("n",), select="side", then=("by",))
    page = Page("p", "P", "Q", sections=(chart,))
    fragment = html.render_fragment(page)
    assert re.findall("<h4>(.*?)</h4>", fragment) == ["Side Host, By type", "Side Device, By type", "Side Device, By layer"]
    assert [fragment.count(f'<td class="v share">{share}</td>') for share in ("3.0%", "97.0%", "100.0%")] == [1, 1, 2]
    assert fragment.count('<svg class="length"') == 3, "the rest has no bar"
    assert 'data-picture="bars"' in html.render(Report("s", "h", (), (), (page,)))
    printed = terminal.render(Report("s", "h", (), (), (page,)), width=100, details=True)
    assert "Side: Host, By: type" in printed and "Side: Device, By: type" in printed and "By: layer" not in printed


def test_a_folded_table_has_its_address() -> None:
    page = Page("p", "P", "Q", sections=(TableView(average_step().table, folded=True),))
    assert '<details class="behind" id="p/average_step">' in html.render(Report("s", "h", (), (), (page,)))


def test_a_flame_graph_of_states_has_a_legend_and_leaves_out_what_is_aside() -> None:
    chart = told()
    text = html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(chart,)),)))
    assert '<ul class="legend inline"><li><i class="k-output"></i>gone</li><li><i class="k-input"></i>more</li></ul>' in text
    assert "<title>a: 60 ps (60.0%), more</title>" in text and "<title>a/y" not in text
    document = Document(text)
    table, drawn = document.data()["data:p/t"], document.data()["data:p/chart-0"]
    assert (drawn["state"], drawn["aside"], drawn["colors"]) == ("state", "old", {"gone": "output", "more": "input"})
    assert [len(column) for column in table["data"]] == [4] * 6
    assert ("div", "data-aside", "old") in document.attributes


def test_a_huge_table_says_what_is_not_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_data, "MAX_ROWS", 10)
    document = Document(html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(TableView(op_table(34)),)),))))
    assert "This page carries the first 10 of 34 rows" in document.text
    assert len(next(iter(document.data().values()))["data"][0]) == 10


def test_findings_of_one_rule_on_several_hosts_are_told_apart_wherever_they_stand() -> None:
    text = html.render(opened("multi_host").report())
    others = text.partition('<ul class="others">')[2].partition("</ul>")[0]
    assert others.count("of the step goes to convolutions") == 2
    assert "[localhost_7010]" in others and "[localhost_7012]" in others


def test_a_small_report_is_small() -> None:
    bare = html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(Paragraph("", "words"),)),)))
    assert len(bare) < 100_000


def test_no_text_of_a_script_or_style_goes_over_lines_which_are_embedded_without_indentation() -> None:
    assets = Path(html.__file__).parent / "assets"
    lines = [line for path in assets.glob("*.[jc]s*") for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [line for line in lines if line.count("`") % 2 or line.endswith("\\")]
    document = Document(html.render(realistic()))
    assert "\n " not in "".join([*document.code(), *document.styles])


@pytest.mark.parametrize(
    ("values", "unit", "seen", "said"),
    [
        ([None, None, None], Unit.PS, False, ""),
        (["", "", ""], Unit.TEXT, False, ""),
        ([float("nan")] * 3, Unit.FRACTION, False, ""),
        ([0, 0, 0], Unit.PS, False, ""),
        ([1, 2, 3], Unit.COUNT, False, ""),
        ([7, 7, 7], Unit.COUNT, False, "In every row: Value 7"),
        (["Host", "Host", "Host"], Unit.TEXT, False, "In every row: Value Host"),
        ([False, False, False], Unit.BOOL, False, "In every row: Value no"),
        (["Host", "", "Host"], Unit.TEXT, True, ""),
        ([1, 2, 4], Unit.COUNT, True, ""),
        ([0, 0, None], Unit.PS, True, ""),
    ],
)
def test_a_column_that_tells_nothing_is_left_out_of_the_first_view(
    values: list[Any], unit: Unit, seen: bool, said: str
) -> None:
    fields = (Field("name", Unit.TEXT, "n"), Field("value", unit, "v"), Field("size", Unit.COUNT, "s"))
    table = Table.from_rows("ops", "Ops", fields, [(f"op {i}", value, 9 - i) for i, value in enumerate(values)])
    text = html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(TableView(table),)),)))
    assert (">Value</th>" in text) is seen and ('data-hidden="value"' in text) is not seen
    assert text.count("In every row: ") == bool(said) and said in text
    assert 'data-order="name value size"' in text, "a reader may show it"


def test_a_number_that_a_tool_wants_seen_stays_though_it_is_the_same_in_every_row() -> None:
    fields = (Field("worker", Unit.TEXT, "w"), Field("time_ps", Unit.PS, "t"), Field("host", Unit.TEXT, "h"))
    table = Table.from_rows("workers", "Workers", fields, [("a", 5, "vm"), ("b", 5, "vm")])
    for section, hidden in ((TableView(table, ("worker", "time_ps", "host")), "host"), (TableView(table), "time_ps host")):
        assert f'data-hidden="{hidden}"' in html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(section,)),)))
    assert "data-hidden" not in html.render(
        Report("s", "h", (), (), (Page("p", "P", "Q", sections=(TableView(table.take([0])),)),))
    )


def test_the_first_screen_is_in_the_agreed_order() -> None:
    text = Document(html.render(realistic())).text
    marks = [
        "12,345 events were lost",
        "it waits for input for 51.7%",
        "The average step",
        "What to change, most first",
        "18.0 to 30.0 ms per step",
        "Confidence",
        "What bounds the program",
        "Step graph",
        "Which operations",
    ]
    places = [text.index(m, text.index("12,345")) for m in marks]
    assert places == sorted(places)


def test_a_finding_shows_its_proof() -> None:
    text = Document(html.render(realistic())).text
    for part in (
        "HIGHLY_INPUT_BOUND = 20.0%",
        "CPU cores are already 88% busy",
        "train.py:41",
        "mean wait for input per step: 31.6 ms",
    ):
        assert part in text


def test_an_unavailable_page_says_why_and_what_to_do() -> None:
    text = Document(html.render(realistic())).text
    assert "the profile holds no allocation events" in text
    assert "Capture with host_tracer_level=2" in text


def test_long_names_are_cut_with_the_whole_one_behind_a_hover() -> None:
    document = Document(html.render(realistic()))
    whole = op_table()["name"][0]
    assert ("td", "title", whole) in document.attributes
    assert elide(op_table()["name"].tolist()[:25], 72)[0] in document.text


def test_embed_cannot_end_the_script_block() -> None:
    text = html_data.embed_json({"name": "</script><!--<script>&\u2028"})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"name": "</script><!--<script>&\u2028"}


@pytest.mark.parametrize("make", [realistic, hostile])
def test_a_fragment_reads_without_its_one_script(make: Callable[[], Report]) -> None:
    for page in make().pages:
        fragment = page._repr_html_()
        assert fragment == html.render_fragment(page)
        document = Document(fragment)
        assert [len(text) < 2_500 for _, text in document.scripts] == [True]
        assert "[hidden]" in fragment and not document.data(), "nothing waits for a script"
        assert document.unbalanced == []
        assert not any(key in FETCHING or key.startswith("on") or key == "style" for _, key, _ in document.attributes)


def test_a_fragment_shows_the_page() -> None:
    text = Document(html.render_fragment(realistic().page("tf_data"))).text
    assert "tf.data bottleneck" in text
    assert "29.1 ms" in text
    assert "bottleneck" in text


def test_a_number_leads_to_the_page_that_holds_its_table() -> None:
    table = Table.from_rows("stages", "Stages", (Field("n", Unit.COUNT, "n"),), [(1,)])
    known = Link("Input", 5, Unit.PS, ("nowhere.stages", "second.stages"), "which stage")
    link = Links("Behind", (known, Link("Output", 6, Unit.PS, ("nowhere.stages",))))
    pages = (Page("first", "First", "?", "a", (link,)), Page("second", "Second", "?", "b", (TableView(table),)))
    report = Report("x", "h", (), (), pages)
    page = html.render(report)
    assert '<a href="#second/stages">table second.stages</a>' in page
    assert 'id="second/stages"' in page
    text = terminal.render(report, width=80, details=True)
    assert "--tool second (table stages)" in text
    assert "--tool first" not in text


def test_a_report_is_written_whole_with_its_folder(tmp_path: Path) -> None:
    report, target = realistic(), tmp_path / "new" / "report.html"
    assert html.write(report, target) == target
    assert target.read_text(encoding="utf-8") == html.render(report)
    assert os.listdir(target.parent) == ["report.html"], "no partial file is left"


def test_a_report_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("before", encoding="utf-8")

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match=r"The report cannot be written to .*report\.html: No space left on device"):
        html.write(realistic(), target)
    assert os.listdir(tmp_path) == ["report.html"], "no partial file is left"
    assert target.read_text(encoding="utf-8") == "before"


@pytest.mark.parametrize("make", [realistic, hostile, lambda: realistic(0, 0)])
def test_every_link_leads_to_one_place(make: Callable[[], Report]) -> None:
    document = Document(html.render(make()))
    ids = [value for _, key, value in document.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    links = {value[1:] for tag, key, value in document.attributes if (tag, key) == ("a", "href")}
    assert links - set(ids) == set()
    assert "summary" in ids and len(links) > 3


def test_tables_and_findings_have_addresses_of_their_own() -> None:
    document = Document(html.render(realistic()))
    ids = {value for _, key, value in document.attributes if key == "id"}
    assert {"overview", "overview/steps", "overview/finding/input-bound", "ops/ops", "tf_data/ops", "memory", "absent"} <= ids
    links = {value for tag, key, value in document.attributes if (tag, key) == ("a", "href")}
    assert {"#overview/average_step", "#overview/finding/input-bound", "#ops/ops"} <= links, "evidence leads to the table"


def test_tools_with_nothing_to_show_are_one_line() -> None:
    text = html.render(realistic())
    assert text.count("Not measurable in this profile") == 1
    assert '<section class="view" id="memory"' not in text
    assert '<li id="memory">' in text


def test_two_findings_of_one_rule_have_two_addresses() -> None:
    twice = tuple(dataclasses.replace(finding_input(), location=place) for place in ("a.py:1", "b.py:2"))
    page = Page("p", "P", "Q", sections=(Paragraph("", "words"),), findings=twice)
    places = Anchors(Report("s", "h", (), twice, (page,)))
    assert [places.finding_anchor(f) for f in twice] == ["p/finding/input-bound", "p/finding/input-bound-2"]
    assert places.finding_anchor(finding_struck()) == ""


def test_a_profile_that_tells_nothing_is_to_be_captured_again() -> None:
    gone = Page("p", "P", "Q", unavailable=Unavailable("nothing was recorded", "Capture while the program trains."))
    text = Document(html.render(Report("s", "h", (), (), (gone,)))).text
    assert "Capture again: Capture while the program trains." in text
    assert "worth a change" not in text


def test_rows_set_aside_are_carried_and_not_shown_at_first() -> None:
    fields = (Field("name", Unit.TEXT, "n"), Field("idle", Unit.BOOL, "i"))
    table = Table.from_rows("ops", "Ops", fields, [("NOTHING", True), ("MatMul", False)])
    document = Document(
        html.render(Report("s", "h", (), (), (Page("p", "P", "Q", sections=(TableView(table, aside="idle"),)),)))
    )
    assert "MatMul" in document.text and "NOTHING" not in document.text
    assert next(iter(document.data().values()))["data"][0] == ["NOTHING", "MatMul"]


def test_the_column_that_names_the_rows_comes_first() -> None:
    fields = (Field("rank", Unit.COUNT, "r"), Field("side", Unit.TEXT, "s"), Field("name", Unit.TEXT, "n"))
    rows = [(i, "host" if i % 2 else "device", f"op {i}") for i in range(20)]
    page = Page("p", "P", "Q", sections=(TableView(Table.from_rows("ops", "Ops", fields, rows)),))
    assert 'data-order="name rank side"' in html.render(Report("s", "h", (), (), (page,)))
    assert 'data-order="step ' in html.render(realistic()), "a number names the steps"


def test_a_column_with_empty_cells_names_no_rows() -> None:
    fields = (Field("memory", Unit.TEXT, "m"), Field("op", Unit.TEXT, "o"), Field("shape", Unit.TEXT, "s"))
    rows = [("gpu", op, shape) for op, shape in (("MatMul", "[2]"), ("MatMul", ""), ("Relu", "[4]"))]
    page = Page("p", "P", "Q", sections=(TableView(Table.from_rows("live", "Live", fields, rows)),))
    assert 'data-order="op memory shape"' in html.render(Report("s", "h", (), (), (page,)))


@pytest.mark.parametrize(("parts", "named"), [(10, "part"), (3, "op")])
def test_the_text_that_the_tool_puts_first_names_the_rows_if_it_tells_them_apart(parts: int, named: str) -> None:
    fields = (Field("part", Unit.TEXT, "p"), Field("share", Unit.COUNT, "s"), Field("op", Unit.TEXT, "o"))
    table = Table.from_rows("parts", "Parts", fields, [(f"part {i % parts}", i, f"op {i % 12}") for i in range(30)])
    page = Page("p", "P", "Q", sections=(TableView(table),))
    assert f'data-order="{named} ' in html.render(Report("s", "h", (), (), (page,)))


@pytest.mark.parametrize("advises", [True, False])
def test_a_report_of_one_page_without_advice_opens_on_it(advises: bool) -> None:
    page = Page(
        "compare", "Comparison", "Q", "slower", (TableView(op_table(3)),), key_figures=(Figure("Ratio", 2.0, Unit.RATIO),)
    )
    text = html.render(Report("s", "slower", (), (), (page,), advises=advises))
    assert text.count('class="view') == (2 if advises else 1)
    assert (">Summary</a>" in text) is advises and 'id="compare"' in text
