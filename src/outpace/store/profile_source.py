# SPDX-License-Identifier: Apache-2.0
"""What a profile can be opened from: a path or URL, or an object in memory, which becomes an
`InMemoryProfile`.
"""

from __future__ import annotations

import io
import os
from typing import Any, TypeAlias

from outpace.model.errors import UsageError
from outpace.trace.formats import InMemoryProfile

ProfileSource: TypeAlias = Any  # a path, text, a buffer, a file object, or a profiler's object: `read_in_memory` says which
_ADVICE = "Give a path, an fsspec address, the bytes of an XSpace, a file that is open for reading in binary mode, or jax.profiler.ProfileData."


def require_path(source: ProfileSource) -> str:
    """Return the local path or URL of a source; an `fsspec.open(...)` that has not been entered yet
    knows its own. Raises UsageError where the source is no path.
    """
    source = getattr(source, "full_name", source)
    if isinstance(source, (str, os.PathLike)) and isinstance(place := os.fspath(source), str):
        return place
    raise UsageError(f"{type(source).__name__} is nothing to open a profile from. {_ADVICE}")


def read_in_memory(source: ProfileSource) -> InMemoryProfile | None:
    """Return the profile of a source in memory: a buffer, a file object (read from its current
    position), an XSpace message, or JAX's `ProfileData`; None for anything else.

    TensorFlow's profiler session returns a buffer with another message, which is converted to an
    XSpace. Raises UsageError for a file object that returns no bytes.
    """
    if hasattr(source, "read") and (isinstance(source, io.IOBase) or not isinstance(source, os.PathLike)):
        return _read(source)
    kind = type(source).__name__
    if hasattr(source, "SerializeToString"):
        return InMemoryProfile(source.SerializeToString(), type_name=kind)
    if hasattr(source, "find_plane_with_name"):
        from outpace.store.profile_data import convert_to_xspace

        return InMemoryProfile(convert_to_xspace(source), type_name=kind)
    try:
        data = source if isinstance(source, bytes) else memoryview(source).tobytes()
    except TypeError:
        return None
    from outpace.store.trace_events import convert_to_xspace as convert_trace_events

    return InMemoryProfile(convert_trace_events(data) or data, type_name=kind)


def _read(file: Any) -> InMemoryProfile:
    """Return the rest of a file object as a profile. The name of the file names the host, as for a
    file on disk. Raises UsageError where the file is closed, unreadable, text, or at its end.
    """
    name = getattr(file, "name", "")
    profile = InMemoryProfile(b"", name if isinstance(name, str) else "", type(file).__name__)
    if getattr(file, "closed", False):
        raise UsageError(f"{profile} is closed. Give it while it is open, or give its path.")
    try:
        data = b"" if isinstance(file, io.TextIOBase) else file.read()
    except UnicodeDecodeError:
        data = ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{profile} cannot be read: {error}. Open it for reading in binary mode ('rb').") from error
    if isinstance(file, io.TextIOBase) or not isinstance(data, (bytes, bytearray, memoryview)):
        raise UsageError(f"{profile} gives text, which a profile is not. Open it in binary mode ('rb').")
    if not data and getattr(file, "seekable", bool)() and file.tell():
        raise UsageError(f"{profile} was read or written to its end, so nothing is left of it. Call seek(0) first.")
    return InMemoryProfile(bytes(data), profile.name, profile.type_name)
