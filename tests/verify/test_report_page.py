"""The HTML report under a reader's hands, in headless Chromium: addresses, tables, charts, search,
and what needs no script.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.model.text import shorten
from outpace.report import glossary
from tests.support import opened
from tests.verify.chromium import CHROMIUM, Page

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
LOOKED_AT = (
    *("keras_fit", "jax_loop", "multi_host", "tf_gpu_v100_bert"),
    *("memory_heavy", "tpu_v6e_inference", "tfdata_heavy", "idle_empty"),
)


class Report:
    """Reports in one browser. Every visit is a new window as far as the page can tell: another
    document, no history.
    """

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self._folder = page, folder

    def visit(self, name: str, route: str = "", width: int = 1400) -> Report:
        path = self._folder / f"{name}.html"
        if not path.exists():
            opened(name).html(path)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.page.ask("Emulation.setDeviceMetricsOverride", **size)
        self.page.ask("Page.navigate", url="about:blank")
        self.page.console.clear()
        self.page.requests.clear()
        self.page.ask("Page.navigate", url=f"{path.as_uri()}#{route}" if route else path.as_uri())
        self.page.wait("document.readyState === 'complete' && !!document.querySelector('.view.on')", 30)
        return self

    def run(self, script: str) -> Any:
        return self.page.run(script)

    def wait(self, script: str) -> None:
        self.page.wait(script, 10)

    def views(self) -> list[str]:
        """The views that are seen."""
        return list(self.run("[...document.querySelectorAll('.view')].filter(v => v.offsetHeight).map(v => v.id)"))

    def click(self, selector: str) -> None:
        """A click of the mouse in the middle of an element. The page is scrolled only where the
        element cannot be reached as it is.
        """
        middle = f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])({self._box(selector)})"
        element = self._element(selector)
        if not self.run(f"{element}.contains(document.elementFromPoint(...{middle}))"):
            self.run(f"{element}.scrollIntoView({{ block: 'center' }})")
        self.click_at(*self.run(middle))

    def click_at(self, x: float, y: float) -> None:
        self.drag((x, y), (x, y))

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        for kind, (x, y) in (("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)):
            self.page.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key: str, text: str = "") -> None:
        code = {"Escape": 27}.get(key, 0)  # what Chromium itself does with a key, it does by its code
        self.page.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self.page.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def write(self, selector: str, text: str) -> None:
        self.run(f"(f => {{ f.value = {json.dumps(text)}; f.dispatchEvent(new Event('input')); }})({self._element(selector)})")

    def select(self, selector: str, value: str) -> None:
        """The choice of a list's entry."""
        change = "(s => { s.value = %s; s.dispatchEvent(new Event('change')); })(%s)"
        self.run(change % (json.dumps(value), self._element(selector)))

    def text(self, selector: str) -> str:
        return str(self.run(f"{self._element(selector)}.textContent"))

    def _element(self, selector: str) -> str:
        return f"document.querySelector({json.dumps(selector)})"

    def _box(self, selector: str) -> str:
        return f"{self._element(selector)}.getBoundingClientRect()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    folder = tmp_path_factory.mktemp("reports")
    with Page(folder / "browser") as page:
        yield Report(page, folder)


@pytest.fixture
def report(browser: Report) -> Iterator[Report]:
    """The browser; at the end, no script complained and nothing was asked of anybody."""
    yield browser
    assert browser.page.console == []
    assert not [url for url in browser.page.requests if not url.startswith(("file:", "about:", "data:", "blob:"))]


