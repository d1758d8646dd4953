"""The messages of TensorFlow's profiler service, as bytes: no generated code, and no protobuf library that has to fit the framework's own.

Field numbers are those of `profiler_service.proto` and `profiler_options.proto` in openxla/xla (`tsl/profiler/protobuf`).
"""

from __future__ import annotations

from collections.abc import Iterator

from outpace._dataclass import dataclass

DEFAULT_PORT = 6009  # the one of TensorFlow's guide
NOTE_KEY = "outpace-note"  # trailing metadata of an answer: a remark of our own server for the client
PROFILE_METHOD = "/tensorflow.ProfilerService/Profile"
XPLANE_TOOL = "xplane.pb"  # the tool whose data is the profile itself: a client saves it as <host>.xplane.pb
MOST_EVENTS = 1_000_000  # what TensorFlow's own client sends; CPU and GPU servers do not look at it
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class ProfileRequest:
    """What a client asks a worker for.

    `root`, `session` and `host` say where a server that cannot return a profile writes it: `<root>/<session>/<host>.xplane.pb` on its own
    disk. `emit` asks for the profile in the answer. `start_ns` is a Unix time to begin at, 0 for at once.
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
        """The message as bytes."""
        options = (
            _integer(5, 1)  # version: without it, servers replace the levels by their defaults
            + _integer(1, 1)  # tf.data operations, as TensorFlow's own client asks
            + _integer(2, self.host_level)
            + _integer(3, self.device_level)
            + _integer(4, self.python_level)
            + _integer(7, 1)  # the compiled programs (HLO), which are on by default where nothing is said
            + _integer(8, self.start_ns)
            + _integer(9, self.duration_ms)
        )
        return (
            _integer(1, self.duration_ms)
            + _integer(2, MOST_EVENTS)
            + _blob(3, XPLANE_TOOL.encode())
            + _blob(4, options)
            + _blob(5, self.root.encode())
            + _blob(6, self.session.encode())
            + _blob(7, self.host.encode())
            + _integer(9, int(self.emit))
        )

    @classmethod
    def decode(cls, data: bytes) -> ProfileRequest:
        """Read a message; raises ValueError when it is none."""
        outer = dict(fields(data))
        options = dict(fields(_bytes(outer.get(4, b""))))
        levels = {name: _int(options.get(field, 0)) for field, name in ((2, "host"), (4, "python"), (3, "device"))}
        if not options.get(5):  # version 0: the levels were not set
            levels = {"host": 2, "python": 0, "device": 1}
        return cls(
            duration_ms=_int(options.get(9, 0)) or _int(outer.get(1, 0)),
            host_level=levels["host"],
            python_level=levels["python"],
            device_level=levels["device"],
            root=_text(outer.get(5, b"")),
            session=_text(outer.get(6, b"")),
            host=_text(outer.get(7, b"")),
            emit=bool(outer.get(9, 0)),
            start_ns=_int(options.get(8, 0)),
        )


@dataclass(frozen=True)
class ProfileResponse:
    """What a worker answers: the profile (None when it was written elsewhere), and whether no event was recorded."""

    xspace: memoryview | bytes | None
    empty: bool = False

    def encode(self, emit: bool) -> bytes:
        """The message as bytes: the profile in its own field when the client asked for that, otherwise as a file for the client to save."""
        data = b"" if self.xspace is None else bytes(self.xspace)
        body = _blob(8, data) if emit else _blob(6, _blob(1, XPLANE_TOOL.encode()) + _blob(2, data))
        return body + _integer(7, int(self.empty))

    @classmethod
    def decode(cls, data: bytes) -> ProfileResponse:
        """Read a message without copying the profile; raises ValueError when it is none."""
        xspace: memoryview | bytes | None = None
        empty = False
        for field, value in fields(data):
            if field == 7:
                empty = bool(value)
            elif field == 8:
                xspace = _bytes(value)
            elif field == 6 and xspace is None:
                tool = dict(fields(_bytes(value)))
                if _text(tool.get(1, b"")).endswith(XPLANE_TOOL):
                    xspace = _bytes(tool.get(2, b""))
        return cls(xspace, empty)


def has_events(xspace: memoryview | bytes) -> bool:
    """Whether a profile holds any event: `XSpace.planes` (1), their `lines` (3), and the `events` of those (4)."""
    planes = (plane for field, plane in fields(xspace) if field == 1)
    lines = (line for plane in planes for field, line in fields(_bytes(plane)) if field == 3)
    return any(field == 4 for line in lines for field, _ in fields(_bytes(line)))


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Fields of a message in order: (number, value), a view where the value has a length. Raises ValueError for damaged bytes."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        tag, at = _varint_at(view, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint_at(view, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint_at(view, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at} is none that protobuf uses")
        if at + size > len(view):
            raise ValueError(f"a field of {size} bytes at byte {at} is cut off")
        yield tag >> 3, view[at : at + size]
        at += size


def _varint_at(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(view) and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError(f"a number at byte {at} does not end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _integer(field: int, value: int) -> bytes:
    """An unsigned field; nothing for 0, which is what an absent field means."""
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _blob(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def _int(value: int | memoryview | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a number was expected, and bytes were found")
    return value


def _bytes(value: int | memoryview | bytes) -> memoryview | bytes:
    if isinstance(value, int):
        raise ValueError("bytes were expected, and a number was found")
    return value


def _text(value: int | memoryview | bytes) -> str:
    return bytes(_bytes(value)).decode("utf-8", "replace")
