# SPDX-License-Identifier: Apache-2.0
"""Messages of TensorFlow's profiler service, as bytes. Neither generated code nor a protobuf
library is needed, which would have to fit the framework's own.

Field numbers are those of `profiler_service.proto` and `profiler_options.proto` in openxla/xla
(`tsl/profiler/protobuf`).
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.protobuf_wire import encode_bytes, encode_integer, iter_fields

DEFAULT_PORT = 6009  # the port in TensorFlow's guide
NOTE_KEY = "outpace-note"  # key of the trailing metadata with a remark of Outpace's server
PROFILE_METHOD = "/tensorflow.ProfilerService/Profile"
VERSION_METHOD = "/outpace.Profiler/Version"  # a method that only Outpace's server has
# name of the record of Outpace's server: a client saves it as <host>.outpace.json
RECORD_TOOL = "outpace.json"
XPLANE_TOOL = "xplane.pb"  # name of the profile itself: a client saves it as <host>.xplane.pb
MAX_EVENTS = 1_000_000  # value that TensorFlow's own client sends; CPU and GPU servers ignore it


@dataclass(frozen=True)
class ProfileRequest:
    """Request of a client to a worker.

    duration_ms: duration of the capture, ms.
    host_level, python_level, device_level: tracer levels of the profiler.
    root, session, host: where a server that cannot return a profile writes it:
        `<root>/<session>/<host>.xplane.pb` on its own disk.
    emit: whether the profile is returned in the answer.
    start_ns: Unix time to begin at, ns; 0 for at once.
    """

    duration_ms: int
    host_level: int = 2
    python_level: int = 0
    device_level: int = 1
    root: str = ""
    session: str = ""
    host: str = ""
    emit: bool = True
    start_ns: int = 0

    def encode(self) -> bytes:
        """Return the message as bytes."""
        options = (
            _encode_number(5, 1)  # version; without it servers replace the levels by their defaults
            + _encode_number(1, 1)  # include tf.data operations, as TensorFlow's own client asks
            + _encode_number(2, self.host_level)
            + _encode_number(3, self.device_level)
            + _encode_number(4, self.python_level)
            # include the compiled programs (HLO), which is the default where the field is absent
            + _encode_number(7, 1)
            + _encode_number(8, self.start_ns)
            + _encode_number(9, self.duration_ms)
        )
        return (
            _encode_number(1, self.duration_ms)
            + _encode_number(2, MAX_EVENTS)
            + encode_bytes(3, XPLANE_TOOL)
            + encode_bytes(4, options)
            + encode_bytes(5, self.root)
            + encode_bytes(6, self.session)
            + encode_bytes(7, self.host)
            + _encode_number(9, int(self.emit))
        )

    @classmethod
    def decode(cls, data: bytes) -> ProfileRequest:
        """Return the request in a message. Raises ValueError when it is none."""
        outer = dict(iter_fields(data))
        options = dict(iter_fields(_as_bytes(outer.get(4, b""))))
        levels = {name: _as_int(options.get(field, 0)) for field, name in ((2, "host"), (4, "python"), (3, "device"))}
        if not options.get(5):  # version 0: the levels were not set
            levels = {"host": 2, "python": 0, "device": 1}
        return cls(
            duration_ms=_as_int(options.get(9, 0)) or _as_int(outer.get(1, 0)),
            host_level=levels["host"],
            python_level=levels["python"],
            device_level=levels["device"],
            root=_as_text(outer.get(5, b"")),
            session=_as_text(outer.get(6, b"")),
            host=_as_text(outer.get(7, b"")),
            emit=bool(outer.get(9, 0)),
            start_ns=_as_int(options.get(8, 0)),
        )


@dataclass(frozen=True)
class ProfileResponse:
    """Answer of a worker.

    xspace: the profile; None when it was written elsewhere.
    empty: whether no event was recorded.
    record: record of the capture, where the server is Outpace's.
    """

    xspace: memoryview | bytes | None
    empty: bool = False
    record: memoryview | bytes = b""

    def encode(self, emit: bool) -> bytes:
        """Return the message as bytes: the profile in its own field when the client set `emit`,
        otherwise as a file for the client to save.
        """
        data = b"" if self.xspace is None else bytes(self.xspace)
        body = encode_bytes(8, data) if emit else encode_bytes(6, encode_bytes(1, XPLANE_TOOL) + encode_bytes(2, data))
        record = encode_bytes(6, encode_bytes(1, RECORD_TOOL) + encode_bytes(2, bytes(self.record))) if self.record else b""
        return body + _encode_number(7, int(self.empty)) + record

    @classmethod
    def decode(cls, data: bytes) -> ProfileResponse:
        """Return the answer in a message, without copying the profile. Raises ValueError when it is
        none.
        """
        xspace: memoryview | bytes | None = None
        record: memoryview | bytes = b""
        empty = False
        for field, value in iter_fields(memoryview(data)):
            if field == 7:
                empty = bool(value)
            elif field == 8:
                xspace = _as_bytes(value)
            elif field == 6:
                tool = dict(iter_fields(_as_bytes(value)))
                name = _as_text(tool.get(1, b""))
                if name == RECORD_TOOL:
                    record = _as_bytes(tool.get(2, b""))
                elif name.endswith(XPLANE_TOOL) and xspace is None:
                    xspace = _as_bytes(tool.get(2, b""))
        return cls(xspace, empty, record)


def has_events(xspace: memoryview | bytes) -> bool:
    """Whether a profile contains any event: `XSpace.planes` (1), their `lines` (3), and the
    `events` of those (4).
    """
    planes = (plane for field, plane in iter_fields(memoryview(xspace)) if field == 1)
    lines = (line for plane in planes for field, line in iter_fields(_as_bytes(plane)) if field == 3)
    return any(field == 4 for line in lines for field, _ in iter_fields(_as_bytes(line)))


def _encode_number(field: int, value: int) -> bytes:
    """Return a number field; nothing for 0, which is what an absent field means."""
    return encode_integer(field, value) if value else b""


def _as_int(value: int | memoryview | bytes) -> int:
    """Return a field's number. Raises ValueError where it has bytes."""
    if not isinstance(value, int):
        raise ValueError("a number was expected, and bytes were found")
    return value


def _as_bytes(value: int | memoryview | bytes) -> memoryview:
    """Return a field's bytes. Raises ValueError where it has a number."""
    if isinstance(value, int):
        raise ValueError("bytes were expected, and a number was found")
    return memoryview(value)


def _as_text(value: int | memoryview | bytes) -> str:
    """Return a field's text."""
    return bytes(_as_bytes(value)).decode("utf-8", "replace")
