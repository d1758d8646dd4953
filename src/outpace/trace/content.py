"""The bytes of a profile: memory-mapped, read, or decompressed; always as one read-only buffer."""

from __future__ import annotations

import gzip
import mmap
import tempfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from outpace.model import NotFoundError, ProfileError
from outpace.model.arrays import Bytes

_GZIP_MAGIC = b"\x1f\x8b"
_MAP_FROM = 4 << 20  # smaller files are read: a mapped file that somebody truncates kills the process


def read(path: Path) -> tuple[Bytes, str]:
    """Return the uncompressed bytes of `path` and a remark about what was lost on the way ("" when nothing was).

    Raises NotFoundError when the file is missing or unreadable and ProfileError when it is empty.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size == 0:
                raise ProfileError(
                    f"{path} is empty (0 bytes): the capture was interrupted or the disk was full. Capture again."
                )
            if file.read(2) == _GZIP_MAGIC:
                file.seek(0)
                return _decompress(file, path)
            file.seek(0)
            return _bytes_of(file, size), ""
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror or error}.") from error


def _bytes_of(file: IO[bytes], size: int) -> Bytes:
    if size < _MAP_FROM:
        return np.frombuffer(file.read(), np.uint8)
    return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _decompress(file: IO[bytes], path: Path) -> tuple[Bytes, str]:
    """Stream through a nameless temporary file, so that memory holds only pages in use."""
    remark = ""
    with tempfile.TemporaryFile() as plain:
        try:
            with gzip.GzipFile(fileobj=file) as packed:
                while block := packed.read1(1 << 18):  # block by block: what stands before damage is kept
                    plain.write(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            remark = f"the gzip stream of {path.name} ends in damage ({error})"
        plain.flush()
        size = plain.tell()
        if size == 0:
            raise ProfileError(f"{path} is a gzip file without readable content. Copy or capture it again.")
        plain.seek(0)
        return _bytes_of(plain, size), remark
