"""What a profile is opened from: a place, or what somebody holds in memory, which becomes one thing, `Held`."""

from __future__ import annotations

import io
import os
from typing import Any, TypeAlias

from outpace.model.errors import UsageError
from outpace.store import trace_events
from outpace.trace.formats import Held

Given: TypeAlias = Any  # a path, text, a buffer, a file object, or a profiler's object: `held_of` says which are taken
_TAKEN = "Give a path, an fsspec address, the bytes of an XSpace, a file that is open for reading in binary mode, or jax.profiler.ProfileData."


def place_of(given: Given) -> str:
    """The local path or URL; an `fsspec.open(...)` that is not entered yet says its own. Raises UsageError for what is no place."""
    given = getattr(given, "full_name", given)
    if isinstance(given, (str, os.PathLike)) and isinstance(place := os.fspath(given), str):
        return place
    raise UsageError(f"{type(given).__name__} is nothing to open a profile from. {_TAKEN}")


def held_of(given: Given) -> Held | None:
    """What is held in memory: a buffer, a file object from where it stands, an XSpace message, or JAX's `ProfileData`; None for all else.

    What TensorFlow's profiler session returns is a buffer of another message, which becomes an XSpace. Raises UsageError for a file object
    that gives no bytes.
    """
    if hasattr(given, "read") and (isinstance(given, io.IOBase) or not isinstance(given, os.PathLike)):
        return _read(given)
    kind = type(given).__name__
    if hasattr(given, "SerializeToString"):
        return Held(given.SerializeToString(), kind=kind)
    if hasattr(given, "find_plane_with_name"):
        from outpace.store.profile_data import serialized

        return Held(serialized(given), kind=kind)
    try:
        data = given if isinstance(given, bytes) else memoryview(given).tobytes()
    except TypeError:
        return None
    return Held(trace_events.serialized(data) or data, kind=kind)


def _read(file: Any) -> Held:
    """What is left of a file object. Its name is that of the profile's host, as a file's is."""
    known = getattr(file, "name", "")
    found = Held(b"", known if isinstance(known, str) else "", type(file).__name__)
    if getattr(file, "closed", False):
        raise UsageError(f"{found} is closed. Give it while it is open, or give its path.")
    try:
        data = b"" if isinstance(file, io.TextIOBase) else file.read()
    except UnicodeDecodeError:
        data = ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{found} cannot be read: {error}. Open it for reading in binary mode ('rb').") from error
    if isinstance(file, io.TextIOBase) or not isinstance(data, (bytes, bytearray, memoryview)):
        raise UsageError(f"{found} gives text, which a profile is not. Open it in binary mode ('rb').")
    if not data and getattr(file, "seekable", bool)() and file.tell():
        raise UsageError(f"{found} was read or written to its end, so nothing is left of it. Call seek(0) first.")
    return Held(bytes(data), found.name, found.kind)
