"""The HTML report in headless Chromium: it draws, at three widths, without a console error and
without leaving the file.
"""

from __future__ import annotations

import html
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.support import opened

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--enable-logging=stderr", "--v=0", "--host-resolver-rules=MAP * ~NOTFOUND"),
)


def browse(page: Path, folder: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *extra, f"{page.as_uri()}#overview"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def colors(png: bytes) -> int:
    """How many distinct pixel rows an 8-bit PNG has after unfiltering is skipped: a blank page has
    very few.
    """
    at, data = 8, b""
    width, depth, kind = struct.unpack(">I", png[16:20])[0], png[24], png[25]
    assert depth == 8
    while at < len(png):
        size = struct.unpack(">I", png[at : at + 4])[0]
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    stride = width * {2: 3, 6: 4}[kind] + 1
    raw = zlib.decompress(data)
    return len({raw[i : i + stride] for i in range(0, len(raw), stride)})


@pytest.mark.parametrize("width", [1400, 800, 390])
@pytest.mark.parametrize("name", ["input_bound_generator", "multi_host", "tf_gpu_v100_bert"])
def test_the_report_draws(name: str, width: int, tmp_path: Path) -> None:
    page = opened(name).html(tmp_path / "report.html")
    shot = tmp_path / "shot.png"
    done = browse(page, tmp_path, f"--window-size={width},2000", f"--screenshot={shot}")
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not [line for line in console if "Content Security Policy" in line or "Error" in line], console
    assert colors(shot.read_bytes()) > 200


def test_the_page_says_what_the_terminal_says(tmp_path: Path) -> None:
    profile = opened("input_bound_generator")
    headline = profile.report().headline
    dom = browse(profile.html(tmp_path / "report.html"), tmp_path, "--dump-dom").stdout
    assert "waits for input" in headline
    assert html.escape(headline, quote=False) in dom
    assert 'class="plot"' in dom, "the step graph was drawn"
