"""A workbench behind its server, and a browser in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outpace.ui.run_summaries import SummaryCache
from outpace.ui.server import Server
from outpace.ui.site import Site
from tests.verify.chromium import Page


@contextmanager
def workbench(logdir: str, folder: Path) -> Iterator[tuple[Page, Server]]:
    """The workbench of a log directory; its verdicts and the browser's files lie in `folder`."""
    site = Site([logdir], SummaryCache(folder / "cache"))
    server = Server(site.answer)
    server.start()
    try:
        with Page(folder / f"browser-{server.port}", "1400,900") as page:
            page.ask("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
            yield page, server
    finally:
        server.stop()
        site.close()
