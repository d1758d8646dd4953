"""Make the pictures of the documentation from real output: `make pictures`. It needs Chromium, and
nothing of the network.

The HTML report, the first screen in a terminal, a comparison, the workbench, of profiles in
tests/data.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import outpace
from outpace.compare import Side, build_report, compare
from outpace.report import html, terminal
from outpace.ui.server import Server
from tests.verify.chromium import CHROMIUM, Page
from tests.verify.workbench import workbench

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "pictures"
PROFILES = Path("tests") / "data" / "profiles"
REPORT, SCREEN = "tfdata_heavy", "input_bound_generator"
COMPARED = ("custom_loop", "input_bound_generator")
RUNS = ("input_bound_generator", "tfdata_heavy", "retracing", "jax_loop", "tf_gpu_v100_bert", "keras_fit")
LARGEST = 200_000  # bytes of a picture
_COLORS = ((224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194))
_THEME = TerminalTheme(
    (30, 34, 42),
    (220, 223, 228),
    [(30, 34, 42), *_COLORS, (220, 223, 228)],
    [(92, 99, 112), *_COLORS, (255, 255, 255)],
)
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
<rect fill="#1e222a" x="1" y="1" width="{width}" height="{height}" rx="8"/>
<g transform="translate(26, 22)">
<circle r="7" fill="#ff5f57"/><circle cx="22" r="7" fill="#febc2e"/><circle cx="44" r="7" fill="#28c840"/>
</g>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def save(png: bytes, name: str) -> None:
    """Write a picture with so many colours that it stays small."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colors in (256, 128, 64, 32):
        out = io.BytesIO()
        picture.quantize(colors, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= LARGEST:
            break
    (TARGET / name).write_bytes(out.getvalue())


def report(folder: Path) -> None:
    """The top of the HTML report."""
    file = folder / "report.html"
    with outpace.open(PROFILES / REPORT) as profile:
        profile.html(file)
    with Page(folder / "browser-report", "1400,900") as page:
        page.ask("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
        page.ask("Page.navigate", url=file.as_uri())
        page.wait("document.readyState === 'complete'", 60)
        time.sleep(3)  # charts and fonts
        save(page.screenshot(), "report.png")


def comparison(folder: Path) -> None:
    """The flame graph of a comparison, with what is gone."""
    before, after = (Side.from_runs(name, outpace.open(PROFILES / name).run) for name in COMPARED)
    file = html.write(build_report(compare(before, after)), folder / "compare.html")
    with Page(folder / "browser-compare", "1400,900") as page:
        page.ask("Emulation.setDeviceMetricsOverride", width=1400, height=470, deviceScaleFactor=1, mobile=False)
        page.ask("Page.navigate", url=file.as_uri() + "#compare")
        page.wait("!!document.querySelector('[data-picture=flame] .live > *')", 60)
        page.run("document.querySelectorAll('[data-picture=flame] input[type=checkbox]')[1].click()")
        page.run("document.querySelector('[data-picture=flame]').closest('.block').scrollIntoView()")
        time.sleep(1)
        save(page.screenshot(), "compare.png")


def screen() -> None:
    """The first screen in a terminal, as SVG with the fonts of whoever looks at it."""
    path = PROFILES / SCREEN
    with outpace.open(path) as profile:
        text = terminal.render(profile.report(), width=80, color=True)
    shown = Text.from_ansi(f"$ outpace report {path}\n{text}".rstrip())
    width = 2 + max(line.cell_len for line in shown.split())  # a command runs over rather than be broken
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown, soft_wrap=True)
    svg = console.export_svg(theme=_THEME, code_format=_SVG, unique_id="outpace", title="outpace report")
    (TARGET / "screen.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


@contextmanager
def some_runs(folder: Path) -> Iterator[tuple[Page, Server]]:
    """The workbench with some runs, and a browser on its list, once all verdicts are there."""
    logs = folder / "logs"
    for at, name in enumerate(RUNS):
        run = logs / "plugins" / "profile" / f"2026_11_{at + 10}_09_{at + 20}_00"
        shutil.copytree(PROFILES / name, run, dirs_exist_ok=True)
    os.chdir(folder)  # the picture shows paths as a reader would type them
    try:
        with workbench(logs.name, folder) as (page, server):
            page.ask("Page.navigate", url=server.address)
            page.wait(
                f"document.querySelectorAll('#runs tr').length >= {len(RUNS)} && !document.body.innerText.includes('not looked at')",
                60,
            )
            page.wait("!document.body.innerText.includes('not looked at')", 120)
            yield page, server
    finally:
        os.chdir(ROOT)


def runs(folder: Path) -> None:
    """The list of runs."""
    with some_runs(folder) as (page, _):
        time.sleep(1)
        save(page.screenshot(), "runs.png")


def timeline(folder: Path) -> None:
    """A step in Perfetto, inside the workbench."""
    with some_runs(folder) as (page, _):
        page.run("document.querySelector('#runs a').click()")
        page.wait("document.readyState === 'complete' && !!document.querySelector('.view.on h1')", 60)
        page.wait("document.body.dataset.whole === undefined", 60)
        page.run("location.hash = 'timeline'")
        page.wait("!!document.querySelector('.stage iframe')?.contentWindow.app?.trace", 120)
        page.run("document.querySelector('.stage iframe').contentWindow.waitForPerfettoIdle()")
        time.sleep(5)
        save(page.screenshot(), "timeline.png")


def main(wanted: list[str]) -> None:
    """Make all pictures, or those that are named: report, screen, comparison, runs, timeline."""
    if CHROMIUM is None:
        sys.exit("There is no Chromium here: install Debian's package chromium.")
    os.chdir(ROOT)  # the pictures show paths as a reader would type them
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        makers = {
            **{"report": lambda: report(Path(folder)), "screen": screen},
            "comparison": lambda: comparison(Path(folder)),
            **{"runs": lambda: runs(Path(folder)), "timeline": lambda: timeline(Path(folder))},
        }
        for name in wanted or makers:
            makers[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
