"""protobuf's own XSpace classes, from a schema written out here: the witness that the decoder is
held against.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"int64": 3, "uint64": 4, "double": 1, "string": 9, "bytes": 12}
_SCHEMA = {
    "XStatMetadata": ["id=1 int64", "name=2 string", "description=3 string"],
    "XStat": [
        "metadata_id=1 int64",
        "double_value=2 double value",
        "uint64_value=3 uint64 value",
        "int64_value=4 int64 value",
        "str_value=5 string value",
        "bytes_value=6 bytes value",
        "ref_value=7 uint64 value",
    ],
    "XEventMetadata": [
        "id=1 int64",
        "name=2 string",
        "metadata=3 bytes",
        "display_name=4 string",
        "stats=5 *XStat",
        "child_id=6 *int64",
    ],
    "XEvent": [
        "metadata_id=1 int64",
        "offset_ps=2 int64 data",
        "num_occurrences=5 int64 data",
        "duration_ps=3 int64",
        "stats=4 *XStat",
    ],
    "XLine": [
        "id=1 int64",
        "display_id=10 int64",
        "name=2 string",
        "display_name=11 string",
        "timestamp_ns=3 int64",
        "duration_ps=9 int64",
        "events=4 *XEvent",
    ],
    "XPlane": [
        "id=1 int64",
        "name=2 string",
        "lines=3 *XLine",
        "event_metadata=4 map XEventMetadata",
        "stat_metadata=5 map XStatMetadata",
        "stats=6 *XStat",
    ],
    "XSpace": ["planes=1 *XPlane", "errors=2 *string", "warnings=3 *string", "hostnames=4 *string"],
}


def _field(message: Any, text: str) -> None:
    head, kind, *rest = text.split()
    name, number = head.split("=")
    field = message.field.add(name=name, number=int(number), label=1)
    if kind == "map":
        entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=3)
        entry.field.add(name="value", number=2, label=1, type=11, type_name=f".outpace.test.{rest[0]}")
        field.label, field.type, field.type_name = 3, 11, f".outpace.test.{message.name}.{entry_name}"
        return
    if kind.startswith("*"):
        field.label, kind = 3, kind[1:]
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = 11, f".outpace.test.{kind}"
    if rest:
        if not message.oneof_decl:
            message.oneof_decl.add(name=rest[0])
        field.oneof_index = 0


def _space_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="outpace_test_xplane.proto", package="outpace.test", syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _field(message, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("outpace.test.XSpace"))


XSpace = _space_class()
