# SPDX-License-Identifier: Apache-2.0
"""`Content`: the bytes of a profile, in memory or in its file, from which blocks are read when they
are needed.

The file is never mapped: it may change while it is open, and access to a mapped part that was cut
off would end the process.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from outpace.model import ProfileError
from outpace.model.arrays import Bytes, Column

_BLOCK = 1 << 20
_READ_AHEAD = 64 << 10  # bytes that are read from the file for one text, because further texts are close to it


FileState = tuple[int, int]
"""State of a file, which differs after a change: its size, and the time of its last change in ns.
"""


class Content:
    """The uncompressed bytes of a profile.

    memory: the bytes, or None where they are in a file.
    state: state of the file when it was opened. Every read raises ProfileError once the file has
        another state.
    descriptor: the open file, which the object closes in the end.
    name: of the file, for messages.
    """

    def __init__(self, memory: Bytes | None, state: FileState, descriptor: int = -1, name: str = "") -> None:
        self.memory, self.descriptor, self._state, self._name = memory, descriptor, state, name
        self._cached = (0, b"")

    @classmethod
    def from_bytes(cls, data: Bytes) -> Content:
        """Return content in memory."""
        return cls(data, (len(data), 0))

    def __len__(self) -> int:
        return self._state[0]

    def require_unchanged(self) -> None:
        """Raise ProfileError where the file's state differs from the one at its opening."""
        if self.memory is None:
            self._require_same()

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return the bytes [offset, offset + size), fewer at the end of the content."""
        if self.memory is not None:
            return self.memory[offset : offset + size].tobytes()
        begin, data = self._cached
        if not begin <= offset <= offset + size <= begin + len(data):
            begin, data = offset, self._read(offset, max(size, _READ_AHEAD))
            self._cached = begin, data
        return data[offset - begin : offset - begin + size]

    def text_at(self, offset: int, size: int) -> str:
        """Return one text; bytes that are no UTF-8 become U+FFFD."""
        return self.bytes_at(offset, size).decode("utf-8", "replace")

    def texts_at(self, offsets: Column, sizes: Column) -> list[str]:
        """Return the texts at several places."""
        return list(map(self.text_at, offsets.tolist(), sizes.tolist()))

    def load_all(self) -> Bytes:
        """Return all bytes, which are kept in memory from now on."""
        if self.memory is None:
            memory = np.empty(len(self), np.uint8)
            self._read_into(memory.data, 0)
            self.memory = memory  # the file stays open because other threads may be reading it
        return self.memory

    def _read(self, offset: int, size: int) -> bytes:
        block = bytearray(min(size, max(len(self) - offset, 0)))
        self._read_into(memoryview(block), offset)
        return bytes(block)

    def _read_into(self, block: memoryview, offset: int) -> None:
        got = 0
        if sys.platform != "win32":  # on Windows all content is in memory
            try:
                while got < len(block) and (part := os.pread(self.descriptor, min(len(block) - got, _BLOCK), offset + got)):
                    block[got : got + len(part)] = part
                    got += len(part)
            except OSError as error:
                raise self._unreadable_error(error) from error
        self._require_same()
        if got < len(block):
            raise changed_error(self._name)

    def _require_same(self) -> None:
        try:
            same = read_file_state(self.descriptor) == self._state
        except OSError as error:
            raise self._unreadable_error(error) from error
        if not same:
            raise changed_error(self._name)

    def _unreadable_error(self, error: OSError) -> ProfileError:
        return ProfileError(f"{self._name} cannot be read any more: {error.strerror or error}.")

    def __del__(self) -> None:
        if getattr(self, "descriptor", -1) >= 0:
            os.close(self.descriptor)


def read_file_state(descriptor: int) -> FileState:
    """Return the present state of an open file."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


def changed_error(source: str) -> ProfileError:
    """Return the error for a file that changed while it was read."""
    return ProfileError(f"{source} changed while it was read. Open it again once whatever writes it is done.")
