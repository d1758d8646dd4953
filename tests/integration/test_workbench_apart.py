"""A run whose analysis never ends keeps no other waiting for a report or a verdict."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.served import Served, logdir

NAMES = ("keras_fit", "jax_loop", "custom_loop", "eager_loop")
SECONDS = 60.0  # of a busy machine


def waited(found: Callable[[], object], what: str) -> None:
    late = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < late, what
        time.sleep(0.05)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(logdir(tmp_path / "logs", NAMES), tmp_path / "cache")
    yield one
    for process in one.children():
        os.kill(process, signal.SIGCONT)
    one.process.terminate()
    with one.process as server:
        server.wait(30)


def runs(served: Served) -> dict[str, dict[str, object]]:
    return {line["name"]: line for line in json.loads(served.get("/runs")[1])}


class Asked(threading.Thread):
    """A request that somebody waits for."""

    def __init__(self, served: Served, path: str) -> None:
        super().__init__(daemon=True)
        self.served, self.path, self.status = served, path, 0
        self.start()

    def run(self) -> None:
        self.status = self.served.get(self.path, seconds=SECONDS)[0]


def test_one_run_keeps_no_other_waiting(served: Served) -> None:
    ids = [str(runs(served)[name]["id"]) for name in NAMES]
    stuck = [Asked(served, f"/run/{ids[0]}/")]
    waited(lambda: served.children(asked=True), "a process that analyses")
    (process,) = served.children(asked=True)
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    for run in ids[1:]:
        assert served.get(f"/run/{run}/?whole=1", seconds=SECONDS)[0] == 200
        assert served.get(f"/run/{run}/view/op_stats", seconds=SECONDS)[0] == 200
    assert len(runs(served)) == len(NAMES) and time.monotonic() - began < SECONDS
    assert stuck[0].status == 0, "it still waits"
    assert len(served.children(asked=True)) <= 4
    os.kill(process, signal.SIGCONT)
    stuck[0].join(SECONDS)
    assert stuck[0].status == 200
    waited(lambda: len(served.children(asked=True)) <= 2, "processes that nobody needs end")


def test_many_who_wait_for_one_run_leave_room_for_others(served: Served) -> None:
    """Loading a page again and again, while its run is read, takes no thread and no process."""
    ids = [str(runs(served)[name]["id"]) for name in NAMES]
    stuck = [Asked(served, f"/run/{ids[0]}/")]
    waited(lambda: served.children(asked=True), "a process that analyses")
    (process,) = served.children(asked=True)
    os.kill(process, signal.SIGSTOP)
    stuck += [Asked(served, f"/run/{ids[0]}/view/overview") for _ in range(60)]
    waited(lambda: sum(each.status == 503 for each in stuck) >= 50, "more than a few are told to come again")
    status, body = served.get(f"/run/{ids[0]}/sight")
    assert status == 503 and b"Try again" in body
    assert served.get(f"/run/{ids[1]}/?whole=1", seconds=SECONDS)[0] == 200 and len(served.children(asked=True)) == 2
    os.kill(process, signal.SIGCONT)
    for each in stuck:
        each.join(SECONDS)
    assert {each.status for each in stuck} == {200, 503}
    assert served.get(f"/run/{ids[0]}/view/overview", seconds=SECONDS)[0] == 200


def test_two_comparisons_that_share_a_run_wait_for_each_other_and_no_more(served: Served) -> None:
    one, two, three, _ = (str(runs(served)[name]["id"]) for name in NAMES)
    asked = [Asked(served, f"/compare/{a}/{b}/") for a, b in ((one, two), (two, one), (three, one), (two, three))]
    for each in asked:
        each.join(SECONDS)
    assert {each.status for each in asked} == {200}


def test_one_run_keeps_no_others_verdict_waiting(served: Served) -> None:
    assert runs(served)
    waited(lambda: served.children(asked=False), "a process that looks at runs")
    first = served.children(asked=False)[0]
    os.kill(first, signal.SIGSTOP)
    waited(lambda: sum("waits" in line for line in runs(served).values()) <= 1, "the others get their verdicts")
    os.kill(first, signal.SIGCONT)
    waited(lambda: not any("waits" in line for line in runs(served).values()), "and so does this one")


def test_a_run_that_fails_fails_again_and_keeps_nothing(tmp_path: Path) -> None:
    logs = logdir(tmp_path / "logs", ("keras_fit",))
    broken = logs / "plugins" / "profile" / "broken"
    broken.mkdir()
    (broken / "vm.xplane.pb").write_bytes(b"no profile")
    from outpace.ui.http import Request
    from outpace.ui.run_summaries import SummaryCache
    from outpace.ui.site import Site

    site = Site([str(logs)], SummaryCache(tmp_path / "cache"))
    try:
        run = next(run.id for run in site._all() if run.info.run == "broken")
        for steps in range(5):
            assert site.answer(Request(f"run/{run}/", query={"whole": "1", "steps": str(steps)})).status != 200
        assert site._making == {} and not site._analysts._waiting
    finally:
        site.close()
