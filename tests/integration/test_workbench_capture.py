"""Captures from the workbench: real workers, one that is not there, and ways to stop."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outpace.ui import capture_job
from outpace.ui.http import Request, Response
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.site import Site
from tests.integration.programs import needs_jax
from tests.integration.test_remote_capture import free_ports

pytest.importorskip("grpc")

TRAINING = """
import sys, jax, jax.numpy as jnp
step = jax.jit(lambda w: w - 1e-3 * jax.grad(lambda w: ((w @ w) ** 2).mean())(w))
w = jnp.ones((64, 64)) / 64
print("trains", flush=True)
while True:
    w = step(w)
    w.block_until_ready()
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "logs").mkdir()
    made = Site([str(tmp_path / "logs")], SummaryCache(tmp_path / "cache"))
    yield made
    made.close()


def document(answer: Response) -> Any:
    assert answer.status == 200 and isinstance(answer.body, bytes), answer
    return json.loads(answer.body)


def begin(site: Site, **fields: str) -> Response:
    return site.answer(Request("capture", "POST", body=json.dumps(fields).encode()))


def look(site: Site) -> Any:
    return document(site.answer(Request("capture")))


def ended(site: Site, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while (state := look(site))["state"] == "running":
        assert time.monotonic() < deadline, state
        time.sleep(0.05)
    return state


def kept(site: Site) -> list[Any]:
    return list(document(site.answer(Request("runs"))))


@needs_jax
def test_what_answers_is_captured_and_what_does_not_is_said(site: Site, tmp_path: Path) -> None:
    port, nobody = free_ports(2)
    (tmp_path / "train.py").write_text(TRAINING)
    command = [sys.executable, "-m", "outpace.cli", "serve", "--port", str(port), "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as training:
        try:
            assert training.stdout is not None and training.stdout.readline() == "trains\n"
            asked = document(begin(site, addresses=f"localhost:{port}\nlocalhost:{nobody}", duration="500ms", retries="0"))
            assert [host["state"] for host in asked["hosts"]] == ["waiting", "waiting"]
            state = ended(site)
        finally:
            training.kill()
    assert [(host["address"], host["state"]) for host in state["hosts"]] == [
        (f"localhost:{port}", "saved"),
        (f"localhost:{nobody}", "missing"),
    ], state
    assert state["state"] == "done" and "1 of 2 workers is missing" in state["text"]
    (run,) = kept(site)
    assert run["id"] == state["run"]
    assert site.answer(Request(f"run/{run['id']}/")).status == 200


def test_a_capture_can_be_stopped_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    document(begin(site, addresses=f"localhost:{free_ports(1)[0]}", delay="60s"))
    assert begin(site, addresses="localhost:1").status == 400, "one at a time"
    state = document(site.answer(Request("capture/stop", "POST")))
    assert state["state"] == "stopped" and kept(site) == []
    assert list((tmp_path / "logs").rglob("*")) == []


def test_a_capture_that_nobody_looks_at_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page was closed."""
    monkeypatch.setattr(capture_job, "_POLL_TIMEOUT", 0.2)
    document(begin(site, addresses=f"localhost:{free_ports(1)[0]}", delay="60s"))
    deadline = time.monotonic() + 20
    while site._captures is not None and site._captures._state["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert look(site)["state"] == "stopped"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, b"address"),
        ({"addresses": ""}, b"address"),
        ({"addresses": "@/etc/passwd"}, b"HOST:PORT"),
        ({"addresses": "localhost:99999"}, b"99999"),
        ({"addresses": "localhost:1", "duration": "soon"}, b"is no time"),
        ({"addresses": "localhost:1", "duration": "9h"}, b"cannot be captured"),
        ({"addresses": "localhost:1", "retries": "many"}, b"whole numbers"),
        ({"addresses": "localhost:1", "host_level": "9"}, b"host_level"),
    ],
)
def test_what_makes_no_sense_is_said(site: Site, fields: dict[str, str], said: bytes) -> None:
    answer = begin(site, **fields)
    assert answer.status == 400 and said in bytes(answer.body)  # type: ignore[arg-type]  # a sentence
    assert look(site)["state"] == "none"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"addresses": 7}', b"\xff", b'{"addresses": {"a": "b"}}'])
def test_what_is_no_request_is_refused(site: Site, body: bytes) -> None:
    assert site.answer(Request("capture", "POST", body=body)).status == 400


def test_nothing_else_is_asked_for_by_post(site: Site) -> None:
    for path in ("", "runs", "run/000000000000/", "assets/runs.js"):
        assert site.answer(Request(path, "POST")).status == 405
    assert site.answer(Request("capture/stop")).status == 404


def test_a_site_that_only_shows_captures_nothing(tmp_path: Path) -> None:
    """In TensorBoard, whose pages any site may call."""
    site = Site([str(tmp_path)], SummaryCache(tmp_path / "cache"), captures=False)
    assert begin(site, addresses="localhost:1").status == 404
    assert b'id="capture"' not in bytes(site.answer(Request("")).body)  # type: ignore[arg-type]  # a page
    site.close()
