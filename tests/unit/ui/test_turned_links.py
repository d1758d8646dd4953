"""A link that is turned while the workbench looks: `os.path.realpath` raises then, and nothing else
may.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.ui import pages, worker_pool
from outpace.ui.folders import Folders
from outpace.ui.http import Request
from outpace.ui.run_summaries import RunSummary, SummaryCache
from outpace.ui.runs import ListedRun, RunList, path_id
from outpace.ui.site import Site
from outpace.ui.worker_pool import SummaryFiller
from tests.support import profile_path

REAL = os.path.realpath


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Says which path is being turned from now on, by its last name; "" for none."""
    names = [""]

    def realpath(path: str, **options: bool) -> str:
        if names[0] and os.path.basename(path) == names[0]:
            raise OSError(errno.EINVAL, "Invalid argument")
        return REAL(path, **options)

    monkeypatch.setattr(os.path, "realpath", realpath)
    return lambda name: names.__setitem__(0, name)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        shutil.copytree(profile_path("idle_empty"), tmp_path / "logs" / "plugins" / "profile" / name)
    return tmp_path / "logs"


@pytest.mark.parametrize("what", ["two", "logs"])
def test_what_cannot_be_resolved_is_not_there(logs: Path, turned: Callable[[str], None], what: str) -> None:
    """For that look only: no run is taken for one outside, once it can be resolved."""
    folders = Folders([str(logs)])
    runs = RunList(folders.roots, folders.find_escaping_link)
    turned(what)
    assert {run.info.run for run in runs.refresh()} == ({"one"} if what == "two" else set())
    assert folders.contains(str(logs / what)) is False and folders.real_paths == (() if what == "logs" else (str(logs),))
    turned("")
    assert {(run.info.run, run.escaping_link) for run in runs.refresh()} == {("one", ""), ("two", "")}


def test_no_address_answers_that_the_server_failed(
    logs: Path, tmp_path: Path, turned: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "outpace-monitor").mkdir()
    (logs / "outpace-monitor" / "host-1.jsonl").write_text('{"event": "note", "text": "here"}\n')
    (logs / "plugins" / "profile" / "away").symlink_to(profile_path("idle_empty").parent / "idle_empty")
    monkeypatch.setattr("outpace.ui.site._FRESH", 0.0)
    site = Site([str(logs)], SummaryCache(tmp_path / "cache"))
    try:
        for what in ("two", "away", "logs", "host-1.jsonl", "outpace-monitor", ""):
            turned(what)
            for address in ("runs", "watched", f"run/{path_id(str(logs))}/", f"watched/{path_id(str(logs))}/curves"):
                assert site.answer(Request(address)).status in (200, 404), (what, address)
        away = next(run for run in site._all() if run.info.run == "away")
        turned("away")
        assert "out of the folders" in pages.format_outside(away) and len(path_id(away.info.folder)) == 12
    finally:
        site.close()


class _Fails:
    """The list of runs, which cannot be read at first, and the cache, which fails for a
    while, too.
    """

    def __init__(self, runs: tuple[ListedRun, ...]) -> None:
        self.looks, self.puts, self._runs = 0, 0, runs
        self.verdicts: dict[str, RunSummary] = {}

    def now(self) -> tuple[ListedRun, ...]:
        self.looks += 1
        if self.looks <= 4:
            raise OSError(errno.EINVAL, "Invalid argument")
        return self._runs

    def get(self, run: object) -> RunSummary | None:
        return self.verdicts.get(str(run))

    def put(self, run: object, verdict: RunSummary) -> None:
        self.puts += 1
        if self.puts == 1:
            raise OSError(errno.EIO, "Input/output error")
        self.verdicts[str(run)] = verdict


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers that answer at once."""

    class Worker:
        def __init__(self, low_priority: bool) -> None: ...
        def ask(self, *_: object) -> RunSummary:
            return RunSummary("here")

        def stop(self) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(worker_pool, "Worker", Worker)
    yield


@pytest.mark.usefixtures("judged")
@pytest.mark.filterwarnings("error")  # a thread that ends with an error is told as a warning
def test_no_error_of_a_look_ends_a_filler(logs: Path) -> None:
    runs = RunList([str(logs)]).refresh()
    fails: Any = _Fails(runs)
    filler = SummaryFiller(fails.now, fails, Folders([str(logs)]))
    late = time.monotonic() + 10
    while len(fails.verdicts) < len(runs) and time.monotonic() < late:
        filler.notify_viewed()
        time.sleep(0.005)
    filler.close()
    assert len(fails.verdicts) == len(runs) == 2
