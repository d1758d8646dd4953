# SPDX-License-Identifier: Apache-2.0
"""Writes the monitor's numbers: JSON lines, and scalars in TensorBoard's event files.

Event files are written here and not by `tf.summary`: the format is a few fields, one record holds
all scalars of a line (a call of `tf.summary.scalar` costs a training thread 0.1 ms), and a JAX
process gets its scalars without importing TensorFlow or TensorBoard.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from outpace.model.protobuf_wire import encode_bytes, encode_double, encode_integer
from outpace.store.tree import is_url, open_tree

MONITOR_FOLDER = "outpace-monitor"


class Sinks:
    """The output files of one monitor: `<logdir>/outpace-monitor/<host>-<pid>.jsonl`, and an event
    file in the same folder.

    A line is written in one piece and is in the file when `write_line` returns. For a log
    directory at a URL, both files are written in the temporary directory and uploaded by `close`,
    because a remote file cannot be appended to.
    """

    def __init__(self, logdir: str, scalars: bool) -> None:
        """Open the files. Raises OSError where that fails."""
        self._remote = f"{logdir.rstrip('/')}/{MONITOR_FOLDER}" if is_url(logdir) else None
        parent = tempfile.mkdtemp(prefix="outpace-") if self._remote else os.path.expanduser(logdir)
        self.folder = os.path.join(os.path.abspath(parent), MONITOR_FOLDER)
        os.makedirs(self.folder, exist_ok=True)
        self.shown_folder = self._remote or os.path.join(parent, MONITOR_FOLDER)
        name = f"{platform.node() or 'localhost'}-{os.getpid()}"
        self._lines = _open_append(os.path.join(self.folder, f"{name}.jsonl"))
        self._events: BinaryIO | None = None
        if scalars:
            seconds = time.time()
            events = f"events.out.tfevents.{seconds:.6f}.{name}.outpace"
            self._events = _open_append(os.path.join(self.folder, events))
            self._events.write(encode_tfrecord(_event(seconds, 0, encode_bytes(3, "brain.Event:2"))))

    def write_line(self, content: Mapping[str, Any]) -> None:
        """Append one line."""
        self._lines.write(json.dumps(content, ensure_ascii=False).encode() + b"\n")

    def write_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Append the scalars of one training step, by tag."""
        if self._events is not None:
            summary = b"".join(
                encode_bytes(1, encode_bytes(1, tag) + b"\x15" + struct.pack("<f", value)) for tag, value in values.items()
            )
            self._events.write(encode_tfrecord(_event(time.time(), step, encode_bytes(5, summary))))

    def close(self) -> None:
        """Close the files, and upload them when the log directory is remote. Raises the store's
        errors.
        """
        with contextlib.suppress(OSError):
            self._lines.close()
            if self._events is not None:
                self._events.close()
        if self._remote:
            tree = open_tree(self._remote)
            for name in os.listdir(self.folder):
                tree.upload(os.path.join(self.folder, name), f"{tree.root.rstrip('/')}/{name}")
            shutil.rmtree(os.path.dirname(self.folder), ignore_errors=True)


def _open_append(path: str) -> BinaryIO:
    """Open a file unbuffered for appending, so that a line is one write: two monitors of one
    process, or a reader, never see half of one.
    """
    return open(path, "ab", buffering=0)


def encode_tfrecord(data: bytes) -> bytes:
    """Return `data` as one TFRecord: its length and the data, each followed by its masked
    CRC-32C.
    """
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data))


def _event(seconds: float, step: int, what: bytes) -> bytes:
    """Encode an Event of tensorflow/core/util/event.proto: wall_time (1), step (2), and one of
    file_version (3), summary (5).
    """
    return encode_double(1, seconds) + encode_integer(2, step) + what


def _masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of a TFRecord."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> Iterator[int]:
    """Return the CRC-32C (Castagnoli, reversed polynomial 0x82F63B78) of each byte."""
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


_TABLE = tuple(_table())
