"""A workbench opens what is in the folders that it was started with, wherever links lead."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.ui.http import Request, Response
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.runs import path_id
from outpace.ui.site import Site
from tests.integration.served import SOURCE, Served, logdir
from tests.linked import MORE, RUNS, WAYS, Logs, by_a_second_host, by_folder
from tests.strange import STRANGE
from tests.support import profile_path

SECONDS = 60


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


@contextlib.contextmanager
def site(*roots: object, cache: Path) -> Iterator[Site]:
    made = Site([str(root) for root in roots], SummaryCache(cache))
    try:
        yield made
    finally:
        made.close()


def body(answer: Response) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def lines(one: Site) -> list[dict[str, Any]]:
    """The list, once all of its runs have been looked at."""
    late = time.monotonic() + SECONDS
    while time.monotonic() < late:
        found: list[dict[str, Any]] = json.loads(body(one.answer(Request("runs"))))
        if not any("waits" in line for line in found):
            return found
        time.sleep(0.1)
    pytest.fail("no verdict")


@pytest.mark.parametrize("way", [*WAYS, *MORE], ids=lambda way: way.__name__)
def test_what_a_link_leads_out_for_is_said_and_not_opened(logs: Logs, way: Any) -> None:
    way(logs)
    with site(logs.inside, cache=logs.folder / "cache") as one:
        found = {line["name"]: line for line in lines(one)}
        refused = [line for line in found.values() if "error" in line]
        assert refused and all(", out of the folders" in line["error"] for line in refused), found
        assert "headline" not in refused[0] and "step" not in refused[0]
        for place in ("", "view/overview", "rows/op_stats/ops", "report.html", "sight", "trace"):
            answer = one.answer(Request(f"run/{refused[0]['id']}/{place}", query={"from": "0", "whole": "1"}))
            assert answer.status == 404 and ", out of the folders" in body(answer), (place, answer)
        for pair in (f"{refused[0]['id']}/{refused[0]['id']}", f"{path_id(str(logs.run))}/{refused[0]['id']}"):
            assert one.answer(Request(f"compare/{pair}/")).status == one.answer(Request(f"side/{pair}/")).status == 404
        if way is not by_a_second_host:
            assert "headline" in found["custom_loop"]


def test_where_both_folders_are_named_a_link_leads_from_one_to_the_other(logs: Logs) -> None:
    by_folder(logs)
    with site(logs.inside, logs.outside, cache=logs.folder / "cache") as one:
        assert not any("error" in line for line in lines(one))


def test_links_inside_and_the_folder_that_was_named_may_be_links(logs: Logs) -> None:
    (logs.inside / RUNS / "latest").symlink_to("custom_loop")
    (logs.folder / "link").symlink_to(logs.inside)
    (logs.folder / "twice").symlink_to("link")
    for root in (
        logs.folder / "link",
        logs.folder / "twice",
        f"file://{logs.folder}/link",
        logs.folder / "link" / "." / ".." / "in",
    ):
        with site(root, cache=logs.folder / "cache") as one:
            found = lines(one)
            assert {line["name"] for line in found} == {"custom_loop", "latest"} and all(
                "headline" in line for line in found
            ), root


def test_a_link_that_is_turned_while_the_workbench_runs_leads_nowhere(logs: Logs) -> None:
    """Between the list and the opening, whether or not a process has the profile open."""
    with site(logs.inside, cache=logs.folder / "cache") as one:
        lines(one)
        run = next(found for found in one._all() if found.info.run == "custom_loop")
        one._last_scan = (time.monotonic() + 3600, one._all())  # the list is as it was
        shutil.rmtree(logs.run)
        logs.run.symlink_to(logs.secret)
        answer = one.answer(Request(f"run/{run.id}/", query={"whole": "1"}))
        assert answer.status != 200 and "out of the folders" in body(answer), answer


def test_a_file_url_is_no_way_out(logs: Logs) -> None:
    by_folder(logs)
    with site(f"file://{logs.inside}", cache=logs.folder / "cache") as one:
        assert [line["name"] for line in lines(one) if "error" in line] == ["linked"]


@pytest.mark.parametrize("way", ["file", "folder"])
def test_trainings_that_are_watched_elsewhere_are_not_shown(logs: Logs, way: str) -> None:
    (logs.outside / "outpace-monitor").mkdir()
    (logs.outside / "outpace-monitor" / "host-1.jsonl").write_text('{"event": "note", "text": "secret"}\n')
    if way == "folder":
        (logs.inside / "outpace-monitor").symlink_to(logs.outside / "outpace-monitor")
    else:
        (logs.inside / "outpace-monitor").mkdir()
        (logs.inside / "outpace-monitor" / "host-1.jsonl").symlink_to(logs.outside / "outpace-monitor" / "host-1.jsonl")
    with site(logs.inside, cache=logs.folder / "cache") as one:
        assert body(one.answer(Request("watched"))) == "[]"
        for name in ("in", "out"):
            path = logs.folder / name / "outpace-monitor" / "host-1.jsonl"
            assert one.answer(Request(f"watched/{path_id(str(path))}/curves")).status == 404


def test_no_strange_file_stops_the_workbench(logs: Logs) -> None:
    """As record, as profile, and as a monitor's file: every other run, and every other training, is
    there.
    """
    (logs.inside / "outpace-monitor").mkdir()
    (logs.inside / "outpace-monitor" / "good.jsonl").write_text('{"event": "note", "text": "here"}\n')
    for what, make in STRANGE.items():
        shutil.copytree(profile_path("idle_empty"), logs.inside / RUNS / f"record: {what}")
        make(logs.inside / RUNS / f"record: {what}" / "vm.outpace.json")
        make(logs.new(f"profile: {what}") / "vm.xplane.pb")
        (logs.inside / "more" / "outpace-monitor").mkdir(parents=True, exist_ok=True)
        make(logs.inside / "more" / "outpace-monitor" / f"{what}.jsonl")
        (logs.inside / "more" / "outpace-monitor" / "a pipe").unlink(missing_ok=True)
    with site(logs.inside, cache=logs.folder / "cache") as one:
        found = {line["name"]: line for line in lines(one)}
        assert "headline" in found["custom_loop"] and len(found) > len(STRANGE)
        for name, line in found.items():
            assert name == "custom_loop" or name.startswith("record: ") or "error" in line, (name, line)
            assert "headline" in line or "error" in line
            assert "Traceback" not in line.get("error", "") and "ended" not in line.get("error", "")
        assert "good" in {watched["name"] for watched in json.loads(body(one.answer(Request("watched"))))}
        assert one.answer(Request(f"run/{found['custom_loop']['id']}/", query={"whole": "1"})).status == 200


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    (tmp_path / "gone").symlink_to("nowhere")
    for name, said in (
        *(("nope", "There is no folder"), ("gone", "There is no folder"), ("pipe", "is a pipe, not a folder")),
        *(("file", "is a file, not a folder"), ("nope\n", "There is no folder")),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "outpace", "ui", str(tmp_path / name), "--no-browser"],
            capture_output=True, text=True, timeout=SECONDS, env={**os.environ, "PYTHONPATH": SOURCE}, check=False,
        )  # fmt: skip
        assert done.returncode == 4 and said in done.stderr and "mkdir -p" in done.stderr and "token" not in done.stderr, done


def test_an_empty_folder_and_a_store_are_waited_for(tmp_path: Path) -> None:
    """A training is going to write there: its run appears."""
    (tmp_path / "logs").mkdir()
    for place in (tmp_path / "logs", "memory://logs"):
        one = Served(str(place), tmp_path / "cache")
        try:
            assert one.get("/runs") == (200, b"[]")
            if place != "memory://logs":
                shutil.copytree(profile_path("custom_loop"), tmp_path / "logs" / RUNS / "new")
                late = time.monotonic() + SECONDS
                while b"headline" not in one.get("/runs")[1]:
                    assert time.monotonic() < late
                    time.sleep(0.2)
        finally:
            one.process.send_signal(signal.SIGTERM)
            with one.process as process:
                process.wait(30)


def test_a_folder_that_cannot_be_read_is_a_line(tmp_path: Path) -> None:
    """A store without its package, or one that is away, does not look like one without runs."""
    with site(logdir(tmp_path / "logs", ("custom_loop",)), "nosuchstore://bucket/logs", cache=tmp_path / "cache") as one:
        found = {line["name"]: line for line in lines(one)}
        assert "headline" in found["custom_loop"] and "cannot be read" in found["nosuchstore://bucket/logs"]["error"]
        assert one.answer(Request("run//")).status == 404
