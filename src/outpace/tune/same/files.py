# SPDX-License-Identifier: Apache-2.0
"""What files hold that a run has written: lines of text, numbers and objects as NumPy, `pickle` and
HDF5 store them, also in archives and packed. Of other files nothing but a digest is known.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from outpace.frameworks.keras import RUNTIME_KEYS
from outpace.tune.same.lines import numbers_in, timeless, words_of

_MOST_TEXT = 1 << 20  # bytes of a file that is compared line by line
_MOST = 1 << 28  # bytes of a file that is read
_RUNTIME = re.compile(rf'"(?:{"|".join(RUNTIME_KEYS)})": [^,}}\s]+')
NUMBERS = "<numbers>"  # end of the path of the numbers of a text
_NPY, _ZIP, _HDF5, _PICKLE, _GZIP = b"\x93NUMPY", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"\x80", b"\x1f\x8b"


def lines_of(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Files by path, with their lines where they are short texts."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        text = _text(_content(path)) if _size(path) <= _MOST_TEXT else None
        found[path] = tuple(text.splitlines()) if text is not None else ()
    return found


def held_in(paths: Iterable[str]) -> dict[str, Any]:
    """What files hold that are no short texts, by path and by what is inside of them; of one that
    cannot be read the digest.
    """
    found: dict[str, Any] = {}
    for path in paths:
        content = _content(path)
        if os.path.islink(path):
            found[f"{path}<link>"] = os.readlink(path)
        if _size(path) > _MOST:
            found[path] = f"digest {_digest(path)}"
        elif content is not None and (len(content) > _MOST_TEXT or _text(content) is None):
            found |= {f"{path}{part}": each for part, each in _parts(content)}
    return found


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.isfile(path) else 0


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if os.path.isfile(path) and _size(path) <= _MOST else None
    except OSError:
        return None


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _digest(path: str) -> str:
    found = hashlib.blake2b(digest_size=8)
    with open(path, "rb") as file:
        while chunk := file.read(_MOST_TEXT):
            found.update(chunk)
    return found.hexdigest()


def _parts(content: bytes) -> Iterator[tuple[str, Any]]:
    text = _text(content)
    if text is not None:  # its words, and its numbers as an array
        lines = [_RUNTIME.sub("", line) for line in timeless(text.splitlines())]
        yield "", "\n".join(map(words_of, lines))
        yield NUMBERS, np.array([float(each) for line in lines for each in numbers_in(line)])
        return
    try:
        yield from [*_read(content)]
    except Exception:  # it only begins like a file of that kind, or needs what is not there
        yield "", f"digest {hashlib.blake2b(content, digest_size=8).hexdigest()}"


def _read(content: bytes) -> Iterator[tuple[str, Any]]:
    if content.startswith(_ZIP):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield from ((f"/{name}{part}", each) for part, each in _parts(archive.read(name)))
    elif content.startswith(_NPY):
        yield "", np.load(io.BytesIO(content), allow_pickle=False)
    elif content.startswith(_GZIP):
        yield from _parts(gzip.decompress(content))
    elif content.startswith(_PICKLE):
        yield "", pickle.loads(content)  # what this process has written
    elif content.startswith(_HDF5):
        with sys.modules["h5py"].File(io.BytesIO(content), "r") as file:
            found: dict[str, Any] = {}

            def read(name: str, each: Any) -> None:
                found.update({f"/{name}@{key}": value for key, value in each.attrs.items()})
                found.update({f"/{name}": each[()]} if hasattr(each, "dtype") else {})

            read("", file)
            file.visititems(read)
            yield from found.items()
    else:
        raise ValueError("no such file")
