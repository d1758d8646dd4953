"""What the builder writes is what protobuf parses, and what the decoder decodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outpace.model.protobuf_wire import encode_varint
from outpace.testing import Inline, SpaceBuilder, Unsigned
from outpace.trace import read_trace
from tests.property.test_decode import decoded, expected
from tests.support import FAST
from tests.xspace_proto import XSpace

EXAMPLES = 20 if FAST else 200
names = st.text(max_size=8)
times = st.integers(0, 10**13)
keys = st.text(max_size=8)
values = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(0, 2**63 - 1).map(Unsigned),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.text(max_size=8).map(Inline),
    st.binary(max_size=8),
)
stats = st.dictionaries(keys, values, max_size=4)
events = st.tuples(names, times, times, st.none() | st.integers(1, 2**40), stats)
lines = st.tuples(names, st.integers(-(2**63), 2**63 - 1), times, st.lists(events, max_size=6))
described = st.dictionaries(names, st.tuples(names, stats), max_size=2)
planes = st.tuples(names.map("/host:{}".format), stats, described, st.lists(lines, max_size=3, unique_by=lambda line: line[1]))
contents = st.lists(planes, min_size=1, max_size=3)


def built(content: list[Any]) -> SpaceBuilder:
    space = SpaceBuilder("worker-0")
    for name, plane_stats, details, plane_lines in content:
        plane = space.plane(name)
        for key, value in plane_stats.items():
            plane.stat(key, value)
        for event, (title, event_stats) in details.items():
            plane.describe(event, title, **event_stats)
        for line_name, line_id, stamp, line_events in plane_lines:
            line = plane.line(line_name, id=line_id, timestamp_ns=stamp)
            for event, start, duration, occurrences, event_stats in line_events:
                line.event(event, 0 if occurrences else start, duration, num_occurrences=occurrences, **event_stats)
    return space


def parsed_value(stat: Any, plane: Any) -> Any:
    kind = stat.WhichOneof("value")
    value = plane.stat_metadata[stat.ref_value].name if kind == "ref_value" else getattr(stat, kind)
    if kind == "uint64_value" and value < 2**63:
        return Unsigned(value)
    return Inline(value) if kind == "str_value" else value


def typed(found: dict[str, Any]) -> list[tuple[str, type, Any]]:
    return sorted(((k, type(v), repr(v)) for k, v in found.items()), key=repr)


def parsed_stats(message: Any, plane: Any) -> list[tuple[str, type, Any]]:
    return typed({plane.stat_metadata[s.metadata_id].name: parsed_value(s, plane) for s in message.stats})


def asked(event: Any) -> Any:
    name, start, duration, occurrences, event_stats = event
    return (0 if occurrences else start, -duration, name, occurrences, typed(event_stats))


def parsed(event: Any, plane: Any) -> Any:
    occurrences = event.num_occurrences if event.WhichOneof("data") == "num_occurrences" else None
    name = plane.event_metadata[event.metadata_id].name
    return (event.offset_ps, -event.duration_ps, name, occurrences, parsed_stats(event, plane))


@given(contents)
@settings(max_examples=EXAMPLES)
def test_protobuf_parses_what_was_built(content: list[Any]) -> None:
    space = XSpace.FromString(built(content).to_bytes())
    assert list(space.hostnames) == ["worker-0"]
    assert [p.name for p in space.planes] == [name for name, *_ in content]
    for plane, (_, plane_stats, details, plane_lines) in zip(space.planes, content, strict=True):
        assert parsed_stats(plane, plane) == typed(plane_stats)
        found_details = {m.name: (m.display_name, parsed_stats(m, plane)) for m in plane.event_metadata.values()}
        asked_details = {name: (title, typed(found)) for name, (title, found) in details.items()}
        assert asked_details == {name: found_details[name] for name in details}
        assert [(x.name, x.id, x.timestamp_ns) for x in plane.lines] == [line[:3] for line in plane_lines]
        for line, (*_, line_events) in zip(plane.lines, plane_lines, strict=True):
            found = [parsed(event, plane) for event in line.events]
            assert [f[:2] for f in found] == sorted(f[:2] for f in found), "events stand in order"
            assert sorted(found, key=repr) == sorted(map(asked, line_events), key=repr)


@given(contents)
@settings(max_examples=EXAMPLES)
def test_the_decoder_reads_what_was_built(content: list[Any]) -> None:
    data = built(content).to_bytes()
    trace = read_trace(data)
    assert trace.damages == ()
    assert trace.hostnames == ("worker-0",)
    assert decoded(trace) == expected(XSpace.FromString(data))


@given(st.integers(-(2**63), 2**64 - 1))
def test_varints_have_seven_bits_a_byte(value: int) -> None:
    data = encode_varint(value)
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]
    assert sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data)) == value % 2**64


def test_an_aggregated_event_has_no_start() -> None:
    line = SpaceBuilder().plane("/host:CPU").line("main")
    with pytest.raises(ValueError, match="aggregated"):
        line.event("many", 5, 10, num_occurrences=3)


def test_names_are_bytes_where_the_test_wants_broken_text() -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line(b"\xff").event(b"broken \xff\xfe name", 0, 10)
    assert read_trace(space.to_bytes()).names[0] == "broken �� name"
