# SPDX-License-Identifier: Apache-2.0
"""Explanation why a file is no readable profile, in a sentence that says what to do."""

from __future__ import annotations

from outpace.model.units import format_count
from outpace.trace.content import Content

PLANE_PREFIXES = ("/", "Task Environment", "Host CPUs", "Syscalls", "#Chip")
_PLANES, _ID, _NAME = 0x0A, 0x08, 0x12  # tags: XSpace.planes, XPlane.id, XPlane.name
_LOST = b"\xef\xbf\xbd"  # UTF-8 of U+FFFD, which a text conversion writes for bytes that are no text
_MANY = 8  # number of such characters from which a text conversion is assumed


def format_refusal(source: str, data: Content, missing: int, remark: str) -> str:
    """Return the sentence for a file without a readable event. `missing`: number of bytes that the
    file's own lengths say it lacks; `remark`: error of its decompression.
    """
    from outpace.model.foreign_formats import HEAD_BYTES, identify_format

    head = data.bytes_at(0, HEAD_BYTES)
    foreign = identify_format(source, head)
    if foreign:
        return f"{source} is {foreign.description}, no TensorFlow or JAX profile. {foreign.advice}"
    if _is_text(head) and head.count(_LOST) >= _MANY:
        return (
            f"{source} went through a text conversion, which damaged it beyond repair. "
            "Copy the *.xplane.pb file again in binary mode, or capture again."
        )
    if is_profile_head(head):
        lost = f" ({remark})" if remark else f"; {missing:,} bytes are missing" if missing else ""
        return (
            f"{source} is a truncated profile: it ends after {format_count(len(data), 'byte')}, before its first whole event{lost}. "
            "The copy or the capture was interrupted, or the disk was full: copy it again, or capture again."
        )
    return (
        f"{source} is not a TensorFlow or JAX profile: {'it is a text file' if _is_text(head) else 'its content is of an unknown format'} "
        f"({format_count(len(data), 'byte')}). Give a *.xplane.pb file, or the log directory that holds it."
    )


def _is_text(head: bytes) -> bool:
    """Whether the bytes are UTF-8, except for a character that is cut at the end."""
    return any(_decodes(head[: len(head) - cut]) for cut in range(4))


def _decodes(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_profile_head(head: bytes) -> bool:
    """Whether the bytes are the beginning of an XSpace, as far as they go: a plane, optionally its
    id, and its name, which must be one that profilers write.
    """
    if not head or head[0] != _PLANES:
        return False
    at = _skip_varint(head, 1)
    if head[at : at + 1] == bytes((_ID,)):
        at = _skip_varint(head, at + 1)
    if at >= len(head):
        return len(head) > 1
    if head[at] != _NAME:
        return False
    begin = _skip_varint(head, at + 1)
    name = head[begin : begin + max(map(len, PLANE_PREFIXES))]
    return any(name.startswith(prefix.encode()) or prefix.encode().startswith(name) for prefix in PLANE_PREFIXES)


def _skip_varint(head: bytes, at: int) -> int:
    """Return the offset after the varint that begins at the offset `at`."""
    while at < len(head) and head[at] >= 0x80:
        at += 1
    return at + 1
