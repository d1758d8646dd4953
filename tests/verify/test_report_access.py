"""The HTML report for readers who do not see it or use no mouse: axe-core finds nothing serious in
any view, light and dark.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outpace.compare import Side, build_report, compare
from outpace.report import html
from tests.support import opened
from tests.verify.chromium import CHROMIUM, Page
from tests.verify.test_report_page import LOOKED_AT

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm brings axe-core, and is not here"),
]
AXE, SHA256 = "axe-core@4.10.3", "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
FOUND = """axe.run(document, { resultTypes: ["violations"], runOnly: %s })
  .then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => [v.id, v.nodes[0].html.slice(0, 200)]))"""
EVERYTHING = ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core; too large to keep a copy of it here."""
    folder = tmp_path_factory.mktemp("axe")
    got = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    if got.returncode:
        pytest.skip(f"npm could not bring {AXE}: {got.stderr.strip()[-200:]}")
    shutil.unpack_archive(next(folder.glob("*.tgz")), folder, "gztar", filter="data")
    script = (folder / "package" / "axe.min.js").read_bytes()
    assert hashlib.sha256(script).hexdigest() == SHA256
    return script.decode("utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Page(tmp_path_factory.mktemp("browser")) as page:
        page.ask("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
        yield page


@pytest.mark.parametrize("name", LOOKED_AT)
def test_nothing_serious_is_found(name: str, page: Page, axe: str, tmp_path: Path) -> None:
    assert serious(page, axe, opened(name).html(tmp_path / "report.html")) == []


def test_nothing_serious_is_found_in_a_comparison(page: Page, axe: str, tmp_path: Path) -> None:
    before, after = (Side.from_runs(name, opened(name).run) for name in ("custom_loop", "input_bound_generator"))
    assert serious(page, axe, html.write(build_report(compare(before, after)), tmp_path / "compare.html")) == []


def serious(page: Page, axe: str, path: Path) -> list[tuple[str, ...]]:
    """(theme, view, rule, element) of what axe-core finds in a report."""
    found = []
    for theme, rules in (("light", EVERYTHING), ("dark", ["color-contrast"])):
        page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        page.ask("Page.navigate", url="about:blank")
        page.ask("Page.navigate", url=path.as_uri())
        page.wait("document.readyState === 'complete' && !!document.querySelector('.view.on')", 30)
        page.run(f"{axe}; 0")
        for view in page.run("[...document.querySelectorAll('.view')].map(v => v.id)"):
            page.run(f"location.hash = {json.dumps(view)}")
            page.wait(f"document.getElementById({json.dumps(view)}).offsetHeight > 0", 10)
            page.run("document.querySelectorAll('.view.on [data-table]').forEach(Grid.of)")
            found += [(theme, view, *each) for each in page.run(FOUND % json.dumps(rules))]
    return found


OPENED = """(s => { s.value = 'type'; s.dispatchEvent(new Event('change')); })(document.querySelector('.view.on [data-by] .tools select'));
document.querySelector('.view.on tr.group td').click(); document.getElementById('keys').show();"""


def test_groups_of_rows_and_the_list_of_keys_are_no_worse(page: Page, axe: str, tmp_path: Path) -> None:
    path = opened("keras_fit").html(tmp_path / "report.html")
    page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    page.ask("Page.navigate", url=path.as_uri() + "#op_stats")
    page.wait("document.querySelector('.view.on [data-by] .tools select') !== null", 30)
    page.run(f"{axe}; 0")
    page.run(OPENED)
    assert page.run("document.querySelectorAll('.view.on tr.group[aria-expanded=true]').length") == 1
    assert page.run(FOUND % json.dumps(EVERYTHING)) == []
