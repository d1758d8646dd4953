# SPDX-License-Identifier: Apache-2.0
"""Reading of a profile's bytes: a large file is read later, block by block; all others are read or
decompressed into memory.
"""

from __future__ import annotations

import errno
import gzip
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from outpace.model import NotFoundError, ProfileError
from outpace.model.arrays import Bytes
from outpace.model.input_files import PROFILE, allocated_size, open_file
from outpace.trace.content import Content, FileState, changed_error, read_file_state
from outpace.trace.formats import InMemoryProfile

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK, _PACKED = 1 << 20, 1 << 12
_UNPACKED, _UNPACKED_PER_BYTE = (
    4 << 20,
    64,
)  # maximum unpacked size, bytes: a constant, plus this per byte; profiles need 2 to 7
_TICK = 20_000_000  # resolution of file times, ns: two writes that are closer may give a file the same time
_AT_ONCE = 8 << 20  # size in bytes below which a file is read whole, so that later changes of the file have no effect


def read_content(source: Path | InMemoryProfile) -> tuple[Content, str]:
    """Return (the uncompressed bytes of a profile, a remark on lost data, "" where nothing is
    lost).

    Raises NotFoundError where the file is missing or unreadable, and ProfileError where it is
    empty, changes while it is read, or unpacks to more than a profile of its size does.
    """
    if isinstance(source, InMemoryProfile):
        data, remark = _read_memory(source)
    else:
        try:
            with open_file(source, PROFILE) as file:
                if _is_read_later(file, source):
                    return Content(None, _wait_until_settled(file, source), os.dup(file.fileno()), str(source)), ""
                file.seek(0)
                data, remark = _read_unchanged(
                    source, file, _read_compressed if _is_compressed(file.read(2), source) else _read_bytes
                )
        except FileNotFoundError as error:
            raise NotFoundError(f"There is no file {source}.") from error
        except OSError as error:
            raise NotFoundError(f"{source} cannot be read: {error.strerror or error}.") from error
    return Content.from_bytes(data), remark


def _is_fresh(changed_ns: int) -> bool:
    """Whether a file changed so recently that another write may give it the same time."""
    return 0 <= time.time_ns() - changed_ns < _TICK


def _is_read_later(file: BufferedReader, path: Path) -> bool:
    """Whether the bytes are read from the file later, when they are needed: for large uncompressed
    files.
    """
    status = os.fstat(file.fileno())
    return sys.platform != "win32" and status.st_size >= _AT_ONCE and not _is_compressed(file.read(2), path)


def _wait_until_settled(file: BufferedReader, path: Path) -> FileState:
    """Return the state of a file after waiting until its last change is not recent. Raises
    ProfileError where it changes meanwhile.
    """
    state = read_file_state(file.fileno())
    while _is_fresh(state[1]):
        time.sleep(_TICK / 1e9)
        if read_file_state(file.fileno()) != state:
            raise changed_error(str(path))
    return state


def _read_memory(place: InMemoryProfile) -> tuple[Bytes, str]:
    """Return the content of a profile in memory, without a copy unless it is compressed."""
    if _is_compressed(place.data[:2], place):
        return _decompress(BytesIO(place.data), len(place.data), place)
    return np.frombuffer(place.data, np.uint8), ""


def _is_compressed(magic: bytes, place: Path | InMemoryProfile) -> bool:
    """Whether `magic`, the first bytes, are those of gzip. Raises ProfileError where it is
    empty.
    """
    if not magic:
        raise ProfileError(f"{place} is empty (0 bytes): the capture was interrupted or the disk was full. Capture again.")
    return magic == _GZIP_MAGIC


def _read_unchanged(
    path: Path, file: BufferedReader, reader: Callable[[BufferedReader, int, Path], tuple[Bytes, str]]
) -> tuple[Bytes, str]:
    """Return the result of `reader` for a file whose state is equal before and after. The file is
    read again where a recent write may have gone unnoticed.
    """
    while True:
        before = read_file_state(file.fileno())
        fresh = _is_fresh(before[1])
        file.seek(0)
        content = reader(file, before[0], path)
        if read_file_state(file.fileno()) != before:
            raise changed_error(str(path))
        if not fresh:
            content[0].setflags(write=False)
            return content
        time.sleep(_TICK / 1e9)


def _read_bytes(file: BufferedReader, size: int, path: Path) -> tuple[Bytes, str]:
    data = np.empty(size, np.uint8)
    view, at = data.data, 0
    while at < size and (got := file.readinto(view[at : at + _BLOCK])):
        at += got
    if at < size:
        raise changed_error(str(path))
    return data, ""


def _read_compressed(file: BufferedReader, size: int, path: Path) -> tuple[Bytes, str]:
    return _decompress(file, min(size, allocated_size(file.fileno())), path)


def _decompress(file: BinaryIO, size: int, path: Path | InMemoryProfile) -> tuple[Bytes, str]:
    most, content, remark = _UNPACKED + _UNPACKED_PER_BYTE * size, bytearray(), ""
    try:
        for block in _blocks(file):
            content += block
            if len(content) > most:
                raise ProfileError(
                    f"{path} unpacks to more than {most >> 20:,} MiB from {size:,} bytes, as no profile does. If you trust it, "
                    "unpack it with gunzip and open what that gives."
                )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        remark = f"the gzip stream of {path.name or path} ends in damage ({error})"
    if not content:
        raise ProfileError(f"{path} is a gzip file without readable content. Copy or capture it again.")
    return np.frombuffer(content, np.uint8), remark


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a gzip file's members in blocks. At damage, first all content before it
    is yielded, then the error is raised.

    The module `gzip` is not used because it reads the zeros that may follow a member byte by byte.
    """
    packed = file.read(_PACKED)
    while packed:
        packed += file.read(1) if len(packed) == 1 else b""
        if not packed.startswith(_GZIP_MAGIC):
            raise gzip.BadGzipFile(f"Not a gzipped file ({packed[:2]!r})")
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not member.eof:
            if not packed:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            before = member.copy()
            try:
                yield member.decompress(packed)
            except zlib.error:  # zlib returns nothing of a block with damage, so the block is repeated byte by byte
                yield from (before.decompress(bytes((byte,))) for byte in packed)
            packed = member.unused_data or file.read(_PACKED)
        packed = _past_zeros(file, packed)


def _past_zeros(file: BinaryIO, block: bytes) -> bytes:
    """Return the first bytes after the zeros at the end of a member, starting with `block`. Holes
    of the file are skipped without reading.
    """
    while block and block.count(0) == len(block):
        if isinstance(file, BufferedReader) and sys.platform != "win32":
            try:
                file.seek(file.tell(), os.SEEK_DATA)
            except OSError as error:  # the file ends in a hole, or the file system does not report holes
                file.seek(0, os.SEEK_END if error.errno == errno.ENXIO else os.SEEK_CUR)
        block = file.read(_PACKED)
    return block.lstrip(b"\0")
