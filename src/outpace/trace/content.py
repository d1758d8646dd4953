"""The bytes of a profile: read or decompressed into memory, as one read-only buffer. Never mapped: the file may change while it is open."""

from __future__ import annotations

import gzip
import os
import time
import zlib
from collections.abc import Callable
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from outpace.model import NotFoundError, ProfileError
from outpace.model.arrays import Bytes
from outpace.trace.formats import Held

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_UNPACKED, _UNPACKED_PER_BYTE = 4 << 20, 64  # profiles unpack to 2 to 7 times their size; what is small may unpack to anything
_TICK = 20_000_000  # ns: two writes that are closer may give a file the same time


def read(place: Path | Held) -> tuple[Bytes, str]:
    """Return the uncompressed bytes of a profile and a remark about what was lost on the way ("" when nothing was).

    Raises NotFoundError when the file is missing or unreadable, and ProfileError when it is empty, changes meanwhile, or unpacks to more than
    a profile of its size does.
    """
    return _held(place) if isinstance(place, Held) else _stored(place)


def _held(place: Held) -> tuple[Bytes, str]:
    """What is in memory already is not copied."""
    if _packed(place.data[:2], place):
        return _decompress(BytesIO(place.data), len(place.data), place)
    return np.frombuffer(place.data, np.uint8), ""


def _packed(magic: bytes, place: Path | Held) -> bool:
    """Whether what begins so is a gzip file; ProfileError where nothing begins."""
    if not magic:
        raise ProfileError(f"{place} is empty (0 bytes): the capture was interrupted or the disk was full. Capture again.")
    return magic == _GZIP_MAGIC


def _stored(path: Path) -> tuple[Bytes, str]:
    try:
        with path.open("rb") as file:
            return _unchanged(path, file, _decompress if _packed(file.read(2), path) else _bytes_of)
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror or error}.") from error


def _unchanged(
    path: Path, file: BufferedReader, reader: Callable[[BufferedReader, int, Path], tuple[Bytes, str]]
) -> tuple[Bytes, str]:
    """What `reader` makes of a file that is the same before and after; again where a write may have gone unseen."""
    while True:
        before = os.fstat(file.fileno())
        fresh = 0 <= time.time_ns() - before.st_mtime_ns < _TICK
        file.seek(0)
        content = reader(file, before.st_size, path)
        after = os.fstat(file.fileno())
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise changed(str(path))
        if not fresh:
            content[0].setflags(write=False)
            return content
        time.sleep(_TICK / 1e9)


def changed(source: str) -> ProfileError:
    """The sentence for bytes that are not the same any more."""
    return ProfileError(f"{source} changed while it was read. Open it again once whatever writes it is done.")


def _bytes_of(file: BufferedReader, size: int, path: Path) -> tuple[Bytes, str]:
    data = np.empty(size, np.uint8)
    view, at = data.data, 0
    while at < size and (got := file.readinto(view[at : at + _BLOCK])):
        at += got
    if at < size:
        raise changed(str(path))
    return data, ""


def _decompress(file: BinaryIO, size: int, path: Path | Held) -> tuple[Bytes, str]:
    most, content, remark = _UNPACKED + _UNPACKED_PER_BYTE * size, bytearray(), ""
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while block := packed.read1(1 << 18):  # block by block: what stands before damage is kept
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
