"""The pictures that a reader works with, in headless Chromium: by mouse, by keyboard, and without a
console error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from outpace.api import Profile
from outpace.compare import Side, build_report, compare
from outpace.compare.flame import COLORS
from outpace.report import html
from outpace.timeline import Run
from tests.support import opened
from tests.unit.compare.test_line_changes import sampled
from tests.unit.metrics.python.test_python_time import FIT, NOTE, SORT, run_of, times_of
from tests.verify import chromium

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(chromium.CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Backspace": 8,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "Tab": 9,
    "Home": 36,
}


class Reader:
    """Somebody with a mouse and a keyboard before one report; `at` is the picture that they look
    at.
    """

    def __init__(self, page: chromium.Page, at: str) -> None:
        self.page, self.at = page, f"document.querySelector('{at}')"

    def ask(self, script: str) -> Any:
        """Value of an expression in which `box` is the picture."""
        return self.page.run(f"(() => {{ const box = {self.at}; return {script}; }})()")

    def place(self, target: str) -> dict[str, float]:
        """Middle of an element, once the tables that come into view with it have pushed it to where
        it stays.
        """
        self.ask(f"({target}).scrollIntoView({{ block: 'center' }})")
        seen, place = None, self._middle(target)
        while place != seen:
            time.sleep(0.3)
            seen, place = place, self._middle(target)
        return place

    def _middle(self, target: str) -> dict[str, float]:
        x, y, width, height = self.ask(
            f"(({{ x, y, width, height }}) => [x, y, width, height])(({target}).getBoundingClientRect())"
        )
        return {"x": x + width / 2, "y": y + height / 2}

    def click(self, target: str) -> None:
        place = self.place(target)
        for kind in ("mousePressed", "mouseReleased"):
            self.page.ask("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=1)

    def hover(self, target: str) -> str:
        """The tooltip over the middle of an element."""
        self.page.ask("Input.dispatchMouseEvent", type="mouseMoved", **self.place(target))
        self.page.wait("!document.getElementById('tip').hidden", 5)
        return str(self.page.run("document.getElementById('tip').textContent"))

    def press(self, *keys: str) -> None:
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                self.page.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=KEYS[key])

    def write(self, target: str, text: str) -> None:
        self.ask(f"({target}).focus()")
        self.page.ask("Input.insertText", text=text)

    def choose(self, target: str, value: str) -> None:
        self.ask(f"[({target}).value = {value!r}, ({target}).dispatchEvent(new Event('change'))]")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[chromium.Page]:
    with chromium.Page(tmp_path / "browser", "1400,1000") as page:
        yield page
        assert [line for line in page.console if "Error" in line or "Content Security" in line] == []


def reader(page: chromium.Page, name: str, picture: str, folder: Path) -> Reader:
    page.ask("Page.navigate", url=opened(name).html(folder / "report.html").as_uri())
    page.wait("document.readyState === 'complete'", 30)
    page.run(f"location.hash = document.querySelector('{picture}').closest('section').id")
    page.wait(f"document.querySelector('{picture} .live > *') !== null", 30)
    return Reader(page, picture)


FLAME = "[data-picture=flame]"
TOP, FOCUSED = (
    "box.querySelector('.crumbs [aria-current]').textContent",
    "box.querySelector('g.on').dataset.tip.split('\\n')[0]",
)


def cell(name: str) -> str:
    return f"[...box.querySelectorAll('g')].find((g) => g.getAttribute('aria-label').split(',')[0].endsWith('{name}'))"


def test_a_click_zooms_and_the_breadcrumb_leads_back(page: chromium.Page, tmp_path: Path) -> None:
    flame = reader(page, "tf_gpu_v100_bert", FLAME, tmp_path)
    assert "bert_span_labeler/bert_encoder_1/transformer/layer_3\n" in flame.hover(cell("/layer_3"))
    flame.click(cell("/layer_3"))
    assert flame.ask(TOP) == "layer_3"
    assert flame.ask(f"{cell('/layer_3/self_attention')}.getBBox().width") > 300
    flame.click("[...box.querySelectorAll('.crumbs button')].find((b) => b.textContent === 'transformer')")
    assert flame.ask(TOP) == "transformer"
    flame.click("[...box.querySelectorAll('.controls button')][0]")
    assert flame.ask("box.querySelector('.crumbs').hidden") is True


def test_the_keyboard_alone_is_enough(page: chromium.Page, tmp_path: Path) -> None:
    flame = reader(page, "tf_gpu_v100_bert", FLAME, tmp_path)
    flame.ask("box.querySelector('svg').focus()")
    flame.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")
    assert flame.ask(FOCUSED) == "bert_span_labeler/bert_encoder_1/transformer/layer_1"
    page.wait("document.getElementById('tip').textContent.includes('transformer/layer_1\\n')", 5)
    flame.press("Enter")
    assert flame.ask(TOP) == "layer_1"
    flame.press("Escape")
    assert flame.ask(TOP) == "transformer"
    flame.press("Backspace", "ArrowUp")
    assert flame.ask(TOP) == "bert_encoder_1"
    assert flame.ask(FOCUSED) == "bert_span_labeler"


def test_a_search_sums_up_what_it_finds(page: chromium.Page, tmp_path: Path) -> None:
    flame = reader(page, "tf_gpu_v100_bert", FLAME, tmp_path)
    flame.write("box.querySelector('input[type=search]')", "dropout")
    found = flame.ask("box.querySelector('.matches').textContent")
    assert "matches" in found
    assert "% of what is shown" in found
    flame.press("Enter")
    assert str(flame.ask(FOCUSED)).endswith("dropout_3")
    assert 0 < flame.ask("box.querySelectorAll('g.hit').length") < flame.ask("box.querySelectorAll('g').length")


def test_replicas_are_merged_until_told_otherwise(page: chromium.Page, tmp_path: Path) -> None:
    flame = reader(page, "tf_gpu_v100_bert", FLAME, tmp_path)
    assert "Sum of 2 replicas" in flame.hover(cell("bert_span_labeler"))
    assert flame.ask(f"{cell('replica_4')} === undefined") is True
    flame.click("box.querySelector('input[type=checkbox]')")
    assert flame.ask(f"{cell('replica_4')} !== undefined") is True


def test_kernels_are_a_flame_graph_too(page: chromium.Page, tmp_path: Path) -> None:
    flame = reader(page, "tf_gpu_v100_bert", "#kernel_stats " + FLAME, tmp_path)
    flame.click(cell("/layer_3"))
    assert flame.ask(TOP) == "layer_3"
    flame.write("box.querySelector('input[type=search]')", "FillPhiloxRandomKernelLaunch")
    flame.press("Enter")
    assert str(flame.ask(FOCUSED)).endswith("RandomUniform/FillPhiloxRandomKernelLaunch")


def test_python_calls_are_a_flame_graph_too(page: chromium.Page, tmp_path: Path) -> None:
    _, free, busy = times_of(run_of([(1.0, FIT)]))
    path = Profile(run_of([(free, NOTE), (free, SORT), (busy, FIT)] * 3)).html(tmp_path / "report.html")
    page.ask("Page.navigate", url=path.as_uri() + "#python_time")
    page.wait(f"document.querySelector('#python_time {FLAME} .live > *') !== null", 30)
    flame = Reader(page, "#python_time " + FLAME)
    assert "numpy: sort" in flame.hover(cell("numpy: sort"))
    flame.click(cell("Noter.on_batch_end"))
    assert str(flame.ask(TOP)).startswith("train.py:3")


def compared(page: chromium.Page, before: Run, after: Run, folder: Path) -> Reader:
    found = compare(Side.from_runs("before", before), Side.from_runs("after", after))
    path = html.write(build_report(found), folder / "compare.html")
    page.ask("Page.navigate", url=path.as_uri() + "#compare")
    page.wait(f"document.querySelector('#compare {FLAME} .live > *') !== null", 30)
    return Reader(page, "#compare " + FLAME)


DRAWN = "[...box.querySelectorAll('g')].map((g) => [g.getAttribute('aria-label').split(',')[0], g.querySelector('rect').className.baseVal])"
SHOW_GONE = (
    "[...box.querySelectorAll('.controls label')].find((l) => l.textContent === ' Show what is gone').querySelector('input')"
)


def test_a_comparison_is_drawn_in_the_colours_of_its_table(page: chromium.Page, tmp_path: Path) -> None:
    flame = compared(page, opened("custom_loop").run, opened("input_bound_generator").run, tmp_path)
    table = "Tables.load('compare/flame')"
    columns = flame.ask(f"{table}.columns.map((c) => c.name)")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*flame.ask(f"{table}.data"), strict=True)]
    became = {row["id"]: row["became"] for row in rows}
    drawn = {name.partition(": ")[0]: colour for name, colour in flame.ask(DRAWN)}
    assert len(drawn) > 20 and {f"k-{COLORS[became[place]]}" for place in drawn if place != "all"} >= {
        "k-input",
        "k-all_others",
    }
    assert all(colour == f"k-{COLORS[became[place]]}" for place, colour in drawn.items() if place != "all")
    assert not {row["id"] for row in rows if row["gone"]} & set(drawn)
    assert "Map: new" in flame.ask("[...box.querySelectorAll('text')].map((t) => t.textContent)")
    told = flame.hover(cell("Prefetch/BatchV2: new"))
    assert "BatchV2: new\nTime " in told and "\nBefore 0 µs\nAfter " in told and "From (95% CI) " in told
    legend = flame.ask("[...box.nextElementSibling.querySelectorAll('li')].map((l) => l.textContent)")
    assert set(legend) == set(became.values())


def test_what_is_gone_is_drawn_once_it_is_asked_for(page: chromium.Page, tmp_path: Path) -> None:
    flame = compared(page, opened("custom_loop").run, opened("input_bound_generator").run, tmp_path)
    before = flame.ask(DRAWN)
    flame.click(SHOW_GONE)
    gone = [name for name, _ in flame.ask(DRAWN) if name not in {name for name, _ in before}]
    assert "Input pipeline/Root/MapAndBatch: gone" in gone
    assert ": gone\nTime " in flame.hover(cell("/MapAndBatch: gone"))
    assert "aside=1" in flame.ask("location.hash")
    flame.click(cell("/MapAndBatch: gone"))
    assert flame.ask(TOP) == "MapAndBatch"
    flame.click(SHOW_GONE)
    assert flame.ask("box.querySelector('.crumbs').hidden") is True
    assert flame.ask(DRAWN) == before


def test_lines_of_both_sides_are_found_and_walked_to(page: chromium.Page, tmp_path: Path) -> None:
    flame = compared(page, sampled(0.3, 0.0), sampled(0.3, 0.5), tmp_path)
    flame.write("box.querySelector('input[type=search]')", "on_batch_end")
    assert str(flame.ask("box.querySelector('.matches').textContent")).startswith("2 matches, ")
    flame.press("Enter")
    assert flame.ask(FOCUSED) == "Python and gaps/All others/train.py:32 Noter.on_batch_end: new"
    page.wait("document.getElementById('tip').textContent.includes('Before 0 µs')", 5)
    flame.press("ArrowRight")
    assert "train.py:50" in flame.ask(FOCUSED)
    flame.press("ArrowUp", "Enter")
    assert flame.ask(TOP) == "All others"
    flame.press("Escape")
    assert flame.ask(TOP) == "Python and gaps"


GRAPH = "[data-picture=graph]"
BARS = "[...box.querySelectorAll('.node')].map((n) => n.querySelector('.name').textContent + n.querySelector('.value').textContent).join()"


def test_the_graph_draws_what_was_chosen(page: chromium.Page, tmp_path: Path) -> None:
    graph = reader(page, "multi_host", GRAPH, tmp_path)
    host, _, rank = (f"box.querySelectorAll('select')[{i}]" for i in range(3))
    assert graph.ask(f"{host}.value") == "localhost_7011"
    assert graph.ask("box.querySelector('.bottleneck .mark').textContent") == "◀ bottleneck"
    drawn = [graph.ask(BARS)]
    graph.choose(rank, graph.ask(f"{rank}.options[1].value"))
    drawn.append(graph.ask(BARS))
    graph.choose(host, "localhost_7012")
    drawn.append(graph.ask(BARS))
    assert "MapAndBatch" in drawn[2]
    assert len(set(drawn)) == 3
    assert graph.ask("box.querySelectorAll('.edge').length") == graph.ask("box.querySelectorAll('.node').length") - 1
    assert "Busy per batch" in graph.hover("box.querySelector('.bottleneck .box')")


BOXES = "[...box.querySelectorAll('.node')].map(n => [n.querySelector('.name').textContent, n.querySelector('.box').getBoundingClientRect()])"


def test_on_a_phone_the_stages_stand_one_below_the_other(page: chromium.Page, tmp_path: Path) -> None:
    page.ask("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
    try:
        graph = reader(page, "tfdata_heavy", GRAPH, tmp_path)
        boxes = graph.ask(f"{BOXES}.map(([name, b]) => [name, b.left, b.right, b.top, b.bottom])")
        assert len(boxes) == 16 and graph.ask("box.querySelectorAll('.edge').length") == 15
        assert all(0 <= left < right <= 390 for _, left, right, _, _ in boxes)
        assert all(above[4] < below[3] for above, below in pairwise(boxes)), "none beside another, in the order of the keyboard"
        assert graph.ask("[...box.querySelectorAll('.source')].every(text => text.getBBox().width > 0)")
        names = [name for name, *_ in boxes]
        assert names[-1] == "Root" and names.index("TFRecord") < names.index("Generator") < names.index("Zip")
    finally:
        page.ask("Emulation.clearDeviceMetricsOverride")


OVERPRINTED = """[...box.querySelectorAll('.node')].filter(node => {
  const source = node.querySelector('.source').getBoundingClientRect();
  return [...node.querySelectorAll('.what')].some(what => {
    const other = what.getBoundingClientRect();
    return other.top < source.bottom && other.bottom > source.top && other.left < source.right && other.right > source.left;
  });
}).length"""


def test_no_text_of_a_stage_stands_on_another(page: chromium.Page, tmp_path: Path) -> None:
    path = opened("tfrecord_pipeline").html(tmp_path / "report.html")
    path.write_text(path.read_text(encoding="utf-8").replace('"Async"', '"train.py:56 interleave async"'), encoding="utf-8")
    page.ask("Page.navigate", url=path.as_uri() + "#tf_data")
    page.wait(f"document.querySelector('#tf_data {GRAPH} .live > *') !== null", 30)
    graph = Reader(page, "#tf_data " + GRAPH)
    assert graph.ask("[...box.querySelectorAll('.source')].some(text => text.textContent.startsWith('train.py:56 '))")
    assert graph.ask(OVERPRINTED) == 0


def test_every_stage_of_the_graph_can_be_reached_by_keyboard(page: chromium.Page, tmp_path: Path) -> None:
    graph = reader(page, "tfdata_heavy", GRAPH, tmp_path)
    graph.ask("[...box.querySelectorAll('.controls select')].at(-1).focus()")
    nodes = graph.ask("box.querySelectorAll('.node').length")
    seen = set()
    for _ in range(nodes):
        graph.press("Tab")
        seen.add(graph.ask("document.activeElement.dataset.tip || ''"))
    page.wait("document.getElementById('tip').textContent === document.activeElement.dataset.tip", 5)
    assert len(seen - {""}) == nodes


AREA = "[data-picture=area]"
TIP = "box.querySelector('.glass').dataset.tip"


def test_memory_over_time_tells_each_event(page: chromium.Page, tmp_path: Path) -> None:
    area = reader(page, "memory_heavy", AREA, tmp_path)
    told = area.hover("box.querySelector('.glass')")
    for part in ("Time ", "Event ", "Op ", "Shape [", "Region ", "Heap ", "Free ", "Fragmentation ", "Step "):
        assert part in told
    assert "MiB" in told
    area.ask("box.querySelector('.glass').focus()")
    area.press("Home")
    first = area.ask(TIP)
    area.press("ArrowRight")
    assert area.ask(TIP) != first
    assert "step 0" in area.ask("box.querySelector('svg').textContent")
    assert "MiB" in area.ask("box.querySelector('svg').textContent")


@pytest.mark.parametrize(
    ("picture", "shapes"), [(AREA, "path.area, path.line, rect.band"), (FLAME, "rect"), (GRAPH, "rect.box")]
)
def test_what_is_drawn_is_seen(picture: str, shapes: str, page: chromium.Page, tmp_path: Path) -> None:
    drawn = reader(page, "tfdata_heavy", picture, tmp_path)
    hidden = f"[...box.querySelectorAll('.live svg :is({shapes})')].filter((shape) => !shape.checkVisibility())"
    assert drawn.ask(f"box.querySelectorAll('.live svg :is({shapes})').length") > 2
    assert drawn.ask(f"{hidden}.length") == 0


def test_the_peak_leads_to_what_it_is_made_of(page: chromium.Page, tmp_path: Path) -> None:
    area = reader(page, "tf_gpu_v100_bert", AREA, tmp_path)
    memory = "box.querySelector('select[aria-label=Memory]')"
    area.choose(memory, "GPU_4_bfc")
    area.click("box.querySelector('.peak circle')")
    page.wait("document.querySelector('[data-file=breakdown].found') !== null", 5)
    page.wait("document.querySelector('[data-file=breakdown] input[type=search]')?.value === 'GPU_4_bfc'", 5)


def test_a_step_of_the_memory_picture_can_be_chosen_or_dragged(page: chromium.Page, tmp_path: Path) -> None:
    area = reader(page, "memory_heavy", AREA, tmp_path)
    reset = "[...box.querySelectorAll('button')].find((b) => b.textContent === 'Reset zoom')"
    drawn = "[...box.querySelectorAll('.line')].map((line) => line.getAttribute('d')).join()"
    whole = area.ask(drawn)
    area.choose("box.querySelector('select[aria-label=\"Stretch of time\"]')", "3")
    assert area.ask(drawn) != whole
    assert area.ask(f"{reset}.hidden") is False
    area.click(reset)
    assert area.ask(drawn) == whole
    middle = area.place("box.querySelector('.glass')")
    for kind, x in (("mousePressed", 0), ("mouseMoved", 100), ("mouseReleased", 100)):
        place = {"x": middle["x"] + x, "y": middle["y"]}
        page.ask("Input.dispatchMouseEvent", type=kind, **place, button="left", buttons=1, clickCount=1)
    assert area.ask(drawn) != whole
    area.ask("box.querySelector('.glass').focus()")
    area.press("Escape")
    assert area.ask(drawn) == whole


@pytest.mark.parametrize("picture", [FLAME, GRAPH, AREA])
def test_a_picture_that_is_hidden_at_first_is_drawn_when_it_is_shown(picture: str, page: chromium.Page, tmp_path: Path) -> None:
    text = opened("tfdata_heavy").html(tmp_path / "report.html").read_text(encoding="utf-8")
    hidden = tmp_path / "hidden.html"
    hidden.write_text(text.replace("<main>", "<main hidden>"), encoding="utf-8")
    page.ask("Page.navigate", url=hidden.as_uri())
    page.wait("document.readyState === 'complete'", 30)
    assert page.run(f"document.querySelector('{picture} .live').hidden") is True
    page.run("document.querySelector('main').hidden = false")
    page.run(f"location.hash = document.querySelector('{picture}').closest('section').id")
    page.wait(f"document.querySelector('{picture} .live svg')?.getBBox().width > 300", 10)
