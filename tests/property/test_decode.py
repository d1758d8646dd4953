"""The decoder equals protobuf's own parse, on real profiles and on messages that
Hypothesis makes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outpace.model import ProfileError
from outpace.trace import Trace, read_trace
from tests.support import FAST, SOME, profile_bytes, profile_path
from tests.xspace_proto import XSpace

EXAMPLES = 20 if FAST else 300
Event = tuple[Any, ...]
SMALL = [p for p in SOME if p not in ("keras_fit_multi_step", "multi_host", "tfdata_heavy")]


def value_of(stat: Any, plane: Any) -> Any:
    kind = stat.WhichOneof("value")
    if kind == "ref_value":
        return plane.stat_metadata[stat.ref_value].name if stat.ref_value in plane.stat_metadata else None
    return getattr(stat, kind) if kind else None


def stats_of(event: Any, plane: Any) -> tuple[tuple[str, str], ...]:
    """Of several stats of a name the first."""
    found: dict[str, str] = {}
    for stat in event.stats:
        if stat.metadata_id in plane.stat_metadata:
            found.setdefault(plane.stat_metadata[stat.metadata_id].name, repr(value_of(stat, plane)))
    return tuple(sorted(found.items()))


def expected(space: Any) -> dict[tuple[int, int], list[Event]]:
    """Events by (plane, line id) as protobuf reads them, in the decoder's order."""
    stamps = [line.timestamp_ns for plane in space.planes for line in plane.lines if line.events]
    origin = min(stamps, default=0)
    lines: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for i, plane in enumerate(space.planes):
        for line in plane.lines:
            for event in line.events:
                known = event.metadata_id in plane.event_metadata
                name = plane.event_metadata[event.metadata_id].name if known else "(name lost)"
                start = (line.timestamp_ns - origin) * 1000 + event.offset_ps
                occurrences = event.num_occurrences if event.WhichOneof("data") == "num_occurrences" else 0
                lines[i, line.id].append((start, -event.duration_ps, name, stats_of(event, plane), occurrences))
    return {key: sorted(events) for key, events in lines.items()}


def decoded(trace: Trace) -> dict[tuple[int, int], list[Event]]:
    stats: dict[int, dict[str, str]] = defaultdict(dict)
    for name, column in trace.read_stats(list(dict.fromkeys(trace.stat_names))).items():
        assert (np.diff(column.rows) > 0).all(), "one value a row"
        for at, row in enumerate(column.rows.tolist()):
            stats[row][name] = repr(column.value(at))
    lines: dict[tuple[int, int], list[Event]] = {}
    for i in range(len(trace.lines)):
        events = []
        for row in range(*trace.lines.row_slice(i).indices(len(trace))):
            name = trace.names[trace.name[row]]
            known = tuple(sorted(stats[row].items()))
            events.append((int(trace.start[row]), -int(trace.duration[row]), name, known, trace.occurrences.get(row, 0)))
        order = [(e[0], e[1]) for e in events]
        assert order == sorted(order), "events of a line come by start, longer first"
        if events:
            lines[int(trace.lines.plane[i]), int(trace.lines.id[i])] = sorted(events)
    return lines


@pytest.mark.parametrize("name", SMALL)
def test_real_profiles_decode_as_protobuf_reads_them(name: str) -> None:
    for file in profile_path(name).glob("*.xplane.pb*"):
        data = profile_bytes(name, file.name.split(".xplane")[0])
        space, trace = XSpace.FromString(data), read_trace(data)
        assert decoded(trace) == expected(space)
        assert trace.damages == ()
        assert [p.name for p in trace.planes] == [p.name for p in space.planes]
        assert trace.hostnames == tuple(space.hostnames)
        for ours, theirs in zip(trace.planes, space.planes, strict=True):
            assert {k: repr(v) for k, v in ours.stats.items()} == dict(stats_of(theirs, theirs))


