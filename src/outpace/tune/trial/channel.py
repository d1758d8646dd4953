"""What a race and a variant's process say to each other: one JSON object per line, over two pipes."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

_CHUNK = 65536


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """One end: `read` and `write` are descriptors, which it owns."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send a message; raises Closed when nobody listens."""
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except OSError as error:
            raise Closed from error

    def receive(self, timeout: float | None = None) -> dict[str, Any]:
        """The next message. Raises Closed when the other side is gone, TimeoutError after `timeout` seconds without one."""
        end = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._rest:
            wait = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._read], [], [], wait)[0]:
                raise TimeoutError
            data = os.read(self._read, _CHUNK)
            if not data:
                raise Closed
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Close both descriptors."""
        for descriptor in (self._read, self._write):
            if descriptor >= 0:
                os.close(descriptor)
        self._read = self._write = -1
