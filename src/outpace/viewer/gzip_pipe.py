"""Compressing a file while the core writes it."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_BLOCK = 1 << 20
_LEVEL = 5  # of 9: the levels above take several times as long and save a few percent


@contextmanager
def open_gzip_pipe(target: IO[bytes]) -> Iterator[IO[bytes]]:
    """A pipe whose content arrives gzipped in `target`. Raises the OSError that writing to it met,
    when the block ends.
    """
    source, sink = os.pipe()
    failed: list[OSError] = []

    def pack() -> None:
        with os.fdopen(source, "rb") as raw:
            try:
                with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=_LEVEL, mtime=0) as packer:
                    while block := raw.read(_BLOCK):
                        packer.write(block)
            except OSError as error:
                failed.append(error)
                while raw.read(_BLOCK):  # the writer must not wait for a pipe that nobody empties
                    pass

    worker = threading.Thread(target=pack)
    worker.start()
    try:
        with os.fdopen(sink, "wb") as pipe:
            yield pipe
    finally:
        worker.join()
    if failed:
        raise failed[0]
