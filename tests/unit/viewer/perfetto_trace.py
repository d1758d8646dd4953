"""Reads Perfetto's native format with protobuf's own parser, and does with the packets what
Perfetto's trace processor does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "bool": 8, "bytes": 12, "uint32": 13}
_SCHEMA = {  # names and numbers of protos/perfetto/trace in google/perfetto; texts as bytes, so that what is no UTF-8 shows
    "Clock": ["clock_id=1 uint32", "timestamp=2 uint64", "is_incremental=3 bool"],
    "ClockSnapshot": ["clocks=1 *Clock"],
    "Interned": ["iid=1 uint64", "text=2 bytes"],
    "InternedData": [
        "event_names=2 *Interned",
        "debug_annotation_names=3 *Interned",
        "debug_annotation_string_values=29 *Interned",
    ],
    "CounterDescriptor": ["unit=3 uint32"],
    "TrackDescriptor": [
        *("uuid=1 uint64", "name=2 bytes", "parent_uuid=5 uint64", "counter=8 CounterDescriptor", "child_ordering=11 uint32"),
        *(
            "sibling_order_rank=12 int32",
            "description=14 bytes",
            "sibling_merge_behavior=15 uint32",
            "sibling_merge_key_int=17 uint64",
        ),
    ],
    "DebugAnnotation": [
        *("name_iid=1 uint64", "uint_value=3 uint64 value", "int_value=4 int64 value", "double_value=5 double value"),
        *("string_value=6 bytes value", "string_value_iid=17 uint64 value"),
    ],
    "TrackEvent": [
        *("type=9 uint32", "name_iid=10 uint64", "track_uuid=11 uint64", "categories=22 *bytes", "counter_value=30 int64"),
        *("debug_annotations=4 *DebugAnnotation", "flow_ids=47 *fixed64", "terminating_flow_ids=48 *fixed64"),
    ],
    "TrackEventDefaults": ["track_uuid=11 uint64"],
    "TracePacketDefaults": ["timestamp_clock_id=58 uint32", "track_event_defaults=11 TrackEventDefaults"],
    "TracePacket": [
        *(
            "clock_snapshot=6 ClockSnapshot",
            "timestamp=8 uint64",
            "trusted_packet_sequence_id=10 uint32",
            "track_event=11 TrackEvent",
        ),
        *("interned_data=12 InternedData", "sequence_flags=13 uint32", "trace_packet_defaults=59 TracePacketDefaults"),
        "track_descriptor=60 TrackDescriptor",
    ],
    "Trace": ["packet=1 *TracePacket"],
}
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def _class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="outpace_test_perfetto.proto", package="perfetto.test", syntax="proto2")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for text in fields:
            head, kind, *oneof = text.split()
            label, kind = (3, kind[1:]) if kind.startswith("*") else (1, kind)
            entry = message.field.add(name=head.split("=")[0], number=int(head.split("=")[1]), label=label)
            if kind in _TYPES:
                entry.type = _TYPES[kind]
            else:
                entry.type, entry.type_name = 11, f".perfetto.test.{kind}"
            if oneof:
                if not message.oneof_decl:
                    message.oneof_decl.add(name=oneof[0])
                entry.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.test.Trace"))


TraceFile = _class()


@dataclass
class Slice:
    """A row of the slice table."""

    track: int
    name: str
    start: int
    depth: int
    duration: int = -1
    category: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    flows_out: list[int] = field(default_factory=list)
    flows_in: list[int] = field(default_factory=list)


@dataclass
class Decoded:
    """tracks: descriptor by uuid; slices: in the file's order; counters: (time, value) by track."""

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    counters: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def name(self, track: int) -> str:
        return bytes(self.tracks[track].name).decode()

    def path(self, track: int) -> str:
        """Section and track."""
        return f"{self.name(self.tracks[track].parent_uuid)}/{self.name(track)}"

    def written_on(self, path: str) -> list[Slice]:
        """Slices of a track with all its lanes, in the order of the file."""
        lanes = {track for track in self.tracks if self.tracks[track].parent_uuid and self.path(track) == path}
        return [s for s in self.slices if s.track in lanes]

    def on(self, path: str) -> list[Slice]:
        """Slices of a track with all its lanes, in order of time."""
        return sorted(self.written_on(path), key=lambda s: s.start)


@dataclass
class _Sequence:
    now: int
    track: int
    names: dict[int, str] = field(default_factory=dict)
    argument_names: dict[int, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    open: list[Slice] = field(default_factory=list)


def decode(data: bytes) -> Decoded:
    """All slices of a trace. AssertionError where Perfetto would drop something or
    count an error.
    """
    result, sequences = Decoded(), {}
    for packet in TraceFile.FromString(data).packet:
        assert packet.trusted_packet_sequence_id > 0
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in result.tracks
            assert track.parent_uuid == 0 or track.parent_uuid in result.tracks
            result.tracks[track.uuid] = track
        elif packet.HasField("clock_snapshot"):
            mine, trace = packet.clock_snapshot.clocks
            assert (mine.clock_id, mine.timestamp, mine.is_incremental, trace.clock_id) == (64, 0, True, 6)
            assert packet.sequence_flags == 1
            assert packet.trace_packet_defaults.timestamp_clock_id == 64
            track = packet.trace_packet_defaults.track_event_defaults.track_uuid
            assert packet.trusted_packet_sequence_id not in sequences
            assert track in result.tracks
            sequences[packet.trusted_packet_sequence_id] = _Sequence(trace.timestamp, track)
        else:
            _event(packet, sequences[packet.trusted_packet_sequence_id], result)
    assert not any(sequence.open for sequence in sequences.values())
    return result


def _event(packet: Any, sequence: _Sequence, result: Decoded) -> None:
    sequence.now += packet.timestamp
    interned = packet.interned_data
    for table, entries in (
        (sequence.names, interned.event_names),
        (sequence.argument_names, interned.debug_annotation_names),
        (sequence.texts, interned.debug_annotation_string_values),
    ):
        for entry in entries:
            assert entry.iid > 0
            assert entry.iid not in table
            table[entry.iid] = bytes(entry.text).decode()
    event = packet.track_event
    if event.type == COUNTER:
        result.counters.setdefault(sequence.track, []).append((sequence.now, event.counter_value))
    elif event.type == END:
        last = sequence.open.pop()
        last.duration = sequence.now - last.start
    else:
        assert event.type in (BEGIN, INSTANT)
        assert len(sequence.open) < 255, "Perfetto drops what is nested deeper"
        found = Slice(sequence.track, sequence.names[event.name_iid], sequence.now, len(sequence.open))
        found.category = b"".join(event.categories).decode()
        found.arguments = {sequence.argument_names[a.name_iid]: _value(a, sequence) for a in event.debug_annotations}
        found.flows_out, found.flows_in = list(event.flow_ids), list(event.terminating_flow_ids)
        result.slices.append(found)
        if event.type == BEGIN:
            sequence.open.append(found)
        else:
            found.duration = 0


def _value(annotation: Any, sequence: _Sequence) -> Any:
    kind = annotation.WhichOneof("value")
    value = getattr(annotation, kind)
    return sequence.texts[value] if kind == "string_value_iid" else value.decode() if kind == "string_value" else value
