# SPDX-License-Identifier: Apache-2.0
"""Formats of files that are no profiles but are often opened as one: recognised by name and first
bytes, with advice on what to open instead.

Standard library only: folders are searched inside training processes too.
"""

from __future__ import annotations

import contextlib
import re
import zlib

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model.input_files import PROFILE, open_file

HEAD_BYTES = 1 << 16  # bytes of a file's head that identify every format; Kineto writes its devices before "traceEvents"

_ONLY = "Outpace reads the *.xplane.pb files of TensorFlow and JAX"
_PERFETTO = "https://ui.perfetto.dev shows it"
_PACKED = ((b"PK\x03\x04", "ZIP"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2"))
_NSIGHT_NAMES = (".nsys-rep", ".qdrep", ".qdstrm", ".ncu-rep")
_NSIGHT_TABLES = (b"CUPTI_ACTIVITY", b"NVTX_EVENTS", b"TARGET_INFO_")
_PYTORCH_KEYS = (
    b'"deviceProperties"',
    b'"distributedInfo"',
    b'"with_stack"',
    b'"record_shapes"',
    b'"schemaVersion"',
    b'"Torch-',
)
_PICKLE = compile_lazily(rb"\x80[\x02-\x05]")
_HTML = compile_lazily(rb"(<!--.*?-->\s*)?<(!doctype html|html|head)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class ForeignFormat:
    """Known format that is no profile.

    description: completes the sentence "The file is ...".
    advice: what to do instead, a sentence.
    other_profiler: whether another profiler wrote the file.
    """

    description: str
    advice: str
    other_profiler: bool = False


_KINETO = ForeignFormat(
    "a trace of PyTorch's profiler (Kineto)", f"{_ONLY}, PyTorch's are of another format; {_PERFETTO}.", True
)
_CHROME = ForeignFormat(
    "a Chrome trace (JSON)", f"If TensorFlow or JAX wrote it, give the *.xplane.pb file of the same capture; {_PERFETTO}.", True
)
_NSIGHT = ForeignFormat("a report of NVIDIA Nsight Systems", f"{_ONLY}; open this one with Nsight Systems.", True)
_SQLITE = ForeignFormat("an SQLite database, such as Nsight Systems exports", _NSIGHT.advice, True)
_EVENTS = ForeignFormat(
    "a TensorBoard event file (scalars and graphs)", "Give the log directory that has plugins/profile in it."
)
_PERFETTO_TRACE = ForeignFormat("a Perfetto trace", f"{_ONLY}; {_PERFETTO}.", True)
_LFS = ForeignFormat("a Git LFS pointer in place of a file", "Run `git lfs pull` where it came from, and open it again.")
_PAGE = ForeignFormat(
    "a web page (HTML)",
    "A download that gives one was answered with a login or an error: download the *.xplane.pb itself. Reports open in a browser.",
)
_PICKLED = ForeignFormat(
    "a Python pickle", f"{_ONLY} and unpickles nothing, since that runs code; give the *.xplane.pb of the capture."
)
_JSON = ForeignFormat("a JSON file", f"{_ONLY}; give that file, or the log directory that holds it.")
_TAR = ForeignFormat("a packed archive (tar)", "Unpack it, and give the folder or the *.xplane.pb file in it.")


def identify_format(name: str, head: bytes) -> ForeignFormat | None:
    """Return the format of a file by its name and its first `HEAD_BYTES` bytes (uncompressed); None
    where it is not recognised.
    """
    return _identify_content(head) or identify_by_name(name)


def identify_file(path: str, *, local: bool) -> ForeignFormat | None:
    """Return the format of a file: by name and content where it is local, else by name. None where
    it is not recognised or cannot be read.
    """
    head = b""
    if local:
        try:
            with open_file(path, PROFILE) as file:
                head = file.read(HEAD_BYTES)
        except OSError:
            return None
        if head.startswith(b"\x1f\x8b"):
            with contextlib.suppress(zlib.error):
                head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    return identify_format(path, head)


def identify_by_name(name: str) -> ForeignFormat | None:
    """Return the format that a file's name alone identifies; None where it identifies none."""
    base = name.lower().replace("\\", "/").rpartition("/")[2].removesuffix(".gz")
    if base.endswith(".pt.trace.json"):
        return _KINETO
    if base.endswith(_NSIGHT_NAMES):
        return _NSIGHT
    if base.endswith((".pftrace", ".perfetto-trace")):
        return _PERFETTO_TRACE
    return _EVENTS if ".tfevents." in base else None


def _identify_content(head: bytes) -> ForeignFormat | None:
    packed = next((kind for magic, kind in _PACKED if head.startswith(magic)), None)
    if packed:
        return ForeignFormat(f"a packed archive ({packed})", _TAR.advice)
    if head[257:262] == b"ustar":
        return _TAR
    if head.startswith(b"SQLite format 3\0"):
        return _NSIGHT if any(table in head for table in _NSIGHT_TABLES) else _SQLITE
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        return _LFS
    return _PICKLED if _PICKLE.match(head) else _text(head.removeprefix(b"\xef\xbb\xbf").lstrip())


def _text(head: bytes) -> ForeignFormat | None:
    if _HTML.match(head):
        return _PAGE
    if not re.match(rb'\{\s*["}]|\[\s*[\[{"\]]', head):
        return None
    if any(key in head for key in _PYTORCH_KEYS):
        return _KINETO
    return _CHROME if b'"traceEvents"' in head or re.match(rb'\[\s*\{[^}]*"ph"\s*:', head) else _JSON