ids = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)
times = st.integers(0, 10**13)
stat_values = st.one_of(
    st.fixed_dictionaries({"double_value": st.floats(allow_nan=False)}),
    st.fixed_dictionaries({"uint64_value": st.integers(0, 2**64 - 1)}),
    st.fixed_dictionaries({"int64_value": st.integers(-(2**63), 2**63 - 1)}),
    st.fixed_dictionaries({"str_value": st.text(max_size=20)}),
    st.fixed_dictionaries({"bytes_value": st.binary(max_size=20)}),
    st.fixed_dictionaries({"ref_value": st.integers(0, 6)}),
    st.just({}),
)


@st.composite
def spaces(draw: st.DrawFn) -> Any:
    """An XSpace with any ids, repeated lines, unknown names, names under several ids, every kind of
    stat, some of them several times, aggregated events and unsorted times.
    """
    space = XSpace(
        hostnames=draw(st.lists(st.text(max_size=5), max_size=2)), errors=draw(st.lists(st.text(max_size=5), max_size=2))
    )
    for index in range(draw(st.integers(1, 3))):
        plane = space.planes.add(id=draw(ids), name=f"/host:{index}")
        names = draw(st.lists(ids, max_size=5, unique=True))
        for name in names:
            plane.event_metadata[name].id = name
            plane.event_metadata[name].name = draw(st.text(max_size=10))
        for stat in range(draw(st.integers(0, 5))):
            plane.stat_metadata[stat].id = stat
            plane.stat_metadata[stat].name = f"stat{draw(st.integers(0, 3))}"
        for _ in range(draw(st.integers(0, 3))):
            line = plane.lines.add(id=draw(st.integers(-2, 2)), timestamp_ns=draw(times), name=draw(st.text(max_size=5)))
            for _ in range(draw(st.integers(0, 6))):
                event = line.events.add(metadata_id=draw(st.sampled_from([*names, 999])), duration_ps=draw(times))
                if draw(st.booleans()):
                    event.offset_ps = draw(times)
                elif draw(st.booleans()):
                    event.num_occurrences = draw(st.integers(1, 100))
                for stat in draw(st.lists(st.integers(0, 6), max_size=4)):
                    event.stats.add(metadata_id=stat, **draw(stat_values))
    return space


@given(spaces())
@settings(max_examples=EXAMPLES)
def test_made_messages_decode_as_protobuf_reads_them(space: Any) -> None:
    trace = read_trace(space.SerializeToString())
    assert decoded(trace) == expected(space)
    assert trace.hostnames == tuple(space.hostnames)
    assert trace.messages == tuple(space.errors)


@given(spaces(), st.data())
@settings(max_examples=EXAMPLES)
def test_damage_never_fails_and_is_told(space: Any, data: st.DataObject) -> None:
    """Whatever a truncated or altered file holds, reading ends in a trace, or in a sentence."""
    whole = bytearray(space.SerializeToString())
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole))) :]
    for _ in range(data.draw(st.integers(0, 4))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        trace = read_trace(bytes(whole))
    except ProfileError as error:
        told = (
            "is not a TensorFlow or JAX profile",
            "no TensorFlow or JAX profile",
            "is a truncated profile",
            "text conversion",
        )
        assert any(sentence in str(error) for sentence in told)
        return
    for column in trace.read_stats(list(dict.fromkeys(trace.stat_names))).values():
        assert (np.diff(column.rows) > 0).all()
    parent, subtree_end = trace.parent[:], trace.compute_subtree_ends(np.arange(len(trace)))
    assert np.all(parent < np.arange(len(trace)))
    assert np.all(subtree_end > np.arange(len(trace)))
    assert np.all(trace.duration[:] >= 0)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_cut_file_keeps_what_stands_before_the_cut(share: float) -> None:
    whole = profile_bytes("custom_loop", "vm")
    cut = read_trace(whole[: int(len(whole) * share)])
    full = read_trace(whole)
    assert cut.damages, "what is missing is stated"
    assert len(cut) <= len(full)
    assert len(cut) >= int(len(full) * share * 0.8), "nearly all events before the cut are there"
