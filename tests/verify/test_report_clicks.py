"""One of everything in the HTML report is clicked, in headless Chromium: no error, the right cell
is copied, and a link's place is in sight.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.verify.chromium import CHROMIUM, Page
from tests.verify.test_report_page import LOOKED_AT, OPS, Report

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
SETTLED = 0.6  # seconds without a change of the page's height

CONTROLS = """(() => {
  const kinds = new Map();
  for (const each of document.querySelectorAll("%s")) {
    if (!each.checkVisibility() || each.disabled || each.closest("#keys") || each.matches("[href^='#'], [download]")) continue;
    const part = each.closest("[class]:not(%s)")?.className ?? "";
    const kind = [each.tagName, each.type, String(each.className.baseVal ?? each.className), part].join("|");
    if (!kinds.has(kind)) kinds.set(kind, each);
  }
  window.controls = [...kinds.values()];
  return kinds.size;
})()"""
KINDS = ".on button, .on summary, .on input, .on select, .on td[tabindex], .on th a, .on svg [tabindex], .on svg rect, .on svg path, .on .plot"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    folder = tmp_path_factory.mktemp("reports")
    with Page(folder / "browser") as page:
        yield Report(page, folder)


@pytest.fixture
def report(browser: Report) -> Iterator[Report]:
    """The browser; at the end, no script complained."""
    yield browser
    assert browser.page.console == []


def settled(report: Report) -> None:
    """Wait until the page does not change its height any more."""
    last, since = -1.0, time.monotonic()
    while time.monotonic() - since < SETTLED:
        height = report.run("document.documentElement.scrollHeight + scrollY")
        if height != last:
            last, since = height, time.monotonic()
        time.sleep(0.05)


@pytest.mark.parametrize("name", LOOKED_AT)
def test_one_of_everything_is_clicked(name: str, report: Report) -> None:
    report.visit(name)
    clicked = 0
    for view in report.run("[...document.querySelectorAll('.view')].map(v => v.id)"):
        report.run(f"location.hash = {json.dumps(view)}")
        report.wait(f"document.getElementById({json.dumps(view)}).offsetHeight > 0")
        report.run("document.querySelectorAll('.view.on [data-table]').forEach(Grid.of)")
        settled(report)
        for at in range(report.run(CONTROLS % (KINDS, KINDS.replace(".on ", "")))):
            control = f"window.controls[{at}]"
            if not report.run(f"{control}.isConnected && {control}.checkVisibility()"):
                continue  # an earlier click has replaced it
            report.run(f"{control}.scrollIntoView({{ block: 'center' }})")
            x, y, height = report.run(
                f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2, height])({control}.getBoundingClientRect())"
            )
            if height and report.run(f"{control}.contains(document.elementFromPoint({x}, {y}))"):
                report.click_at(x, y)
                clicked += 1
            assert report.page.console == [], (view, report.run(f"{control}.outerHTML")[:200])
    assert clicked > (0 if name == "idle_empty" else 40)


UNSEEN = """(() => {
  const looks = (each) => [each, ...[...each.children].slice(0, 9)].map((one) => {
    const { outlineStyle, outlineWidth, boxShadow, stroke, strokeWidth, backgroundColor } = getComputedStyle(one);
    return [outlineStyle, outlineWidth, boxShadow, stroke, strokeWidth, backgroundColor].join();
  }).join();
  const found = [];
  for (const each of window.controls) {
    document.activeElement.blur();
    const before = looks(each);
    each.focus({ focusVisible: true });
    if (document.activeElement === each && looks(each) === before) found.push(each.outerHTML.slice(0, 160));
  }
  return found;
})()"""


@pytest.mark.parametrize("name", LOOKED_AT)
def test_every_control_shows_that_it_has_the_focus(name: str, report: Report) -> None:
    report.visit(name)
    report.page.ask("Emulation.setFocusEmulationEnabled", enabled=True)  # as a window that somebody works in
    for view in report.run("[...document.querySelectorAll('.view')].map(v => v.id)"):
        report.run(f"location.hash = {json.dumps(view)}")
        report.wait(f"document.getElementById({json.dumps(view)}).offsetHeight > 0")
        report.run("document.querySelectorAll('.view.on [data-table]').forEach(Grid.of)")
        settled(report)
        report.run(CONTROLS % (KINDS, KINDS.replace(".on ", "")))
        assert report.run(UNSEEN) == [], view


@pytest.mark.parametrize("name", LOOKED_AT)
def test_where_a_link_leads_is_in_sight(name: str, report: Report) -> None:
    """Every address on the first screen, and one of each kind in every view, clicked on a page that
    was just opened.
    """
    report.visit(name)
    own = "new URL(a.getAttribute('href'), location.href).hash"  # also of a link in a picture
    wanted = f"""[...document.querySelectorAll("main a[href^='#']")].map(a => [a.closest('.view').id, {own}])"""
    links, seen = [], set()
    for view, address in report.run(wanted):
        kind = (view, address if view == "summary" else address.count("/"))
        if kind not in seen:
            seen.add(kind)
            links.append((view, address))
    for view, address in links:
        report.visit(name, view)
        settled(report)
        link = f"[...document.querySelectorAll('#' + CSS.escape({json.dumps(view)}) + ' a')].find(a => {own} === {json.dumps(address)})"
        report.run(f"{link}.closest('details') && ({link}.closest('details').open = true)")
        click = "new MouseEvent('click', { bubbles: true, cancelable: true })"
        report.run(f"{link}.scrollIntoView({{ block: 'center' }}), {link}.dispatchEvent({click})")
        report.wait(f"location.hash === {json.dumps(address)}")
        settled(report)
        target = "(document.querySelector('.view.on .target') || document.querySelector('.view.on'))"
        top, header, height = report.run(
            f"[{target}.getBoundingClientRect().top, document.querySelector('.top').offsetHeight, innerHeight]"
        )
        assert header - 1 <= top < height - 20, (view, address, top)


def test_the_cell_that_was_clicked_is_copied(report: Report) -> None:
    report.visit("tfdata_heavy", "op_stats/ops")
    cell = OPS + ".live tbody tr:nth-child(5) .first"
    report.wait(f"document.querySelector({json.dumps(cell)}) !== null")
    report.select(OPS + ".check select", "")
    assert report.run(f"document.querySelector({json.dumps(OPS + '.copies')}).inert"), "nothing was picked yet"
    report.click(cell)
    name = report.run(f"(c => c.dataset.tip || c.textContent)(document.querySelector({json.dumps(cell)}))")
    first = report.text(OPS + ".live tbody tr:nth-child(1) .first")
    assert name != first
    for button, copied in ((1, f"Copied: {name}"), (2, "Copied: row ")):
        report.click(f"{OPS}.copies button:nth-child({button})")
        report.wait(f"document.getElementById('said').textContent.startsWith({json.dumps(copied)})")
    report.click(OPS + ".copies button:nth-child(3)")
    report.wait("document.querySelector('tr.target') !== null")
    assert report.run("(c => c.dataset.tip || c.textContent)(document.querySelector('tr.target .first'))") == name
