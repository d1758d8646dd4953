"""The messages of TensorFlow's profiler service, as bytes: no generated code, and no protobuf
library that has to fit the framework's own.

Field numbers are those of `profiler_service.proto` and `profiler_options.proto` in openxla/xla
(`tsl/profiler/protobuf`).
"""

from __future__ import annotations

from outpace._dataclass import dataclass
from outpace.model.protobuf_wire import encode_bytes, encode_integer, iter_fields

DEFAULT_PORT = 6009  # the one of TensorFlow's guide
NOTE_KEY = "outpace-note"  # trailing metadata of an answer: a remark of our own server for the client
PROFILE_METHOD = "/tensorflow.ProfilerService/Profile"
VERSION_METHOD = "/outpace.Profiler/Version"  # which our own server has, and no other
RECORD_TOOL = "outpace.json"  # what our own server noted beside it: a client saves it as <host>.outpace.json
XPLANE_TOOL = "xplane.pb"  # the tool whose data is the profile itself: a client saves it as <host>.xplane.pb
MAX_EVENTS = 1_000_000  # what TensorFlow's own client sends; CPU and GPU servers do not look at it


@dataclass(frozen=True)
class ProfileRequest:
    """What a client asks a worker for.

    `root`, `session` and `host` say where a server that cannot return a profile writes it:
    `<root>/<session>/<host>.xplane.pb` on its own disk. `emit` asks for the profile in the answer.
    `start_ns` is a Unix time to begin at, 0 for at once.
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
            _given(5, 1)  # version: without it, servers replace the levels by their defaults
            + _given(1, 1)  # tf.data operations, as TensorFlow's own client asks
            + _given(2, self.host_level)
            + _given(3, self.device_level)
            + _given(4, self.python_level)
            + _given(7, 1)  # the compiled programs (HLO), which are on by default where nothing is said
            + _given(8, self.start_ns)
            + _given(9, self.duration_ms)
        )
        return (
            _given(1, self.duration_ms)
            + _given(2, MAX_EVENTS)
            + encode_bytes(3, XPLANE_TOOL)
            + encode_bytes(4, options)
            + encode_bytes(5, self.root)
            + encode_bytes(6, self.session)
            + encode_bytes(7, self.host)
            + _given(9, int(self.emit))
        )

    @classmethod
    def decode(cls, data: bytes) -> ProfileRequest:
        """Read a message; raises ValueError when it is none."""
        outer = dict(iter_fields(data))
        options = dict(iter_fields(_bytes(outer.get(4, b""))))
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
    """What a worker answers: the profile (None when it was written elsewhere), whether no event was
    recorded, and the record of the capture where the server is ours.
    """

    xspace: memoryview | bytes | None
    empty: bool = False
    record: memoryview | bytes = b""

    def encode(self, emit: bool) -> bytes:
        """The message as bytes: the profile in its own field when the client asked for that,
        otherwise as a file for the client to save.
        """
        data = b"" if self.xspace is None else bytes(self.xspace)
        body = encode_bytes(8, data) if emit else encode_bytes(6, encode_bytes(1, XPLANE_TOOL) + encode_bytes(2, data))
        record = encode_bytes(6, encode_bytes(1, RECORD_TOOL) + encode_bytes(2, bytes(self.record))) if self.record else b""
        return body + _given(7, int(self.empty)) + record

    @classmethod
    def decode(cls, data: bytes) -> ProfileResponse:
        """Read a message without copying the profile; raises ValueError when it is none."""
        xspace: memoryview | bytes | None = None
        record: memoryview | bytes = b""
        empty = False
        for field, value in iter_fields(memoryview(data)):
            if field == 7:
                empty = bool(value)
            elif field == 8:
                xspace = _bytes(value)
            elif field == 6:
                tool = dict(iter_fields(_bytes(value)))
                name = _text(tool.get(1, b""))
                if name == RECORD_TOOL:
                    record = _bytes(tool.get(2, b""))
                elif name.endswith(XPLANE_TOOL) and xspace is None:
                    xspace = _bytes(tool.get(2, b""))
        return cls(xspace, empty, record)


def has_events(xspace: memoryview | bytes) -> bool:
    """Whether a profile holds any event: `XSpace.planes` (1), their `lines` (3), and the `events`
    of those (4).
    """
    planes = (plane for field, plane in iter_fields(memoryview(xspace)) if field == 1)
    lines = (line for plane in planes for field, line in iter_fields(_bytes(plane)) if field == 3)
    return any(field == 4 for line in lines for field, _ in iter_fields(_bytes(line)))


def _given(field: int, value: int) -> bytes:
    """A number; nothing for 0, which is what an absent field means."""
    return encode_integer(field, value) if value else b""


def _int(value: int | memoryview | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a number was expected, and bytes were found")
    return value


def _bytes(value: int | memoryview | bytes) -> memoryview:
    if isinstance(value, int):
        raise ValueError("bytes were expected, and a number was found")
    return memoryview(value)


def _text(value: int | memoryview | bytes) -> str:
    return bytes(_bytes(value)).decode("utf-8", "replace")
