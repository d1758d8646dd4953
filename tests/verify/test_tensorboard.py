"""The tab in TensorBoard: versions that `make verify` has installed, with and without XProf, below
a path, with several log directories.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.test_remote_capture import free_ports
from tests.support import profile_path
from tests.verify.chromium import CHROMIUM, Page

PYTHONS = [path for path in os.environ.get("OUTPACE_TENSORBOARDS", "").split(os.pathsep) if path]
pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
    pytest.mark.skipif(
        not PYTHONS, reason="no TensorBoard: 'make verify' installs some and names them in OUTPACE_TENSORBOARDS"
    ),
]
STARTS = {"alone": [], "below a path": ["--path_prefix", "/x/y"], "several": []}
FRAME = "document.querySelector('iframe')?.contentDocument"


@contextmanager
def served(python: str, folder: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """TensorBoard over two runs; its address, and what it prints."""
    for at, name in enumerate(("keras_fit", "jax_loop")):
        logs = folder / (f"logs{at}" if kind == "several" else "logs0")
        shutil.copytree(profile_path(name), logs / "plugins" / "profile" / name)
    (port,) = free_ports(1)
    where = ["--logdir_spec", f"a:{folder}/logs0,{folder}/logs1"] if kind == "several" else ["--logdir", f"{folder}/logs0"]
    prefix = STARTS[kind][1] if STARTS[kind] else ""
    printed = folder / "printed"
    with printed.open("wb") as file:
        command = [python, "-m", "tensorboard.main", *where, *STARTS[kind], "--port", str(port), "--load_fast", "false"]
        board = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})
    try:
        yield f"http://127.0.0.1:{port}{prefix}/", printed
    finally:
        board.terminate()
        board.wait(30)


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_tab_shows_runs_and_a_run_its_report(python: str, kind: str, tmp_path: Path) -> None:
    with served(python, tmp_path, kind) as (address, printed), Page(tmp_path / "browser") as page:
        for _ in range(120):
            page.ask("Page.navigate", url=address + "#outpace")
            if page.run("location.protocol") == "http:":
                break
            time.sleep(0.5)
        page.wait(f"{FRAME}?.querySelectorAll('#runs tr').length === 2", 60)
        page.wait(f"!{FRAME}.body.innerText.includes('not looked at')", 60)
        page.run(f"[...{FRAME}.querySelectorAll('#runs a')].find(a => a.textContent === 'keras_fit').click()")
        page.wait(f"{FRAME}?.querySelector('.view.on h1')?.textContent.startsWith('CPU-bound')", 30)
        page.wait(f"{FRAME}.body.dataset.whole === undefined", 30)
        page.run(f"void ({FRAME.replace('?', '')}.defaultView.location.hash = 'op_stats/ops/5')")
        page.wait(f"!!{FRAME}.querySelector('#op_stats tr.target')", 30)
        assert page.run(f"{FRAME}.getElementById('ask-capture')") is None
        own = address.split("/", 3)[2]
        assert [url for url in page.requests if own in url and "/data/plugin/outpace" in url]
    text = printed.read_text()
    assert "will become an error" not in text and "Traceback" not in text, text
