# SPDX-License-Identifier: Apache-2.0
"""Gzip compression of a file while the native core writes it."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_BLOCK = 1 << 20
_LEVEL = 5  # gzip level, of 9: the higher levels take several times as long and save a few percent


@contextmanager
def open_gzip_pipe(target: IO[bytes]) -> Iterator[IO[bytes]]:
    """Context manager that returns a pipe whose content is written gzipped to `target`. Raises, at
    the end of the block, the OSError of a failed write to `target`.
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
                while raw.read(_BLOCK):  # drain the pipe, so that the writer does not wait for a reader
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
