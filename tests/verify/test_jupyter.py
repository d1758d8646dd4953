"""JupyterLab: reports in a notebook, the workbench behind jupyter-server-proxy; and outputs in a
frame that has no origin.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_remote_capture import free_ports
from tests.support import opened, profile_path
from tests.verify.chromium import CHROMIUM, Page

PYTHON = os.environ.get("OUTPACE_JUPYTER", "")
pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
needs_jupyter = pytest.mark.skipif(
    not PYTHON, reason="no JupyterLab: 'make verify' installs it and names it in OUTPACE_JUPYTER"
)
CELLS = ("%load_ext outpace", "%outpace logs", "import outpace\noutpace.open('logs').overview()")
REPORT = "document.querySelector('.jp-OutputArea-output .outpace.fragment')"


def logdir(folder: Path) -> Path:
    shutil.copytree(profile_path("keras_fit"), folder / "logs" / "plugins" / "profile" / "run")
    return folder / "logs"


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """JupyterLab over a folder, with the token of its own; its address."""
    (port,) = free_ports(1)
    command = [PYTHON, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--expose-app-in-browser", f"--port={port}"]
    command += [f"--ServerApp.root_dir={folder}", "--IdentityProvider.token=known", "--LabApp.news_url=None"]
    homes = {name: str(folder / "home") for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    with (folder / "printed").open("wb") as printed:
        server = subprocess.Popen(
            command, stdout=printed, stderr=printed, env={**os.environ, **homes, "IPYTHONDIR": str(folder / "home")}
        )
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5).read()
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


@needs_jupyter
def test_a_notebook_shows_reports_in_line(tmp_path: Path) -> None:
    """Tables sort and links open what they lead to, in the page itself, in both themes; nothing is
    asked of anybody else.
    """
    logdir(tmp_path)
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"c{at}", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
        for at, text in enumerate(CELLS)
    ]
    notebook = {"cells": cells, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}}}
    (tmp_path / "look.ipynb").write_text(json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 5}))
    with lab(tmp_path) as address, Page(tmp_path / "browser") as page:
        page.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        page.ask("Page.navigate", url=f"{address}/lab/tree/look.ipynb?token=known")
        page.wait("!!window.jupyterapp && !!document.querySelector('.jp-NotebookPanel-notebook .jp-Cell')", 120)
        page.run("document.querySelector('.jp-Cell .cm-content').focus()")  # else nothing is the notebook to run
        page.wait("jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", 60)
        page.run("void jupyterapp.commands.execute('notebook:run-all-cells')")
        page.wait(f"document.querySelectorAll('.jp-OutputArea-output .outpace.fragment').length === {len(CELLS) - 1}", 120)
        assert "CPU-bound" in page.run(f"{REPORT}.innerText")
        page.run(f"{REPORT}.querySelectorAll('details').forEach(each => {{ each.open = true; }})")
        table = f"[...{REPORT}.querySelectorAll('table.rows')].find(t => t.tBodies[0].rows.length > 5)"
        column = f"[...({table}).tBodies[0].rows].map(row => row.cells[0].textContent)"
        before = page.run(column)
        page.run(f"({table}).querySelector('thead th').click()")
        page.run(f"({table}).querySelector('thead th').click()")
        assert page.run(column) != before and sorted(page.run(column)) == sorted(before)
        page.run(f"{REPORT}.querySelectorAll('details').forEach(each => {{ each.open = false; }})")
        link = f"{REPORT}.querySelector('a[href^=\"#outpace-\"]')"
        target = page.run(f"{link}.hash.slice(1)")
        page.run(f"{link}.click()")
        page.wait(f"document.getElementById({json.dumps(target)}).checkVisibility()", 10)
        assert page.run("location.pathname").startswith("/lab"), "the link is followed here"
        ink = f"getComputedStyle({REPORT}).color"
        light = page.run(ink)
        page.run("void jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
        page.wait(f"{ink} !== {json.dumps(light)}", 30)
        assert not [url for url in page.requests if not url.startswith((address, "ws://127.0.0.1", "data:", "blob:", "about:"))]


@needs_jupyter
def test_the_workbench_behind_a_notebook_servers_proxy(tmp_path: Path) -> None:
    """At a path of the server's, in which every address of the page has to stay."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "outpace", "ui", str(logdir(tmp_path)), "--no-browser", f"--port={port}"]
    workbench = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    )
    try:
        assert workbench.stderr is not None
        found = re.search(r"token=(\S+)", workbench.stderr.readline())
        assert found is not None
        with lab(tmp_path) as address, Page(tmp_path / "browser") as page:
            page.ask("Page.navigate", url=f"{address}/lab?token=known")  # the server's own cookie
            page.wait("document.readyState === 'complete'", 60)
            page.ask("Page.navigate", url="about:blank")
            page.wait("location.protocol === 'about:'", 10)
            page.requests.clear()
            page.ask("Page.navigate", url=f"{address}/proxy/{port}/?token={found[1]}")
            page.wait("document.querySelectorAll('#runs tr').length === 1", 60)
            page.wait("!document.body.innerText.includes('not looked at')", 60)
            page.run("document.querySelector('#runs a').click()")
            page.wait("document.body?.dataset.whole === undefined && !!document.querySelector('.view.on h1')", 60)
            page.run("void (location.hash = 'op_stats/ops/5')")
            page.wait("!!document.querySelector('#op_stats tr.target')", 30)
            own = [url for url in page.requests if not url.startswith("data:")]
            assert own and all(url.startswith(f"{address}/proxy/{port}/") for url in own if "favicon" not in url), own
    finally:
        workbench.terminate()
        workbench.communicate(timeout=30)


TOLD = """
<script>
  const rows = () => [...document.querySelector("table.rows").tBodies[0].rows].map(row => row.cells[0].textContent);
  const before = rows(), head = document.querySelector("table.rows thead th");
  head.click(); head.click();
  parent.postMessage({ text: document.body.innerText.slice(0, 4000), before, after: rows(), origin: self.origin }, "*");
</script>
"""


@pytest.mark.parametrize("whole", [True, False], ids=["report", "page"])
def test_an_output_in_a_frame_without_an_origin(whole: bool, tmp_path: Path) -> None:
    """As Colab shows outputs: a sandboxed frame, where no storage and no other document can be
    reached.
    """
    profile = opened("keras_fit")
    shown = (profile if whole else profile.overview())._repr_html_()
    assert "<iframe" not in shown and "http://" not in shown.replace("http://www.w3.org/", "")
    path = tmp_path / "notebook.html"
    frame = json.dumps(f"<body>{shown}{TOLD}</body>").replace("</", "<\\/")
    path.write_text(
        f"<!doctype html><meta charset=utf-8><script>addEventListener('message', e => {{ window.told = e.data; }});</script>"
        f"<iframe sandbox='allow-scripts' width=1200 height=800></iframe><script>document.querySelector('iframe').srcdoc = {frame};</script>"
    )
    with Page(tmp_path / "browser") as page:
        page.ask("Page.navigate", url=path.as_uri())
        page.wait("!!window.told", 30)
        told = page.run("window.told")
        assert (told["origin"] == "null" and "CPU-bound" in told["text"]) or not whole
        assert told["before"] != told["after"] and sorted(told["before"]) == sorted(told["after"])
        assert page.console == []
        assert not [url for url in page.requests if not url.startswith(("file:", "about:", "data:"))]