def test_words_of_the_field_are_explained_where_they_stand(report: Report) -> None:
    """By the pointer, by the keyboard and by a tap, with the glossary's own sentence; each once in
    a view.
    """
    meaning = next(told for names, told in glossary.read_terms() if "Critical path" in names)
    report.visit("tfdata_heavy", "tf_data")
    words = report.run("[...document.querySelectorAll('#tf_data dfn')].map(word => word.textContent.toLowerCase())")
    assert "critical path" in words and len(words) == len(set(words))
    word = "[...document.querySelectorAll('#tf_data dfn')].find(word => word.textContent.toLowerCase() === 'critical path')"
    tip = "(tip => tip.hidden ? '' : tip.textContent)(document.getElementById('tip'))"
    report.run(f"{word}.scrollIntoView({{ block: 'center' }})")
    report.wait(f"{tip} === ''")
    x, y = report.run(f"(box => [box.x + box.width / 2, box.y + box.height / 2])({word}.getBoundingClientRect())")
    report.page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    report.wait(f"{tip} === {json.dumps(meaning)}")
    report.page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    report.wait(f"{tip} === ''")
    report.run(f"{word}.click()")
    report.wait(f"{tip} === {json.dumps(meaning)}")
    report.run("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    report.wait(f"{tip} === ''")
    report.run(f"{word}.focus({{ focusVisible: true }})")
    report.wait(f"{tip} === {json.dumps(meaning)}")
    assert report.run(f"{word}.ariaDescription || {word}.getAttribute('aria-description')") == meaning


def test_one_view_is_seen_at_a_time_and_history_leads_back(report: Report) -> None:
    report.visit("keras_fit")
    assert report.views() == ["summary"]
    report.click("nav a[href='#op_stats']")
    report.wait("location.hash === '#op_stats'")
    assert report.views() == ["op_stats"]
    assert report.text("nav [aria-current]") == "Op statistics"
    report.run("scrollTo(0, 150)")
    report.wait("history.state && history.state.y === 150")
    report.click("nav a[href='#overview']")
    report.wait("document.querySelector('#overview').offsetHeight > 0")
    report.run("history.back()")
    report.wait("document.querySelector('#op_stats').offsetHeight > 0 && scrollY === 150")
    report.run("history.forward()")
    report.wait("document.querySelector('#overview').offsetHeight > 0")


def test_back_leads_to_where_a_reader_scrolled_a_moment_before_leaving(report: Report) -> None:
    report.visit("keras_fit", "op_stats")
    report.wait("document.body.offsetHeight > 1400")
    report.run("scrollTo(0, 150), document.querySelector('nav a[href=\"#overview\"]').click()")
    report.wait("document.querySelector('#overview').offsetHeight > 0")
    report.run("history.back()")
    report.wait("document.querySelector('#op_stats').offsetHeight > 0 && scrollY === 150")
    report.select(OPS + ".check select", "")
    report.run("scrollTo(0, 100), document.querySelector('#op_stats .live tbody td').focus()")
    report.press("Enter")
    report.wait("location.hash.startsWith('#op_stats/')")
    report.run("history.back()")
    report.wait("document.querySelector('#op_stats').offsetHeight > 0 && scrollY === 100")


ON_SCREEN = (
    "(({ top, bottom }, header) => top >= header && bottom <= innerHeight)"
    "(%s.getBoundingClientRect(), document.querySelector('.top').offsetHeight)"
)


@pytest.mark.parametrize(
    ("route", "target"),
    [
        ("op_stats/ops", "document.getElementById('op_stats/ops').querySelector('h3')"),
        ("op_stats/ops/60", "document.querySelector('tr.target')"),
        ("op_stats/ops/1", "document.querySelector('tr.target')"),  # idle time, which is not shown unless it is asked for
        ("overview/step/17", "document.querySelector('.opened h4')"),
        ("input_pipeline/steps/4", "document.querySelector('tr.target')"),
    ],
)
def test_an_address_in_a_new_window_is_scrolled_to_and_focused(route: str, target: str, report: Report) -> None:
    report.visit("keras_fit", route)
    report.wait(f"!!{target} && {ON_SCREEN % target}")
    assert report.views() == [route.split("/")[0]]
    assert report.run("document.activeElement.closest('.target') !== null")
    if report.run("document.querySelector('tr.target') !== null"):
        assert report.run("document.querySelector('tr.target a').textContent") == route.rsplit("/", 1)[1]


def test_a_finding_has_an_address_that_the_first_screen_leads_to(report: Report) -> None:
    report.visit("input_bound_generator")
    report.click(".changes a")
    report.wait("document.querySelector('.finding.target') !== null")
    assert report.run("decodeURIComponent(location.hash.slice(1)) === document.querySelector('.finding.target').id")
    report.click(".finding.target .facts a")
    report.wait("document.querySelector('.target').matches('.block, details')")
    assert report.run("document.querySelector('.target').id.split('/').length") == 2, "evidence leads to a table"


def test_an_unknown_address_says_so(report: Report) -> None:
    report.visit("jax_loop", "op_stats/nothing/7")
    report.wait("document.getElementById('said').textContent.startsWith('Not in this report')")
    assert report.views() == ["summary"]


OPS = "[data-table='op_stats/ops'] "


def test_columns_are_chosen_filtered_and_sorted(report: Report) -> None:
    report.visit("keras_fit", "op_stats/ops")
    heads = f"[...document.querySelectorAll({json.dumps(OPS + 'thead th button')})].map(b => b.textContent)"
    report.wait(f"{heads}.length > 10")
    chosen = (
        f"[...document.querySelectorAll({json.dumps(OPS + '.check')})].find(c => c.textContent === '%s').firstChild.click()"
    )
    assert {"Rank", "Side", "Host"}.isdisjoint(report.run(heads)), (
        "the numbers of the rows, and what is the same in all of them"
    )
    assert "In every row: Side Host · Host vm" in report.text(OPS)
    seen, all_of_them = map(int, report.text(OPS + ".menu summary").removeprefix("Columns ").split(" of "))
    assert len(report.run(heads)) == seen < all_of_them
    report.click(OPS + ".menu summary")
    report.run(chosen % "Side")
    report.run(chosen % "Total")
    assert "Side" in report.run(heads) and "Total" not in report.run(heads)
    assert report.text(OPS + ".menu summary") == f"Columns {seen} of {all_of_them}"
    report.run(f"[...document.querySelectorAll({json.dumps(OPS + '.tools > button')})][0].click()")
    report.write(OPS + ".filters input[aria-label='Filter Self']", "> 5 ms")
    report.write(OPS + ".filters input[aria-label='Filter Side']", "host")
    assert report.text(OPS + ".count").endswith("of 247 rows")
    cells = f"[...document.querySelectorAll({json.dumps(OPS + '.live tbody tr')})].map(r => r.cells[3].textContent)"
    shown = report.run(cells)
    assert shown and all(cell.endswith(" ms") and float(cell.split()[0]) > 5 for cell in shown)
    report.run(
        f"[...document.querySelectorAll({json.dumps(OPS + 'thead button')})].find(b => b.textContent === 'Self').click()"
    )
    assert report.run(cells) == sorted(shown, key=lambda cell: -float(cell.split()[0]))


def test_rows_are_chosen_by_their_side(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "op_stats/ops")
    report.wait(f"document.querySelector({json.dumps(OPS + '.tabs')}) !== null")
    tabs = f"[...document.querySelectorAll({json.dumps(OPS + '.tabs button')})].map(b => [b.textContent, b.ariaPressed])"
    assert report.run(tabs) == [["All", "true"], ["Device", "false"], ["Host", "false"]]
    report.click(OPS + ".tabs button:nth-child(3)")
    assert [text for text, pressed in report.run(tabs) if pressed == "true"] == ["Host"]
    sides = f"[...new Set([...document.querySelectorAll({json.dumps(OPS + '.live tbody tr:not(.space)')})].map(r => r.cells[3].textContent))]"
    assert report.run(sides) == ["Host"]
    report.run("location.hash = 'op_stats/ops/5'")
    report.wait("document.querySelector('tr.target') !== null")
    assert report.run(tabs)[0] == ["All", "true"], "the address of a row takes the choice away that hid it"


def test_rows_are_summed_up_and_opened(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "op_stats/ops")
    report.wait(f"document.querySelector({json.dumps(OPS + '.tabs')}) !== null")
    report.click(OPS + ".tabs button:nth-child(2)")
    report.select(OPS + ".check select", "type")
    lines = f"[...document.querySelectorAll({json.dumps(OPS + '.live tbody tr:not(.space)')})].map(r => [...r.cells].map(c => c.textContent))"
    first, second, *_ = report.run(lines)
    assert [first[1], first[3], first[4], first[5], first[6]] == ["Cast 784 rows", "Device", "12.7 ms", "42.2%", "784"]
    assert second[1] == "RandomUniform 194 rows"
    report.click(OPS + "tr.group td")
    opened = report.run(lines)
    assert opened[0] == ["▾", *first[1:]] and opened[1][8] == "Cast" and opened[1][0].isdecimal()
    assert report.run("document.activeElement.closest('tr').ariaExpanded") == "true"
    report.press("Enter")
    assert report.run(lines)[1] == second, "Enter closes it"
    report.press("ArrowDown")
    report.press("Enter")
    assert report.run(lines)[2][8] == "RandomUniform"
    report.run("location.hash = 'op_stats/ops/2'")
    report.wait("document.querySelector('tr.target a')?.textContent === '2'")
    assert report.run(f"document.querySelector({json.dumps(OPS + 'tr.group[aria-expanded=true] td')}) !== null"), "in its group"
    report.select(OPS + ".check select", "")
    assert report.run(f"document.querySelector({json.dumps(OPS + 'tr.group')}) === null")


SAVED = (
    "new Promise(done => { URL.createObjectURL = file => { file.text().then(done); return '#'; };"
    " HTMLAnchorElement.prototype.click = () => {}; %s.click(); })"
)


def test_a_file_holds_what_is_shown(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "op_stats/ops")
    report.wait(f"document.querySelector({json.dumps(OPS + '.tabs')}) !== null")
    button = f"[...document.querySelectorAll({json.dumps(OPS + '.tools > button')})].find(b => b.textContent === 'CSV')"

    def saved() -> list[dict[str, str]]:
        return list(csv.DictReader(str(report.run(SAVED % button)).splitlines()))

    report.click(OPS + ".tabs button:nth-child(2)")
    report.select(OPS + ".check select", "")
    rows = saved()
    assert {row["side"] for row in rows} == {"Device"} and "rows" not in rows[0]
    report.select(OPS + ".check select", "type")
    groups = saved()
    assert [groups[0][name] for name in ("type", "side", "occurrences", "rows", "name")] == ["Cast", "Device", "784", "784", ""]
    for total in ("self_ps", "occurrences"):
        assert sum(int(group[total]) for group in groups) == sum(int(row[total]) for row in rows)
    assert sum(int(group["rows"]) for group in groups) == len(rows)
    report.click(OPS + "tr.group td")
    opened = saved()
    assert len(opened) == len(groups) + 784 and opened[1]["rows"] == "" and opened[1]["type"] == "Cast" and opened[1]["name"]


def test_on_a_phone_rows_are_low_and_a_tap_shows_the_whole_name(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "op_stats/ops", width=390)
    cell = OPS + ".live tbody tr:nth-child(5) .first"
    report.wait(f"document.querySelector({json.dumps(OPS + '.check select')}) !== null")
    report.select(OPS + ".check select", "")
    report.wait(f"document.querySelector({json.dumps(cell)}) !== null")
    heights = f"[...document.querySelectorAll({json.dumps(OPS + '.live tbody tr:not(.space)')})].map(r => r.offsetHeight)"
    assert max(report.run(heights)) <= 42
    report.page.ask("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        report.run(f"document.querySelector({json.dumps(cell)}).scrollIntoView({{ block: 'center' }})")
        place = f"(({{ x, y, height }}) => [x + 30, y + height / 2])(document.querySelector({json.dumps(cell)}).getBoundingClientRect())"
        x, y = report.run(place)
        report.page.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        report.page.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        report.wait("!document.getElementById('tip').hidden")
        assert report.text("#tip").startswith("replica_") and "…" not in report.text("#tip")
        assert "…" in report.text(cell)
    finally:
        report.page.ask("Emulation.setTouchEmulationEnabled", enabled=False)


def test_on_a_phone_names_are_broken_at_their_joints(report: Report) -> None:
    table = "[data-table='op_stats/types'] .live .first"
    report.visit("keras_fit", "op_stats", width=390)
    report.run("document.querySelectorAll('#op_stats [data-table]').forEach(Grid.of)")
    report.wait(f"document.querySelector({json.dumps(table + ' wbr')}) !== null")
    broken = (
        f"[...document.querySelectorAll({json.dumps(table + ' wbr')})].map(w => [w.previousSibling.data, w.nextSibling.data])"
    )
    assert ["SparseSoftmaxCross", "EntropyWithLogits"] in report.run(broken)


def test_the_bars_are_those_of_the_chosen_side_and_grouping(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "op_stats")
    tabs, names = "#op_stats .bars .tabs", "[...document.querySelectorAll('#op_stats .bars .live th')].map(h => h.textContent)"
    report.wait(f"document.querySelectorAll('{tabs}').length === 2")
    assert report.run(names)[:2] == ["Cast", "RandomUniform"]
    report.click(f"{tabs} [aria-pressed=false]")
    assert report.run(names)[:2] == ["Dataset", "Cast"], "the host"
    report.click(f"span:nth-child(2) > {tabs.split()[-1]} button:nth-child(2)")
    assert "layer_*" in "".join(report.run(names))
    report.run("document.querySelector('#op_stats .bars .tabs button').focus()")
    report.press("Enter", "\r")
    assert report.run("document.querySelector('#op_stats .bars .tabs button').ariaPressed") == "true"
    assert report.run(names)[0].startswith("bert_span_labeler/")
    shares = report.run("[...document.querySelectorAll('#op_stats .bars .live .share')].map(s => parseFloat(s.textContent))")
    assert 99 < sum(shares) < 101


def test_idle_time_is_shown_on_demand(report: Report) -> None:
    report.visit("keras_fit", "op_stats/ops")
    report.wait(f"document.querySelector({json.dumps(OPS + '.count')}) !== null")
    assert report.text(OPS + ".count") == "246 of 247 rows"
    report.click(OPS + ".tools > .check input")
    assert report.text(OPS + ".count") == "247 rows"


def test_cells_are_walked_through_and_copied(report: Report) -> None:
    report.visit("keras_fit", "op_stats/ops/9")
    report.wait("document.activeElement.matches('td')")
    whole = report.run("document.activeElement.dataset.tip || document.activeElement.textContent")
    report.run(f"[...document.querySelectorAll({json.dumps(OPS + '.copies button')})][0].click()")
    report.wait("document.getElementById('said').textContent.startsWith('Copied: ')")
    assert report.text("#said") == f"Copied: {shorten(whole, 60)}"
    report.run("document.querySelector('tr.target td').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        report.press(key)
    assert report.run("[document.activeElement.closest('tr').cells[0].textContent, document.activeElement.cellIndex]") == [
        "11",
        2,
    ]
    report.press("Enter")
    report.wait("location.hash === '#op_stats/ops/11'")


def test_a_long_table_opens_on_its_first_lines_summed_up(report: Report) -> None:
    report.visit("keras_fit", "op_stats/ops")
    report.wait(f"document.querySelector({json.dumps(OPS + 'tr.group')}) !== null")
    box, last = (
        f"document.querySelector({json.dumps(OPS + '.live .scroll')})",
        f"document.querySelectorAll({json.dumps(OPS + 'tbody tr')})[%d]",
    )
    inside = f"{last}.getBoundingClientRect().bottom <= {box}.getBoundingClientRect().top + {box}.clientHeight + 1"
    assert report.run(inside % 7) and not report.run(inside % 8), "eight lines are in sight"
    report.click(OPS + ".opener")
    assert report.run(inside % 8) and report.run(f"document.querySelector({json.dumps(OPS + '.opener')}).hidden")
    report.select(OPS + ".check select", "")
    assert report.run(f"document.querySelector({json.dumps(OPS + 'tr.group')})") is None
    report.wait("location.hash.includes('nothing')")


def test_a_table_stands_on_its_page_once(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "scopes")
    shown = "[...document.querySelectorAll('#scopes [data-table]')].map(b => b.dataset.table)"
    assert len(set(report.run(shown))) == len(report.run(shown)) == 3


def test_a_table_that_goes_on_to_the_right_says_so(report: Report) -> None:
    live = f"document.querySelector({json.dumps(OPS + '.live')})"
    report.visit("tf_gpu_v100_bert", "op_stats/ops", width=390)
    report.wait(f"{live}.classList.contains('more-right')")
    report.run(f"{live}.querySelector('.scroll').scrollLeft = 1e6")
    report.wait(f"!{live}.classList.contains('more-right') && {live}.classList.contains('more-left')")
    first = report.run(f"{live}.querySelector('tbody .first').getBoundingClientRect().left")
    assert 0 <= first < 100, "the column that names the rows stays"


def test_a_long_table_draws_the_rows_in_sight(report: Report) -> None:
    report.visit("tf_gpu_v100_bert", "op_stats/ops/5000")
    report.wait(f"document.querySelector('tr.target') !== null && {ON_SCREEN % 'document.querySelector(`tr.target`)'}")
    assert report.run(f"document.querySelectorAll({json.dumps(OPS + '.live tbody tr')}).length") < 100
    report.run("location.hash = 'op_stats/ops/17'")
    report.wait("document.querySelector('tr.target a').textContent === '17'")
    assert "/…/transformer/layer_6/" in report.text("tr.target"), "names are cut where they agree, not where they differ"


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_view_has_its_height_when_it_is_painted(name: str, report: Report) -> None:
    """What is drawn later would push away what a reader looks at."""
    report.visit(name)
    grown = report.run("""(async () => {
      const found = [], frame = () => new Promise(requestAnimationFrame), height = () => document.documentElement.scrollHeight;
      for (const view of [...document.querySelectorAll('.view')].slice(1)) {
        location.hash = view.id;
        await frame();
        await frame();
        const first = height();
        await new Promise((then) => setTimeout(then, 400));
        if (height() !== first) found.push([view.id, first, height()]);
      }
      return found;
    })()""")
    assert grown == []


def test_one_search_finds_rows_of_all_tables(report: Report) -> None:
    report.visit("keras_fit")
    report.press("/", "/")
    assert report.run("document.activeElement.matches('#find input')")
    report.write("#find input", "conv2dbackpropfilter")
    report.wait("document.querySelectorAll('#find li a').length > 3")
    assert len(set(report.run("[...document.querySelectorAll('#find a')].map(a => a.hash.split('/')[0])"))) > 1
    first = report.run("document.querySelector('#find a').hash")
    report.press("Enter")
    report.wait(f"location.hash === {json.dumps(first)}")
    report.press("/", "/")
    report.run("[...document.querySelectorAll('#find a')].find(a => /\\/\\d+$/.test(a.hash)).click()")
    report.wait("document.querySelector('tr.target') !== null")
    assert "BackpropFilter" in report.text("tr.target")


def test_on_a_phone_what_is_found_is_whole_in_the_window(report: Report) -> None:
    report.visit("keras_fit", width=390)
    report.write("#find input", "conv2dbackpropfilter")
    report.wait("document.querySelectorAll('#find li a').length > 3")
    left, right = report.run("(({ left, right }) => [left, right])(document.querySelector('#find ul').getBoundingClientRect())")
    assert 0 <= left < right <= 390


def test_the_keys_are_told(report: Report) -> None:
    report.visit("keras_fit")
    report.press("?", "?")
    assert report.run("document.getElementById('keys').open") is True
    report.click("#keys button")
    assert report.run("document.getElementById('keys').open") is False
    report.click("#ask")
    assert "search tools" in report.text("#keys dd")
    assert report.run("document.getElementById('keys').contains(document.activeElement)"), "focus goes there"
    report.press("Escape")
    report.wait("!document.getElementById('keys').open")


STEPS = "#overview .plot"


def column(report: Report, number: int) -> tuple[float, float]:
    """Where a column of the step chart is on the screen."""
    script = "(c => { const b = c.plot.getBoundingClientRect(); return [b.left + 66 + (%d + 0.5) * c.step, b.top + 200]; })"
    return tuple(report.run(f"({script % number})(Columns.of(document.querySelector('#overview [data-chart]')))"))


def test_a_click_on_a_step_opens_it(report: Report) -> None:
    report.visit("multi_host", "overview")
    report.wait(f"document.querySelector({json.dumps(STEPS)} + ' path') !== null")
    report.click_at(*column(report, 12))
    report.wait("document.querySelector('.opened') !== null")
    assert report.run("location.hash") == "#overview/step/130/localhost_7010"
    panel = report.text(".opened")
    assert "Step 130 of localhost_7010" in panel
    assert "Median of 20" in panel
    command = report.text(".opened code")
    assert command.endswith("multi_host 130 --host localhost_7010") and command.startswith("outpace explain ")
    timeline = report.text(".opened .command + .command code")
    assert timeline.endswith("multi_host --steps 130") and timeline.startswith("outpace trace ")
    report.click(".opened [aria-label=Close]")
    assert report.run("document.querySelector('.opened') === null && location.hash === '#overview'")


def test_keys_walk_zoom_and_open(report: Report) -> None:
    report.visit("keras_fit", "overview")
    report.wait(f"document.querySelector({json.dumps(STEPS)} + ' path') !== null")
    chart = "Columns.of(document.querySelector('#overview [data-chart]'))"
    report.run(f"document.querySelector({json.dumps(STEPS)}).focus()")
    for key in ("ArrowRight", "ArrowRight", "+"):
        report.press(key)
    assert "Step 10" in report.text(".heard")
    assert report.run(f"{chart}.range[1] - {chart}.range[0]") == 8
    report.press("Enter")
    report.wait("document.querySelector('.opened') !== null")
    assert report.run("location.hash").split("?")[0] == "#overview/step/10"
    report.run(f"{chart}.show(0, 16)")
    begin, end = column(report, 4), column(report, 9)
    report.drag(begin, end)
    assert report.run(f"{chart}.range") == [4, 10], "a drag zooms"


def test_the_axis_is_cut_and_parts_are_hidden(report: Report) -> None:
    report.visit("jax_loop", "overview")
    report.wait("document.querySelector('#overview .notes button') !== null")
    ticks = "[...document.querySelectorAll('#overview .plot text')].map(t => t.textContent).filter(t => t.endsWith('s'))"
    assert all("ms" not in t or float(t.split()[0]) < 5 for t in report.run(ticks))
    report.click("#overview .notes button")
    assert any(t.startswith("60") or t.startswith("40") for t in report.run(ticks))
    before = report.run(f"document.querySelectorAll({json.dumps(STEPS)} + ' path[class^=k-]').length")
    report.click("#overview .legend.inline button")
    assert report.run(f"document.querySelectorAll({json.dumps(STEPS)} + ' path[class^=k-]').length") == before - 1


@pytest.mark.parametrize("view", ["overview", "input_pipeline", "pod"])
def test_hosts_are_chosen_from_a_list(view: str, report: Report) -> None:
    report.visit("multi_host", view)
    report.wait(f"document.querySelector('#{view} .series select') !== null")
    assert report.run("document.querySelectorAll('input[type=range]').length") == 0
    last = "s => { s.selectedIndex = s.options.length - 1; s.dispatchEvent(new Event('change')); }"
    report.run(f"({last})(document.querySelector('#{view} .series select'))")
    assert " has no " in report.text(f"#{view} .notes"), "what this one did not record is said"
    assert report.run(f"document.querySelectorAll('#{view} .ghost').length") > 0


@pytest.mark.parametrize("name", LOOKED_AT)
def test_no_view_is_wider_than_the_window(name: str, report: Report) -> None:
    for width in (2560, 1400, 800, 390):
        report.visit(name, width=width)
        for view in report.run("[...document.querySelectorAll('.view')].map(v => v.id)"):
            report.run(f"location.hash = {json.dumps(view)}")
            report.wait(f"document.getElementById({json.dumps(view)}).offsetHeight > 0")
            report.run("document.querySelectorAll('.view.on [data-table]').forEach(Grid.of)")
            assert report.run("document.documentElement.scrollWidth <= innerWidth"), (view, width)


def test_without_scripts_and_in_print_all_views_stand_below_each_other(report: Report) -> None:
    report.visit("keras_fit")
    every = report.run("[...document.querySelectorAll('.view')].map(v => v.id)")
    report.page.ask("Emulation.setEmulatedMedia", media="print")
    assert report.views() == every
    assert report.run("document.getElementById('op_stats/ops').querySelector('.still table').offsetHeight") > 100
    report.page.ask("Emulation.setEmulatedMedia", media="")
    report.page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        report.visit("keras_fit", "op_stats/ops")
        assert report.views() == every
        assert report.run(ON_SCREEN % "document.getElementById('op_stats/ops').querySelector('h3')")
    finally:
        report.page.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_the_policy_holds(report: Report) -> None:
    report.visit("jax_loop")
    report.run("(s => { s.textContent = 'window.ran = true'; document.body.append(s); })(document.createElement('script'))")
    assert report.run("window.ran === undefined"), "a script that is not the report's does not run"
    assert report.page.console
    report.page.console.clear()


def test_what_a_reader_chose_is_in_the_address(report: Report) -> None:
    """A new window at that address shows the same rows; Back takes the choice away again."""
    report.visit("tf_gpu_v100_bert", "op_stats/ops")
    report.wait(f"document.querySelector({json.dumps(OPS + '.tabs')}) !== null")
    report.click(OPS + ".tabs button:nth-child(2)")
    report.write(OPS + ".tools input[type=search]", "dropout")
    report.wait("location.hash.includes('words=dropout')")
    report.run(
        f"Grid.of(document.querySelector({json.dumps(OPS)})).sort(Grid.of(document.querySelector({json.dumps(OPS)})).columns[0])"
    )
    report.select(OPS + ".check select", "type")
    lines = f"[...document.querySelectorAll({json.dumps(OPS + '.live tbody tr:not(.space)')})].map(r => r.innerText)"
    shown, address = report.run(lines), str(report.run("location.hash.slice(1)"))
    assert shown and address.startswith("op_stats/ops?")
    report.visit("tf_gpu_v100_bert", address)
    report.wait(f"document.querySelector({json.dumps(OPS + 'tr.group')}) !== null")
    assert report.run(lines) == shown
    assert report.run(f"document.querySelector({json.dumps(OPS + '.tools input[type=search]')}).value") == "dropout"
    assert report.run(f"document.querySelector({json.dumps(OPS + '.tabs [aria-pressed=true]')}).textContent") == "Device"
    report.click("nav a[href='#overview']")
    report.wait("document.querySelector('#overview').offsetHeight > 0")
    assert report.run("location.hash") == "#overview"
    report.click("nav a[href='#op_stats']")
    report.wait("location.hash.startsWith('#op_stats?')")
    assert report.run(lines) == shown, "a view stays as it was left"
    report.visit("tf_gpu_v100_bert", "op_stats/ops")
    report.run("location.hash = '#op_stats/types'")
    report.wait("location.hash === '#op_stats/types'")
    report.write(OPS + ".tools input[type=search]", "dropout")
    report.wait("location.hash.includes('words=dropout')")
    report.run("history.back()")
    report.wait("location.hash === '#op_stats/ops'")
    assert report.run(f"document.querySelector({json.dumps(OPS + '.tools input[type=search]')}).value") == ""


@pytest.mark.parametrize(
    ("name", "view", "choose", "kept"),
    [
        ("keras_fit", "overview", "Columns.of(document.querySelector('#overview [data-chart]')).show(3, 9)", "zoom=3-9"),
        (
            "multi_host",
            "overview",
            "(s => { s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })(document.querySelector('#overview .select select'))",
            "of=",
        ),
        (
            "memory_heavy",
            "memory_profile",
            "(s => { s.value = '1'; s.dispatchEvent(new Event('change')); })(document.querySelector('#memory_profile [aria-label^=Stretch]'))",
            "zoom=",
        ),
    ],
)
def test_charts_keep_what_was_chosen(name: str, view: str, choose: str, kept: str, report: Report) -> None:
    picture = f"document.querySelector('#{view} .live svg')?.outerHTML"
    report.visit(name, view)
    report.wait(f"!!{picture}")
    before = report.run(picture)
    report.run(choose)
    report.wait(f"location.hash.includes({json.dumps(kept)})")
    chosen, address = report.run(picture), str(report.run("location.hash.slice(1)"))
    assert chosen != before
    report.visit(name, address)
    report.wait(f"{picture} === {json.dumps(chosen)}")


def test_the_table_follows_the_flame_graph(report: Report) -> None:
    """Zoomed to a layer, the table below shows that layer's rows, also where the address brings the
    zoom; all of them again from there.
    """
    report.visit("tf_gpu_v100_bert", "scopes")
    cell = "[...document.querySelectorAll('#scopes [data-picture=flame] g')].find(g => g.ariaLabel.endsWith('/layer_3'))"
    report.wait(f"!!{cell}")
    table = "[data-table='" + str(report.run("document.querySelector('#scopes [data-table]').dataset.table")) + "'] "
    everything = report.text(table + ".count")
    report.run(f"{cell}.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))")
    fewer = f"document.querySelector({json.dumps(table + '.count')}).textContent.includes(' of ')"
    report.wait(fewer)
    within = report.text(table + ".count")
    names = report.run(
        f"(g => g.rows.map(r => g.columns[0].texts[r]))(Grid.of(document.querySelector({json.dumps(table.strip())})))"
    )
    assert 1 < len(names) < 200 and all("/layer_3" in name for name in names)
    address = str(report.run("location.hash.slice(1)"))
    report.visit("tf_gpu_v100_bert", address)
    report.wait(fewer)
    assert report.text(table + ".count") == within
    report.run(
        "[...document.querySelectorAll('#scopes .tools button')].find(b => b.textContent.startsWith('in layer_3')).click()"
    )
    report.wait(f"!{fewer}")
    assert report.text(table + ".count") == everything
