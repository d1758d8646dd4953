"""The trace file says what the profile says: every event once, with its name, time, nesting and
arguments.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.timeline.clock_origin import compute_shifts_ns
from outpace.trace import Trace, read_trace
from outpace.trace.export import ExportFormat
from outpace.viewer import Arguments, ExportSummary, Selection, parse_selection, write_trace
from outpace.viewer.sections import build_plane_sections
from tests.support import PROFILES, opened, profile_bytes
from tests.unit.viewer.perfetto_trace import Decoded, decode

pytestmark = pytest.mark.slow

NS = 1_000


def exported(
    run: Run, selection: Selection | None = None, form: ExportFormat = ExportFormat.PERFETTO
) -> tuple[ExportSummary, bytes]:
    with tempfile.TemporaryFile() as file:
        written = write_trace(run, file.fileno(), form, selection)
        file.seek(0)
        return written, file.read()


def run_of(space: SpaceBuilder, **kwargs: Any) -> Run:
    return Run.from_traces([read_trace(space.to_bytes(), "vm")], **kwargs)


def shown_name(trace: Trace, row: int) -> str:
    name = int(trace.name[row])
    return trace.display_names.get(name, trace.names[name])


def expected_slices(run: Run) -> dict[str, Counter[tuple[str, int, int]]]:
    """(name, start, duration) in ns of all events by section and track."""
    found: dict[str, Counter[tuple[str, int, int]]] = {}
    shift = compute_shifts_ns(run)
    for section in build_plane_sections(run):
        trace = section.timeline.trace
        for line, name in section.lines:
            rows = range(*trace.lines.row_slice(line).indices(len(trace)))
            start, end = trace.start[:] // NS + shift[trace.host], trace.end[:] // NS + shift[trace.host]
            mine = found.setdefault(f"{section.title}/{name}", Counter())
            mine.update((shown_name(trace, r), int(start[r]), int(end[r] - start[r])) for r in rows)
    return found


@pytest.mark.parametrize("name", PROFILES)
def test_every_event_is_one_slice(name: str) -> None:
    run = opened(name).run
    written, data = exported(run, Selection(arguments=Arguments.NONE))
    decoded = decode(data)
    got: dict[str, Counter[tuple[str, int, int]]] = {}
    for s in decoded.slices:
        if not s.category:
            got.setdefault(decoded.path(s.track), Counter())[s.name, s.start, s.duration] += 1
    assert got == expected_slices(run)
    assert written.events == run.events
    assert written.steps == sum(len(t.steps) for t in run.hosts) == sum(s.category == "step" for s in decoded.slices)
    assert written.slices == len(decoded.slices)
    assert min((s.start for s in decoded.slices), default=0) >= 0


@pytest.mark.parametrize("name", ["custom_loop", "python_tracer", "jax_rocm_gemm"])
def test_nesting_is_the_traces_own(name: str) -> None:
    """Of events with a length; on lines without overlaps, which are one lane."""
    run = opened(name).run
    decoded, compared = decode(exported(run)[1]), 0
    trace = run.hosts[0].trace
    parent = trace.parent
    depth = np.zeros(len(trace), np.int64)
    for row in range(len(trace)):
        depth[row] = depth[parent[row]] + 1 if parent[row] >= 0 else 0
    for section in build_plane_sections(run):
        for line, track in section.lines:
            slices = decoded.written_on(f"{section.title}/{track}")
            if len({s.track for s in slices}) > 1:
                continue
            rows = np.arange(*trace.lines.row_slice(line).indices(len(trace)))
            long = trace.duration[rows] > 0
            assert [s.depth for s, wanted in zip(slices, long, strict=True) if wanted] == depth[rows][long].tolist()
            compared += int(long.sum())
    assert compared > len(trace) // 3  # the others have no length


def stats_of(trace: Trace, rows: list[int]) -> dict[int, dict[str, Any]]:
    """The stats of some events by row and name, read in one pass over the file."""
    found: dict[int, dict[str, Any]] = {row: {} for row in rows}
    for name, stat in trace.read_stats(list(dict.fromkeys(trace.stat_names))).items():
        for at in np.flatnonzero(np.isin(stat.rows, rows)).tolist():
            found[int(stat.rows[at])][name] = stat.value(at)
    return found


@pytest.mark.parametrize("name", PROFILES)
def test_arguments_are_the_events_stats(name: str) -> None:
    run = opened(name).run
    trace = run.hosts[0].trace
    decoded = decode(exported(run)[1])
    written: dict[int, dict[str, Any]] = {}  # arguments by the event's row, of some events of each track
    for section in build_plane_sections(run):
        if section.timeline.trace is not trace:
            continue
        for line, track in section.lines:
            slices = decoded.written_on(f"{section.title}/{track}")
            if len({s.track for s in slices}) == 1:
                first = trace.lines.row_slice(line).start
                some = np.linspace(0, len(slices) - 1, min(len(slices), 5)).astype(int).tolist()
                written.update((first + at, slices[at].arguments) for at in some)
    for row, own in stats_of(trace, list(written)).items():
        called = int(trace.name[row])
        stats = trace.name_stats.get(called, {}) | own
        if trace.names[called] not in ("", trace.display_names.get(called, trace.names[called])):
            stats["long_name"] = trace.names[called]
        assert written[row] == {k: v for k, v in stats.items() if v is not None and not isinstance(v, bytes)}


def test_less_arguments_on_request() -> None:
    run = opened("custom_loop").run
    names = {}
    for kind in Arguments:
        decoded = decode(exported(run, Selection(arguments=kind))[1])
        names[kind] = {k for s in decoded.slices if not s.category for k in s.arguments}
    assert {"_p", "_c", "_pt", "_ct", "id"} <= names[Arguments.ALL]
    assert names[Arguments.ALL] - names[Arguments.USEFUL] <= {"_p", "_c", "_pt", "_ct", "_a", "_r"}
    assert names[Arguments.NONE] == set()


def overlapping() -> Decoded:
    space = SpaceBuilder()
    line = space.plane("/device:GPU:0").line("Stream #1")
    line.event("long", 0, 100 * NS)
    line.event("crossing", 50 * NS, 100 * NS)
    line.event("within crossing", 120 * NS, 10 * NS)
    line.event("alone", 200 * NS, 10 * NS)
    for _ in range(2):
        line.event("instant", 205 * NS, 0)
    return decode(exported(run_of(space))[1])


def test_overlapping_events_get_lanes_of_one_track() -> None:
    decoded = overlapping()
    lane = {s.name: s.track for s in decoded.slices}
    assert lane["long"] == lane["alone"] == lane["instant"]
    assert lane["crossing"] == lane["within crossing"] != lane["long"]
    first, second = decoded.tracks[lane["long"]], decoded.tracks[lane["crossing"]]
    assert (first.name, first.parent_uuid, first.sibling_merge_key_int) == (
        second.name,
        second.parent_uuid,
        second.sibling_merge_key_int,
    )
    assert [s.duration for s in decoded.on("/device:GPU:0/Stream #1")] == [100, 100, 10, 10, 0, 0]


def test_nesting_deeper_than_the_viewer_shows_goes_to_another_lane() -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("recursion")
    for depth in range(1000):
        line.event("f", depth * NS, (3000 - 2 * depth) * NS)
    decoded = decode(exported(run_of(space))[1])  # which refuses what nests too deep
    assert sum(s.name == "f" for s in decoded.slices) == 1000


def test_a_crowd_of_overlapping_events_is_written_in_reasonable_time() -> None:
    """Looking at every lane for every event would take ten times as long."""
    space, count = SpaceBuilder(), 100_000
    line = space.plane("/device:GPU:0").line("Async")
    for i in range(count):
        line.event("copy", i * NS, 2 * count * NS)
    run = run_of(space)
    begin = time.process_time()
    written, _ = exported(run, Selection(arguments=Arguments.NONE))
    assert time.process_time() - begin < 2.5
    assert written.events == count


def test_times_below_a_nanosecond_keep_their_nesting() -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("main")
    line.event("outer", 0, 10_300)
    line.event("inner", 10_100, 100)
    line.event("next", 10_300, 900)
    slices = {s.name: s for s in decode(exported(run_of(space))[1]).slices}
    assert [(s.start, s.duration, s.depth) for s in slices.values()] == [(0, 10, 0), (10, 0, 1), (10, 1, 0)]


def test_hosts_share_one_clock() -> None:
    def host(name: str, began: int, offset: int) -> Trace:
        space = SpaceBuilder(name)
        space.plane("/host:CPU").line("main", timestamp_ns=offset).event("work", 0, 5 * NS)
        space.plane("Task Environment").stat("profile_start_time", began)
        return read_trace(space.to_bytes(), name)

    day = 1_700_000_000_000_000_000
    decoded = decode(exported(Run.from_traces([host("a", day, 500), host("b", day + 2_000, 100)]))[1])
    assert {decoded.path(s.track): s.start for s in decoded.slices if s.name == "work"} == {
        "Host Threads of a/main/1": 0,
        "Host Threads of b/main/1": 1_600,
    }


def test_launches_are_arrows() -> None:
    decoded = decode(exported(opened("tf_gpu_v100_bert").run)[1])
    begins = {i: s for s in decoded.slices for i in s.flows_out}
    ends = {i: s for s in decoded.slices for i in s.flows_in}
    assert len(begins) == len(ends) == 1556
    assert begins.keys() == ends.keys()
    for identity, launch in begins.items():
        assert decoded.path(launch.track).startswith("Host Threads")
        assert decoded.path(ends[identity].track).startswith("/device:")
        assert launch.arguments["correlation_id"] == ends[identity].arguments["correlation_id"]


def test_memory_is_a_counter_per_allocator() -> None:
    run = opened("custom_loop").run
    trace, decoded = run.hosts[0].trace, decode(exported(run)[1])
    ((track, values),) = decoded.counters.items()
    assert decoded.path(track) == "Host Threads of vm/Memory allocated: mklcpu"
    assert decoded.tracks[track].counter.unit == 3
    stat = trace.stat("bytes_allocated")
    shift = compute_shifts_ns(run)["vm"]
    wanted = zip((trace.start[stat.rows] // NS + shift).tolist(), stat.ints.tolist(), strict=True)
    assert sorted(values) == sorted(wanted)
    assert [at for at, _ in values] == sorted(at for at, _ in values)


def test_steps_say_how_they_were_found() -> None:
    run = opened("keras_fit").run
    steps = run.hosts[0].steps
    slices = decode(exported(run)[1]).on("Host Threads of vm/Steps")
    assert [s.arguments["number"] for s in slices] == steps.number.tolist()
    assert {s.arguments["found by"] for s in slices} == {steps.source.value}
    assert [s.arguments["complete"] == "yes" for s in slices] == steps.complete.tolist()


def test_stages_stand_under_the_line_that_built_them() -> None:
    run = opened("custom_loop").run
    trace = run.hosts[0].trace
    label = "ShuffleDatasetV3:2"
    record = {"pipeline": [{"label": label, "file": "/home/me/train.py", "line": 41, "op": "shuffle"}]}
    with_record = Run.from_traces([trace], records={trace.host: record})
    written, data = exported(with_record)
    decoded = decode(data)
    stages = [s for s in decoded.slices if s.category == "tf.data stage"]
    assert {decoded.path(s.track) for s in stages} == {"Host Threads of vm/tf.data train.py:41 shuffle"}
    assert len(stages) == written.stages == sum(text == label for text in trace.stat("name").texts())
    assert written.events == len(trace)


def test_a_window_keeps_what_reaches_into_it() -> None:
    run = opened("custom_loop").run
    trace, shift = run.hosts[0].trace, compute_shifts_ns(run)["vm"]
    written, data = exported(run, parse_selection("100ms:150ms", None, None))
    begin, end = 100_000_000 - shift, 150_000_000 - shift
    inside = (trace.start[:] < end * NS) & ((trace.end[:] > begin * NS) | (trace.start[:] >= begin * NS))
    assert 0 < written.events == inside.sum() < len(trace)
    assert len(decode(data).slices) == written.slices


def test_steps_and_tracks_can_be_chosen() -> None:
    run = opened("custom_loop").run
    slices = decode(exported(run, parse_selection(None, "3:5", r"/Steps$"))[1]).slices
    assert [s.name for s in slices] == ["step 3", "step 4", "step 5"]


def test_json_says_the_same() -> None:
    run = opened("tf_gpu_v100_bert").run
    written, data = exported(run, form=ExportFormat.JSON)
    decoded, events = decode(exported(run)[1]), json.loads(data)["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    slices = [e for e in events if e["ph"] == "X"]
    got = Counter(
        (f"{processes[e['pid']]}/{threads[e['pid'], e['tid']]}", e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
        for e in slices
    )
    assert got == Counter((decoded.path(s.track), s.name, s.start, s.duration) for s in decoded.slices)
    assert sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events) == written.flows
    assert sum(e["ph"] == "C" for e in events) == written.counter_values
    assert Counter(len(e.get("args", {})) for e in slices) == Counter(len(s.arguments) for s in decoded.slices)


HOSTILE = ['"quoted\\', "\x1b[31m\x00", "名前", "</script>"]


@pytest.mark.parametrize("form", list(ExportFormat))
def test_names_survive_as_they_are(form: ExportFormat) -> None:
    space = SpaceBuilder()
    line = space.plane("/host:CPU").line("main")
    for i, name in enumerate(HOSTILE):
        line.event(name, i * NS, NS // 2, note=name, big=1 << 60, number=float("nan"))
    data = exported(run_of(space), form=form)[1]
    if form is ExportFormat.PERFETTO:
        found = [(s.name, s.arguments["note"], s.arguments["big"]) for s in decode(data).slices]
    else:
        events = [e for e in json.loads(data)["traceEvents"] if e["ph"] == "X"]
        found = [(e["name"], e["args"]["note"], int(e["args"]["big"])) for e in events]
    assert found == [(name, name, 1 << 60) for name in HOSTILE]


def test_what_is_no_text_is_replaced() -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line("main").event(b"bad \xff\xc3 name", 0, NS)
    assert decode(exported(run_of(space))[1]).slices[0].name == "bad \ufffd\ufffd name"


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", ["custom_loop", "python_tracer"])
def test_a_cut_profile_exports_what_is_left(name: str, share: float) -> None:
    data = profile_bytes(name, "vm")
    run = Run.from_traces([read_trace(data[: int(len(data) * share)], "vm")])
    written, trace = exported(run)
    assert written.events == run.events > 0
    assert len(decode(trace).slices) == written.slices


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb") as file, pytest.raises(OSError, match="No space left"):
        write_trace(opened("custom_loop").run, file.fileno())
